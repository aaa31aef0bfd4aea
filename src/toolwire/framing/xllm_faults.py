"""Find everything in an ``x-llm`` object or an llm.json that breaks the specification.

Rules:
- An error is what the reader takes in its strictest meaning, and what the published schema refuses.
- A warning is something that is read, but should be corrected.
"""
# XL-143: the rules above.

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from toolwire.core.condition import MAX_CONDITIONS, MAX_QUESTION, find_condition_fault
from toolwire.core.json_pointer import PathStep
from toolwire.core.model import Cost, Json, RateLimit

from .jsontext import describe_type
from .report import Severity


class XllmFault(NamedTuple):
    """One fault: the way to it, how bad, which requirement, and what is wrong."""

    path: tuple[PathStep, ...]
    severity: Severity
    rule: str
    message: str

    def prefix_path(self, *steps: PathStep) -> XllmFault:
        """Return the same fault, found in what stands at ``steps``."""
        return self._replace(path=(*steps, *self.path))


Rule: TypeAlias = Callable[[Json], Iterator[XllmFault]]

VERSION: Final = re.compile(r"\d{1,6}\.\d{1,6}", re.ASCII)
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)*", re.DOTALL)
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORMS: Final = ("text", "card", "list", "table", "json", "image", "link", "none")
_SPOTS: Final = ("title", "subtitle", "body", "image", "url")


def check_operation(data: Json) -> list[XllmFault]:
    """Return what is wrong with the ``x-llm`` of an operation."""
    # XL-031, XL-035, XL-036
    if isinstance(data, bool):
        return []
    if not isinstance(data, dict):
        return [
            _build_error(
                "XL-036",
                f"x-llm must be an object or a boolean, not {describe_type(data)}. The operation is hidden.",
            )
        ]
    return [*_check_members(data, _OPERATION), *_check_unknown(data, _OPERATION)]


def check_root(data: Json) -> list[XllmFault]:
    """Return what is wrong with the ``x-llm`` at the root of a document."""
    # XL-025..028, XL-030
    if not isinstance(data, dict):
        return [
            _build_error("XL-030", f"x-llm at the root must be an object, not {describe_type(data)}. It is ignored.")
        ]
    missing = [
        _build_warning("XL-026", f"{name} is missing: {instead}.")
        for name, instead in (("version", '"0.1" is taken'), ("name", "info.title is taken"))
        if name not in data
    ]
    return [*missing, *_check_members(data, _ROOT), *_check_unknown(data, _ROOT)]


def check_llm_json(data: Json) -> list[XllmFault]:
    """Return what is wrong with an llm.json."""
    # XL-020, XL-021
    if not isinstance(data, dict):
        return [_build_error("XL-020", f"llm.json must be an object, not {describe_type(data)}.")]
    if "openapi" not in data:
        return [
            _build_error("XL-020", "openapi is missing: say where the OpenAPI document is."),
            *_check_members(data, _LLM),
        ]
    return [*_check_members(data, _LLM), *_check_unknown(data, _LLM)]


def _check_members(data: Mapping[str, Json], rules: Mapping[str, Rule]) -> Iterator[XllmFault]:
    for name, rule in rules.items():
        if name in data:
            yield from (found.prefix_path(name) for found in rule(data[name]))


def _check_unknown(data: Mapping[str, Json], rules: Mapping[str, Rule]) -> Iterator[XllmFault]:
    for name in data:
        if name not in rules and not name.startswith("x-"):
            text = f"{name[:100]} is not a known member. The name of your own member must begin with x-."
            yield _build_warning("XL-037", text).prefix_path(name)


def _build_flag_rule(fallback: str) -> Rule:
    def rule(data: Json) -> Iterator[XllmFault]:
        if not isinstance(data, bool):
            yield _build_error("XL-035", f"This must be true or false, not {describe_type(data)}: {fallback}.")

    return rule


def _build_choice_rule(*words: str, fallback: str) -> Rule:
    def rule(data: Json) -> Iterator[XllmFault]:
        if not isinstance(data, str) or data not in words:
            yield _build_error("XL-035", f"This must be one of {', '.join(words)}: {fallback}.")

    return rule


def _build_text_rule(what: str, rule_id: str, *, empty: bool = True) -> Rule:
    def rule(data: Json) -> Iterator[XllmFault]:
        if not isinstance(data, str):
            yield _build_error(rule_id, f"{what} must be a string, not {describe_type(data)}.")
        elif not data and not empty:
            yield _build_error(rule_id, f"{what} must be a string that is not empty.")

    return rule


def _check_hint(data: Json) -> Iterator[XllmFault]:
    yield from _build_text_rule("a hint", "XL-035")(data)
    if data == "":
        yield _build_warning("XL-071", "The hint is empty. Say when to use the operation, or remove the hint.")
    elif isinstance(data, str) and len(data) > 1_024:
        yield _build_warning("XL-071", f"The hint has {len(data):,} characters, but models see only 1,024.")


def _check_conditions(data: Json) -> Iterator[XllmFault]:
    if not isinstance(data, list) or len(data) > MAX_CONDITIONS:
        what = f"{len(data)} conditions" if isinstance(data, list) else describe_type(data)
        text = (
            f"This must be a list of at most {MAX_CONDITIONS} conditions, not {what}. Until then, each call "
            "asks for consent."
        )
        yield _build_error("CC-01", text)
        return
    for number, one in enumerate(data):
        fault = find_condition_fault(one)
        if fault:
            yield _build_error("CC-01", f"{fault} Until then, each call asks for consent.").prefix_path(number)


def _check_question(data: Json) -> Iterator[XllmFault]:
    if not isinstance(data, str) or not 1 <= len(data) <= MAX_QUESTION:
        yield _build_error(
            "CC-02", f"A question must be a string of 1 to {MAX_QUESTION} characters. This one is not shown."
        )


def _check_limit(data: Json) -> Iterator[XllmFault]:
    if isinstance(data, dict):
        yield from _check_members(data, {"max": _check_count, "window": _check_window})
        missing = [name for name in ("max", "window") if name not in data]
        if missing:
            yield _build_error(
                "XL-060", f'The limit lacks {" and ".join(missing)}. Write it like {{max: 30, window: "1m"}}.'
            )
        yield from _check_unknown(data, {"max": _check_count, "window": _check_window})
    elif any(True for _ in _check_count(data)):
        yield _build_error("XL-060", 'This is not a valid limit. Write it like {max: 30, window: "1m"}.')
    else:
        yield _build_warning("XL-061", "A number alone counts as calls per minute. Write {max: ..., window: ...}.")


def _check_count(data: Json) -> Iterator[XllmFault]:
    whole = isinstance(data, int | float) and not isinstance(data, bool) and data == data // 1
    if not whole or not 1 <= data <= 1_000_000:
        yield _build_error("XL-060", "This must be an integer from 1 to 1,000,000.")


def _check_window(data: Json) -> Iterator[XllmFault]:
    try:
        if isinstance(data, str):
            RateLimit(max=1, window=data)
            return
    except ValueError:
        pass
    yield _build_error("XL-060", 'This must be like "30s" or "1m", from 100ms to 30d.')


def _check_version(data: Json) -> Iterator[XllmFault]:
    if isinstance(data, float) and data == 0.1:
        yield _build_warning("XL-028", 'This is a number. Write "0.1", in quotes.')
    elif not isinstance(data, str) or VERSION.fullmatch(data) is None:
        yield _build_error("XL-028", 'This is not a valid version. Write "0.1", in quotes.')
    elif data.partition(".")[0].strip("0"):
        yield _build_error(
            "XL-028", f"Version {data} belongs to a later major version, so no tools of the document are offered."
        )
    elif data != "0.1":
        yield _build_warning(
            "XL-028",
            (f"Version {data} is not 0.1. Calls cannot be always allowed, and only reads run without a question."),
        )


def _check_pointer(data: Json) -> Iterator[XllmFault]:
    if not isinstance(data, str) or _POINTER.fullmatch(data) is None:
        yield _build_error("XL-074", 'This is not a valid JSON Pointer, such as "/items/0/name".')


def _check_fields(data: Json) -> Iterator[XllmFault]:
    if not isinstance(data, list):
        yield _build_error("XL-074", f"This must be a list of JSON Pointers, not {describe_type(data)}.")
        return
    for number, one in enumerate(data):
        yield from (found.prefix_path(number) for found in _check_pointer(one))


def _check_most(data: Json) -> Iterator[XllmFault]:
    whole = isinstance(data, int | float) and not isinstance(data, bool) and data == data // 1
    if not whole or data < 1:
        yield _build_error("XL-074", "This must be an integer of at least 1.")


def _check_result(data: Json) -> Iterator[XllmFault]:
    if not isinstance(data, dict):
        yield _build_error("XL-074", f"This must be an object, not {describe_type(data)}.")
        return
    rules: dict[str, Rule] = {
        "render": _build_choice_rule(*_FORMS, fallback="the result is shown as text"),
        **dict.fromkeys(_SPOTS, _check_pointer),
        "fields": _check_fields,
        "maxItems": _check_most,
    }
    yield from (*_check_members(data, rules), *_check_unknown(data, rules))


def _check_next(data: Json) -> Iterator[XllmFault]:
    if not isinstance(data, list):
        yield _build_error("XL-075", f"This must be a list, not {describe_type(data)}.")
        return
    for number, one in enumerate(data):
        yield from (found.prefix_path(number) for found in _check_step(one))


def _check_step(data: Json) -> Iterator[XllmFault]:
    if not isinstance(data, dict) or "operationId" not in data:
        yield _build_error("XL-075", "This must be an object with the operationId of the next operation.")
    if isinstance(data, dict):
        rules: dict[str, Rule] = {
            "operationId": _build_text_rule("an operationId", "XL-075", empty=False),
            "when": _build_text_rule("when", "XL-075"),
            "args": _check_expressions,
        }
        yield from (*_check_members(data, rules), *_check_unknown(data, rules))


def _check_expressions(data: Json) -> Iterator[XllmFault]:
    if not isinstance(data, dict) or not all(isinstance(one, str) for one in data.values()):
        yield _build_error("XL-075", "This must be an object whose values are runtime expressions, as strings.")


def _check_header(data: Json) -> Iterator[XllmFault]:
    if not isinstance(data, str) or _HEADER.fullmatch(data) is None:
        yield _build_error("XL-077", "This must be a header name.")


def _check_auth(data: Json) -> Iterator[XllmFault]:
    plain = _build_text_rule("auth", "XL-021", empty=False)
    if not isinstance(data, dict):
        yield from plain(data)
        return
    if "type" not in data:
        yield _build_error("XL-021", "type is missing.")
    rules: dict[str, Rule] = {"type": plain, "authorization_server": plain, "resource_metadata": plain}
    yield from (*_check_members(data, rules), *_check_unknown(data, rules))


_APPROVAL = _build_choice_rule("auto", "per-call", fallback="each call is asked for, and none is always allowed")
_OPERATION: Final[Mapping[str, Rule]] = {
    "enabled": _build_flag_rule("the operation is hidden"),
    "approval": _APPROVAL,
    "approvalWhen": _check_conditions,
    "question": _check_question,
    "blanketApprovalAllowed": _build_flag_rule("it counts as false"),
    "destructive": _build_flag_rule("it counts as true"),
    "rateLimit": _check_limit,
    "hint": _check_hint,
    "costIndicator": _build_choice_rule(*Cost, fallback="it counts as paid"),
    "result": _check_result,
    "next": _check_next,
    "idempotent": _build_flag_rule("it counts as false"),
    "long": _build_flag_rule("it counts as false"),
    "idempotencyKey": _check_header,
    "readOnly": _build_flag_rule("the method decides"),
}
_ROOT: Final[Mapping[str, Rule]] = {
    "version": _check_version,
    "name": _build_text_rule("a name", "XL-026", empty=False),
    "description": _build_text_rule("a description", "XL-025"),
    "defaultApproval": _APPROVAL,
}
_LLM: Final[Mapping[str, Rule]] = {"openapi": _build_text_rule("openapi", "XL-020", empty=False), "auth": _check_auth}


def _build_error(rule: str, message: str) -> XllmFault:
    return XllmFault((), "error", rule, message)


def _build_warning(rule: str, message: str) -> XllmFault:
    return XllmFault((), "warning", rule, message)
