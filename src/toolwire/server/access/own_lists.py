"""Build a route table for each caller who is offered different tools."""
# AT-47

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeAlias

from anyio import to_thread

from toolwire.core.catalog import Catalog
from toolwire.core.codec import ToolCache
from toolwire.core.toolbox import ShowsEachCaller
from toolwire.server.http.messages import split_mount_path
from toolwire.server.route_table import RouteTable

from .callers import ANONYMOUS_CALLER, Caller

MAX_TABLES: Final = 256
"""How many tables are stored. A table that was dropped as the least recently used is rebuilt when needed."""


class BuildTable(Protocol):
    """Builds a catalog's table at a mount path. It stores what it derives from single tools in ``cache``."""

    def __call__(self, place: tuple[str, str], catalog: Catalog, cache: ToolCache | None = None) -> RouteTable:
        """Return the table of a catalog, or of the part that the bundle of ``place`` has."""
        ...


Narrow: TypeAlias = Callable[[str, Catalog], Catalog]
"""Returns the part of a catalog that is in the bundle with this name. Without a name, returns all of it."""


class OwnLists:
    """The tables, made by ``build_table``, of the callers to whom ``toolbox`` offers their own tools.

    ``narrow`` reduces them to a bundle.
    """

    def __init__(self, toolbox: ShowsEachCaller, build_table: BuildTable, narrow: Narrow) -> None:
        self._toolbox, self._build_table, self._narrow = toolbox, build_table, narrow
        self._tables: OrderedDict[tuple[str, str, str], RouteTable] = OrderedDict()

    async def find_table(self, name: str, shared: RouteTable, place: tuple[str, str]) -> RouteTable:
        """Return the table of the caller ``name``, or ``shared`` if they have no tools of their own.

        ``place`` is the mount path and the name of a bundle, or an empty string without one.
        """
        await self._toolbox.prepare_for(name)
        root, bundle = place
        whole = self._toolbox.catalog_for(name)
        catalog = self._narrow(bundle, whole)
        if catalog is shared.catalog:
            return shared
        root = split_mount_path(root, "")[0] if root else ""
        key = (name, root, bundle)
        table = self._tables.get(key)
        if table is None or table.catalog is not catalog:
            # What is derived from one caller's tools is never stored with another caller's.
            table = await to_thread.run_sync(self._build_table, (root, bundle), whole, ToolCache())
            self._tables[key] = table
            while len(self._tables) > MAX_TABLES:
                self._tables.popitem(last=False)
        self._tables.move_to_end(key)
        return table

    def find_finder(self, caller: Caller) -> Callable[[], Catalog] | None:
        """Return a function that finds the catalog of ``caller``, or None for an anonymous caller."""
        return None if caller is ANONYMOUS_CALLER else partial(self._toolbox.catalog_for, caller.name)


def open_own_lists(toolbox: object, build_table: BuildTable, narrow: Narrow) -> OwnLists | None:
    """Return the tables of the toolbox's callers, or None if all callers get the same tools."""
    return OwnLists(toolbox, build_table, narrow) if isinstance(toolbox, ShowsEachCaller) else None
