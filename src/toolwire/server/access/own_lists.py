"""Keep a route table for each caller who is offered other tools than the rest."""
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
"""How many tables are kept; the one that was not used for longest is built again when it is needed."""


class BuildTable(Protocol):
    """Builds the table of a catalog at a mount path; what it derives from single tools is in ``cache``."""

    def __call__(self, place: tuple[str, str], catalog: Catalog, cache: ToolCache | None = None) -> RouteTable:
        """Return the table of a catalog, or of the part that the bundle of ``place`` has."""
        ...


Narrow: TypeAlias = Callable[[str, Catalog], Catalog]
"""Returns the part of a catalog that a bundle has, by its name; all of it without a name."""


class OwnLists:
    """The tables of the callers to whom ``toolbox`` offers tools of their own, made by ``build_table``.

    ``narrow`` returns what a bundle has of them.
    """

    def __init__(self, toolbox: ShowsEachCaller, build_table: BuildTable, narrow: Narrow) -> None:
        self._toolbox, self._build_table, self._narrow = toolbox, build_table, narrow
        self._tables: OrderedDict[tuple[str, str, str], RouteTable] = OrderedDict()

    async def find_table(self, name: str, shared: RouteTable, place: tuple[str, str]) -> RouteTable:
        """Return the table of the caller ``name``: ``shared`` if they are offered what all are.

        ``place`` is the mount path, and the name of a bundle or an empty text.
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
            # Nothing that is derived from the tools of one caller stands beside that of another.
            table = await to_thread.run_sync(self._build_table, (root, bundle), whole, ToolCache())
            self._tables[key] = table
            while len(self._tables) > MAX_TABLES:
                self._tables.popitem(last=False)
        self._tables.move_to_end(key)
        return table

    def find_finder(self, caller: Caller) -> Callable[[], Catalog] | None:
        """Return what finds the catalog of ``caller``, or None for a stranger, who is offered what all are."""
        return None if caller is ANONYMOUS_CALLER else partial(self._toolbox.catalog_for, caller.name)


def open_own_lists(toolbox: object, build_table: BuildTable, narrow: Narrow) -> OwnLists | None:
    """Return what keeps the tables of the callers of ``toolbox``, or None if it offers the same to all."""
    return OwnLists(toolbox, build_table, narrow) if isinstance(toolbox, ShowsEachCaller) else None
