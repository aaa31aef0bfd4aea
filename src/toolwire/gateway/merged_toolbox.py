"""Merge several Toolboxes into one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from toolwire.core.catalog import Catalog
from toolwire.core.errors import DefinitionError
from toolwire.core.health import UpstreamHealth
from toolwire.core.model import Call, Kind, Problem, Result, Tool
from toolwire.core.offered import is_reader, merge_offered
from toolwire.core.recipe import Recipe, rename_recipe
from toolwire.core.toolbox import (
    Notify,
    Toolbox,
    embed_kept_bytes,
    find_recipes,
    find_self_asking,
    ignore_progress,
)
from toolwire.limits import LocalRates, Windows
from toolwire.server.http.lifespan import begin_lifespan, end_lifespan

from .ownership import Owned, Ownership
from .upstream import Upstream, UpstreamLimits

_NONE: Final[Mapping[int, Any]] = {}

_log = logging.getLogger("toolwire")


def merge_toolboxes(
    toolboxes: Sequence[Toolbox],
    *,
    title: str = "Tools",
    names: Mapping[int, str] = _NONE,
    scopes: Mapping[int, Iterable[str]] = _NONE,
    limits: Mapping[int, UpstreamLimits] = _NONE,
    windows: Windows | None = None,
    local: LocalRates | None = None,
) -> Toolbox:
    """Return a Toolbox that offers the tools of all ``toolboxes`` and runs each call where its tool came from.

    ``names`` gives connections other names than their own, and ``scopes`` says which scopes callers need for the tools
    of a toolbox, instead of those that its tools declare. ``limits`` are the limits of a toolbox for all callers
    together; such a toolbox also has a row in ``list_health`` of ``toolwire.core.health``. All are by the number of the
    toolbox, from 0. Calls are counted in ``windows``, else in ``local``, else in this process.

    No connection answers to a name that another toolbox had first. A toolkit of a connection has the connection's name
    before its own where another toolbox has a toolkit of that name, or of one that looks like it.

    Raises:
        DefinitionError: two of them, none a connection, have a toolkit of the same name or a tool of the same id.
    """
    # D-32
    if len(toolboxes) == 1 and not scopes and not limits:
        return toolboxes[0]
    needed = {number: tuple(some) for number, some in scopes.items()}
    ownership = Ownership(toolboxes, names, needed)
    upstreams = {
        number: Upstream(
            toolboxes[number],
            names.get(number) or ownership.names.get(number, str(number)),
            limits=some,
            scopes=needed.get(number),
            windows=windows,
            local=local,
        )
        for number, some in sorted(limits.items())
    }
    return _MergedToolbox(tuple(toolboxes), title, ownership, upstreams, windows)


class _MergedToolbox:
    def __init__(
        self,
        toolboxes: tuple[Toolbox, ...],
        title: str,
        ownership: Ownership,
        upstreams: Mapping[int, Upstream],
        windows: Windows | None,
    ) -> None:
        self._toolboxes = toolboxes
        self._title = title
        self._seen: tuple[Catalog, ...] = ()
        self._catalog = Catalog(title=title)
        self._ownership = ownership
        self._upstreams, self._windows = upstreams, windows
        self._homes: dict[str, tuple[Toolbox, Owned]] = {}
        self._limited: dict[str, Upstream] = {}  # by the id of each tool of an upstream with limits
        self._limited_readers: dict[int, Upstream] = {}
        self._readers: dict[int, Toolbox] = {}  # by the identity of the reader, which the catalog keeps alive
        self.catalog()

    def catalog(self) -> Catalog:
        # In line, because each request looks at all of them.
        for toolbox, seen in zip(self._toolboxes, self._seen, strict=False):
            if toolbox.catalog() is not seen:
                break
        else:
            if self._seen or not self._toolboxes:
                return self._catalog
        catalogs = tuple(toolbox.catalog() for toolbox in self._toolboxes)
        try:
            self._take(catalogs)
        except (DefinitionError, ValueError) as error:
            if not self._seen:
                raise DefinitionError(f"These cannot be served together: {error}.") from error
            # tools added later clash: what was offered goes on being offered
            _log.error("the merged catalog is not renewed: %s", error)
        self._seen = catalogs
        return self._catalog

    def _take(self, catalogs: tuple[Catalog, ...]) -> None:
        ownership = self._ownership
        found = ownership.take(catalogs)
        owners = {owned.offered.id: owned.owner for _, owned in found}

        def allows(reference: str, tool: Tool) -> bool:
            return ownership.allows(reference, owners[tool.id], tool.toolkit)

        tools = tuple(owned.offered for _, owned in found)
        offered = ownership.take_offered(catalogs)
        # Code of this process comes first, so that no connection takes the name of one of its prompts.
        first = sorted(range(len(offered)), key=lambda number: number in ownership.names)
        merged = merge_offered([offered[number] for number in first])
        self._catalog = Catalog(title=self._title, tools=tools, offered=merged, allows=allows)
        self._homes = {owned.offered.id: (self._toolboxes[number], owned) for number, owned in found}
        self._limited = {
            owned.offered.id: self._upstreams[number] for number, owned in found if number in self._upstreams
        }
        self._readers = {
            id(reader): self._toolboxes[number]
            for number, part in enumerate(offered)
            for reader in (*part.readers, *part.completers)
        }
        self._limited_readers = {
            id(reader): self._upstreams[number]
            for number, part in enumerate(offered)
            for reader in (*part.readers, *part.completers)
            if number in self._upstreams
        }

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """The recipes of all connections; the name of its connection is put before the id of each."""
        offered: dict[int, dict[str, str]] = {}
        for toolbox, owned in self._homes.values():
            offered.setdefault(id(toolbox), {})[owned.tool.id] = owned.offered.id
        names = self._ownership.names
        renamed = [
            rename_recipe(recipe, offered.get(id(toolbox), {}), f"{names[number]}." if number in names else "")
            for number, toolbox in enumerate(self._toolboxes)
            for recipe in find_recipes(toolbox)
        ]
        return tuple(recipe for recipe in renamed if recipe is not None)

    def list_health(self) -> Sequence[UpstreamHealth]:
        return [upstream.describe_health() for upstream in self._upstreams.values()]

    def asks_itself(self, tool: Tool) -> bool:
        home = self._homes.get(tool.id)
        return home is not None and find_self_asking(home[0])(home[1].tool)

    async def begin(self) -> None:
        for number, toolbox in enumerate(self._toolboxes):
            try:
                await begin_lifespan(toolbox)
            except BaseException:  # end() is not called then, so those that began end here
                for begun in reversed(self._toolboxes[:number]):
                    await end_lifespan(begun)
                raise

    async def end(self) -> None:
        for toolbox in self._toolboxes:
            await end_lifespan(toolbox)
        await end_lifespan(self._windows)

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        if is_reader(call.tool) and (reading := self._readers.get(id(call.tool))) is not None:
            # AT-51: a reading counts as a call does.
            limited = self._limited_readers.get(id(call.tool))
            return await (reading.run(call, notify) if limited is None else limited.run(call, notify))
        home = self._homes.get(call.tool.id)
        if home is None:
            return Problem(kind=Kind.UNKNOWN_TOOL, message=f"There is no tool {call.tool.id!r} here.")
        toolbox, owned = home
        own = call if owned.tool is owned.offered else call._replace(tool=owned.tool)
        upstream = self._limited.get(call.tool.id)
        if upstream is not None:
            return await upstream.run(own, notify)
        return embed_kept_bytes(await toolbox.run(own, notify), toolbox)
