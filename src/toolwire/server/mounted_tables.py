"""Keep a route table for each path where the application is mounted, and build it again when the catalog changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from anyio import to_thread

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Codec, Site, ToolCache
from toolwire.core.thread_switching import switch_threads_often
from toolwire.core.toolbox import Toolbox

from .access.callers import Caller
from .access.own_lists import open_own_lists
from .http.exchange import Scope
from .http.messages import split_mount_path
from .route_table import Document, RouteTable

MAX_ROOTS: Final = 16
"""A proxy may choose the mount path, so the number of tables has a limit."""


class MountedTables:
    """The route tables of ``toolbox`` for ``codecs``.

    ``site`` says what codecs know of the server. ``build_documents`` returns what else is served of a catalog, for a
    mount path, and ``on_mount`` is called when a table is taken into use.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        codecs: Sequence[Codec],
        site: Site,
        build_documents: Callable[[str, Catalog], Mapping[str, Document]],
        on_mount: Callable[[], None],
    ) -> None:
        self._toolbox, self._codecs, self._site = toolbox, codecs, site
        self._build_documents, self._on_mount = build_documents, on_mount
        self._own_lists = open_own_lists(toolbox, self._build)
        self.has_own_lists: bool = self._own_lists is not None
        """Whether callers are offered different tools."""
        self.older_clients = True
        self.cache: ToolCache = ToolCache()
        self._tables: dict[str, RouteTable] = {}
        self._building: dict[str, asyncio.Task[RouteTable]] = {}
        self._prepared: RouteTable | None = None

    async def begin(self) -> None:
        """Build the first table, so that the first request does not wait for it."""
        self._prepared = self._build("", self._toolbox.catalog())

    async def end(self) -> None:
        """Do nothing: tables hold nothing that must be released."""

    def find(self, scope: Scope) -> tuple[RouteTable | None, str]:
        """Return the table of the current catalog and mount path, None if it must be built, and the path."""
        root, path = scope.get("root_path"), scope["path"]
        if root:
            root, path = split_mount_path(root, path)
        table = self._tables.get(root or "")
        # A catalog is never changed in place, so identity says whether the table still fits.
        if table is None or table.catalog is not self._toolbox.catalog():
            table = self._take_prepared(root or "")
        return table, path

    async def wait_for(self, scope: Scope, path: str) -> RouteTable:
        """Return the table of the current catalog, which one task builds in a thread for all requests that wait.

        A health probe does not wait: the table before answers it.
        """
        # D-34: a site behind a gateway decides how long it takes to describe its tools.
        root, _ = split_mount_path(scope.get("root_path") or "", "")
        before = next(iter(self._tables.values()), self._prepared)
        if before is not None and before.find_entry(scope["method"], path).takes_any_host:
            return before
        task = self._building.get(root)
        if task is None:
            task = self._building[root] = asyncio.create_task(self._build_and_mount(root))
            task.add_done_callback(lambda _: self._building.pop(root, None))
        return await asyncio.shield(task)  # a client that leaves does not stop the build that others wait for

    async def find_own(self, caller: Caller, table: RouteTable, scope: Scope) -> RouteTable:
        """Return the table of a known ``caller``: ``table`` if they are offered what all are."""
        lists = self._own_lists
        return table if lists is None else await lists.find_table(caller.name, table, scope.get("root_path") or "")

    def find_own_catalog(self, caller: Caller) -> Callable[[], Catalog] | None:
        """Return what finds the catalog of ``caller``, or None if they are offered what all are."""
        return None if self._own_lists is None else self._own_lists.find_finder(caller)

    def _take_prepared(self, root: str) -> RouteTable | None:
        """Return the table that was built before the first request, or None if it is of no use."""
        prepared = self._prepared
        if prepared is None or root or prepared.catalog is not self._toolbox.catalog():
            return None
        return self._mount(root, prepared)

    async def _build_and_mount(self, root: str) -> RouteTable:
        catalog = self._toolbox.catalog()
        self.cache.keep_only(catalog.tools)
        with switch_threads_often():
            table = await to_thread.run_sync(self._build, root, catalog)
        return self._mount(root, table)

    def _mount(self, root: str, table: RouteTable) -> RouteTable:
        """Keep ``table`` for the mount path ``root``, and return it."""
        if len(self._tables) >= MAX_ROOTS:
            self._tables.clear()
        self._on_mount()
        self._tables[root] = table
        self._prepared = None
        return table

    def _build(self, root: str, catalog: Catalog, cache: ToolCache | None = None) -> RouteTable:
        catalog.find("")  # makes its index, so that no call waits for it
        site = replace(
            self._site,
            root=root,
            older_clients=self.older_clients,
            cache=self.cache if cache is None else cache,
        )
        return RouteTable(catalog, self._codecs, site, self._build_documents(root, catalog))
