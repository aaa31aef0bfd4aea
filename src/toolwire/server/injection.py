"""The Context that a function is given: what its tool declared, and a way to say how far it is."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

import anyio.from_thread

from toolwire.core.errors import DefinitionError
from toolwire.core.model import DONE, Call, Context, Progress, Tool
from toolwire.core.toolbox import Notify
from toolwire.define import Function, FunctionKind
from toolwire.define.native import plain

_THREADED = (FunctionKind.SYNC, FunctionKind.GENERATOR)


class Reporting:
    """Takes the progress of one call of ``function``, from its thread or its coroutine, until the call is ``over``."""

    __slots__ = ("_function", "_notify", "over")

    def __init__(self, function: Function, notify: Notify) -> None:
        self._function = function
        self._notify = notify
        self.over = False

    def report(self, progress: Progress) -> Awaitable[None]:
        """Send ``progress``: at once from a thread, else when it is awaited.

        Raises:
            ValueError: it is not JSON data.
            DefinitionError: an inline function blocks the event loop, and can send nothing while it runs.
        """
        if not plain(progress.value):
            raise ValueError("progress is JSON data: texts, finite numbers, booleans, None, lists and dicts of them")
        if self._function.inline:
            raise DefinitionError(f"{self._function.tool.name}() is inline and sends no progress: leave out inline.")
        if self.over:  # a thread that was given up goes on, and nobody listens any more
            return DONE
        if self._function.kind in _THREADED:
            anyio.from_thread.run(self._notify, progress)
            return DONE
        return self._notify(progress)


def given(call: Call, tool: Tool, reporting: Reporting) -> Context:
    """Return the context of ``call`` as far as ``tool`` asked for it. [OTC-023, A-45]"""
    needs, has = tool.requirements, call.context
    return replace(
        has,
        call_id=call.call_id,
        tokens={needed.id: has.tokens[needed.id] for needed in needs.authorization if needed.id in has.tokens},
        secrets={id_: has.secrets[id_] for id_ in needs.secrets if id_ in has.secrets},
        report=reporting.report,
    )
