"""Several toolboxes as one."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from toolwire.core.catalog import Catalog
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Call, Kind, Problem, Result
from toolwire.core.toolbox import Notify, Toolbox, unheard
from toolwire.server.lifespan import begin, end

_log = logging.getLogger("toolwire")


def merged(toolboxes: Sequence[Toolbox], *, title: str = "Tools") -> Toolbox:
    """Return a Toolbox that offers the tools of all ``toolboxes`` and runs each call where its tool came from.

    Raises:
        DefinitionError: two of them have a tool of the same id.
    """
    return toolboxes[0] if len(toolboxes) == 1 else _Merged(tuple(toolboxes), title)


class _Merged:
    def __init__(self, toolboxes: tuple[Toolbox, ...], title: str) -> None:
        self._toolboxes = toolboxes
        self._title = title
        self._seen: tuple[Catalog, ...] = ()
        self._catalog = Catalog(title=title)
        self._owners: dict[str, Toolbox] = {}
        self.catalog()

    def catalog(self) -> Catalog:
        catalogs = tuple(toolbox.catalog() for toolbox in self._toolboxes)
        if not _same(catalogs, self._seen):
            tools = tuple(tool for catalog in catalogs for tool in catalog.tools)
            try:
                self._catalog = Catalog(title=self._title, tools=tools)
            except ValueError as error:
                if self._seen:  # tools added later clash: what was offered goes on being offered
                    _log.error("the merged catalog is not renewed: %s", error)
                    self._seen = catalogs
                    return self._catalog
                raise DefinitionError(f"These cannot be served together: {error}.") from error
            pairs = zip(self._toolboxes, catalogs, strict=True)
            self._owners = {tool.id: toolbox for toolbox, catalog in pairs for tool in catalog.tools}
            self._seen = catalogs
        return self._catalog

    async def begin(self) -> None:
        for number, toolbox in enumerate(self._toolboxes):
            try:
                await begin(toolbox)
            except BaseException:  # what had begun ends, or nobody would
                for begun in reversed(self._toolboxes[:number]):
                    await end(begun)
                raise

    async def end(self) -> None:
        for toolbox in self._toolboxes:
            await end(toolbox)

    async def run(self, call: Call, notify: Notify = unheard) -> Result:
        owner = self._owners.get(call.tool.id)
        if owner is None:
            return Problem(kind=Kind.UNKNOWN_TOOL, message=f"There is no tool {call.tool.id!r} here.")
        return await owner.run(call, notify)


def _same(catalogs: tuple[Catalog, ...], seen: tuple[Catalog, ...]) -> bool:
    return len(catalogs) == len(seen) and all(one is other for one, other in zip(catalogs, seen, strict=True))
