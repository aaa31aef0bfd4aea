"""Translate the next steps of a call, from Link Objects and ``x-llm.next``, into names of tools and arguments.

Rules:
- A step refers to an operation by operationId or by pointer.
- Names of parameters and properties become names of arguments, in the filled arguments and in expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from toolwire.core.json_pointer import MISSING, escape_step, unescape_step
from toolwire.core.model import Json
from toolwire.protocols.openapi.document.consent_policy import get_extension

from .input_schema import OperationArguments

_PLACES = ("path", "query", "header", "cookie")
_BODY = "$request.body"


class Target(NamedTuple):
    """A tool of the document: its name, and its arguments."""

    name: str
    taken: OperationArguments


def read_steps(operation: dict[str, Any], links: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the steps that an operation names, as the document has them."""
    policy = get_extension(operation)
    declared = policy.get("next") if isinstance(policy, dict) else None
    yield from (one for one in (declared if isinstance(declared, list) else ()) if isinstance(one, dict))
    for link in links:
        parameters = link.get("parameters")
        yield {**link, "args": parameters if isinstance(parameters, dict) else {}}


def get_reference(step: Mapping[str, Any]) -> str:
    """Return what ``step`` names an operation by: its operationId, or a pointer such as ``/paths/~1x/get``."""
    id_, pointer = step.get("operationId"), step.get("operationRef")
    if isinstance(id_, str):
        return id_
    # operationRef is a URL, whose fragment is percent-encoded.
    return unquote(pointer[1:]) if isinstance(pointer, str) and pointer.startswith("#/") else ""


def translate_step(step: Mapping[str, Any], own: OperationArguments, target: Target | None) -> dict[str, Json] | None:
    """Return ``step`` with the names of tools and arguments instead of those of the document.

    Without a ``target`` its names stay as in the document: it may be a tool of another connection to the same site.
    Returns None if the step has no operationId either.
    """
    declared = step.get("args")
    filled = declared if isinstance(declared, dict) else {}
    name = target.name if target is not None else step.get("operationId")
    if not isinstance(name, str):
        return None
    if target is not None:
        filled = fill_arguments(target.taken, filled, step.get("requestBody", MISSING))
    data: dict[str, Json] = {"operationId": name}
    if isinstance(step.get("when"), str):
        data["when"] = step["when"]
    if filled:
        data["args"] = {argument: _translate_expression(value, own) for argument, value in filled.items()}
    return data


def fill_arguments(taken: OperationArguments, parameters: Mapping[str, Json], body: Json) -> dict[str, Json]:
    """Return the arguments of a tool that ``parameters`` (by name or ``place.name``) and ``body`` fill, by name."""
    filled = dict(_translate_parameters(parameters, taken))
    return filled if body is MISSING else filled | _translate_body(body, taken)


def _translate_parameters(declared: Mapping[str, Json], taken: OperationArguments) -> Iterator[tuple[str, Json]]:
    by_place = {(one.place.value, one.name): argument for argument, one in taken.parameters}
    # A parameter wins over a body property of the same name, as in a Link Object the name alone means a parameter.
    by_name = {name: argument for argument, name in taken.properties} | {
        one.name: argument for argument, one in reversed(taken.parameters)
    }
    arguments = {argument for argument, _ in (*taken.parameters, *taken.properties)} | {taken.whole_body}
    for name, value in declared.items():
        place, _, rest = name.partition(".")
        argument = by_place.get((place, rest)) or by_name.get(name) or (name if name in arguments else None)
        if argument is not None:
            yield argument, value


def _translate_body(value: Json, taken: OperationArguments) -> dict[str, Json]:
    if taken.whole_body is not None:
        return {taken.whole_body: value}
    named = {name: argument for argument, name in taken.properties}
    return {named[key]: one for key, one in value.items() if key in named} if isinstance(value, dict) else {}


def _translate_expression(value: Json, own: OperationArguments) -> Json:
    """Return a runtime expression with the argument names of the previous call; other values unchanged."""
    if not isinstance(value, str) or not value.startswith("$request."):
        return value
    if value.partition("#")[0] == _BODY:
        return f"{_BODY}#{_translate_pointer(value.partition('#')[2], own)}"
    place, _, name = value.removeprefix("$request.").partition(".")
    # RFC 9110, 5.1: names of header fields have no case.
    for argument, one in own.parameters if place in _PLACES else ():
        if one.place.value == place and (one.name == name or (place == "header" and one.name.lower() == name.lower())):
            return f"$request.{place}.{argument}"
    return value


def _translate_pointer(pointer: str, own: OperationArguments) -> str:
    if own.whole_body is not None:
        return f"/{escape_step(own.whole_body)}{pointer}"
    first, slash, rest = pointer.removeprefix("/").partition("/")
    name = unescape_step(first)
    # Only the first step of the pointer is a property of the body, and so perhaps renamed; the rest is data.
    argument = next((argument for argument, one in own.properties if one == name), name)
    return f"/{escape_step(argument)}{slash}{rest}" if pointer else pointer
