"""The arguments of a call as a person types them: ``key=value``, read as the tool's schema declares it.

Rules:
- Text stays text wherever the schema takes text; elsewhere a value is JSON if it can be, and else text.
- ``key:=value`` is JSON whatever the schema says. What does not fit in the end, the check of the call names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, Final

from toolwire.core.model import Json, Kind, Problem, Tool
from toolwire.framing import jsontext

_KINDS: Final[Mapping[type, str]] = {
    NoneType: "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_ANYTHING: Final = frozenset(_KINDS.values())
_CHOICES: Final = ("anyOf", "oneOf", "allOf")
_BRANCHES: Final = 100
_SHOWN: Final = 60


def read_values(pairs: Iterable[str], given: Mapping[str, Json], tool: Tool) -> dict[str, Json] | Problem:
    """Return the arguments of a call of ``tool``: ``given``, and over it what the ``pairs`` say.

    A key that stands more than once is a list. A key the tool does not declare is a Problem, for it would be
    dropped on the way.
    """
    texts: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.rstrip(":"):
            return _wrong(f"{pair[:_SHOWN]!r} is no argument: write key=value, or key:=JSON")
        if not _is_text(pair):
            return _wrong(f"{key!r} has bytes in it that are not UTF-8")
        texts.setdefault(key, []).append(text)
    arguments = dict(given)
    for key, said in texts.items():
        value = _exactly(key[:-1], said) if key.endswith(":") else _fitting(key, said, tool)
        if isinstance(value, Problem):
            return value
        arguments[key.removesuffix(":")] = value
    unknown = [key for key in arguments if key not in tool.parameters]
    if unknown and tool.parameters and not tool.input_schema.get("additionalProperties"):
        return _wrong(f"{tool.name} has no argument {unknown[0]!r}; it takes {', '.join(tool.parameters)}")
    if unknown and not tool.parameters and tool.input_schema.get("properties") is not None:
        return _wrong(f"{tool.name} takes no arguments, and {unknown[0]!r} was given")
    return arguments


def read_object(text: str) -> dict[str, Json] | Problem:
    """Return the JSON object that ``--args`` gives."""
    if not _is_text(text):
        return _wrong("--args is not UTF-8")
    data = jsontext.read(text.encode())
    if isinstance(data, Problem):
        return _wrong(f"--args: {data.message.removeprefix('The body ').rstrip('.')}")
    return data if isinstance(data, dict) else _wrong(f"--args is one JSON object, not {jsontext.kind_of(data)}")


def _exactly(key: str, texts: Sequence[str]) -> Json | Problem:
    values = [jsontext.read(text.encode()) for text in texts]
    if any(isinstance(value, Problem) for value in values):
        return _wrong(f"{key!r} is not JSON; {key}=... takes text")
    return values[0] if len(values) == 1 else values


def _fitting(key: str, texts: Sequence[str], tool: Tool) -> Json | Problem:
    root = tool.input_schema
    schema = tool.parameters.get(key, {})
    kinds = _kinds(schema, root)
    if len(texts) == 1:
        value = _typed(texts[0], kinds)
        if isinstance(value, list) or not kinds <= {"array", "null"} or (value is None and "null" in kinds):
            return value
    elif "array" not in kinds:
        return _wrong(f"{key!r} is given {len(texts)} times and takes one value")
    items = _kinds(_items(schema, root), root)
    return [_typed(text, items) for text in texts]


def _typed(text: str, kinds: frozenset[str]) -> Json:
    if "string" in kinds and kinds != _ANYTHING:
        return text
    value = jsontext.read(text.encode())
    return text if isinstance(value, Problem) else value


def _kinds(schema: Json, root: Mapping[str, Any]) -> frozenset[str]:
    """Return the JSON types that ``schema`` takes, as far as it says so; every type where it does not."""
    kinds: set[str] = set()
    for branch in _branches(schema, root):
        said = _said(branch)
        if not said and not any(word in branch for word in ("$ref", *_CHOICES)):
            return _ANYTHING
        kinds |= said
    return frozenset(kinds) or _ANYTHING


def _said(branch: Mapping[str, Any]) -> set[str]:
    match branch:
        case {"const": value}:
            return {_kind(value)}
        case {"enum": list() as values}:
            return {_kind(value) for value in values}
        case {"type": str() as kind}:
            return {kind}
        case {"type": list() as kinds}:
            return {kind for kind in kinds if isinstance(kind, str)}
        case _:
            return set()


def _items(schema: Json, root: Mapping[str, Any]) -> Json:
    """Return the schema of the items of the list that ``schema`` takes."""
    return next((branch["items"] for branch in _branches(schema, root) if "items" in branch), {})


def _branches(schema: Json, root: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return ``schema`` with what it refers to and chooses from, each once. A hostile schema is not followed far."""
    found: list[Mapping[str, Any]] = []
    waiting: list[Json] = [schema]
    while waiting and len(found) < _BRANCHES:
        branch = waiting.pop(0)
        if not isinstance(branch, Mapping) or any(branch is known for known in found):
            continue
        found.append(branch)
        if "$ref" in branch:
            waiting.append(_referred(branch["$ref"], root))
        for word in _CHOICES:
            choices = branch.get(word)
            waiting.extend(choices[:_BRANCHES] if isinstance(choices, list) else ())
    return found


def _referred(reference: Json, root: Mapping[str, Any]) -> Json:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return {}
    found: Json = root
    for part in reference[2:].split("/"):
        if not isinstance(found, Mapping):
            return {}
        found = found.get(part.replace("~1", "/").replace("~0", "~"), {})
    return found


def _kind(value: Json) -> str:
    return _KINDS.get(type(value), "object")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # what was no UTF-8 on the command line
        return False
    return True


def _wrong(text: str) -> Problem:
    return Problem(kind=Kind.INVALID_ARGUMENTS, message=f"{text}.")
