"""Make a Toolbox of an object with one method for each function, and of the document that describes them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import anyio.to_thread

from toolwire.core.catalog import Catalog
from toolwire.core.model import Call, Json, Kind, Problem, Result, Tool
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.define import Toolkit
from toolwire.server.run.function_toolbox import FunctionToolbox

from .description import Description
from .document_check import get_method_name, list_methods
from .object_toolbox import explain_error


class MethodToolbox:
    """Runs the methods of one object as a FunctionToolbox does; offers what the document says, not their signatures."""

    def __init__(self, tool: object, description: Description, *, threads: int = 40) -> None:
        self._description = description
        kit, methods = Toolkit(type(tool).__name__), list_methods(tool)
        self._own: dict[str, Tool] = {}
        for one in description.catalog.tools:
            method = methods.get(get_method_name(description.methods.get(one.name, one.name)))
            if method is not None:
                self._own[one.name] = kit.add(method).tool
        self._box = FunctionToolbox(kit, threads=threads, explain=explain_error)
        self._tool = tool
        self._begun = False

    @property
    def document(self) -> Mapping[str, Json] | None:
        """The document as it was given."""
        return self._description.data

    def catalog(self) -> Catalog:
        """Return what the document offers."""
        return self._description.catalog

    async def begin(self) -> None:
        """Run the object's ``init`` once."""
        if not self._begun:
            await _hook(self._tool, "init")
            self._begun = True

    async def end(self) -> None:
        """Run the object's ``dispose`` if it was begun."""
        if self._begun:
            self._begun = False
            await _hook(self._tool, "dispose")

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run the method that stands for ``call``."""
        own = self._own.get(call.tool.name)
        if own is None:
            return Problem(kind=Kind.UNKNOWN_TOOL, message=f"The served object has no method for {call.tool.name!r}.")
        return await self._box.run(call._replace(tool=own), notify)


async def _hook(tool: object, name: str) -> None:
    hook = getattr(tool, name, None)
    if hook is not None:
        returned = hook() if inspect.iscoroutinefunction(hook) else await anyio.to_thread.run_sync(hook)
        if inspect.isawaitable(returned):
            await returned
