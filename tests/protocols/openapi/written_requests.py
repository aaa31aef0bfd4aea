"""What a request must look like on the wire, by the text of the specifications alone: nothing of toolwire is used here.

Parameters follow RFC 6570, section 3.2.1 (the expansion algorithm) with the operators that OpenAPI gives its styles
("Style Values"); Swagger 2.0's arrays follow its ``collectionFormat``. Values are scalars, and arrays and objects of
scalars; JSON inside a request is compared as data, so it has no writer here.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes

UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
RESERVED = ":/?#[]@!$&'()*+,;="
FORM = "application/x-www-form-urlencoded"
DELIMITERS = {"csv": ",", "ssv": " ", "tsv": "\t", "pipes": "|"}

# style: what comes first, what stands between, whether names are written, what an empty value has after its name
OPERATORS = {
    "simple": ("", ",", False, ""),
    "label": (".", ".", False, ""),
    "matrix": (";", ";", True, ""),
    "form": ("", "&", True, "="),
}

STYLED = {"style", "explode", "allowReserved"}

Encode = Callable[[str], str]
Part = tuple[str, str, bytes]


def escape(text: str, keep: str = "") -> str:
    """Percent-encode all but what is unreserved, and ``keep``."""
    stored = UNRESERVED + keep
    return "".join(chr(byte) if chr(byte) in stored else f"%{byte:02X}" for byte in text.encode())


def escape_reserved(text: str, never: str, *, triples: bool) -> str:
    """Percent-encode as RFC 6570 section 3.2.3 does, and what is in ``never`` besides."""
    keep = "".join(one for one in RESERVED if one not in never)
    parts = re.split("(%[0-9A-Fa-f]{2})", text) if triples else [text]
    return "".join(part if number % 2 else escape(part, keep) for number, part in enumerate(parts))


def text_of(value: Any) -> str:
    """Return a scalar as text: as JSON writes it in its shortest form, and a text as it is."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value).replace("e+", "e")


def expand(style: str, name: str, value: Any, explode: bool, encode: Encode, between: str = "") -> str | None:
    """Expand one variable; None where it is undefined: null, or without members."""
    if value is None or value in ([], {}):
        return None
    first, separator, named, if_empty = OPERATORS[style]
    separator = between or separator

    def with_name(key: str, text: str) -> str:
        return f"{key}={text}" if text else key + if_empty

    if not isinstance(value, list | dict):
        text = encode(text_of(value))
        return first + (with_name(escape(name), text) if named else text)
    if not explode:
        members = value if isinstance(value, list) else [one for pair in value.items() for one in pair]
        text = ",".join(encode(text_of(one)) for one in members)
        return first + (with_name(escape(name), text) if named else text)
    if isinstance(value, list):
        texts = [encode(text_of(one)) for one in value]
        return first + separator.join(with_name(escape(name), text) if named else text for text in texts)
    key_of = str if encode is str else escape
    pairs = [(key_of(key), encode(text_of(one))) for key, one in value.items()]
    return first + separator.join(with_name(key, text) if named else f"{key}={text}" for key, text in pairs)


def write_styled(place: str, version: str, node: dict[str, Any], name: str, value: Any) -> str | None:
    """Return a parameter with a style as it stands in its place; None for nothing."""
    style = node.get("style", "form" if place in ("query", "cookie") else "simple")
    explode = node.get("explode", style in ("form", "cookie"))
    reserved = node.get("allowReserved") is True and (place == "query" or version == "3.2.0")
    if place == "header":
        return expand("simple", name, value, explode, str)
    if style == "cookie":
        return expand("form", name, value, explode, str, between="; ")
    if style == "deepObject":
        pairs = deep(escape(name), value, query_reserved("") if reserved else escape)
        return "&".join(f"{key}={text}" for key, text in pairs) or None
    if style in ("spaceDelimited", "pipeDelimited"):
        encode = query_reserved("") if reserved else escape
        members = value if isinstance(value, list) else [one for pair in value.items() for one in pair]
        delimiter = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}[style]
        return f"{escape(name)}={delimiter.join(encode(text_of(one)) for one in members)}" if members else None
    several = isinstance(value, list | dict)
    comma = "," if several and not (explode and style in ("form", "label", "matrix")) else ""
    encode = escape
    if reserved and place == "path":  # a value stays in its segment, and a member apart from the next
        never = "/?#[]" + comma + (";" if style == "matrix" else "")

        def encode(text: str) -> str:
            return escape_reserved(text, never, triples=False)
    elif reserved:
        encode = query_reserved(comma + (";" if place == "cookie" else ""))
    return expand(style, name, value, explode, encode, between="; " if place == "cookie" else "")


def query_reserved(more: str) -> Encode:
    """Reserved expansion for a query: what OpenAPI leaves to the application is encoded."""
    return lambda text: escape_reserved(text, "[]#&+" + more, triples=True)


def deep(name: str, value: Any, encode: Encode) -> list[tuple[str, str]]:
    """Return ``name[key]=value`` as deep as it goes, the items of an array numbered."""
    if isinstance(value, list | dict):
        members = enumerate(value) if isinstance(value, list) else value.items()
        return [pair for key, one in members for pair in deep(f"{name}%5B{escape(str(key))}%5D", one, encode)]
    return [(name, encode(text_of(value)))]


def write_collection(place: str, node: dict[str, Any], name: str, value: Any) -> str | None:
    """Return a parameter of Swagger 2.0 as it stands in its place."""
    encode = str if place == "header" else escape
    if isinstance(value, list) and not value:
        return None
    if isinstance(value, list) and node.get("collectionFormat") == "multi":
        return "&".join(f"{escape(name)}={join_items(node['items'], one, encode)}" for one in value)
    text = join_items(node, value, encode)
    return f"{escape(name)}={text}" if place == "query" else text


def join_items(node: dict[str, Any], value: Any, encode: Encode) -> str:
    """Return an array of Swagger 2.0, and those in it, with the delimiters between that each is declared with."""
    if not isinstance(value, list):
        return encode(text_of(value))
    delimiter = DELIMITERS[node.get("collectionFormat", "csv")]
    return (delimiter if delimiter == "," else encode(delimiter)).join(
        join_items(node["items"], one, encode) for one in value
    )


def content(media_type: str, value: Any, encodings: dict[str, Any]) -> str:
    """Return ``value`` in the media type of a parameter."""
    if media_type == FORM:
        return "&".join(form_fields(value, encodings))
    return json_of(value) if media_type == "application/json" else text_of(value)


def list_collection_parts(data: dict[str, Any], nodes: dict[str, Any]) -> list[Part]:
    """Return what the parts of a multipart form of Swagger 2.0 are."""
    parts: list[Part] = []
    for name, value in data.items():
        node = nodes[name]
        several = isinstance(value, list) and node.get("collectionFormat") == "multi"
        each = [(node["items"], one) for one in value] if several else [(node, value)]
        parts += [(name, "", join_items(inner, one, str).encode()) for inner, one in each]
    return parts


def form_fields(data: dict[str, Any], encodings: dict[str, Any]) -> list[str]:
    """Return the fields of a form by the Encoding Object of each, else one for a scalar and for each item."""
    fields: list[str] = []
    for name, value in data.items():
        reply = encodings.get(name, {})
        if reply.keys() & STYLED:
            text = write_styled("query", "", reply, name, value)
            fields += [text] if text is not None else []
            continue
        texts = json_of if reply.get("contentType") == "application/json" else text_or_json
        fields += [f"{escape(name)}={escape(texts(one))}" for one in (value if isinstance(value, list) else [value])]
    return fields


def json_of(value: Any) -> str:
    """Return ``value`` as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text_or_json(value: Any) -> str:
    """Return a scalar as its text, and an object as JSON."""
    return json_of(value) if isinstance(value, dict) else text_of(value)


def form_parts(data: dict[str, Any], encodings: dict[str, Any], files: frozenset[str], *, styles: bool) -> list[Part]:
    """Return what the parts of a multipart form are: name, content type ("" for none), bytes.

    ``styles`` says that the version has styles in a multipart form, where nothing is percent-encoded.
    """
    parts: list[Part] = []
    for name, value in data.items():
        reply = encodings.get(name, {})
        if styles and reply.keys() & STYLED:
            parts += [(key, "", text.encode()) for key, text in plain_pairs(reply, name, value)]
            continue
        for one in value if isinstance(value, list) else [value]:
            declared = reply.get("contentType", "")
            if name in files:
                parts.append((name, declared or "application/octet-stream", base64.b64decode(one)))
            elif isinstance(one, dict) or declared == "application/json":
                parts.append((name, "application/json", json_of(one).encode()))
            else:
                parts.append((name, declared, text_of(one).encode()))
    return parts


def plain_pairs(said: dict[str, Any], name: str, value: Any) -> list[tuple[str, str]]:
    """Return the names and values that a style makes of a value, with nothing encoded."""
    style = said.get("style", "form")
    if value in ([], {}):
        return []
    if style == "deepObject":
        return [(f"{name}[{key}]", text_of(one)) for key, one in value.items()]
    if not isinstance(value, list | dict):
        return [(name, text_of(value))]
    if said.get("explode", style == "form"):
        members = value.items() if isinstance(value, dict) else ((name, one) for one in value)
        return [(key, text_of(one)) for key, one in members]
    flat = value if isinstance(value, list) else [one for pair in value.items() for one in pair]
    between = {"form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}[style]
    return [(name, between.join(text_of(one) for one in flat))]


def parts_of(body: bytes, boundary: str) -> list[tuple[dict[str, str], bytes]]:
    """Take a multipart body apart: the header fields and the bytes of each part."""
    mark = b"--" + boundary.encode()
    assert body.startswith(mark + b"\r\n") or body == mark + b"--\r\n"
    assert body.endswith(mark + b"--\r\n")
    parts = []
    for piece in body[: -len(mark) - 4].split(mark + b"\r\n")[1:]:
        assert piece.endswith(b"\r\n")
        head, _, data = piece[:-2].partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        parts.append((fields, data))
    return parts


def quote_name(name: str) -> str:
    """Return a name between quotes as the WHATWG's form encoding has it."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def may_be_refused(place: str, text: str) -> bool:
    """Return whether ``text`` cannot stand in its place: it would be another path, header or cookie, or break one."""
    if place == "header":
        return re.fullmatch(r"[!-~]([ \t!-~]*[!-~])?", text) is None
    if place == "cookie":  # a name is a token, and a value has no space, quote, semicolon or backslash
        pairs = [one.partition("=") for one in text.split("; ")]
        return any(
            re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) is None
            or re.fullmatch(r"[!#-:<-\[\]-~]*", value) is None
            for name, _, value in pairs
        )
    if place != "path":
        return False
    seen = text.encode()
    for _ in range(12):
        pieces = re.split(rb"[/\\]", seen)
        if any(piece.partition(b";")[0].strip() in (b".", b"..") for piece in pieces) or re.search(
            b"[\0-\x1f\x7f]", seen
        ):
            return True
        seen = unquote_to_bytes(seen)
    return text == ""
