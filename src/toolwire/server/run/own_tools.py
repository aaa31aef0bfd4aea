"""Run the tools by which a model finds the others: they tell a caller only of what this caller may use."""
# FI-01

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from anyio import to_thread

from toolwire.core.catalog import Catalog
from toolwire.core.model import Call, Result, Value
from toolwire.core.toolbox import Notify, Toolbox, find_own_catalog, ignore_progress
from toolwire.validation import permits


class OwnTools:
    """Runs calls of ``find`` and ``describe``, which are about the tools of ``toolbox``."""

    def __init__(self, toolbox: Toolbox, served: Toolbox, narrow: Callable[[Call, Catalog], Catalog]) -> None:
        """Take what ``narrow`` leaves of a catalog for the caller of a call, whatever the caller's scopes are.

        ``served`` runs the other calls.
        """
        self._toolbox, self._served, self._narrow = toolbox, served, narrow

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` and return its result; a tool that is only called like ours runs where it is."""
        from toolwire.consent import effective_level  # all of this is imported where a model looks for tools
        from toolwire.find import View
        from toolwire.find.short_list import answer_own_call, is_own

        if not is_own(call.tool):
            return await self._served.run(call, notify)
        # FI-02: the one rule about what a caller sees, as for a list.

        view = View(permits=partial(permits, call.context.scopes), find_level=effective_level)
        catalog = self._narrow(call, await find_own_catalog(self._toolbox, call.context.principal))
        # The first search builds the index, which takes a second for ten thousand tools.
        return Value(await to_thread.run_sync(answer_own_call, call.tool, call.arguments, catalog, view))
