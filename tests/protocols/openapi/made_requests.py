"""Documents with parameters and forms of every kind that each version knows, and valid arguments for them."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from hypothesis import strategies as st

from .made_schemas import VALUES

VERSIONS = ("2.0", "3.0.4", "3.1.1", "3.2.0")
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
NAMES = {
    "path": ("id", "user-id", "a.b", "\u540d"),
    "query": ("q", "page[size]", "$filter", "a b", "\xe9", "x&y", "a=b", "f[n][]", "+", "%41", "#"),
    "header": ("X-One", "x-two", "If-Match", "x_3"),
    "cookie": ("sid", "a.b", "c_1"),
    "querystring": ("whole",),
    "form": ("name", "a b", "\xe9", 'say "hi"', "x&y=z", "l\r\nx: y", "list[]", "%22", "a;b", "\\"),
}
STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
AWKWARD = (
    *("", " ", "blue", "a b", "a+b", "%", "%41", "%2F", "%2e%2e", "100%", "a&b=c", "x;y", "a,b", "a.b", "a|b", "a/b"),
    *("..", ".", "../x", "a\\b", "?x#y", "[1]", ":@!$'()*", "~-_", '"q"', "<x>", "`^{}", "\t", "a\nb", "\x00", "\x7f"),
    *(
        "\xe9",
        "\u540d\u524d",
        "\U0001f600",
        "e\u0301",
        "\u2028",
        "\r\nx: y",
        "null",
        "true",
        "1e5",
        "{id}",
        "$ref",
        "==",
        "",
    ),
)
TAME = ("blue", "a-b", "1.5", "x_y", "Z~", "a=b", "a:b", "W/x", "a!b")
TEXTS = st.sampled_from(AWKWARD) | st.sampled_from(TAME) | st.text(max_size=5)
SAFER = st.sampled_from(TAME) | st.sampled_from(TAME) | st.sampled_from(AWKWARD)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "integer": st.sampled_from((0, -1, 7, 2**53 + 1, 2**64 + 1)),
    "number": st.sampled_from((0.5, -1.25, 2.0, 1e300, 3)),
    "boolean": st.booleans(),
}
LISTS = st.sampled_from(
    ({"style": "pipeDelimited"}, {"style": "form", "explode": False}, {"contentType": "text/plain"})
)


class Made(NamedTuple):
    """One parameter or one property of a form: where, its name, what the document says of it, and valid values."""

    place: str
    name: str
    node: dict[str, Any]
    values: tuple[Any, ...]
    required: bool


class Document(NamedTuple):
    """A document of one operation, the parameters and properties of it, and what its form says of their encoding."""

    version: str
    text: dict[str, Any]
    parameters: tuple[Made, ...]
    form: str
    properties: tuple[Made, ...]
    encodings: dict[str, Any]


@st.composite
def _shapes(draw: st.DrawFn, place: str, kinds: tuple[str, ...]) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    """Draw a schema, and the values that it accepts."""
    kind = draw(st.sampled_from(kinds))
    inner = draw(st.sampled_from(tuple(SCALARS)))
    texts = SAFER if place in ("path", "header", "cookie") else TEXTS
    scalars = texts if inner == "string" else SCALARS[inner]
    if kind == "array":
        return {"type": "array", "items": {"type": inner}}, st.lists(scalars, max_size=3)
    if kind == "object":
        keys = st.sampled_from(("R", "G", "B")) | (texts.filter(bool) if place != "header" else st.just("X-Y"))
        return {"type": "object", "additionalProperties": {"type": inner}}, st.dictionaries(keys, scalars, max_size=3)
    return {"type": inner}, scalars


@st.composite
def _parameters(draw: st.DrawFn, version: str, place: str, name: str) -> Made:
    node: dict[str, Any] = {}
    kinds: tuple[str, ...] = ("scalar", "array", "object")
    if place == "querystring" or draw(st.integers(0, 4)) == 0:
        media_type = draw(st.sampled_from(("application/json", "text/plain", FORM)))
        reply = {"schema": {}}
        if media_type == FORM:
            reply = {"schema": {"type": "object"}}
            scalars = st.one_of(*SCALARS.values())
            values = st.dictionaries(TEXTS, scalars | st.lists(scalars, min_size=1, max_size=2), min_size=1, max_size=2)
            if draw(st.booleans()):
                reply = {"schema": {"type": "object", "properties": {"list": {}}}, "encoding": {"list": draw(LISTS)}}
                values = st.builds(
                    lambda one, more: {"list": one, **more}, st.lists(scalars, min_size=1, max_size=3), values
                )
        elif media_type == "text/plain":
            reply = {"schema": {"type": "string"}}
            values = SAFER if place != "query" else TEXTS
        else:
            values = VALUES
        node = {"content": {media_type: reply}}
    else:
        style = draw(
            st.none() | st.sampled_from((*STYLES[place], *(("cookie",) * (place == "cookie" and version == "3.2.0"))))
        )
        if style is not None:
            node["style"] = style
        explode = draw(st.none() | st.booleans())
        if style in ("spaceDelimited", "pipeDelimited"):
            kinds = ("array", "object")
            explode = explode and None  # true is undefined there
        if style == "deepObject":
            kinds = ("object",)
        if explode is not None:
            node["explode"] = explode
        if draw(st.booleans()):
            node["allowReserved"] = draw(st.booleans())
        schema, values = draw(_shapes(place, kinds))
        node["schema"] = schema
    required = place == "path" or draw(st.booleans())
    node |= {"required": True} if required else {}
    return Made(place, name, node, tuple(draw(st.lists(values, min_size=2, max_size=2))), required)


@st.composite
def _old_parameters(draw: st.DrawFn, place: str, name: str) -> Made:
    """Draw a parameter of Swagger 2.0."""
    texts = SAFER if place in ("path", "header") else TEXTS
    inner = draw(st.sampled_from(tuple(SCALARS)))
    scalars = texts if inner == "string" else SCALARS[inner]
    node: dict[str, Any] = {"type": inner}
    values: st.SearchStrategy[Any] = scalars
    for level in range(draw(st.integers(0, 2))):
        node = {"type": "array", "items": node}
        several = level == 1 and place in ("query", "formData")
        how = draw(st.none() | st.sampled_from(("csv", "ssv", "tsv", "pipes", *(("multi",) * several))))
        node |= {"collectionFormat": how} if how is not None else {}
        values = st.lists(values, min_size=1, max_size=3)
    if node["type"] == "array" and place in ("query", "formData") and draw(st.booleans()):
        node["collectionFormat"] = "multi"
    required = place == "path" or draw(st.booleans())
    node |= {"required": True} if required else {}
    return Made(place, name, node, tuple(draw(st.lists(values, min_size=2, max_size=2))), required)


@st.composite
def _properties(draw: st.DrawFn, version: str, form: str, name: str) -> tuple[Made, dict[str, Any] | None]:
    """Draw a property of a form, and its Encoding Object."""
    reply: dict[str, Any] | None = None
    kinds: tuple[str, ...] = ("scalar", "array", "object")
    how = draw(st.sampled_from(("plain", "style", "type", "file")))
    if how == "file" and form == MULTIPART:
        node: dict[str, Any] = {"type": "string", "format": "binary"}
        values: st.SearchStrategy[Any] = st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode())
        reply = draw(st.none() | st.just({"contentType": "image/png"}))
    else:
        if how == "style":
            style = draw(st.sampled_from(STYLES["query"]))
            reply = {"style": style}
            kinds = {"deepObject": ("object",), "form": kinds}.get(style, ("array", "object"))
            if style == "form" and draw(st.booleans()):
                reply["explode"] = draw(st.booleans())
            if draw(st.booleans()):
                reply["allowReserved"] = True
        elif how == "type":
            kinds = ("scalar", "array")
            reply = {
                "contentType": draw(st.sampled_from(("application/json", "text/plain", "text/x-one; charset=utf-8")))
            }
        node, values = draw(_shapes("form", kinds))
    return Made("form", name, node, tuple(draw(st.lists(values, min_size=2, max_size=2))), draw(st.booleans())), reply


def _add_prefix(prefix: str, made: list[Made]) -> dict[str, Made]:
    return {f"{prefix}{number}:": one for number, one in enumerate(made)}


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Draw a document. Each parameter is described by ``P`` and its number, each property by ``F`` and its number."""
    version = draw(st.sampled_from(VERSIONS))
    places = ["path", "query", "query", "header", *(["cookie"] if version != "2.0" else [])]
    if version == "3.2.0" and draw(st.integers(0, 3)) == 0:
        places = ["path", "querystring", "header", "cookie"]
    chosen = draw(st.lists(st.sampled_from(range(len(places))), min_size=1, unique=True))
    pairs = draw(
        st.tuples(*(st.tuples(st.just(places[at]), st.sampled_from(NAMES[places[at]])) for at in chosen)).map(
            dict.fromkeys
        )
    )
    old = version == "2.0"
    made = [draw(_old_parameters(*pair) if old else _parameters(version, *pair)) for pair in pairs]
    form = draw(st.sampled_from(("", FORM, MULTIPART)))
    names = draw(st.lists(st.sampled_from(NAMES["form"]), min_size=1, max_size=3, unique=True)) if form else []
    properties: list[Made] = []
    encodings: dict[str, Any] = {}
    for name in names:
        if old:
            properties.append(draw(_old_parameters("formData", name)))
            continue
        one, reply = draw(_properties(version, form, name))
        properties.append(one)
        encodings |= {name: reply} if reply is not None else {}
    path = "/r" + "".join(
        draw(st.sampled_from(("/{%s}", "/a/{%s}/z", "/{%s}.json"))) % one.name for one in made if one.place == "path"
    )
    listed = [
        {"name": one.name, "in": one.place, "description": mark, **one.node}
        for mark, one in _add_prefix("P", made).items()
    ]
    marked = _add_prefix("F", properties)
    operation: dict[str, Any] = {"operationId": "a", "x-llm": {}, "responses": {"200": {"description": ""}}}
    if old:
        listed += [
            {"name": one.name, "in": "formData", "description": mark, **one.node} for mark, one in marked.items()
        ]
        operation |= {"parameters": listed} | ({"consumes": [form]} if form else {})
        head: dict[str, Any] = {"swagger": "2.0"}
    else:
        operation["parameters"] = listed
        head = {"openapi": version}
        if form:
            schema = {
                "type": "object",
                "properties": {one.name: {**one.node, "description": mark} for mark, one in marked.items()},
                "required": [one.name for one in properties if one.required],
            }
            operation["requestBody"] = {"required": True, "content": {form: {"schema": schema, "encoding": encodings}}}
    text = {**head, "info": {"title": "T", "version": "1"}, "paths": {path: {"post" if form else "get": operation}}}
    return Document(version, text, tuple(made), form, tuple(properties), encodings)
