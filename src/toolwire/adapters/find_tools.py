"""Let a model find tools instead of reading all their definitions, with the SDK of any provider.

Rules:
- A call by name is the call of the tool that it names: it passes all checks and questions of the connection.
- What the model is told of a call is what the connection would ask: ``asks`` or ``runs``.
"""
# FI-06, FI-07: the rules above.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from toolwire.consent import effective_level
from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval, Call, Json, Problem, Result, Tool, Value
from toolwire.core.resources import DEFAULT_RESULT_LIMITS, Resource, ResultLimits
from toolwire.core.toolbox import Notify, StoresResources, ToolHome, find_home, ignore_progress
from toolwire.find import View
from toolwire.find.short_list import answer_own_call, is_own, shorten_list
from toolwire.framing.tool_description import BUDGET_TOKENS, fits_budget

BoxT = TypeVar("BoxT")


def offer_find(
    toolbox: BoxT, *, only: Iterable[str] | None = None, budget: int = BUDGET_TOKENS, pins: Iterable[str] = ()
) -> BoxT:
    """Return ``toolbox`` with ``find``, ``describe`` and ``call`` in its list instead of all tools.

    Give what this returns to ``build_tools`` and to what runs the calls. ``toolbox`` is a connection of ``connect`` or
    ``connect_sync``, or any Toolbox; it is returned as it is while its definitions take about ``budget`` tokens or
    less. ``budget=0`` always shortens the list. ``pins`` are listed too. With ``only``, the list has just these tools,
    and no other can be called.

    Raises:
        ValueError: a name in ``only`` or ``pins`` is not that of a tool.
    """
    box: Any = toolbox
    catalog: Catalog = box.catalog()
    only, pins = None if only is None else tuple(only), tuple(pins)
    for name in (*(only or ()), *pins):
        if isinstance(found := catalog.find_or_suggest(name), Problem):
            raise ValueError(found.message)
    if only is None and budget and fits_budget(catalog, budget):
        return toolbox
    if only is None:
        shortened: Any = _build(box, partial(shorten_list, pins=pins))
    else:
        names = only
        shortened = _build(box, lambda whole: _select(whole, names))
    stand_in: BoxT = shortened
    return stand_in


def _select(catalog: Catalog, names: tuple[str, ...]) -> Catalog:
    selected = {tool.id: tool for name in names if isinstance(tool := catalog.find(name), Tool)}
    return Catalog(
        title=catalog.title, version=catalog.version, description=catalog.description, tools=tuple(selected.values())
    )


def _build(box: Any, shorten: Callable[[Catalog], Catalog]) -> FindToolbox | SyncFindToolbox:
    return FindToolbox(box, shorten) if hasattr(box, "run") else SyncFindToolbox(box, shorten)


class _ShortCatalog:
    """The short catalog of a connection, made again when that has changed."""

    def __init__(self, box: Any, shorten: Callable[[Catalog], Catalog]) -> None:
        self._box, self._shorten = box, shorten
        self._whole: Catalog | None = None
        self._short = Catalog()

    def get(self) -> Catalog:
        """Return the short catalog; the same object as before if nothing changed."""
        whole: Catalog = self._box.catalog()
        if whole is not self._whole:
            self._short, self._whole = self._shorten(whole), whole
        return self._short

    def answer(self, tool: Tool, arguments: Mapping[str, Json]) -> Result:
        """Return what a call of ``find`` or ``describe`` returns."""
        find_level: Callable[[Tool], Approval] = getattr(self._box, "find_level", effective_level)
        return Value(answer_own_call(tool, arguments, self._box.catalog(), View(find_level=find_level)))


class _ShortToolbox:
    """What both forms of a toolbox with a short list share: all but the call."""

    def __init__(self, box: Any, shorten: Callable[[Catalog], Catalog]) -> None:
        self._box, self._short = box, _ShortCatalog(box, shorten)

    def catalog(self) -> Catalog:
        """Return what is listed."""
        return self._short.get()

    def resource(self, handle: str, /) -> Resource | None:
        """Return the bytes of a handle from a result, or None."""
        return self._box.resource(handle) if isinstance(self._box, StoresResources) else None

    @property
    def result_limits(self) -> ResultLimits:
        """How much of a result a model is given at once."""
        limits: ResultLimits = getattr(self._box, "result_limits", DEFAULT_RESULT_LIMITS)
        return limits

    def find_home(self, tool: Tool, /) -> ToolHome:
        """Return where ``tool`` comes from."""
        return ToolHome() if is_own(tool) else find_home(self._box, tool)


class FindToolbox(_ShortToolbox):
    """A Toolbox with a short list; ``offer_find`` makes it."""

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` and return its result."""
        if is_own(call.tool):
            return self._short.answer(call.tool, call.arguments)
        result: Result = await self._box.run(call, notify)
        return result


class SyncFindToolbox(_ShortToolbox):
    """A blocking connection with a short list; ``offer_find`` makes it."""

    def call(self, name: str, arguments: Mapping[str, Json] | None = None, /) -> Result:
        """Call the tool ``name`` and return its result."""
        tool = self.catalog().find(name)
        if isinstance(tool, Tool) and is_own(tool):
            return self._short.answer(tool, {} if arguments is None else arguments)
        result: Result = tool if isinstance(tool, Problem) else self._box.call(tool.id, arguments)
        return result
