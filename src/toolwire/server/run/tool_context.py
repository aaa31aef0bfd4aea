"""Build the Context of a tool function: what its tool declared, and a way to report progress."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from toolwire.core.errors import DefinitionError
from toolwire.core.model import COMPLETED, LOG_EVENT, Call, Context, Progress, Tool
from toolwire.core.toolbox import Notify
from toolwire.define import Function, FunctionKind
from toolwire.define.native_values import is_plain_json
from toolwire.server.asking.user_asker import UserAsker
from toolwire.telemetry.redaction import scrub_data

from .worker_threads import run_on_loop

_THREADED = (FunctionKind.SYNC, FunctionKind.GENERATOR)


class ProgressReporter:
    """Reports the progress of one call of ``function`` until the call is ``over``."""

    __slots__ = ("_function", "_loop", "_notify", "lacks_user", "over")

    def __init__(self, function: Function, notify: Notify) -> None:
        self._function = function
        self._notify = notify
        self._loop = asyncio.get_running_loop()
        self.over: bool = False
        self.lacks_user: bool = False

    def note_no_user(self) -> None:
        """Note that the tool asked the user of a caller that cannot ask."""
        self.lacks_user = True

    def report(self, progress: Progress) -> Awaitable[None]:
        """Send ``progress``: at once from a thread, else when it is awaited.

        Raises:
            ValueError: it is not JSON data.
            DefinitionError: an inline function blocks the event loop, and can send nothing while it runs.
        """
        if progress.event == LOG_EVENT:
            progress = replace(progress, value=scrub_data(progress.value))
        if not is_plain_json(progress.value):
            raise ValueError(
                "progress must be JSON data: strings, finite numbers, booleans, None, lists and dicts of them"
            )
        if self._function.inline:
            raise DefinitionError(
                f"{self._function.tool.name}() is inline, so it cannot send progress. Leave out inline."
            )
        if self._function.kind in _THREADED:
            self.send(progress)
            return COMPLETED
        return COMPLETED if self.over else self._notify(progress)

    def send(self, progress: Progress) -> None:
        """Send ``progress`` from the thread of the call; after the end of the call, do nothing."""
        if not self.over:  # the thread of a cancelled call goes on, and its answer is not sent any more
            run_on_loop(self._loop, self._notify_unless_over, progress)

    async def _notify_unless_over(self, progress: Progress) -> None:
        if not self.over:  # it may have ended while this waited for the loop
            await self._notify(progress)

    def is_over(self) -> bool:
        """Return whether the call has ended for its caller: it was cancelled, or its time is up."""
        return self.over


def build_context(call: Call, tool: Tool, reporting: ProgressReporter, state: Any) -> Context:
    """Return the context of ``call``, with only those tokens and secrets that ``tool`` declares, and with ``state``."""
    # OTC-023, A-45: a tool must not see the credentials of other tools.
    needs, has = tool.requirements, call.context
    return replace(
        has,
        call_id=call.call_id,
        tokens={needed.id: has.tokens[needed.id] for needed in needs.authorization if needed.id in has.tokens},
        secrets={id_: has.secrets[id_] for id_ in needs.secrets if id_ in has.secrets},
        report=reporting.report,
        is_over=reporting.is_over,
        state=state,
        ask_user=UserAsker(call, reporting.note_no_user).ask,
        takes_items=False,  # a tool may call others with its context, and wants their whole results
    )
