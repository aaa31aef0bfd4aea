"""Keep a route table for each path where the application is mounted, and build it again when the catalog changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from anyio import to_thread

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Codec, Site, ToolCache
from toolwire.core.interpreter import switch_threads_often
from toolwire.core.toolbox import Toolbox

from .access.callers import Caller
from .access.own_lists import open_own_lists
from .access.tool_rights import BUNDLE, BoundedTools
from .http.exchange import Scope
from .http.messages import split_mount_path
from .route_table import Document, RouteTable

MAX_ROOTS: Final = 16
"""A proxy may choose the mount path, so the number of tables has a limit; each bundle adds one."""

BUNDLES_PATH: Final = "/bundles/"
"""Where each bundle of tools is, by its name."""

_BUNDLE: Final = "toolwire.bundle"
"""The member of an ASGI scope that names the bundle of its path."""
_Place: TypeAlias = tuple[str, str]
"""A mount path, and the name of a bundle or an empty text."""


_NO_TABLE: Final[tuple[None, None]] = None, None


class MountedTables:
    """The route tables of ``toolbox`` for ``codecs``.

    ``site`` says what codecs know of the server. ``build_documents`` returns what else is served of a catalog, for a
    mount path, and ``on_mount`` is called when a table is taken into use. ``bundles`` are some of the tools by name,
    each served below a path of its own as if the application were mounted there with these alone.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        codecs: Sequence[Codec],
        site: Site,
        build_documents: Callable[[str, Catalog], Mapping[str, Document]],
        on_mount: Callable[[], None],
        bundles: Mapping[str, BoundedTools],
    ) -> None:
        self._bundles = bundles
        self._toolbox, self._codecs, self._site = toolbox, codecs, site
        self._build_documents, self._on_mount = build_documents, on_mount
        self._own_lists = open_own_lists(toolbox, self._build, self._narrow)
        self.has_own_lists: bool = self._own_lists is not None
        """Whether callers are offered different tools."""
        self.older_clients = True
        self.cache: ToolCache = ToolCache()
        self._tables: dict[_Place, tuple[Catalog, RouteTable]] = {}
        self._building: dict[_Place, asyncio.Task[RouteTable]] = {}
        self._prepared: RouteTable | None = None

    async def begin(self) -> None:
        """Build the first table, so that the first request does not wait for it."""
        self._prepared = self._build(("", ""), self._toolbox.catalog())

    async def end(self) -> None:
        """Do nothing: tables hold nothing that must be released."""

    def enter_bundle(self, scope: Scope) -> Scope:
        """Return ``scope`` as if the application were mounted at the bundle that its path names, if there is one."""
        # PL-02
        if not self._bundles:
            return scope
        BUNDLE.set(self.find_bundle(scope))  # a connection brings one request after another
        root, path = split_mount_path(scope.get("root_path") or "", scope["path"])
        name, slash, rest = path.removeprefix(BUNDLES_PATH).partition("/")
        if not path.startswith(BUNDLES_PATH) or name not in self._bundles:
            return scope
        BUNDLE.set(name)
        root = f"{root}{BUNDLES_PATH}{name}"
        return {**scope, "root_path": root, "path": f"{root}{slash or '/'}{rest}", _BUNDLE: name}

    def find_bundle(self, scope: Scope) -> str:
        """Return the name of the bundle that ``scope`` entered, or an empty text."""
        name: str = scope.get(_BUNDLE, "")
        return name

    def find(self, scope: Scope) -> tuple[RouteTable | None, str]:
        """Return the table of the current catalog and mount path, None if it must be built, and the path."""
        root, path = scope.get("root_path"), scope["path"]
        if root:
            root, path = split_mount_path(root, path)
        place = (root or "", scope.get(_BUNDLE, ""))
        whole, table = self._tables.get(place, _NO_TABLE)
        # A catalog is never changed in place, so identity says whether the table still fits.
        if whole is not self._toolbox.catalog():
            table = self._take_prepared(place)
        return table, path

    async def wait_for(self, scope: Scope, path: str) -> RouteTable:
        """Return the table of the current catalog, which one task builds in a thread for all requests that wait.

        A health probe does not wait: the table before answers it.
        """
        # D-34: a site behind a gateway decides how long it takes to describe its tools.
        root, _ = split_mount_path(scope.get("root_path") or "", "")
        place = (root, self.find_bundle(scope))
        before = next((table for _, table in self._tables.values()), self._prepared)
        if before is not None and before.find_entry(scope["method"], path).takes_any_host:
            return before
        task = self._building.get(place)
        if task is None:
            task = self._building[place] = asyncio.create_task(self._build_and_mount(place))
            task.add_done_callback(lambda _: self._building.pop(place, None))
        return await asyncio.shield(task)  # a client that leaves does not stop the build that others wait for

    async def find_own(self, caller: Caller, table: RouteTable, scope: Scope) -> RouteTable:
        """Return the table of a known ``caller``: ``table`` if they are offered what all are."""
        lists, bundle = self._own_lists, self.find_bundle(scope)
        if lists is None:
            return table
        return await lists.find_table(caller.name, table, (scope.get("root_path") or "", bundle))

    def find_own_catalog(self, caller: Caller, scope: Scope) -> Callable[[], Catalog] | None:
        """Return what finds the catalog of ``caller``, or None if they are offered what all are, and no bundle."""
        find = None if self._own_lists is None else self._own_lists.find_finder(caller)
        bundle = self.find_bundle(scope)
        return find if not bundle else lambda: self._narrow(bundle, (find or self._toolbox.catalog)())

    def _narrow(self, bundle: str, catalog: Catalog) -> Catalog:
        """Return the part of ``catalog`` that ``bundle`` has: all of it without a bundle."""
        return self._bundles[bundle].narrow(catalog) if bundle else catalog

    def _take_prepared(self, place: _Place) -> RouteTable | None:
        """Return the table that was built before the first request, or None if it is of no use."""
        prepared = self._prepared
        if prepared is None or place != ("", "") or prepared.catalog is not self._toolbox.catalog():
            return None
        return self._mount(place, prepared.catalog, prepared)

    async def _build_and_mount(self, place: _Place) -> RouteTable:
        catalog = self._toolbox.catalog()
        self.cache.drop_others(catalog.tools)
        with switch_threads_often():
            table = await to_thread.run_sync(self._build, place, catalog)
        return self._mount(place, catalog, table)

    def _mount(self, place: _Place, catalog: Catalog, table: RouteTable) -> RouteTable:
        """Keep ``table``, made of the whole ``catalog``, for ``place``, and return it."""
        if len(self._tables) >= MAX_ROOTS + len(self._bundles):
            self._tables.clear()
        self._on_mount()
        self._tables[place] = catalog, table
        self._prepared = None
        return table

    def _build(self, place: _Place, catalog: Catalog, cache: ToolCache | None = None) -> RouteTable:
        root, bundle = place
        catalog = self._narrow(bundle, catalog)
        catalog.find("")  # makes its index, so that no call waits for it
        is_public = bool(bundle and self._site.public_url)
        site = replace(
            self._site,
            root=root,
            public_url=f"{self._site.public_url}{BUNDLES_PATH}{bundle}" if is_public else self._site.public_url,
            older_clients=self.older_clients,
            cache=self.cache if cache is None else cache,
        )
        return RouteTable(catalog, self._codecs, site, self._build_documents(root, catalog))
