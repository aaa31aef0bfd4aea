"""Let a model find tools instead of reading all their definitions, with the SDK of any provider.

Rules:
- A call by name is the call of the tool that it names: it passes all checks and questions of the connection.
- What the model is told of a call is what the connection would ask: ``asks`` or ``runs``.
- A tool that no list of a connection declared, and that no declared ``find`` could find, is not called.
"""
# FI-06, FI-07: the rules above.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from threading import Lock
from typing import Any, Final, TypedDict, TypeVar
from weakref import WeakKeyDictionary

from toolwire.consent import effective_level
from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval, Call, Json, Problem, Result, Tool, Value
from toolwire.core.resources import DEFAULT_RESULT_LIMITS, Resource, ResultLimits
from toolwire.core.toolbox import StoresResources, ToolHome, find_home
from toolwire.find import View
from toolwire.find.short_list import OWN_TOOLS, answer_own_call, is_own, shorten_list
from toolwire.framing.tool_description import BUDGET_TOKENS, fits_budget

BoxT = TypeVar("BoxT")


class ToolList(TypedDict, total=False):
    """Which tools ``build_tools`` declares; without any of these, all.

    - ``find``: declare ``find``, ``describe`` and ``call``, by which the model finds the others.
    - ``budget``: do so only if all definitions take more than about this number of tokens.
    - ``pins``: also declare these tools then.
    - ``only``: declare just these tools; ``find`` finds no others, and calls of others are refused. The lists that
      were built for one connection count together, so a list without ``only`` allows all tools.

    A name in ``only`` that no tool has raises ValueError, and so does a name in ``pins`` that is not in the list.
    """

    # FI-06

    find: bool
    budget: int
    pins: Iterable[str]
    only: Iterable[str]


_LOCK: Final = Lock()
_CHOSEN: Final[WeakKeyDictionary[object, frozenset[str] | None]] = WeakKeyDictionary()
"""The tools in all lists that were built for a toolbox; None if one of them had no bound."""


def list_tools(toolbox: object, catalog: Catalog, listed: ToolList) -> Catalog:
    """Return what of the ``catalog`` of ``toolbox`` is declared to a model. From then on, the model may call it."""
    only, pins, budget = listed.get("only"), tuple(listed.get("pins", ())), listed.get("budget")
    chosen: frozenset[str] | None = None
    if only is not None:
        chosen = frozenset(_write_reference(name, _get_tool(catalog, name)) for name in only)
        catalog = _select(catalog, chosen)
    for name in pins:
        _get_tool(catalog, name)
    _remember(toolbox, chosen)
    is_short = listed.get("find", False) or (budget is not None and not fits_budget(catalog, budget))
    return shorten_list(catalog, pins) if is_short else catalog


def choose_tools(toolbox: object, catalog: Catalog) -> Catalog:
    """Return the tools of the ``catalog`` of ``toolbox`` that a model may call: those in the lists built for it."""
    try:
        chosen = _CHOSEN.get(toolbox)
    except TypeError:
        chosen = None
    return catalog if chosen is None else _select(catalog, chosen)


def name_own_tools(catalog: Catalog) -> Mapping[str, Tool]:
    """Return ``find``, ``describe`` and ``call`` by the names that no tool of ``catalog`` has."""
    whole = catalog.whole or catalog
    return {tool.name if whole.get(tool.name) is None else f"toolwire_{tool.name}": tool for tool in OWN_TOOLS}


def answer_find(toolbox: object, catalog: Catalog, call: Call) -> Result | None:
    """Return the result of a call of ``find`` or ``describe``; None for any other, and if ``toolbox`` answers it.

    ``catalog`` holds the tools that the model may call.
    """
    if catalog.whole is not None or not is_own(call.tool):
        return None
    find_level: Callable[[Tool], Approval] = getattr(toolbox, "find_level", effective_level)
    return Value(answer_own_call(call.tool, call.arguments, catalog, View(find_level=find_level)))


def offer_find(toolbox: BoxT, *, budget: int = BUDGET_TOKENS) -> BoxT:
    """Return the blocking ``toolbox`` with ``find``, ``describe`` and ``call`` in its list instead of all tools.

    It is returned as it is while its definitions take about ``budget`` tokens or less.
    """
    box: Any = toolbox
    if fits_budget(box.catalog(), budget):
        return toolbox
    shortened: Any = SyncFindToolbox(box)
    stand_in: BoxT = shortened
    return stand_in


def _remember(toolbox: object, chosen: frozenset[str] | None) -> None:
    try:
        with _LOCK:
            before = _CHOSEN.get(toolbox, frozenset())
            _CHOSEN[toolbox] = None if chosen is None or before is None else before | chosen
    except TypeError as error:  # it has no weak references or no hash, so nothing is kept for it
        runs_calls = hasattr(toolbox, "call") or iscoroutinefunction(getattr(toolbox, "run", None))
        if chosen is not None and runs_calls:  # a Toolkit declares tools, and a connection to it runs them
            text = f"only= needs a toolbox with a hash and weak references, which {type(toolbox).__name__} lacks."
            raise TypeError(text) from error


def _get_tool(catalog: Catalog, name: str) -> Tool:
    found = catalog.find_or_suggest(name)
    if isinstance(found, Problem):
        raise ValueError(found.message)
    return found


def _write_reference(name: str, tool: Tool) -> str:
    """Return what means ``tool`` also after the list has changed: in the version that ``name`` has, or the newest."""
    return tool.id if "@" in name else f"{tool.toolkit}.{tool.name}"


def _select(catalog: Catalog, references: Iterable[str]) -> Catalog:
    return catalog.select(tool for one in sorted(references) if (tool := catalog.get(one)))


class _ShortCatalog:
    """The short catalog of a connection, made again when that has changed."""

    def __init__(self, box: Any) -> None:
        self._box = box
        self._whole: Catalog | None = None
        self._short = Catalog()

    def get(self) -> Catalog:
        """Return the short catalog; the same object as before if nothing changed."""
        whole: Catalog = self._box.catalog()
        if whole is not self._whole:
            self._short, self._whole = shorten_list(whole), whole
        return self._short

    def answer(self, tool: Tool, arguments: Mapping[str, Json]) -> Result:
        """Return what a call of ``find`` or ``describe`` returns."""
        find_level: Callable[[Tool], Approval] = getattr(self._box, "find_level", effective_level)
        return Value(answer_own_call(tool, arguments, self._box.catalog(), View(find_level=find_level)))


class SyncFindToolbox:
    """A blocking connection with a short list; ``offer_find`` makes it."""

    def __init__(self, box: Any) -> None:
        self._box, self._short = box, _ShortCatalog(box)

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

    def call(self, name: str, arguments: Mapping[str, Json] | None = None, /) -> Result:
        """Call the tool ``name`` and return its result."""
        tool = self.catalog().find(name)
        if isinstance(tool, Tool) and is_own(tool):
            return self._short.answer(tool, {} if arguments is None else arguments)
        result: Result = tool if isinstance(tool, Problem) else self._box.call(tool.id, arguments)
        return result
