"""Check arguments against a tool's input schema, compiled once, and name each argument that does not fit.

Rules:
- A reference to another document is never followed.
- Patterns run on an engine with a backtracking limit.
- An argument that the schema does not declare is refused, where the schema does not ask for more.
- The work of a check is limited in advance, because the validator cannot be interrupted.
"""
# D-18, D-15: the rules above.

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NoReturn, TypeAlias

import jsonschema_rs

from toolwire.core.check import ALLOW, Check, Deny, Verdict
from toolwire.core.model import Call, Json, Kind, Problem, Schema, Tool

from .cost import ORDINARY, SchemaCost
from .declared import find_declared_names, refuse_undeclared
from .error_text import cut_text, describe_error, describe_missing, write_path

Validator: TypeAlias = Callable[[Mapping[str, Json]], Problem | None]
"""Return what is wrong with the arguments of a call, or ``None``."""

_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=1_000)  # each step back may read the whole text again
_MAX_KNOWN = 20_000
_SHOWN_ERRORS = 20
_NEEDED = "is needed: "


def compile_schema(schema: Schema) -> Validator:
    """Return a validator for ``schema``.

    Raises:
        ValueError: ``schema`` is no JSON Schema, or refers to something outside itself.
    """
    fits, problem = _compile_judges(schema)

    def validate(arguments: Mapping[str, Json]) -> Problem | None:
        return None if fits(arguments) else problem(arguments)

    return validate


def find_schema_fault(schema: Schema) -> str:
    """Return why no arguments can be checked against ``schema``, so that its tool cannot be called; ``""`` if none."""
    try:
        _compile_judges(schema)
    except ValueError as error:
        return str(error)
    return ""


def build_arguments_check() -> Check:
    """Return a check that refuses a call whose arguments do not fit; each schema is compiled once."""
    # OXP-009
    known: dict[int, _CompiledTool] = {}

    def check(call: Call) -> Verdict:
        tool, arguments = call.tool, call.arguments
        _, declared, fits, problem = known.get(id(tool)) or compile_tool(tool)
        if (declared is None or arguments.keys() <= declared) and fits(arguments):
            return ALLOW
        refused = refuse_undeclared(tool.name, arguments, declared)
        if refused is None or declared is None:
            return Deny(problem(arguments))
        known_arguments = {name: value for name, value in arguments.items() if name in declared}
        return Deny(refused if fits(known_arguments) else _combine_problems(refused, problem(known_arguments)))

    def compile_tool(tool: Tool) -> _CompiledTool:
        if len(known) >= _MAX_KNOWN:  # a catalog that changes often leaves old tools behind
            known.clear()
        found = known[id(tool)] = (tool, find_declared_names(tool.input_schema), *_compile_tool_judges(tool))
        return found

    return check


_IsValid: TypeAlias = Callable[[Mapping[str, Json]], bool]
_DescribeFault: TypeAlias = Callable[[Mapping[str, Json]], Problem]
_CompiledTool: TypeAlias = tuple[Tool, frozenset[str] | None, _IsValid, _DescribeFault]
"""A tool, held so that no other gets its identity; the names of its arguments; whether arguments fit it; and what is
wrong where they do not."""


def _compile_judges(schema: Schema) -> tuple[_IsValid, _DescribeFault]:
    """Return whether arguments fit ``schema``, and what is wrong where they do not.

    Raises:
        ValueError: as ``compile_schema``.
    """
    try:
        cost = SchemaCost(schema)
        compiled = jsonschema_rs.Draft202012Validator(
            cost.remove_circles(schema), retriever=_refuse_reference, validate_formats=False, pattern_options=_PATTERNS
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise ValueError(f"this input schema cannot be used: {cut_text(str(error).partition(chr(10))[0])}") from error

    def wrong(arguments: Mapping[str, Json]) -> Problem:
        if cost.allows_errors(arguments):
            return _build_problem(compiled.iter_errors(arguments), schema)
        if cost.units_per_part > ORDINARY and not cost.allows(arguments):
            return _TOO_COSTLY
        return _UNEXPLAINED if cost.has_choices else _build_problem(_find_first_error(compiled, arguments), schema)

    if cost.units_per_part <= ORDINARY:
        return compiled.is_valid, wrong
    return (lambda arguments: cost.allows(arguments) and compiled.is_valid(arguments)), wrong


def _compile_tool_judges(tool: Tool) -> tuple[_IsValid, _DescribeFault]:
    try:
        return _compile_judges(tool.input_schema)
    except ValueError as error:
        unusable = Problem(kind=Kind.INVALID_ARGUMENTS, message=f"{tool.name} cannot be called: {error}.")
        return (lambda _: False), (lambda _: unusable)


def _find_first_error(compiled: jsonschema_rs.Draft202012Validator, arguments: Mapping[str, Json]) -> list[Any]:
    """Return one error, found without looking for the others."""
    try:
        compiled.validate(arguments)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []  # pragma: no cover - it is only asked where something is wrong


_TOO_COSTLY: Final = Problem(
    kind=Kind.INVALID_ARGUMENTS,
    message="The arguments were not checked, because this tool's schema takes too much work. Send smaller arguments.",
)
_UNEXPLAINED: Final = Problem(
    kind=Kind.INVALID_ARGUMENTS,
    message="The arguments do not match the tool's schema, and are too large to say where. Try smaller ones.",
)


def _combine_problems(refused: Problem, unfit: Problem) -> Problem:
    """Return one Problem of arguments that a tool does not take and of others that do not fit it."""
    others = {name: text for name, text in unfit.parameter_errors.items() if name not in refused.parameter_errors}
    if not others and unfit.parameter_errors:
        return refused
    errors = {**refused.parameter_errors, **others}
    return replace(refused, message=f"{refused.message} {unfit.message}", parameter_errors=errors)


def _build_problem(errors: Any, schema: Schema) -> Problem:
    found: dict[str, dict[str, None]] = {}
    for error in islice(errors, _SHOWN_ERRORS):
        for name, text in _locate_error(error, schema):
            found.setdefault(name, {})[text] = None
    by_name = {name: " and ".join(text.rstrip(".") for text in texts) for name, texts in found.items()}
    sentence = "; ".join(_join_name(name, text) for name, text in by_name.items())
    by_name.pop("", None)  # what is wrong with all of them together is no parameter's
    return Problem(
        kind=Kind.INVALID_ARGUMENTS,
        message=f"Invalid arguments: {sentence.rstrip('.')}.",
        parameter_errors=by_name,
    )


def _join_name(name: str, text: str) -> str:
    if not name:
        return text
    return f"{name} {text}" if text.startswith(_NEEDED) else f"{name}: {text}"


def _locate_error(error: Any, schema: Schema) -> list[tuple[str, str]]:
    path = list(error.instance_path)
    if not path and error.kind.name == "required":
        return [(str(error.kind.property), describe_missing(error, schema))]
    if not path and error.kind.name == "additionalProperties":
        return [(cut_text(str(name)), "is not a parameter") for name in error.kind.unexpected[:_SHOWN_ERRORS]]
    name = str(path[0]) if path else ""
    text = describe_error(error, schema)
    return [(name, f"{write_path(path[1:]).lstrip('.')} {text}".strip())]


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"the reference {cut_text(uri)!r} points outside the document")
