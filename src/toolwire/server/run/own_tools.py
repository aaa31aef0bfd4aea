"""Run the tools by which a model finds the others: they tell a caller only of what this caller may use."""
# FI-01

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from anyio import to_thread

from toolwire.core.catalog import Catalog
from toolwire.core.model import ANONYMOUS, Call, Result, Value
from toolwire.core.resources import Resource
from toolwire.core.toolbox import KeepsResources, Notify, ShowsEachCaller, Toolbox, ignore_progress
from toolwire.find import View
from toolwire.find.short_list import answer_own_call, is_own
from toolwire.validation import permits


class OwnTools:
    """A Toolbox that runs calls of ``find`` and ``describe`` itself, and leaves all others to ``toolbox``."""

    def __init__(self, toolbox: Toolbox, narrow: Callable[[Call, Catalog], Catalog]) -> None:
        """Take what ``narrow`` leaves of a catalog for the caller of a call, whatever the caller's scopes are."""
        self._toolbox, self._narrow = toolbox, narrow

    def catalog(self) -> Catalog:
        """Return the tools of the other Toolbox."""
        return self._toolbox.catalog()

    def resource(self, handle: str, /) -> Resource | None:
        """Return the bytes of a handle, or None if there are none."""
        return self._toolbox.resource(handle) if isinstance(self._toolbox, KeepsResources) else None

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` and return its result."""
        if not is_own(call.tool):
            return await self._toolbox.run(call, notify)
        # FI-02: the one rule about what a caller sees, as for a list.
        from toolwire.consent import effective_level  # brings all of consent, which few servers need

        view = View(permits=partial(permits, call.context.scopes), find_level=effective_level)
        catalog = self._narrow(call, await self._find_catalog(call.context.principal))
        # The first search builds the index, which takes a second for ten thousand tools.
        return Value(await to_thread.run_sync(answer_own_call, call.tool, call.arguments, catalog, view))

    async def _find_catalog(self, principal: str) -> Catalog:
        toolbox = self._toolbox
        if principal == ANONYMOUS.principal or not isinstance(toolbox, ShowsEachCaller):
            return toolbox.catalog()
        await toolbox.prepare_for(principal)
        return toolbox.catalog_for(principal)
