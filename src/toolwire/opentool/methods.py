"""A Toolbox made of an object with a method for each function, and of the document that describes them."""

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.catalog import Catalog
from toolwire.core.model import Call, Json, Kind, Problem, Result, Tool
from toolwire.core.toolbox import Notify, unheard
from toolwire.define import Toolkit
from toolwire.server.functions import FunctionBox

from .agreement import methods_of, spelled
from .description import Description


class MethodBox:
    """Runs the methods of one object as a FunctionBox does; offers what the document says, not their signatures."""

    def __init__(self, tool: object, description: Description, *, threads: int = 40) -> None:
        self._description = description
        kit, methods = Toolkit(type(tool).__name__), methods_of(tool)
        self._own: dict[str, Tool] = {}
        for one in description.catalog.tools:
            method = methods.get(spelled(description.methods.get(one.name, one.name)))
            if method is not None:
                self._own[one.name] = kit.add(method).tool
        self._box = FunctionBox(kit, threads=threads)

    @property
    def document(self) -> Mapping[str, Json] | None:
        """The document as it was given."""
        return self._description.data

    def catalog(self) -> Catalog:
        """Return what the document offers."""
        return self._description.catalog

    async def run(self, call: Call, notify: Notify = unheard) -> Result:
        """Run the method that stands for ``call``."""
        own = self._own.get(call.tool.name)
        if own is None:
            return Problem(kind=Kind.UNKNOWN_TOOL, message=f"There is no method for {call.tool.name!r} here.")
        return await self._box.run(call._replace(tool=own), notify)
