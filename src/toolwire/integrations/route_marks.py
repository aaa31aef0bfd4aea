"""Mark routes with ``x-llm``, and check the marks before a client connects.

Rules:
- What the author says wins; else GET is auto, everything else asks, and DELETE destroys.
- A document is only added to: every member that was there stays as it was.
"""
# XL-123, XL-121

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict, Unpack

from toolwire.core.condition import read_ask_when, write_conditions
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Condition, Cost, Json, RateLimit
from toolwire.framing.xllm_faults import XllmFault, check_operation

_log: Final = logging.getLogger("toolwire.integrations")

Include: TypeAlias = Literal["all", "marked"]

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
SAFE: Final = frozenset(("get", "head", "options", "query"))


class SiteMarks(NamedTuple):
    """The marks of the whole app."""

    name: str
    description: str = ""
    include: Include | None = None


class MarkedRoute(NamedTuple):
    """One operation of a document: where it is, and what it says."""

    method: str
    path: str
    node: dict[str, Any]

    @property
    def where(self) -> str:
        """Method and path, for a sentence."""
        return f"{self.method.upper()} {self.path}"


class RouteMarks(TypedDict, total=False):
    """The marks of one route; a mark that is left out has its default."""

    enabled: bool
    approval: Literal["auto", "per-call"] | Approval
    ask_when: Sequence[Condition | tuple[str, str] | tuple[str, str, Json] | Mapping[str, Json]]
    question: str
    blanket_allowed: bool
    destructive: bool
    rate_limit: RateLimit | str | tuple[int, str] | Mapping[str, Any]
    hint: str
    cost: Literal["free", "credits", "paid"] | Cost
    result: Mapping[str, Json]
    next: Sequence[Mapping[str, Json]]
    idempotent: bool
    idempotency_key: str


_OWN_NAMES: Final = ("enabled", "approval", "question", "destructive", "hint", "result", "next", "idempotent")
_MEMBERS: Final = {
    **{name: name for name in _OWN_NAMES},
    "ask_when": "approvalWhen",
    "blanket_allowed": "blanketApprovalAllowed",
    "rate_limit": "rateLimit",
    "cost": "costIndicator",
    "idempotency_key": "idempotencyKey",
}


def x_llm(**marks: Unpack[RouteMarks]) -> dict[str, Any]:
    """Return ``{"x-llm": {...}}`` for a route's ``openapi_extra``.

    Raises:
        DefinitionError: a field is unknown, or its value is not valid. The message names it.
    """
    # XL-121
    data: dict[str, Json] = {}
    for name, value in marks.items():
        if name not in _MEMBERS:
            raise DefinitionError(f"x_llm has no member {name!r}. Members: {', '.join(_MEMBERS)}.")
        data[_MEMBERS[name]] = _WRITERS.get(name, _write_plain)(value)
    for found in check_operation(data):
        raise DefinitionError(f"x_llm: {'/'.join(map(str, found.path))}: {found.message}")
    return {"x-llm": data}


def read_site_marks(name: str, description: str, include: Include | None) -> SiteMarks:
    """Return the marks of the whole app.

    Raises:
        DefinitionError: ``include`` is none of its words.
    """
    if include not in (None, "marked", "all"):
        raise DefinitionError(f'include must be "marked", "all" or None, not {include!r}.')
    return SiteMarks(name, description, include)


def mark_document(document: Mapping[str, Any], site: SiteMarks) -> dict[str, Any]:
    """Return a copy of ``document`` with the root ``x-llm``, and with the defaults of each operation it offers."""
    built = deepcopy(dict(document))
    root = {"version": "0.1", "name": site.name, "defaultApproval": str(Approval.PER_CALL)}
    if site.description:
        root["description"] = site.description
    own = built.get("x-llm")
    built["x-llm"] = {**root, **own} if isinstance(own, dict) else root
    found = list(iterate_operations(built))
    every = site.include == "all" or (site.include is None and not any("x-llm" in one.node for one in found))
    for one in found:
        if every:
            one.node.setdefault("x-llm", {})
        if isinstance(one.node.get("x-llm"), dict):
            one.node["x-llm"] = _add_defaults(one.node["x-llm"], one.method)
    return built


def iterate_operations(document: Mapping[str, Any]) -> Iterator[MarkedRoute]:
    """Yield every operation of ``document``."""
    paths = document.get("paths")
    for path, item in paths.items() if isinstance(paths, dict) else ():
        for method in METHODS:
            if isinstance(item, dict) and isinstance(item.get(method), dict):
                yield MarkedRoute(method, path, item[method])


def check_document(document: Mapping[str, Any]) -> None:
    """Log what a model's user would change in the offered operations of ``document``.

    Raises:
        DefinitionError: an ``x-llm`` has an unknown member or a wrong value.
    """
    for one, found in list_findings(document):
        where = "/".join(map(str, found.path))
        text = f"{one.where}: x-llm{f' {where}' if where else ''}: {found.message}"
        if found.severity == "error":
            raise DefinitionError(text)
        _log.warning(text)


def list_findings(document: Mapping[str, Any]) -> list[tuple[MarkedRoute, XllmFault]]:
    """Return what is wrong with the offered operations of ``document``, and what a model's user would change.

    An unknown member is an error here: in code it is a slip of the pen.
    """
    found: list[tuple[MarkedRoute, XllmFault]] = []
    for one in iterate_operations(document):
        data = one.node.get("x-llm")
        if data is None or data is False:
            continue
        for fault in check_operation(data):
            severity = "error" if fault.rule == "XL-037" else fault.severity
            found.append((one, fault._replace(severity=severity)))
        found.extend((one, advice) for advice in _list_advice(one, data if isinstance(data, dict) else {}))
    return found


def _list_advice(one: MarkedRoute, data: Mapping[str, Json]) -> Iterator[XllmFault]:
    if data.get("approval") == "auto" and one.method not in SAFE:
        yield XllmFault((), "warning", "XL-044", "It changes something but declares auto. Clients will ask anyway.")
    if not one.node.get("summary") and not one.node.get("description"):
        yield XllmFault((), "warning", "XL-070", "It has no summary. Say what it does, so that models can choose it.")


def _add_defaults(data: Mapping[str, Json], method: str) -> dict[str, Json]:
    defaults: dict[str, Json] = {
        "enabled": True,
        "approval": str(Approval.AUTO if method in SAFE else Approval.PER_CALL),
    }
    if method == "delete":
        defaults["destructive"] = True
    return {**defaults, **data}


def _write_limit(limit: Any) -> Json:
    match limit:
        case str():
            return _write_limit(_parse_limit(limit))
        case RateLimit():
            return {"max": limit.max, "window": limit.window}
        case (most, window):
            return {"max": most, "window": window}
        case _:
            return _write_plain(limit)


def _parse_limit(text: str) -> RateLimit:
    try:
        return RateLimit.parse(text)
    except ValueError as error:
        raise DefinitionError(f"x_llm: rate_limit: {error}.") from None


def _write_plain(value: Any) -> Json:
    match value:
        case str():
            return str(value)
        case Mapping():
            return {name: _write_plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_write_plain(one) for one in value]
        case _:
            return value


def _write_conditions(value: Any) -> Json:
    return write_conditions(read_ask_when(value, "x_llm"))


_WRITERS: Final[Mapping[str, Callable[[Any], Json]]] = {"rate_limit": _write_limit, "ask_when": _write_conditions}
