"""Choose the media type of a request body, and make arguments of its properties.

Rules:
- Of several media types JSON is preferred, then forms, text, bytes and XML.
- The properties of a plain object become arguments; any other body is one argument, ``body``.
- A file is base64 text or a handle of the host, never a path.
"""
# CV-11, CV-15, CV-13, CV-14

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from toolwire.core.content import FILE_KEYWORD
from toolwire.core.model import Json
from toolwire.framing import stream_types
from toolwire.framing.jsontext import list_texts
from toolwire.protocols.openapi.document.inheritance import KINDS
from toolwire.protocols.openapi.document.references import References, Unusable
from toolwire.protocols.openapi.document.swagger_20 import COLLECTION_FORMATS, SEPARATORS
from toolwire.protocols.openapi.request import media_types
from toolwire.protocols.openapi.request.media_types import get_essence
from toolwire.protocols.openapi.request.parameter_styles import FORM
from toolwire.protocols.openapi.request.plan import Encoding
from toolwire.protocols.openapi.schema.discriminator import read_discriminator

BODY = "body"

_TEXT_WORDS = ("description", "enum", "maxLength", "minLength", "pattern")
_MAX_ARGUMENTS = 256
_MAX_WRAPPERS = 4
_FILE = (
    "The file as base64 text, or a file handle. A data: URL also sets its type and name: "
    "data:image/png;name=cat.png;base64,..."
)
_OPEN_PART = (
    "A file is given as a file handle or as a data: URL, which sets its type and name: "
    "data:image/png;name=cat.png;base64,... Any other value is sent as it is."
)
_FILE_TEXT: Mapping[str, Json] = {"type": "string", "contentEncoding": "base64", FILE_KEYWORD: {}}
"""The keyword says that a ``data:`` URL is read too."""
_UNSPLITTABLE_KEYWORDS = frozenset(
    (
        "anyOf",
        "const",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "enum",
        "if",
        "maxProperties",
        "minProperties",
        "not",
        "oneOf",
        "patternProperties",
        "propertyNames",
        "then",
        "unevaluatedProperties",
    )
)
_WRITTEN_AS_TEXT = ("integer", "number", "boolean")
_STYLE_FIELDS = frozenset(("allowReserved", "explode", "style"))
_SHAPES = frozenset(("allOf", "anyOf", "const", "enum", "items", "oneOf", "properties"))
MERGE_PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")
"""The media types of a patch in which null removes a member."""
_PATCHES = (
    "application/strategic-merge-patch+json",
    "application/merge-patch+json",
    "",  # any other
    "application/json-patch+json",
)
_FORM_STYLES = ("form", "spaceDelimited", "pipeDelimited", "deepObject")


class BodyKind(IntEnum):
    """The kinds of bodies, the preferred first."""

    JSON = 0
    JSON_LIKE = 1
    ANY = 2
    FORM = 3
    MULTIPART = 4
    TEXT = 5
    BYTES = 6
    XML = 7
    LINES = 8


_SORTS = {
    "application/json": BodyKind.JSON,
    "text/json": BodyKind.JSON,
    "*/*": BodyKind.ANY,
    "application/*": BodyKind.ANY,
    "application/x-www-form-urlencoded": BodyKind.FORM,
}


class Body(NamedTuple):
    """The body of an operation: its media type and its Media Type Object."""

    media_type: str
    sort: BodyKind
    required: bool
    media: dict[str, Any]
    declared: tuple[str, ...] = ()

    @property
    def schema(self) -> Json:
        """The schema of the body; for text and bytes always a string, even if the document says otherwise."""
        schema = self.media.get("schema", {})
        if self.sort is BodyKind.LINES:
            return _build_lines_schema(self.media)
        if self.sort is BodyKind.BYTES:
            return {**_FILE_TEXT, "description": _FILE}
        if self.sort in (BodyKind.TEXT, BodyKind.XML):
            return _build_text_schema(self, schema if isinstance(schema, dict) else {})
        if "itemSchema" in self.media and "schema" not in self.media:
            return {"type": "array", "items": self.media["itemSchema"]}
        if self.sort in (BodyKind.FORM, BodyKind.MULTIPART) and (schema is True or _has_no_shape(schema)):
            return {**(schema if isinstance(schema, dict) else {}), "type": "object"}  # a form has fields
        return schema


def _build_text_schema(body: Body, words: dict[str, Any]) -> Json:
    if body.sort is BodyKind.TEXT and words.get("type") in _WRITTEN_AS_TEXT:
        return words  # O-28: a number or a boolean is its text
    members = {key: words[key] for key in _TEXT_WORDS if key in words and words.get("type") == "string"}
    return {"type": "string", "contentMediaType": body.media_type, **members}


def _build_lines_schema(media: dict[str, Any]) -> Json:
    """Return the schema of a body of lines: a list of what its item schema says, or of what its schema says."""
    # O-28
    if "itemSchema" in media:
        return {"type": "array", "items": media["itemSchema"]}
    schema = media.get("schema", {})
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "array":
        return schema
    return {"type": "array", "items": {} if kind == "string" else schema}


def _has_no_shape(schema: Json) -> bool:
    return isinstance(schema, dict) and not schema.keys() & {*_SHAPES, "$ref", "$dynamicRef", "not", "type"}


def read_body(references: References, node: Json) -> Body | None:
    """Return the body that a Request Body Object declares, or None if it declares none.

    Raises:
        Unusable: it cannot be read.
    """
    # CV-11
    if node is None:
        return None
    declared = references.follow(node, "request body")
    content = declared.get("content")
    if isinstance(content, dict) and isinstance(content.get("$ref"), str):
        content = references.follow(content, "content of its request body")
    # Without content nothing says what to send: an optional body is left out, a required one makes the operation
    # unusable.
    if not isinstance(content, dict) or not content:
        if declared.get("required") is True:
            raise Unusable("its request body is required, but declares no content")
        return None
    keys = [key for key in content if isinstance(key, str)]
    # A concrete type before a range, and the name last, so that the choice does not depend on the order in the
    # document.
    ranked = sorted((_classify(key), "*" in key, _rank_json_type(key), key) for key in keys)
    sort, _, _, key = ranked[0]
    media = references.follow(content[key], "media type")
    if sort in (BodyKind.TEXT, BodyKind.LINES) and isinstance(media.get("schema"), dict):
        media = {**media, "schema": references.follow_or_empty(media["schema"])}
    name = _choose_content_type(key, sort)
    if sort is BodyKind.ANY and _is_file(_unwrap_single(references, media.get("schema")), ""):
        name, sort = get_essence(key), BodyKind.BYTES
    if sort is BodyKind.BYTES:  # CV-14: the file says which of them it is
        name = ", ".join(
            dict.fromkeys([name, *(_choose_content_type(one, sort) for each, _, _, one in ranked if each is sort)])
        )
    return Body(name, sort, declared.get("required") is True, media, tuple(sorted(keys)))


class Kind(NamedTuple):
    """One kind of a body that has several: the property that tells the kind, its values, and what they require."""

    tag: str
    values: tuple[Json, ...]
    names: frozenset[str]
    required: tuple[str, ...]


class BodyProperties(NamedTuple):
    """The properties of a body that is an object, those that it requires, and its kinds if it has several."""

    properties: dict[str, Json]
    required: tuple[str, ...]
    kinds: tuple[Kind, ...] = ()


def list_properties(references: References, node: Json) -> BodyProperties | None:
    """Return the properties of an object schema and the required names, or None if it must be one argument.

    A property that is required but not defined accepts any value, as in JSON Schema. Branches of an allOf are merged if
    they agree on each property. A schema that others extend gets the properties of all of them.
    """
    # CV-19, O-23
    found: dict[str, Json] = {}
    required: dict[str, None] = {}
    kinds: list[Kind] = []
    closed = False
    for part in references.iterate_parts(node, ("allOf",), beside=_counts_siblings(references)):
        schema, own = part, {} if part is None else part.get("properties", {})
        if part is not None and part.get(KINDS) is True:
            several = _list_kinds(references, part)
            if several is None:
                return None
            own, more = several
            kinds += more
            schema = {key: one for key, one in part.items() if key not in ("oneOf", "properties")}
        if schema is None or not _can_be_taken_apart(schema):
            return None
        # Two branches disagree on a property: as one argument the allOf keeps both.
        if any(found.get(name, one) != one for name, one in own.items()):
            return None
        found.update(own)
        required.update(dict.fromkeys(list_texts(schema.get("required"))))
        closed = closed or schema.get("additionalProperties") is False
    found = {**found, **{name: {} for name in required if name not in found}}
    if len(found) > _MAX_ARGUMENTS:
        return None
    return BodyProperties(found, tuple(required), tuple(kinds)) if found or closed else None


def _list_kinds(references: References, node: dict[str, Any]) -> tuple[dict[str, Json], list[Kind]] | None:
    """Return the properties of every kind of ``node``, and the kinds; None if one of them cannot be taken apart."""
    discriminator = read_discriminator(node, references)
    if discriminator is None:
        return None
    own = node.get("properties")
    found: dict[str, list[Json]] = {name: [one] for name, one in own.items()} if isinstance(own, dict) else {}
    kinds: list[Kind] = []
    for branch in node["oneOf"]:
        one = list_properties(references, branch)
        if one is None or one.kinds:
            return None
        for name, schema in one.properties.items():
            known = found.setdefault(name, [])
            if schema not in known:
                known.append(schema)
        values = tuple(discriminator.list_values(branch))
        kinds.append(Kind(discriminator.name, values, frozenset(one.properties), one.required))
    # What a property is may depend on the kind.
    properties: dict[str, Json] = {
        name: several[0] if len(several) == 1 else {"anyOf": list(several)} for name, several in found.items()
    }
    known_values = list(dict.fromkeys(value for kind in kinds for value in kind.values if isinstance(value, str)))
    if known_values and all(kind.values for kind in kinds):
        tag = references.follow_or_empty(properties.get(discriminator.name))
        properties[discriminator.name] = {**tag, "type": "string", "enum": list(known_values)}
    return properties, kinds


def declares_others(references: References, node: Json) -> bool:
    """Return whether an object schema explicitly allows other properties (``additionalProperties: true``)."""
    return True in _list_additional(references, node)


def allows_others(references: References, node: Json) -> bool:
    """Return whether an object schema leaves other properties open, explicitly or because it says nothing."""
    return False not in _list_additional(references, node)


def _list_additional(references: References, node: Json) -> list[Json]:
    parts = references.iterate_parts(node, ("allOf",), beside=_counts_siblings(references))
    return [one.get("additionalProperties") for one in parts if one]


def list_named_properties(references: References, node: Json) -> dict[str, Json]:
    """Return the properties of ``node`` and of all its branches, for a form that is one argument."""
    found: dict[str, Json] = {}
    for schema in references.iterate_parts(node, ("allOf", "anyOf", "oneOf"), beside=_counts_siblings(references)):
        own = schema.get("properties") if schema is not None else None
        # The schema itself comes first, so what it says of a property wins over its branches.
        found = {**(own if isinstance(own, dict) else {}), **found}
    return found


def _counts_siblings(references: References) -> bool:
    """Return whether siblings of a reference to a schema count: not in 3.0."""
    return not str(references.document.get("openapi", "")).startswith("3.0")


def read_encodings(references: References, body: Body, known: Mapping[str, Json]) -> dict[str, Encoding]:
    """Return the encoding of each property of a form that is not encoded the plain way."""
    # CV-12, CV-13
    declared = body.media.get("encoding")
    objects = declared if isinstance(declared, dict) else {}
    found: dict[str, Encoding] = {}
    styled = _has_styles(references, body)
    # A property may have an encoding and no schema, and is sent all the same.
    for name, schema in {**{name: {} for name in objects}, **known}.items():
        one = objects.get(name)
        fields = one if isinstance(one, dict) else {}
        if not styled and COLLECTION_FORMATS not in fields:
            # Where the version gives styles no meaning they must be ignored; a converted Swagger parameter still needs
            # them.
            fields = {key: value for key, value in fields.items() if key not in _STYLE_FIELDS}
        encoding = _read_encoding(references, fields, schema, body.sort)
        if encoding != Encoding():
            found[name] = encoding
    return found


def read_query_encodings(references: References, media: dict[str, Any]) -> dict[str, Encoding] | None:
    """Return the encodings of a complete query that is a form; None if all are encoded the plain way."""
    whole = Body(FORM, BodyKind.FORM, False, media)
    return read_encodings(references, whole, list_named_properties(references, whole.schema)) or None


def _has_styles(references: References, body: Body) -> bool:
    """Return whether style, explode and allowReserved apply to ``body``: to forms, and since 3.1 to form-data."""
    if body.sort is BodyKind.FORM:
        return True
    since_31 = not str(references.document.get("openapi", "")).startswith("3.0")
    return since_31 and get_essence(body.media_type) == "multipart/form-data"


def build_file_schema(references: References, schema: Json, encoding: Encoding) -> Json:
    """Return ``schema``, replaced by that of a file or of a list of files if ``encoding`` is binary."""
    node = _unwrap_single(references, schema)
    if encoding.media_type == media_types.ANY_TYPE and not encoding.binary:
        return _describe_open_part(node)
    if not encoding.binary:
        # O-28: what a part of XML says cannot be made of an object, so the model writes the text.
        is_text = not media_types.is_xml(encoding.media_type) or node.get("type") in ("string", *_WRITTEN_AS_TEXT)
        return schema if is_text else {"type": "string", "contentMediaType": encoding.media_type}
    if node.get("type") == "array":
        # Several files of one field are a list, each with a part of its own.
        return {**node, "items": {**_FILE_TEXT, "description": _FILE}}
    about = node.get("description")
    description = f"{about} {_FILE}" if isinstance(about, str) else _FILE
    return {**_FILE_TEXT, "description": description}


def _describe_open_part(node: dict[str, Any]) -> Json:
    """Return the schema of a part whose type the document leaves open: a file is possible, as is any other value."""
    if node.get("type") == "array":
        return {**node, "items": _describe_open_part({})}
    return {**node, "description": f"{node.get('description', '')} {_OPEN_PART}".strip(), FILE_KEYWORD: {}}


def _read_encoding(references: References, encoding: dict[str, Any], schema: Json, sort: BodyKind) -> Encoding:
    media_type = encoding.get("contentType")
    first = media_types.get_first(media_type) if isinstance(media_type, str) else ""
    style = encoding.get("style")
    styled = bool(_STYLE_FIELDS & encoding.keys())
    style = style if style in _FORM_STYLES else "form"
    explode = encoding.get("explode")
    if explode is None:
        # The default of the specification: exploded for form, and for no other style.
        explode = style == "form"
    node = _unwrap_single(references, schema)
    item = _unwrap_single(references, node.get("items")) if node.get("type") == "array" else node
    binary = sort is BodyKind.MULTIPART and not styled and _is_file(item, first)
    kind = media_type if binary and isinstance(media_type, str) else first
    if sort is BodyKind.MULTIPART and not kind and not styled and _has_no_shape(item) and "format" not in item:
        kind = media_types.ANY_TYPE  # since OpenAPI 3.1, a part without a type is bytes
    return Encoding(
        media_type="" if styled and sort is BodyKind.MULTIPART else kind,  # a style takes the place of a content type
        style=style if styled else "",
        explode=explode is True if styled else True,
        reserved=encoding.get("allowReserved") is True,
        binary=binary,
        headers=tuple(_list_fixed_headers(references, encoding.get("headers"))),
        separators=read_separators(encoding),
    )


def read_separators(encoding: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the separators of a Swagger 2.0 array, one for each level; ``()`` for OpenAPI 3."""
    formats = encoding.get(COLLECTION_FORMATS)
    return tuple(SEPARATORS.get(one, "") for one in formats) if isinstance(formats, list) else ()


def _unwrap_single(references: References, schema: Json) -> dict[str, Any]:
    """Return ``schema`` without wrappers that have one branch besides null, such as an allOf of one schema."""
    node: dict[str, Any] = references.follow_or_empty(schema)
    for _ in range(_MAX_WRAPPERS):
        for key in ("allOf", "anyOf", "oneOf"):
            branches = [references.follow_or_empty(one) for one in node[key]] if isinstance(node.get(key), list) else []
            real = [one for one in branches if one.get("type") != "null"]
            if len(real) == 1:
                # What stands beside the wrapper wins: it is said nearer to the place of use.
                node = {**real[0], **{name: one for name, one in node.items() if name != key}}
                break
        else:
            break
    kinds = node.get("type")
    real_kinds = [one for one in kinds if one != "null"] if isinstance(kinds, list) else []
    if len(real_kinds) == 1:
        node = {**node, "type": real_kinds[0]}
    return node


def _list_fixed_headers(references: References, declared: Json) -> list[tuple[str, str]]:
    """Return the header fields of a part that have a fixed value in the document."""
    found: list[tuple[str, str]] = []
    for name, node in sorted(declared.items()) if isinstance(declared, dict) else ():
        schema = references.follow_or_empty(references.follow_or_empty(node).get("schema"))
        enum = schema.get("enum")
        value = schema.get("const", enum[0] if isinstance(enum, list) and len(enum) == 1 else schema.get("default"))
        # The content type of a part is said by the encoding itself.
        if isinstance(value, str) and name.lower() != "content-type":
            found.append((name, value))
    return found


def find_body_limits(references: References, body: Body) -> list[str]:
    """Return what of ``body`` cannot be given, each as the end of a finding."""
    # O-28, O-31
    found = []
    if body.sort in (BodyKind.FORM, BodyKind.MULTIPART):
        schema = references.follow_or_empty(body.schema)
        if schema.get("type") == "string":
            found.append(f"its body is {body.media_type} as one text, which is sent as it is given")
        encodings = body.media.get("encoding")
        for name, encoding in encodings.items() if isinstance(encodings, dict) else ():
            if isinstance(encoding, dict):
                found += _find_part_limits(references, str(name), encoding, schema)
    essence = get_essence(body.media_type)
    others = [one for one in body.declared if get_essence(one) == essence and one != body.media_type]
    if others and essence not in ("multipart/form-data",):
        found.append(f"its body is sent as {body.media_type}, never as {', '.join(others)[:200]}")
    return found


def _find_part_limits(references: References, name: str, encoding: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    declared = encoding.get("headers")
    fixed = {header.lower() for header, _ in _list_fixed_headers(references, declared)}
    found = [
        f"the part {name} needs the header {header}, which has no fixed value and is not sent"
        for header, node in (declared.items() if isinstance(declared, dict) else ())
        if references.follow_or_empty(node).get("required") is True and header.lower() not in {*fixed, "content-type"}
    ]
    kind = encoding.get("contentType")
    properties = schema.get("properties")
    own = _unwrap_single(references, properties.get(name)) if isinstance(properties, dict) else {}
    if isinstance(kind, str) and media_types.is_xml(media_types.get_first(kind)) and own.get("type") != "string":
        found.append(f"the part {name} is XML, which is one text here")
    return found


def _is_file(schema: dict[str, Any], media_type: str) -> bool:
    """Return whether a property is a file: by its format, by its content type, or because it has no other type.

    A string without binary or base64 format is sent as text, unless its content type is never text.
    """
    if schema.get("format") == "binary" or schema.get("type") == "file":
        return True
    content = schema.get("contentMediaType")
    if isinstance(content, str):
        return _classify(content) in (BodyKind.BYTES, BodyKind.ANY) and schema.get("type") in (None, "string")
    if not media_type or _classify(media_type) is not BodyKind.BYTES:
        return False
    if schema.get("type") == "string":
        return "contentEncoding" in schema or schema.get("format") == "base64" or media_types.is_binary(media_type)
    return schema.get("type") is None and not schema.keys() & _SHAPES


def _classify(media_type: str) -> BodyKind:
    kind = get_essence(media_type)
    known = _SORTS.get(kind)
    if known is not None:
        return known
    if stream_types.is_stream(kind) and kind != "text/event-stream":
        return BodyKind.LINES
    if media_types.is_json(kind):
        return BodyKind.JSON_LIKE
    if kind.startswith("multipart/"):
        return BodyKind.MULTIPART
    if media_types.is_xml(kind):
        return BodyKind.XML
    return BodyKind.TEXT if media_types.is_text(kind) else BodyKind.BYTES


def _rank_json_type(media_type: str) -> int:
    """Return the rank of a JSON-like media type; a JSON Patch, a list of operations, is the last."""
    kind = get_essence(media_type)
    return _PATCHES.index(kind) if kind in _PATCHES else 2


def _choose_content_type(key: str, sort: BodyKind) -> str:
    kind = get_essence(key)
    if sort is BodyKind.ANY:
        return "application/json"
    if "*" in kind:
        # A range cannot be sent, so the most common type in it is.
        common = {
            BodyKind.TEXT: "text/plain",
            BodyKind.MULTIPART: "multipart/form-data",
            BodyKind.JSON_LIKE: "application/json",
            BodyKind.XML: "application/xml",
        }
        return common.get(sort, kind)
    return media_types.write_content_type(key)


def _can_be_taken_apart(schema: dict[str, Any]) -> bool:
    return (
        schema.get("type", "object") in ("object", ["object"])
        and isinstance(schema.get("properties", {}), dict)
        and isinstance(schema.get("allOf", []), list)
        and not isinstance(schema.get("additionalProperties"), dict)
        and schema.get("nullable") is not True
        and not _UNSPLITTABLE_KEYWORDS & schema.keys()
    )
