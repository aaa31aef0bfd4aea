"""Build the arguments of an operation: one input schema of its parameters and body, and the place of each argument.

A default is part of the schema, but is never sent without an argument.
"""
# CV-32

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from toolwire.core.model import Json
from toolwire.protocols.openapi.document.references import References
from toolwire.protocols.openapi.request.plan import PLAIN, Encoding, Parameter
from toolwire.protocols.openapi.schema.converter import SchemaConverter

from . import body_arguments
from .body_arguments import BODY, Body, BodyKind, BodyProperties, Kind
from .declared_examples import add_examples, list_examples
from .naming import choose_argument_names
from .parameter_arguments import DeclaredParameter

_MAX_PAIRS = 3
"""The most arguments for which the schema lists the arguments that each depends on."""

_NEEDED_WITH_A_BODY = "Required if any argument of the body is given."
_MAX_EXAMPLES = 2_000
"""How many values in the examples of a body are examined."""


class OperationArguments(NamedTuple):
    """The arguments of an operation: their schema, and the parameter or body property of each.

    ``properties`` maps arguments to properties of the body; with ``takes_more``, an argument with any other name is a
    property too.
    """

    schema: dict[str, Json]
    parameters: tuple[tuple[str, Parameter], ...]
    properties: tuple[tuple[str, str], ...]
    whole_body: str | None
    encodings: dict[str, Encoding]
    takes_more: bool = False


class _Argument(NamedTuple):
    place: str
    name: str
    schema: Json
    required: bool
    description: Json = None
    examples: Sequence[Json] = ()


def build_arguments(
    references: References,
    schemas: SchemaConverter,
    declared: Sequence[DeclaredParameter],
    payload: Body | None,
    where: str,
) -> OperationArguments:
    """Return the arguments of an operation, with unique names for models."""
    # CV-16, CV-23
    apart = (
        body_arguments.list_properties(references, payload.schema)
        if payload is not None and payload.sort <= BodyKind.MULTIPART
        else None
    )
    arguments = [
        _Argument(p.place, p.name, schema, required, description, examples)
        for p, schema, required, description, examples in declared
    ]
    body_examples = [] if payload is None else list_examples(references, payload.media)
    encodings: dict[str, Encoding] = {}
    if payload is not None and payload.sort in (BodyKind.FORM, BodyKind.MULTIPART):
        known = apart[0] if apart is not None else body_arguments.list_named_properties(references, payload.schema)
        encodings = body_arguments.read_encodings(references, payload, known)
    arguments += _list_body_arguments(references, schemas, payload, apart, encodings, body_examples)
    names = choose_argument_names((one.place, one.name) for one in arguments)
    in_body = [one for one in arguments if one.place == BODY]
    whole = names[BODY, BODY] if payload is not None and apart is None else None
    # O-31: what the document leaves open can be given, at the root as in the depths.
    more = payload is not None and apart is not None and body_arguments.allows_others(references, payload.schema)
    explicit = more and payload is not None and body_arguments.declares_others(references, payload.schema)
    # With an optional body, keywords of the schema say which arguments need each other.
    words = _write_dependencies(payload, apart, arguments, names)
    if apart is not None and (conditions := _write_kinds(apart.kinds, names)):
        words["allOf"] = conditions
    # What the document's own examples use is cut last from a large schema.
    example_names = _list_example_names(body_examples)
    return OperationArguments(
        schema=_build_schema(
            schemas, arguments, names, where, words, example_names, closed=not more, explicit=explicit
        ),
        parameters=tuple((names[one.parameter.place, one.parameter.name], one.parameter) for one in declared),
        properties=tuple((names[one.place, one.name], one.name) for one in in_body) if whole is None else (),
        whole_body=whole,
        encodings=encodings,
        takes_more=more,
    )


def _list_body_arguments(
    references: References,
    schemas: SchemaConverter,
    payload: Body | None,
    apart: BodyProperties | None,
    encodings: Mapping[str, Encoding],
    examples: Sequence[Json],
) -> list[_Argument]:
    if payload is None:
        return []
    if apart is None:
        return [_Argument(BODY, BODY, payload.schema, payload.required, None, examples)]
    properties, required, kinds = apart
    # In an optional body the required properties are required only if there is a body at all.
    needed = required if payload.required else ()
    return [
        _Argument(
            BODY,
            name,
            body_arguments.build_file_schema(references, schema, encodings.get(name, PLAIN)),
            name in needed,
            _describe_kinds(name, kinds) or (None if payload.required or name not in required else _NEEDED_WITH_A_BODY),
            [one[name] for one in examples if isinstance(one, dict) and name in one],
        )
        for name, schema in properties.items()
        if not schemas.is_hidden(schema)
    ]


def _describe_kinds(name: str, kinds: Sequence[Kind]) -> Json:
    """Return a sentence about a property that only some kinds of a body have, or None if all have it."""
    own = [kind for kind in kinds if name in kind.names]
    if len(own) == len(kinds) or not own:
        return None
    values = " or ".join(f"`{value}`" for kind in own for value in kind.values)
    return f"Only where `{own[0].tag}` is {values}."


def _write_kinds(kinds: Sequence[Kind], names: dict[tuple[str, str], str]) -> list[Json]:
    """Return a condition for each kind of a body that requires something: its value of the tag, and the names."""
    # O-23
    conditions: list[Json] = []
    for kind in kinds:
        needed = [names[BODY, name] for name in kind.required if (BODY, name) in names]
        tag = names.get((BODY, kind.tag))
        if tag is None or not kind.values or not (needed := [name for name in needed if name != tag]):
            continue
        condition: dict[str, Json] = {"properties": {tag: {"enum": list(kind.values)}}, "required": [tag]}
        conditions.append({"if": condition, "then": {"required": list(needed)}})
    return conditions


def _write_dependencies(
    payload: Body | None,
    apart: BodyProperties | None,
    arguments: Sequence[_Argument],
    names: dict[tuple[str, str], str],
) -> dict[str, Json]:
    """Return keywords that require the required properties of an optional body if any property is given.

    For many arguments it is one condition: any of those of the body means that there is a body.
    """
    # XL-086
    if payload is None or payload.required or apart is None:
        return {}
    given = [names[one.place, one.name] for one in arguments if one.place == BODY]
    needed = [names[one.place, one.name] for one in arguments if one.place == BODY and one.name in apart[1]]
    pairs = {name: [other for other in needed if other != name] for name in given}
    pairs = {name: others for name, others in pairs.items() if others}
    if len(pairs) <= _MAX_PAIRS:
        return {"dependentRequired": pairs} if pairs else {}
    # O-29: the arguments of the body alone make the condition, not how many there are with the parameters.
    if len(given) == len(arguments):
        return {"if": {"minProperties": 1}, "then": {"required": needed}}
    return {"if": {"anyOf": [{"required": [name]} for name in given]}, "then": {"required": needed}}


def _list_example_names(examples: Iterable[Json]) -> frozenset[str]:
    """Return the names of all properties in the examples of a body, at any depth."""
    found: set[str] = set()
    waiting = deque(examples)
    # Breadth first, so that of a huge example the names nearest to the top are found.
    for _ in range(_MAX_EXAMPLES):
        if not waiting:
            break
        one = waiting.popleft()
        if isinstance(one, dict):
            found.update(name for name in one if isinstance(name, str))
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return frozenset(found)


def _build_schema(
    schemas: SchemaConverter,
    arguments: Sequence[_Argument],
    names: dict[tuple[str, str], str],
    where: str,
    words: dict[str, Json],
    example_names: frozenset[str],
    *,
    closed: bool,
    explicit: bool,
) -> dict[str, Json]:
    """Return the input schema of ``arguments``; a schema without description gets that of its parameter.

    It is ``closed``, or says that it takes further arguments if the document is ``explicit`` about them.
    """
    properties: dict[str, Json] = {}
    required: list[str] = []
    used: set[str] = set()
    for one in arguments:
        schema, references = schemas.read(one.schema, where)
        used |= references
        if one.place == BODY:
            schema = schemas.accept_removal(schema)
        name = names[one.place, one.name]
        if one.description is _NEEDED_WITH_A_BODY and isinstance(schema.get("description"), str):
            schema = {**schema, "description": f"{schema['description']} {_NEEDED_WITH_A_BODY}"}
        elif isinstance(one.description, str) and one.description and "description" not in schema:
            schema = {**schema, "description": schemas.clean_text(one.description)}
        # The argument was renamed for models; the title keeps the name that the vendor's documentation uses.
        if name != one.name and "title" not in schema:
            schema = {**schema, "title": schemas.clean_text(one.name[:100])}
        properties[name] = schema
        if one.required:
            required.append(name)
    whole: dict[str, Json] = {"type": "object", "properties": properties}
    if required:
        whole["required"] = required
    if closed or explicit:
        whole["additionalProperties"] = explicit  # I-28
    built = schemas.add_definitions({**whole, **words}, used, where, example_names)
    shown = {names[one.place, one.name]: one.examples for one in arguments if one.examples}
    return add_examples(built, shown, schemas.count_room(built)) if shown else built
