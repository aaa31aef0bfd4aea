"""Read the options of ``@tool``, and refuse those that are not valid."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Literal, TypedDict

from toolwire.core.catalog import VERSION
from toolwire.core.condition import MAX_QUESTION, read_ask_when
from toolwire.core.errors import DefinitionError
from toolwire.core.long_call import LONG_AFTER_S
from toolwire.core.model import Approval, Condition, Cost, Json, RateLimit, Requirements
from toolwire.core.suggestion import find_nearest


class Options(TypedDict, total=False):
    """The options of ``@tool``; all may be left out.

    ``name`` and ``description`` come from the function otherwise, ``version`` from the toolkit. Without
    ``approval``, the program that asks for consent decides. ``ask_when`` says for which arguments the user is asked in
    any case: each condition is ``(pointer, op, value)``, such as ``("/amount", "gt", 50)``. ``question`` is a text for
    the user who is asked, with arguments as ``{/amount}``. ``safe`` (a call only reads) not given means: approval is
    automatic, no arguments are asked about, and nothing is destroyed. ``rate_limit`` may be ``"60/1m"``.
    ``requirements`` is what a call must bring for the tool to use, ``scopes`` what its caller must have to see it and
    call it. ``timeout_s`` is in seconds; above 300 the tool is long. ``long`` says that a call goes on when its caller
    leaves, and ``keep_s`` for how many seconds its result is then kept. ``inline`` says that a sync function is quick
    enough to run on the event loop, without a thread of its own. ``result`` says how to show a result: ``"table"``, or
    an object such as ``{"render": "card", "title": "/name"}``. ``next`` lists the tools that usually follow: names, or
    objects with ``tool``, ``when`` and ``args``. ``hints`` is for one protocol each, by its name.
    """

    name: str
    description: str
    version: str
    approval: Approval | Literal["auto", "per-call"] | None
    ask_when: Sequence[Condition | tuple[str, str] | tuple[str, str, Json] | Mapping[str, Json]]
    question: str
    blanket_allowed: bool
    destructive: bool
    idempotent: bool
    safe: bool | None
    hint: str
    cost: Cost | Literal["free", "credits", "paid"] | None
    rate_limit: RateLimit | str | tuple[int, str] | Mapping[str, Any] | None
    requirements: Requirements
    scopes: Sequence[str]
    timeout_s: float | None
    long: bool
    keep_s: float | None
    inline: bool
    deprecated: bool
    output_name: str
    result: str | Mapping[str, Json]
    next: Sequence[str | Mapping[str, Json]]
    hints: Mapping[str, Any]


_TYPES: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "description": (str,),
    "version": (str,),
    "approval": (str, type(None)),
    "ask_when": (tuple, list),
    "question": (str,),
    "blanket_allowed": (bool,),
    "destructive": (bool,),
    "idempotent": (bool,),
    "safe": (bool, type(None)),
    "hint": (str,),
    "cost": (str, type(None)),
    "rate_limit": (RateLimit, str, tuple, Mapping, type(None)),
    "requirements": (Requirements,),
    "scopes": (tuple, list),
    "timeout_s": (int, float, type(None)),
    "long": (bool,),
    "keep_s": (int, float, type(None)),
    "inline": (bool,),
    "deprecated": (bool,),
    "output_name": (str,),
    "result": (str, Mapping),
    "next": (tuple, list),
    "hints": (Mapping,),
}
_AS_GIVEN = (
    "blanket_allowed",
    "destructive",
    "idempotent",
    "hint",
    "requirements",
    "deprecated",
    "output_name",
)


MAX_KEEP_S = 30 * 86_400
"""The longest time that the result of a long call is kept, in seconds: 30 days."""

_FOREIGN = {"annotations": " Write approval='auto' for readOnlyHint, destructive and idempotent for other hints."}

_SCOPE = re.compile(r"[!#-\[\]-~]{1,200}")  # what OAuth allows in one: RFC 6749, 3.3


def read_options(options: Options, where: str) -> dict[str, Any]:
    """Return the keyword arguments for ``Tool`` from ``options``, without name, description and inline.

    Raises:
        DefinitionError: an option does not exist, or its value cannot be.
    """
    given = dict(options)
    for key, value in given.items():
        if key not in _TYPES:
            near = find_nearest(key, _TYPES)
            hint = _FOREIGN.get(key) or (f" Did you mean {near!r}?" if near else "")
            raise DefinitionError(f"{where} has no option {key!r}.{hint} Options: {', '.join(_TYPES)}.")
        if not isinstance(value, _TYPES[key]) or (isinstance(value, bool) and bool not in _TYPES[key]):
            kinds = " or ".join(kind.__name__ for kind in _TYPES[key] if kind is not type(None))
            raise DefinitionError(f"{where}: the option {key!r} must be {kinds}, not {value!r}.")
    facts: dict[str, Any] = {key: given[key] for key in _AS_GIVEN if key in given}
    facts["approval"] = approval = _read_approval(options.get("approval"), where)
    facts["ask_when"] = read_ask_when(options.get("ask_when", ()), where)
    facts["question"] = _read_question(options.get("question", ""), where)
    facts["safe"] = _read_safe(options, approval, where)
    facts["cost"] = _read_cost(options.get("cost"), where)
    facts["rate_limit"] = _read_rate_limit(options.get("rate_limit"), where)
    facts["hints"] = _add_display_hints(options, where)
    facts["scopes"] = _read_scopes(options.get("scopes", ()), where)
    facts["timeout_s"] = _read_timeout(options.get("timeout_s"), where)
    facts["long"] = options.get("long", False) or (facts["timeout_s"] or 0.0) > LONG_AFTER_S
    facts["keep_s"] = _read_keep_s(options.get("keep_s"), where)
    if not facts.get("output_name", "result"):
        raise DefinitionError(f"{where}: the option 'output_name' is empty. Leave it out to name the result 'result'.")
    return facts


_FORMS = ("text", "card", "list", "table", "json", "image", "link", "none")
_POINTERS = ("title", "subtitle", "body", "image", "url")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*", re.DOTALL)


def _add_display_hints(options: Options, where: str) -> Mapping[str, Any]:
    """Return the hints with ``result`` and ``next`` in the words of x-llm."""
    # SE-10
    hints = options.get("hints", {})
    added: dict[str, Json] = {}
    if "result" in options:
        added["result"] = _read_result(options["result"], where)
    if "next" in options:
        added["next"] = [_read_next(one, where) for one in options["next"]]
    return {**hints, "x-llm": {**hints.get("x-llm", {}), **added}} if added else hints


def _read_result(given: str | Mapping[str, Json], where: str) -> dict[str, Json]:
    result: dict[str, Json] = {"render": given} if isinstance(given, str) else dict(given)
    if result.get("render", "text") not in _FORMS:
        raise DefinitionError(f"{where}: unknown result form {result['render']!r}. Forms: {', '.join(_FORMS)}.")
    fields = result.get("fields", [])
    pointers = [
        *(result[name] for name in _POINTERS if name in result),
        *(fields if isinstance(fields, list) else [None]),
    ]
    for one in pointers:
        if not isinstance(one, str) or _POINTER.fullmatch(one) is None:
            raise DefinitionError(
                f"{where}: {one!r} in result is not valid. Write a JSON Pointer into the result, such as '/name'."
            )
    known = (*_POINTERS, "render", "fields", "maxItems")
    odd = next((name for name in result if name not in known), None)
    if odd is not None:
        raise DefinitionError(f"{where}: unknown member {odd!r} in result. Members: {', '.join(known)}.")
    return result


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


def _read_next(given: str | Mapping[str, Json], where: str) -> dict[str, Json]:
    step: dict[str, Json] = {"tool": given} if isinstance(given, str) else dict(given) if _is_object(given) else {}
    name = step.pop("tool", step.get("operationId"))
    args = step.get("args", {})
    is_known = step.keys() <= {"operationId", "when", "args"} and isinstance(step.get("when", ""), str)
    if not (isinstance(name, str) and name and is_known and isinstance(args, Mapping)):
        raise DefinitionError(f"{where}: {given!r} in next is not valid. Write a tool's name, or tool, when and args.")
    if not all(isinstance(text, str) for text in args.values()):
        raise DefinitionError(f"{where}: the args of next must be runtime expressions, such as '$response.body#/id'.")
    return {"operationId": name, **{key: value for key, value in step.items() if key != "operationId"}}


def read_version(version: str, where: str) -> str:
    """Return ``version`` if it is a semantic version, such as ``1.0.0`` or ``1.0.0-beta.1``.

    Raises:
        DefinitionError: it does not.
    """
    # OTC-005, SE-01
    if VERSION.fullmatch(version) is None:
        raise DefinitionError(
            f"{where}: invalid version {version!r}. Write a semantic version, such as 1.0.0 or 1.0.0-beta.1."
        )
    return version


def _read_approval(approval: str | None, where: str) -> Approval | None:
    if approval is None:
        return None
    if approval in (Approval.AUTO, Approval.PER_CALL):
        return Approval(approval)
    raise DefinitionError(f'{where}: approval must be "auto" or "per-call", not {str(approval)!r}.')


def _read_safe(options: Options, approval: Approval | None, where: str) -> bool:
    safe, destructive = options.get("safe"), options.get("destructive", False)
    if safe and destructive:
        raise DefinitionError(f"{where} cannot be both safe and destructive. A safe tool is read-only.")
    reads = approval is Approval.AUTO and not destructive and not options.get("ask_when")
    return reads if safe is None else safe


def _read_question(text: str, where: str) -> str:
    if len(text) > MAX_QUESTION:
        raise DefinitionError(
            f"{where}: the question has {len(text):,} characters, but at most {MAX_QUESTION} are allowed."
        )
    return text


def _read_cost(cost: str | None, where: str) -> Cost | None:
    if cost is None:
        return None
    if cost in tuple(Cost):
        return Cost(cost)
    raise DefinitionError(f'{where}: cost must be "free", "credits" or "paid", not {cost!r}.')


def _read_rate_limit(
    limit: RateLimit | str | tuple[int, str] | Mapping[str, Any] | None, where: str
) -> RateLimit | None:
    if limit is None or isinstance(limit, RateLimit):
        return limit
    try:
        if isinstance(limit, str):
            return RateLimit.parse(limit)
        if isinstance(limit, Mapping):
            return RateLimit(**limit)
        most, window = limit
        return RateLimit(max=most, window=window)
    except ValueError as error:
        raise DefinitionError(f"{where}: {error}.") from None
    except TypeError:
        raise DefinitionError(f'{where}: a rate limit must be "60/1m" or (60, "1m"), not {limit!r}.') from None


def _read_scopes(scopes: Sequence[Any], where: str) -> tuple[str, ...]:
    for scope in scopes:
        if not isinstance(scope, str) or _SCOPE.fullmatch(scope) is None:
            raise DefinitionError(
                f'{where}: a scope must be a word without spaces, such as "mail.read", not {scope!r}.'
            )
    return tuple(dict.fromkeys(scopes))


def _read_keep_s(keep_s: float | None, where: str) -> float | None:
    if keep_s is None or 0 < keep_s <= MAX_KEEP_S:
        return keep_s
    raise DefinitionError(
        f"{where}: keep_s must be a number of seconds above 0 and up to {MAX_KEEP_S:,}, not {keep_s!r}."
    )


def _read_timeout(timeout_s: float | None, where: str) -> float | None:
    if timeout_s is None or (timeout_s > 0 and isfinite(timeout_s)):
        return timeout_s
    raise DefinitionError(f"{where}: timeout_s must be a number of seconds above 0, not {timeout_s!r}.")
