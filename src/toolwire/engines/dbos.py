"""Offer long calls through DBOS, whose queue is in PostgreSQL. Needs the extra ``dbos``; only this module imports it.

Rules:
- A workflow has the id of a call and nothing else. The state decides whether the call runs.
- Nothing that comes from the database is unpickled, whatever a row says of itself: who can write there cannot run code.
- DBOS starts workflows anew after a crash only where the same machine comes back, so a call of a worker that died gets
  a new workflow, from any process that finds it in the state.
- DBOS keeps one instance for each process: a process has one such engine.
"""
# ST-03

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from importlib import import_module
from typing import Any, Final

from toolwire.core.errors import DefinitionError
from toolwire.core.long_call import CallWork
from toolwire.engines.local_engine import LocalEngine

try:
    from dbos import DBOS, DBOSConfig, Queue, SetWorkflowID
except ModuleNotFoundError as _error:
    raise DefinitionError("Sending calls to DBOS needs dbos: pip install 'toolwire[dbos]'.") from _error

_AGAIN_S: Final = 10.0
"""In this time, one workflow for a call is enough. Later, a call that still waits gets another one."""
_ENQUEUE_S: Final = 2.0
_POLL_S: Final = 0.2

_log = logging.getLogger("toolwire")


class _JsonSerializer:
    """Writes the ids of calls as JSON: the serializer of DBOS unpickles, and so would run code from the database."""

    def serialize(self, data: Any) -> str:
        """Return ``data`` as JSON, or the text of what is no JSON, such as an exception."""
        return json.dumps(data, default=str)

    def deserialize(self, serialized_data: str) -> Any:
        """Return what ``serialize`` wrote."""
        return json.loads(serialized_data)

    def name(self) -> str:
        """Return the name under which the database remembers this form."""
        return "toolwire_json"


class _NoPickles:
    """Stands for the serializer of DBOS that pickles: it reads nothing."""

    def serialize(self, _data: Any) -> str:
        """Return a text for what is never read again, such as the error of a row that another one wrote."""
        return ""

    def deserialize(self, _serialized_data: str) -> Any:
        """Refuse what a row calls a pickle.

        Raises:
            ValueError: always.
        """
        raise ValueError("toolwire does not write or read pickles")

    def name(self) -> str:
        """Return the name that a row gives to a pickle."""
        return "py_pickle"


def _refuse_pickles() -> None:
    """Let DBOS read no pickles."""
    # D-29: a row names the serializer that reads it, so ours is not asked about one that says "py_pickle". DBOS has no
    # setting for that, so its name for the serializer is replaced.
    names = vars(import_module("dbos._serialization"))
    if "DBOSDefaultSerializer" not in names:
        raise DefinitionError(
            "This version of dbos might read pickles from its database, so it was not used. Install another version."
        )
    names["DBOSDefaultSerializer"] = _NoPickles()


class DbosEngine:
    """Offers calls through the PostgreSQL at ``url``; all processes with the same database share them.

    With ``is_worker``, this process runs calls too, at most ``most`` at the same time.
    """

    is_shared = True

    def __init__(self, url: str, *, is_worker: bool = True, most: int = 10) -> None:
        self._url, self._most = url, most
        self._runs = LocalEngine(most) if is_worker else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: Queue | None = None
        self._run_call: Any = None
        self._was_lost = False

    async def begin(self, work: CallWork) -> None:
        """Connect, and run calls with ``work`` if this process is a worker.

        Raises:
            DefinitionError: the database cannot be used.
        """
        self._loop = asyncio.get_running_loop()
        if self._runs is not None:
            await self._runs.begin(work)
        try:
            await asyncio.to_thread(self._launch)
        except Exception as error:
            raise DefinitionError(f"DBOS cannot use its database ({type(error).__name__}).") from None

    async def enqueue(self, call_id: str) -> bool:
        """Offer a call; return False if DBOS is lost and this process is no worker."""
        queue = self._queue
        if queue is not None:
            try:
                async with asyncio.timeout(_ENQUEUE_S):
                    # The same id within a span of time is the same workflow, so one is enough.
                    await asyncio.to_thread(self._enqueue, queue, call_id, int(time.time() / _AGAIN_S))
                self._was_lost = False
                return True
            except Exception as error:
                if not self._was_lost:
                    self._was_lost = True
                    _log.error("Cannot send calls to DBOS (%s).", type(error).__name__)
        return self._runs is not None and await self._runs.enqueue(call_id)

    async def end(self, grace_s: float) -> None:
        """Take no more calls, give running ones ``grace_s`` seconds, then cancel them."""
        if self._queue is not None:
            self._queue = None
            await asyncio.to_thread(DBOS.destroy, destroy_registry=True)
        if self._runs is not None:
            await self._runs.end(grace_s)

    def _launch(self) -> None:
        _refuse_pickles()
        config: DBOSConfig = {
            "name": "toolwire",
            "system_database_url": self._url.replace("postgresql://", "postgresql+psycopg://", 1),
            # Processes of two versions of toolwire share the calls during a rollout.
            "application_version": "1",
            "executor_id": secrets.token_hex(8),
            "log_level": "CRITICAL",
            "serializer": _JsonSerializer(),  # type: ignore[typeddict-item]  # DBOS takes any object with these methods
        }
        DBOS(config=config)

        def take(call_id: str) -> None:
            self._take(call_id)

        # A function, not a method: DBOS writes attributes of its own to it.
        self._run_call = DBOS.workflow(name="toolwire_run_call")(take)
        if self._runs is None:
            DBOS.listen_queues([])
        DBOS.launch()
        self._queue = DBOS.register_queue("toolwire_calls", worker_concurrency=self._most, polling_interval_sec=_POLL_S)

    def _enqueue(self, queue: Queue, call_id: str, span: int) -> None:
        with SetWorkflowID(f"{call_id}.{span}"):
            queue.enqueue(self._run_call, call_id)

    def _take(self, call_id: str) -> None:
        """Run the call of one workflow, in a thread of DBOS; return when it is over or runs elsewhere."""
        if self._runs is not None and self._loop is not None and isinstance(call_id, str):
            asyncio.run_coroutine_threadsafe(self._runs.run(call_id), self._loop).result()
