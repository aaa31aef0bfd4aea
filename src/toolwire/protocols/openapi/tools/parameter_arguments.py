"""Read the declared parameters of operations, and select those that become arguments.

Rules:
- Parameters of a path apply to all its operations; an operation's own with the same place and name win.
- Accept, Content-Type, Authorization and the fields that the transport sets are never arguments.
- A parameter for a credential of the document is no argument.
"""
# CV-07, CV-04, D-12, CV-10

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from toolwire.core.model import Json
from toolwire.framing import jsontext
from toolwire.protocols.openapi.document.references import References, Unusable
from toolwire.protocols.openapi.request.media_types import get_essence, is_json
from toolwire.protocols.openapi.request.override_names import has_spread_properties, is_override
from toolwire.protocols.openapi.request.parameter_styles import FORM, STYLES
from toolwire.protocols.openapi.request.path_template import list_variables
from toolwire.protocols.openapi.request.plan import Parameter, Place

from . import body_arguments
from .declared_examples import list_examples
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
_PLACES = {place.value: place for place in Place}
_OVERRIDE_PLACES = (Place.HEADER, Place.QUERY, Place.QUERYSTRING)


class DeclaredParameter(NamedTuple):
    """One parameter as the document declares it."""

    parameter: Parameter
    schema: Json
    required: bool
    description: Json = None
    examples: tuple[Json, ...] = ()


class _ReadParameter(NamedTuple):
    """A parameter with its findings, or the fault for which it cannot be read."""

    declared: DeclaredParameter | None
    notes: tuple[str, ...] = ()
    fault: str = ""


class ParameterReader:
    """Reads the parameters of operations; equal parameters are read once.

    Documents repeat the same few: of the 27,000 parameters of Microsoft Graph 1,400 are different.
    """

    def __init__(self, references: References, security: Security) -> None:
        self._references = references
        self._security = security
        self._known: dict[str | bytes, _ReadParameter] = {}
        version = str(references.document.get("openapi", ""))
        self._reserves_anywhere = not version.startswith(("3.0", "3.1"))  # before 3.2 it was for queries alone

    def read(
        self, item: dict[str, Any], operation: dict[str, Any], path: str
    ) -> tuple[list[DeclaredParameter], list[str]]:
        """Return the parameters of ``operation`` that are arguments, and findings that cost no tool.

        An undeclared variable of the path becomes a string; a path parameter without a variable is left out.

        Raises:
            Unusable: a parameter cannot be read or written.
        """
        found: dict[tuple[Place, str], DeclaredParameter] = {}
        notes: list[str] = []
        for nodes in (item.get("parameters"), operation.get("parameters")):
            for node in nodes if isinstance(nodes, list) else ():
                one = self._read_parameter(node, notes)
                if one is not None:
                    name, place = one.parameter.name, one.parameter.place
                    # Header fields have no case, so "X-Id" of the operation replaces "x-id" of the path.
                    found[place, name.lower() if place is Place.HEADER else name] = one
        _match_path(found, path, notes)
        if {Place.QUERY, Place.QUERYSTRING} <= {place for place, _ in found}:
            raise Unusable("it declares both query parameters and one for the whole query")
        return list(found.values()), notes

    def _read_parameter(self, node: Json, notes: list[str]) -> DeclaredParameter | None:
        reference = node.get("$ref") if type(node) is dict else None
        # Equal parameters have equal text; hashing it is cheaper than reading the parameter again.
        key = reference if type(reference) is str else jsontext.write(node)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._read_once(node)
        if known.declared is None:
            raise Unusable(known.fault)
        notes.extend(known.notes)
        return self._accept(known.declared, notes)

    def _read_once(self, node: Json) -> _ReadParameter:
        notes: list[str] = []
        try:
            return _ReadParameter(self._read(node, notes), tuple(notes))
        except Unusable as error:
            return _ReadParameter(None, fault=str(error))

    def _accept(self, one: DeclaredParameter, notes: list[str]) -> DeclaredParameter | None:
        place, name = one.parameter.place, one.parameter.name
        # A model must not set fields that steer the connection, the identity of the sender, or the framing of the
        # message.
        if place is Place.HEADER and _is_reserved(name.lower()):
            notes.append(f"the header {name[:100]} is the client's own and no argument")
        elif place is Place.PATH or not self._security.covers(place, name):
            return one
        else:
            notes.append(f"the parameter {name[:100]} carries a credential and is not an argument")
        return None

    def _read(self, node: Json, notes: list[str]) -> DeclaredParameter:
        declared = self._references.follow(node, "parameter")
        name, where = declared.get("name"), declared.get("in")
        place = _PLACES.get(where) if isinstance(where, str) else None
        if where is None:
            raise Unusable("it has a parameter without a location")
        if not isinstance(name, str) or not name or place is None:
            raise Unusable(f"it has a parameter in {str(where)[:50]!r}, which is not supported")
        # A name with a line break or a colon would let the document write further fields into each request.
        if place in (Place.HEADER, Place.COOKIE) and not _TOKEN.fullmatch(name):
            raise Unusable(f"{name[:100]!r} is not a valid name for a {place.value}")
        # A path without one of its values is another path.
        required = declared.get("required") is True or place is Place.PATH
        is_header = required and place is Place.HEADER
        content = declared.get("content")
        if isinstance(content, dict) and content:
            bare = Parameter(name, place, "content", is_required=is_header)
            return self._with_content(bare, content, required=required, declared=declared)
        if place is Place.QUERYSTRING:
            raise Unusable(f"its querystring {name[:100]} declares no content")
        styles = STYLES[place]
        style = declared.get("style")
        if style not in styles:
            if style is not None:  # null is written for what is not set
                text = f"its {place.value} parameter {name[:100]} has a style that is not known there"
                notes.append(f"{text}, and is written as {styles[0]}")
            style = styles[0]
        explode = declared.get("explode")
        if explode is None:
            explode = style in ("form", "cookie")
        reserved = declared.get("allowReserved") is True and (place is Place.QUERY or self._reserves_anywhere)
        separators = body_arguments.read_separators(declared)
        parameter = Parameter(
            name, place, style, explode is True, reserved, separators=separators, is_required=is_header
        )
        return DeclaredParameter(
            parameter,
            declared.get("schema", {}),
            required,
            declared.get("description"),
            tuple(list_examples(self._references, declared)),
        )

    def _with_content(
        self, bare: Parameter, content: Json, *, required: bool, declared: dict[str, Any]
    ) -> DeclaredParameter:
        # The specification allows one media type here; the first by name makes more of them deterministic.
        media_type = min((key for key in content if isinstance(key, str)), default="")
        media = self._references.follow(content[media_type], "media type")
        style = "content" if is_json(media_type) else "text"
        parameter = bare._replace(style=style, media_type=get_essence(media_type))
        if get_essence(media_type) == FORM:
            parameter = parameter._replace(encodings=body_arguments.read_query_encodings(self._references, media))
        return DeclaredParameter(
            parameter,
            media.get("schema", {}),
            required,
            declared.get("description"),
            (*list_examples(self._references, media), *list_examples(self._references, declared)),
        )


def _match_path(found: dict[tuple[Place, str], DeclaredParameter], path: str, notes: list[str]) -> None:
    """Make the path parameters in ``found`` equal to the variables of ``path``."""
    wanted = dict.fromkeys(list_variables(path))
    placed = [name for place, name in found if place == Place.PATH]
    for name in placed:
        if name not in wanted:
            # Without a place it cannot be sent, and an argument that has no effect misleads a model.
            del found[Place.PATH, name]
            notes.append(f"its path has no place for the parameter {name[:100]}, which is left out")
    for name in wanted:
        if (Place.PATH, name) not in found:
            found[Place.PATH, name] = DeclaredParameter(
                Parameter(name, Place.PATH, "simple"), {"type": "string"}, required=True
            )
            notes.append(f"its path has {name[:100]}, which it does not declare: it is taken as a text")


def _is_reserved(name: str) -> bool:
    return name in _RESERVED or name.startswith(_RESERVED_STARTS)


def find_override(references: References, declared: Iterable[DeclaredParameter], fixed_query: str) -> str:
    """Return the first override in the arguments or in the fixed query of a path, or ``""``.

    An operation with an override is never safe, whatever its method: each call needs approval.
    """
    # D-11, XL-044
    names = [unquote_plus(pair.partition("=")[0]) for pair in fixed_query.split("&")]
    for one in declared:
        if one.parameter.place in _OVERRIDE_PLACES:
            names.append(one.parameter.name)
            if has_spread_properties(one.parameter):
                names.extend(body_arguments.list_named_properties(references, one.schema))
    return next((name for name in names if is_override(name)), "")
