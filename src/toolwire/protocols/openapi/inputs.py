"""The arguments of one operation: its parameters and its body as one input schema, and the way back.

Rules:
- Path parameters hold for every operation of a path; the operation's own win, by place and name. [CV-07]
- Accept, Content-Type, Authorization and the fields the network owns are never arguments. [CV-04, D-12]
- A parameter that carries a credential of the document is not an argument either. [CV-10]
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from toolwire.core.model import Json

from . import body
from .body import BODY, Body
from .naming import argument_names
from .parameters import STYLES, Parameter, Place
from .references import Unusable, follow
from .schemas import Schemas

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
_BODILESS = ("GET", "HEAD", "DELETE")
_RESERVED_STARTS = ("proxy-", "sec-", "x-forwarded-", "mcp-")
_JSON_TYPES = re.compile(r"application/(?:[^;+\s]+\+)?json", re.IGNORECASE)


class Inputs(NamedTuple):
    """An operation's arguments: their schema, and what each of them is on the wire.

    ``properties`` maps arguments to properties of a body that is taken apart. ``notes`` are findings that cost
    no tool.
    """

    schema: dict[str, Json]
    parameters: tuple[tuple[str, Parameter], ...]
    properties: tuple[tuple[str, str], ...]
    whole_body: str | None
    body: Body | None
    notes: tuple[str, ...]


class _Argument(NamedTuple):
    place: str
    name: str
    schema: Json
    required: bool
    description: Json = None


def read(
    document: dict[str, Any], schemas: Schemas, method: str, path_item: dict[str, Any], operation: dict[str, Any]
) -> Inputs:
    """Return the arguments of ``operation``. A body that a GET, HEAD or DELETE does not need is left out. [CV-11]

    Raises:
        Unusable: a parameter or the body cannot be read or written.
    """
    declared, notes = _parameters(document, path_item, operation)
    payload = body.read(document, operation.get("requestBody"))
    if payload is not None and not payload.required and method in _BODILESS:
        notes.append(f"a {method} takes no body, and this one is optional")
        payload = None
    arguments = [
        _Argument(one.parameter.place, one.parameter.name, one.schema, one.required, one.description)
        for one in declared
    ] + _body_arguments(schemas, payload)
    names = argument_names((one.place, one.name) for one in arguments)
    whole = names[BODY, BODY] if payload is not None and payload.properties is None else None
    return Inputs(
        schema=_schema(schemas, arguments, names),
        parameters=tuple((names[one.parameter.place, one.parameter.name], one.parameter) for one in declared),
        properties=tuple((names[one.place, one.name], one.name) for one in arguments if one.place == BODY)
        if whole is None
        else (),
        whole_body=whole,
        body=payload,
        notes=tuple(notes),
    )


class _Declared(NamedTuple):
    parameter: Parameter
    schema: Json
    required: bool
    description: Json


def _parameters(
    document: dict[str, Any], path_item: dict[str, Any], operation: dict[str, Any]
) -> tuple[list[_Declared], list[str]]:
    found: dict[tuple[str, str], _Declared] = {}
    notes: list[str] = []
    credentials = _credentials(document)
    for nodes in (path_item.get("parameters"), operation.get("parameters")):
        for node in nodes if isinstance(nodes, list) else []:
            declared = follow(document, node, "parameter")
            one = _read(document, declared)
            key = one.parameter.place, _folded(one.parameter)
            if one.parameter.place is Place.HEADER and _is_reserved(key[1]):
                notes.append(f"the header {one.parameter.name[:100]} is the client's own and no argument")
            elif key not in credentials:
                found[key] = one
    return list(found.values()), notes


def _read(document: dict[str, Any], node: dict[str, Any]) -> _Declared:
    name, place = node.get("name"), node.get("in")
    if not isinstance(name, str) or not name or not isinstance(place, str) or place not in set(Place):
        raise Unusable(f"it has a parameter in {str(place)[:50]!r} that is not read")
    place = Place(place)
    if place in (Place.HEADER, Place.COOKIE) and not _TOKEN.fullmatch(name):
        raise Unusable(f"{name[:100]!r} cannot be the name of a {place}")
    required = node.get("required") is True or place is Place.PATH
    content = node.get("content")
    if isinstance(content, dict) and content:
        media_type, media = next(iter(content.items()))
        style = "content" if _JSON_TYPES.match(str(media_type)) else "text"
        if style == "text" and not str(media_type).startswith("text/"):
            raise Unusable(f"its parameter {name[:100]} is {str(media_type)[:100]}, which is not written")
        schema = follow(document, media, "media type").get("schema", {})
        return _Declared(Parameter(name, place, style), schema, required, node.get("description"))
    style = node.get("style", STYLES[place][0])
    if style not in STYLES[place]:
        raise Unusable(
            f"its {place} parameter {name[:100]} has the style {str(style)[:50]!r}, which is not known there"
        )
    explode = node.get("explode", style in ("form", "cookie"))
    parameter = Parameter(name, place, style, explode is True, node.get("allowReserved") is True)
    return _Declared(parameter, node.get("schema", {}), required, node.get("description"))


def _body_arguments(schemas: Schemas, payload: Body | None) -> list[_Argument]:
    if payload is None:
        return []
    if payload.properties is None:
        return [_Argument(BODY, BODY, payload.schema, payload.required)]
    needed = payload.required_properties if payload.required else ()
    return [
        _Argument(BODY, name, schema, name in needed)
        for name, schema in payload.properties.items()
        if not schemas.hidden(schema)
    ]


def _schema(schemas: Schemas, arguments: Iterable[_Argument], names: dict[tuple[str, str], str]) -> dict[str, Json]:
    """Return the input schema of ``arguments``; a parameter's description is used where its schema has none."""
    properties: dict[str, Json] = {}
    required: list[str] = []
    used: set[str] = set()
    for one in arguments:
        schema, references = schemas.read(one.schema)
        used |= references
        name = names[one.place, one.name]
        if isinstance(one.description, str) and one.description and "description" not in schema:
            schema = {**schema, "description": one.description}
        properties[name] = schema
        if one.required:
            required.append(name)
    whole: dict[str, Json] = {"type": "object", "properties": properties}
    if required:
        whole["required"] = required
    definitions = schemas.definitions(used)
    if definitions:
        whole["$defs"] = definitions
    return whole


def _folded(parameter: Parameter) -> str:
    return parameter.name.lower() if parameter.place is Place.HEADER else parameter.name


def _is_reserved(name: str) -> bool:
    return name in _RESERVED or name.startswith(_RESERVED_STARTS)


def _credentials(document: dict[str, Any]) -> set[tuple[str, str]]:
    """Return place and name of each parameter that an API key scheme of the document fills."""
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    found: set[tuple[str, str]] = set()
    for scheme in schemes.values() if isinstance(schemes, dict) else ():
        if isinstance(scheme, dict) and scheme.get("type") == "apiKey":
            place, name = scheme.get("in"), scheme.get("name")
            if isinstance(place, str) and isinstance(name, str):
                found.add((place, name.lower() if place == Place.HEADER else name))
    return found
