"""The arguments of one operation: its parameters and its body as one input schema, and the way back.

Rules:
- Path parameters hold for every operation of a path; the operation's own win, by place and name. [CV-07]
- Accept, Content-Type, Authorization and the fields the network owns are never arguments. [CV-04, D-12]
- A parameter that carries a credential of the document is not an argument either. [CV-10]
- A default is told, never sent by itself. [CV-32]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from toolwire.core.model import Json
from toolwire.framing import jsontext

from . import body
from .body import BODY, Body, Sort
from .naming import argument_names
from .parameters import STYLES
from .paths import variables
from .plan import Encoding, Parameter, Place
from .references import References, Unusable
from .schemas import Schemas
from .security import Security

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_RESERVED = frozenset(
    (
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "date",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "keep-alive",
        "origin",
        "referer",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
    )
)
_RESERVED_STARTS = ("proxy-", "sec-", "x-forwarded-", "mcp-")
_JSON_TYPES = re.compile(r"[a-z]+/(?:[^;+\s]+\+)?json", re.IGNORECASE)
_PLACES = {place.value: place for place in Place}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


Members: TypeAlias = tuple[dict[str, Json], tuple[str, ...]]
"""The properties of a body that is taken apart, and which of them it needs."""


class Declared(NamedTuple):
    """One parameter as the document declares it."""

    parameter: Parameter
    schema: Json
    required: bool
    description: Json = None


class _Known(NamedTuple):
    """A parameter that was read, and the findings of it that cost no tool; or why it cannot be."""

    declared: Declared | None
    notes: tuple[str, ...] = ()
    fault: str = ""


class Declaring:
    """Reads the parameters of operations. One that many operations have, by reference or word for word, is read once.

    Documents say the same few again and again: of Microsoft Graph's 27,000 there are 1,400 different ones.
    """

    def __init__(self, references: References, security: Security) -> None:
        self._references = references
        self._security = security
        self._known: dict[str | bytes, _Known] = {}

    def read(self, item: dict[str, Any], operation: dict[str, Any], path: str) -> tuple[list[Declared], list[str]]:
        """Return the parameters of ``operation`` that are arguments, and findings that cost no tool.

        A variable of the path that nobody declares is a text; a path parameter that the path has no place for goes.

        Raises:
            Unusable: a parameter cannot be read or written.
        """
        found: dict[tuple[Place, str], Declared] = {}
        notes: list[str] = []
        for nodes in (item.get("parameters"), operation.get("parameters")):
            for node in nodes if isinstance(nodes, list) else ():
                one = self._one(node, notes)
                if one is not None:
                    name, place = one.parameter.name, one.parameter.place
                    found[place, name.lower() if place is Place.HEADER else name] = one
        _fit(found, path, notes)
        if {Place.QUERY, Place.QUERYSTRING} <= {place for place, _ in found}:
            raise Unusable("it has parameters of the query and one that is the whole query")
        return list(found.values()), notes

    def _one(self, node: Json, notes: list[str]) -> Declared | None:
        reference = node.get("$ref") if type(node) is dict else None
        key = reference if type(reference) is str else jsontext.write(node)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._looked_at(node)
        if known.declared is None:
            raise Unusable(known.fault)
        notes.extend(known.notes)
        return self._taken(known.declared, notes)

    def _looked_at(self, node: Json) -> _Known:
        notes: list[str] = []
        try:
            return _Known(self._read(node, notes), tuple(notes))
        except Unusable as error:
            return _Known(None, fault=str(error))

    def _taken(self, one: Declared, notes: list[str]) -> Declared | None:
        place, name = one.parameter.place, one.parameter.name
        if place is Place.HEADER and _is_reserved(name.lower()):
            notes.append(f"the header {name[:100]} is the client's own and no argument")
        elif place is Place.PATH or not self._security.fills(place, name):
            return one
        else:
            notes.append(f"the parameter {name[:100]} carries a credential and is no argument")
        return None

    def _read(self, node: Json, notes: list[str]) -> Declared:
        declared = self._references.follow(node, "parameter")
        name, where = declared.get("name"), declared.get("in")
        place = _PLACES.get(where) if isinstance(where, str) else None
        if not isinstance(name, str) or not name or place is None:
            raise Unusable(f"it has a parameter in {str(where)[:50]!r} that is not read")
        if place in (Place.HEADER, Place.COOKIE) and not _TOKEN.fullmatch(name):
            raise Unusable(f"{name[:100]!r} cannot be the name of a {place.value}")
        required = declared.get("required") is True or place is Place.PATH
        content = declared.get("content")
        if isinstance(content, dict) and content:
            return self._with_content(Parameter(name, place, "content"), content, required, declared)
        if place is Place.QUERYSTRING:
            raise Unusable(f"its querystring {name[:100]} has no content")
        styles = STYLES[place]
        style = declared.get("style", styles[0])
        if style not in styles:
            style = styles[0]
            text = f"its {place.value} parameter {name[:100]} has a style that is not known there"
            notes.append(f"{text}, and is written as {style}")
        explode = declared.get("explode", style in ("form", "cookie"))
        parameter = Parameter(name, place, style, explode is True, declared.get("allowReserved") is True)
        return Declared(parameter, declared.get("schema", {}), required, declared.get("description"))

    def _with_content(self, bare: Parameter, content: Json, required: bool, declared: dict[str, Any]) -> Declared:  # noqa: FBT001 - private
        media_type = min((key for key in content if isinstance(key, str)), default="")
        media = self._references.follow(content[media_type], "media type")
        style = "content" if _JSON_TYPES.match(media_type) else "text"
        parameter = bare._replace(style=style, media_type=media_type.partition(";")[0].strip().lower())
        return Declared(parameter, media.get("schema", {}), required, declared.get("description"))


class Taken(NamedTuple):
    """An operation's arguments: their schema, and what each of them is on the wire.

    ``properties`` maps arguments to properties of a body that is taken apart.
    """

    schema: dict[str, Json]
    parameters: tuple[tuple[str, Parameter], ...]
    properties: tuple[tuple[str, str], ...]
    whole_body: str | None
    encodings: dict[str, Encoding]


class _Argument(NamedTuple):
    place: str
    name: str
    schema: Json
    required: bool
    description: Json = None


def take(
    references: References, schemas: Schemas, declared: Sequence[Declared], payload: Body | None, where: str
) -> Taken:
    """Return the arguments of an operation, with their names for a model and what those stand for. [CV-16, CV-23]"""
    apart = (
        body.properties(references, payload.schema) if payload is not None and payload.sort <= Sort.MULTIPART else None
    )
    arguments = [_Argument(p.place, p.name, schema, required, said) for p, schema, required, said in declared]
    arguments += _body_arguments(references, schemas, payload, apart)
    names = argument_names((one.place, one.name) for one in arguments)
    in_body = [one for one in arguments if one.place == BODY]
    whole = names[BODY, BODY] if payload is not None and apart is None else None
    encodings: dict[str, Encoding] = {}
    if payload is not None and payload.sort in (Sort.FORM, Sort.MULTIPART):
        known = apart[0] if apart is not None else references.target(payload.schema).get("properties")
        encodings = body.encodings(references, payload, known if isinstance(known, dict) else {})
    return Taken(
        schema=_schema(schemas, arguments, names, where),
        parameters=tuple((names[one.parameter.place, one.parameter.name], one.parameter) for one in declared),
        properties=tuple((names[one.place, one.name], one.name) for one in in_body) if whole is None else (),
        whole_body=whole,
        encodings=encodings,
    )


def _fit(found: dict[tuple[Place, str], Declared], path: str, notes: list[str]) -> None:
    """Make the path parameters in ``found`` those that ``path`` has a place for."""
    wanted = dict.fromkeys(variables(path))
    placed = [name for place, name in found if place == Place.PATH]
    for name in placed:
        if name not in wanted:
            del found[Place.PATH, name]
            notes.append(f"its path has no place for the parameter {name[:100]}, which is left out")
    for name in wanted:
        if (Place.PATH, name) not in found:
            found[Place.PATH, name] = Declared(Parameter(name, Place.PATH, "simple"), {"type": "string"}, required=True)
            notes.append(f"its path has {name[:100]}, which it does not declare: it is taken as a text")


def _body_arguments(
    references: References,
    schemas: Schemas,
    payload: Body | None,
    apart: tuple[dict[str, Json], tuple[str, ...]] | None,
) -> list[_Argument]:
    if payload is None:
        return []
    if apart is None:
        return [_Argument(BODY, BODY, payload.schema, payload.required)]
    properties, required = apart
    needed = required if payload.required else ()
    files = payload.sort is Sort.MULTIPART
    return [
        _Argument(BODY, name, body.file_argument(references, schema) if files else schema, name in needed)
        for name, schema in properties.items()
        if not schemas.hidden(schema)
    ]


def _schema(
    schemas: Schemas, arguments: Iterable[_Argument], names: dict[tuple[str, str], str], where: str
) -> dict[str, Json]:
    """Return the input schema of ``arguments``; a parameter's description is used where its schema has none."""
    properties: dict[str, Json] = {}
    required: list[str] = []
    used: set[str] = set()
    for one in arguments:
        schema, references = schemas.read(one.schema, where)
        used |= references
        name = names[one.place, one.name]
        if isinstance(one.description, str) and one.description and "description" not in schema:
            schema = {**schema, "description": schemas.text(one.description)}
        if name != one.name and "title" not in schema:
            schema = {**schema, "title": schemas.text(one.name[:100])}
        properties[name] = schema
        if one.required:
            required.append(name)
    whole: dict[str, Json] = {"type": "object", "properties": properties}
    if required:
        whole["required"] = required
    return schemas.whole(whole, used, where)


def _is_reserved(name: str) -> bool:
    return name in _RESERVED or name.startswith(_RESERVED_STARTS)
