"""Everything in an ``x-llm`` object, or in an llm.json, that is not as the specification has it.

Rules:
- What is an error here is what the reader reads as its strictest, and what the published schema refuses. [XL-143]
- A warning is what is read, and what somebody should mend.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from toolwire.core.model import Cost, Json, RateLimit

from .jsontext import kind_of
from .positions import Step
from .report import Severity


class Slip(NamedTuple):
    """One fault: the way to it, how bad, which requirement, and what is wrong."""

    path: tuple[Step, ...]
    severity: Severity
    rule: str
    message: str

    def below(self, *steps: Step) -> Slip:
        """Return the same fault, found in what stands at ``steps``."""
        return self._replace(path=(*steps, *self.path))


Rule: TypeAlias = Callable[[Json], Iterator[Slip]]

VERSION: Final = re.compile(r"\d{1,6}\.\d{1,6}", re.ASCII)
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)*", re.DOTALL)
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORMS: Final = ("text", "card", "list", "table", "json", "image", "link", "none")
_SPOTS: Final = ("title", "subtitle", "body", "image", "url")


def of_operation(data: Json) -> list[Slip]:
    """Return what is wrong with the ``x-llm`` of an operation. [XL-031, XL-035, XL-036]"""
    if isinstance(data, bool):
        return []
    if not isinstance(data, dict):
        return [
            _error("XL-036", f"This is {kind_of(data)}; x-llm is an object, or true or false: the operation is hidden.")
        ]
    return [*_members(data, _OPERATION), *_unknown(data, _OPERATION)]


def of_root(data: Json) -> list[Slip]:
    """Return what is wrong with the ``x-llm`` at the root of a document. [XL-025..028, XL-030]"""
    if not isinstance(data, dict):
        return [_error("XL-030", f"This is {kind_of(data)}; x-llm at the root is an object: it counts as absent.")]
    missing = [
        _warning("XL-026", f"{name} is missing: {instead}.")
        for name, instead in (("version", '"0.1" is taken'), ("name", "info.title is taken"))
        if name not in data
    ]
    return [*missing, *_members(data, _ROOT), *_unknown(data, _ROOT)]


def of_llm_json(data: Json) -> list[Slip]:
    """Return what is wrong with an llm.json. [XL-020, XL-021]"""
    if not isinstance(data, dict):
        return [_error("XL-020", f"This is {kind_of(data)}; an llm.json is an object.")]
    if "openapi" not in data:
        return [_error("XL-020", "openapi is missing: say where the OpenAPI document is."), *_members(data, _LLM)]
    return [*_members(data, _LLM), *_unknown(data, _LLM)]


def _members(data: Mapping[str, Json], rules: Mapping[str, Rule]) -> Iterator[Slip]:
    for name, rule in rules.items():
        if name in data:
            yield from (found.below(name) for found in rule(data[name]))


def _unknown(data: Mapping[str, Json], rules: Mapping[str, Rule]) -> Iterator[Slip]:
    for name in data:
        if name not in rules and not name.startswith("x-"):
            text = f"{name[:100]} is no member that is known here; a member of your own begins with x-."
            yield _warning("XL-037", text).below(name)


def _flag(fallback: str) -> Rule:
    def rule(data: Json) -> Iterator[Slip]:
        if not isinstance(data, bool):
            yield _error("XL-035", f"This is {kind_of(data)}; it must be true or false: {fallback}.")

    return rule


def _choice(*words: str, fallback: str) -> Rule:
    def rule(data: Json) -> Iterator[Slip]:
        if not isinstance(data, str) or data not in words:
            yield _error("XL-035", f"This is none of {', '.join(words)}: {fallback}.")

    return rule


def _text(what: str, rule_id: str, *, empty: bool = True) -> Rule:
    def rule(data: Json) -> Iterator[Slip]:
        if not isinstance(data, str):
            yield _error(rule_id, f"This is {kind_of(data)}; {what} is a text.")
        elif not data and not empty:
            yield _error(rule_id, f"This is empty; {what} is a text.")

    return rule


def _hint(data: Json) -> Iterator[Slip]:
    yield from _text("a hint", "XL-035")(data)
    if data == "":
        yield _warning("XL-071", "The hint is empty: say when to use the operation, or leave it out.")
    elif isinstance(data, str) and len(data) > 1_024:
        yield _warning("XL-071", f"The hint has {len(data):,} characters; a model is shown 1,024.")


def _limit(data: Json) -> Iterator[Slip]:
    if isinstance(data, dict):
        yield from _members(data, {"max": _count, "window": _window})
        missing = [name for name in ("max", "window") if name not in data]
        if missing:
            yield _error("XL-060", f'{" and ".join(missing)} is missing: a limit is like {{max: 30, window: "1m"}}.')
        yield from _unknown(data, {"max": _count, "window": _window})
    elif any(True for _ in _count(data)):
        yield _error("XL-060", 'This is no limit: write it like {max: 30, window: "1m"}.')
    else:
        yield _warning("XL-061", "A bare number is read as so many a minute: write {max: ..., window: ...}.")


def _count(data: Json) -> Iterator[Slip]:
    whole = isinstance(data, int | float) and not isinstance(data, bool) and data == data // 1
    if not whole or not 1 <= data <= 1_000_000:
        yield _error("XL-060", "This must be a whole number from 1 to 1,000,000.")


def _window(data: Json) -> Iterator[Slip]:
    try:
        if isinstance(data, str):
            RateLimit(max=1, window=data)
            return
    except ValueError:
        pass
    yield _error("XL-060", 'This must be like "30s" or "1m", from 100ms to 30d.')


def _version(data: Json) -> Iterator[Slip]:
    if isinstance(data, float) and data == 0.1:
        yield _warning("XL-028", 'This is a number: write "0.1", in quotes.')
    elif not isinstance(data, str) or VERSION.fullmatch(data) is None:
        yield _error("XL-028", 'This is no version: write "0.1", in quotes.')
    elif data.partition(".")[0].strip("0"):
        yield _error("XL-028", f"Version {data} is of a later major version: nothing of the document is offered.")
    elif data != "0.1":
        yield _warning(
            "XL-028", f"Version {data} is not 0.1: nothing is always allowed, and only reading goes unasked."
        )


def _pointer(data: Json) -> Iterator[Slip]:
    if not isinstance(data, str) or _POINTER.fullmatch(data) is None:
        yield _error("XL-074", 'This is no JSON Pointer, which is like "/items/0/name".')


def _fields(data: Json) -> Iterator[Slip]:
    if not isinstance(data, list):
        yield _error("XL-074", f"This is {kind_of(data)}; it must be a list of JSON Pointers.")
        return
    for number, one in enumerate(data):
        yield from (found.below(number) for found in _pointer(one))


def _most(data: Json) -> Iterator[Slip]:
    whole = isinstance(data, int | float) and not isinstance(data, bool) and data == data // 1
    if not whole or data < 1:
        yield _error("XL-074", "This must be a whole number from 1 on.")


def _result(data: Json) -> Iterator[Slip]:
    if not isinstance(data, dict):
        yield _error("XL-074", f"This is {kind_of(data)}; it must be an object.")
        return
    rules: dict[str, Rule] = {
        "render": _choice(*_FORMS, fallback="the result is shown as text"),
        **dict.fromkeys(_SPOTS, _pointer),
        "fields": _fields,
        "maxItems": _most,
    }
    yield from (*_members(data, rules), *_unknown(data, rules))


def _next(data: Json) -> Iterator[Slip]:
    if not isinstance(data, list):
        yield _error("XL-075", f"This is {kind_of(data)}; it must be a list.")
        return
    for number, one in enumerate(data):
        yield from (found.below(number) for found in _step(one))


def _step(data: Json) -> Iterator[Slip]:
    if not isinstance(data, dict) or "operationId" not in data:
        yield _error("XL-075", "This must be an object with the operationId of what follows.")
    if isinstance(data, dict):
        rules: dict[str, Rule] = {
            "operationId": _text("an operationId", "XL-075", empty=False),
            "when": _text("when", "XL-075"),
            "args": _expressions,
        }
        yield from (*_members(data, rules), *_unknown(data, rules))


def _expressions(data: Json) -> Iterator[Slip]:
    if not isinstance(data, dict) or not all(isinstance(one, str) for one in data.values()):
        yield _error("XL-075", "This must be an object of runtime expressions, each a text.")


def _header(data: Json) -> Iterator[Slip]:
    if not isinstance(data, str) or _HEADER.fullmatch(data) is None:
        yield _error("XL-077", "This must be the name of a header.")


def _auth(data: Json) -> Iterator[Slip]:
    plain = _text("auth", "XL-021", empty=False)
    if not isinstance(data, dict):
        yield from plain(data)
        return
    if "type" not in data:
        yield _error("XL-021", "type is missing.")
    rules: dict[str, Rule] = {name: plain for name in ("type", "authorization_server", "resource_metadata")}  # noqa: C420 - fromkeys would narrow the type of its keys
    yield from (*_members(data, rules), *_unknown(data, rules))


_APPROVAL = _choice("auto", "per-call", fallback="each call is asked for, and none is always allowed")
_OPERATION: Final[Mapping[str, Rule]] = {
    "enabled": _flag("the operation is hidden"),
    "approval": _APPROVAL,
    "blanketApprovalAllowed": _flag("it counts as false"),
    "destructive": _flag("it counts as true"),
    "rateLimit": _limit,
    "hint": _hint,
    "costIndicator": _choice(*Cost, fallback="it counts as paid"),
    "result": _result,
    "next": _next,
    "idempotent": _flag("it counts as false"),
    "idempotencyKey": _header,
    "readOnly": _flag("the method decides"),
}
_ROOT: Final[Mapping[str, Rule]] = {
    "version": _version,
    "name": _text("a name", "XL-026", empty=False),
    "description": _text("a description", "XL-025"),
    "defaultApproval": _APPROVAL,
    "workflows": _text("workflows", "XL-025", empty=False),
}
_LLM: Final[Mapping[str, Rule]] = {"openapi": _text("openapi", "XL-020", empty=False), "auth": _auth}


def _error(rule: str, message: str) -> Slip:
    return Slip((), "error", rule, message)


def _warning(rule: str, message: str) -> Slip:
    return Slip((), "warning", rule, message)
