"""Offer long calls through pydocket, whose queue is in Redis. Needs the extra ``docket``; only this module imports it.

Rules:
- A message is the id of a call. The state decides whether the call runs, so a message that comes twice does no harm.
- While Redis is lost, a worker runs here what it is offered. So losing Redis costs speed and no call.
- Nothing that comes from Redis is unpickled beyond plain values, so who can write there cannot run code here.
"""
# ST-03

from __future__ import annotations

import asyncio
import io
import logging
import pickle
import time
from datetime import timedelta
from typing import Any, Final

from toolwire.core.errors import DefinitionError
from toolwire.core.long_call import CallWork
from toolwire.engines.local_engine import LocalEngine

try:
    import cloudpickle  # type: ignore[import-untyped]  # it has no types
    import docket.execution
    import docket.strikelist
    from docket import Docket, Worker
    from redis.exceptions import RedisError
except ModuleNotFoundError as _error:
    raise DefinitionError("Sending calls to Redis needs pydocket: pip install 'toolwire[docket]'.") from _error

_TASK: Final = "toolwire.run_call"
_ENQUEUE_S: Final = 1.0
"""How long an offer waits for Redis."""
_AGAIN_S: Final = 10.0
"""In this time, one message for a call is enough. Later, a call that still waits gets another one."""
_REDELIVERY = timedelta(seconds=5)
"""After how long a message of a worker that died goes to another one."""
_PAUSE_S: Final = 1.0
_BROKEN_S: Final = 30.0
_MAX_ID: Final = 200

_log = logging.getLogger("toolwire")


class DocketEngine:
    """Offers calls through the Redis at ``url``; all processes with the same ``name`` and Redis share them.

    With ``is_worker``, this process runs calls too, at most ``most`` at the same time.
    """

    is_shared = True

    def __init__(self, url: str, *, is_worker: bool = True, most: int = 10, name: str = "toolwire") -> None:
        """Connect later: Redis may be down now.

        Raises:
            DefinitionError: ``url`` is no URL of a Redis.
        """
        if not url.startswith(("redis://", "rediss://")):
            raise DefinitionError("Name the Redis server with a URL such as redis://HOST:6379.")
        self._url, self._name = url, name
        self._runs = LocalEngine(most) if is_worker else None
        self._most = most
        self._docket: Docket | None = None
        self._connection: asyncio.Task[None] | None = None
        self._was_lost = self._is_ending = False

    async def begin(self, work: CallWork) -> None:
        """Connect, and run calls with ``work`` if this process is a worker."""
        if self._runs is not None:
            await self._runs.begin(work)
        self._connection = asyncio.create_task(self._stay_connected())

    async def enqueue(self, call_id: str) -> bool:
        """Offer a call; return False if Redis is lost and this process is no worker."""
        if self._docket is not None:
            # One message in each span of time: every process that finds a waiting call offers it.
            key = f"{call_id}.{int(time.time() / _AGAIN_S)}"
            try:
                async with asyncio.timeout(_ENQUEUE_S):
                    await self._docket.add(_TASK, key=key)(call_id)
                return True
            except Exception as error:
                self._report_loss(error)
        return self._runs is not None and await self._runs.enqueue(call_id)

    async def end(self, grace_s: float) -> None:
        """Take no more calls, give running ones ``grace_s`` seconds, then cancel them."""
        self._is_ending = True
        if self._connection is not None:
            # What it has not begun is not confirmed, so another worker gets it. It waits for what has begun.
            self._connection.cancel()
        if self._runs is not None:
            await self._runs.end(grace_s)
        if self._connection is not None:
            await asyncio.wait([self._connection], timeout=_ENQUEUE_S)
            self._connection = None

    async def _stay_connected(self) -> None:
        _harden_pickles()
        # It logs each try with a traceback; the log has one sentence of ours instead.
        logging.getLogger("docket").setLevel(logging.CRITICAL)
        while not self._is_ending:
            pause = _PAUSE_S
            try:
                await self._serve()
            except Exception as error:
                self._report_loss(error)
                # A message that breaks the queue comes again and again, so calls are run without it for a while.
                if not isinstance(error, (RedisError, OSError, TimeoutError)):
                    pause = _BROKEN_S
            finally:
                self._docket = None
            if not self._is_ending:
                await asyncio.sleep(pause)

    async def _serve(self) -> None:
        # A message that was carried out is forgotten at once: the state remembers the call.
        async with Docket(name=self._name, url=self._url, execution_ttl=timedelta(0)) as found:
            found.register(self._take, names=[_TASK])
            await _check(found)
            self._docket = found
            if self._was_lost:
                self._was_lost = False
                _log.warning("Calls are sent to other machines again.")
            if self._runs is None:
                await _wait_for_loss(found)
                return
            worker = Worker(
                found,
                concurrency=self._most,
                redelivery_timeout=_REDELIVERY,
                reconnection_delay=timedelta(seconds=_PAUSE_S),
                schedule_automatic_tasks=False,
                fallback_task=_drop_message,
            )
            async with worker:
                await worker.run_forever()

    async def _take(self, message: Any = "") -> None:
        """Run the call of one message; return when it is over or runs elsewhere."""
        call_id = message if isinstance(message, str) else ""
        if self._runs is not None and 0 < len(call_id) <= _MAX_ID:
            await self._runs.run(call_id)

    def _report_loss(self, error: Exception) -> None:
        if not self._was_lost:
            self._was_lost = True
            meaning = "a worker runs them itself" if self._runs is not None else "workers look for them in the state"
            _log.error("Cannot send calls to Redis (%s): %s.", type(error).__name__, meaning)


async def _drop_message(*_: Any, **__: Any) -> None:
    """Do nothing: a message names a task that toolwire does not have."""


async def _wait_for_loss(found: Docket) -> None:
    """Return never; raise when Redis is lost."""
    while True:
        await asyncio.sleep(_PAUSE_S)
        await _check(found)


async def _check(found: Docket) -> None:
    """Raise if Redis does not answer."""
    async with asyncio.timeout(_ENQUEUE_S), found.redis() as redis:
        await redis.exists(found.stream_key)


class _PlainUnpickler(pickle.Unpickler):
    """Reads plain values only: numbers, texts, lists and the like."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not a plain value")


class _Arguments(tuple[Any, ...]):
    """The arguments of a message, which can be used after ``*``, and after ``**`` as none."""

    __slots__ = ()

    def keys(self) -> tuple[str, ...]:
        return ()

    def items(self) -> tuple[tuple[str, Any], ...]:
        return ()


class _PlainPickle:
    """Stands for cloudpickle in pydocket: it writes as before, and reads one text, or nothing."""

    dumps = staticmethod(cloudpickle.dumps)

    @staticmethod
    def loads(data: bytes) -> _Arguments:
        try:
            found = _PlainUnpickler(io.BytesIO(data)).load()
        except Exception:
            found = ()
        is_ours = isinstance(found, tuple) and len(found) == 1 and isinstance(found[0], str)
        return _Arguments(found if is_ours else ())


def _harden_pickles() -> None:
    """Let pydocket read plain values only."""
    # Unpickling can call any function. pydocket has no setting for it, so its name for the library is replaced.
    for module in (docket.execution, docket.strikelist):
        vars(module)["cloudpickle"] = _PlainPickle
