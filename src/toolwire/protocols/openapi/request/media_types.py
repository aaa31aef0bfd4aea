"""Parse and classify media types as documents write them: in any case, with parameters, in lists."""

from __future__ import annotations

import re

ANY_TYPE = "*/*"

_TYPE = r"[!#$&^_.+A-Za-z0-9-]+/[!#$&^_.+A-Za-z0-9-]+"
# D-15: possessive, so that many spaces take no time of their number squared.
_PARAMETER = re.compile(r'\s*+;\s*+([!#$&^_.+A-Za-z0-9-]+)=("(?:[^"\\\r\n]|\\[ -~])*"|[!#$&\'*+.^_`|~0-9A-Za-z/:-]+)')
_WHOLE = re.compile(rf"({_TYPE})((?:{_PARAMETER.pattern})*)\s*+(?:;\s*+)?")
_WRITTEN_PARAMETERS = frozenset(("boundary", "charset", "q"))
_UTF_8 = frozenset(("utf-8", "utf8", "us-ascii"))
_TEXT = frozenset(
    (
        *("application/graphql", "application/javascript", "application/sdp", "application/sql", "application/toml"),
        *("application/x-sh", "application/x-yaml", "application/yaml", "application/rtf", "image/svg+xml"),
    )
)
_BINARY = ("audio/", "font/", "image/", "video/")
_BINARY_TYPES = frozenset(
    (
        *("application/gzip", "application/octet-stream", "application/pdf", "application/x-tar", "application/zip"),
        *("application/x-zip-compressed", "application/x-gzip", "application/msword", "application/wasm"),
    )
)


def get_essence(media_type: str) -> str:
    """Return ``media_type`` in lower case and without parameters."""
    return media_type.partition(";")[0].strip().lower()


def get_first(media_types: str) -> str:
    """Return the first of a comma-separated list."""
    return media_types.partition(",")[0].strip() if '"' not in media_types else media_types.strip()


def choose_type(declared: str, actual: str) -> str:
    """Return the type to send data of type ``actual`` as: ``actual`` or the first, of the list ``declared``."""
    types = [one.strip() for one in declared.split(",")] if '"' not in declared else [declared.strip()]
    kind = get_essence(actual)
    for one in types:
        essence = get_essence(one)
        if essence in (kind, ANY_TYPE) or (essence.endswith("/*") and kind.startswith(essence[:-1])):
            return actual if "*" in essence else one
    # A range cannot be sent.
    return next((one for one in types if one and "*" not in one), actual)


def is_json(media_type: str) -> bool:
    """Return whether data of ``media_type`` is JSON."""
    kind = get_essence(media_type)
    return kind.endswith(("/json", "+json"))


def is_xml(media_type: str) -> bool:
    """Return whether data of ``media_type`` is XML."""
    return get_essence(media_type).endswith(("/xml", "+xml"))


def is_text(media_type: str) -> bool:
    """Return whether data of ``media_type`` is text for people: neither JSON nor XML."""
    kind = get_essence(media_type)
    return kind.startswith("text/") or kind.endswith(("/yaml", "+yaml")) or kind in _TEXT


def is_binary(media_type: str) -> bool:
    """Return whether data of ``media_type`` is never text."""
    kind = get_essence(media_type)
    return kind in _BINARY_TYPES or (kind.startswith(_BINARY) and not is_xml(kind) and not is_text(kind))


def write_content_type(media_type: str) -> str:
    """Return ``media_type`` as Content-Type, without ``boundary`` and without a charset other than UTF-8.

    Other parameters stay. JSON gets no charset, and an invalid media type no parameters.
    """
    whole = _WHOLE.fullmatch(media_type.strip())
    # What is no media type by the grammar must not bring further header text with it.
    if whole is None:
        return get_essence(media_type)
    parameters = [
        f"{name.lower()}={value}"
        for name, value in _PARAMETER.findall(whole[2])
        if name.lower() not in _WRITTEN_PARAMETERS or (name.lower() == "charset" and _is_implied(whole[1], value))
    ]
    return "; ".join([whole[1].lower(), *parameters])


def _is_implied(kind: str, charset: str) -> bool:
    # RFC 8259, 11: JSON has no charset parameter; it is always UTF-8.
    return not is_json(kind) and charset.strip('"').lower() in _UTF_8
