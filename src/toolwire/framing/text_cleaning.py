"""Remove what a person cannot see from untrusted text, before a model or a screen gets it.

Rules:
- Gone are all that Unicode calls default-ignorable (tags, fillers, zero-width and bidirectional controls, variation
  selectors), C0 and C1 except line breaks and tabs, and whole terminal sequences; what is left is in NFC.
- Joiners and selectors stay where they change what is seen: in emoji, and between letters of scripts that join.
- Nothing that a person can read is changed: visible instructions are contained elsewhere, not filtered here.
- ``clean`` of a text differs from its NFC exactly where something was hidden in it.
- In a tool, names of arguments and values that are compared stay as they are: a call would else not be the site's.
"""
# D-01: the rules above.

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple
from unicodedata import normalize

from toolwire.core.model import Json, Schema, Tool, copy_tool, get_stored_schemas
from toolwire.core.subschemas import change_subschemas

from .unicode_tables import EMOJI, IGNORABLE, JOINS, JOINS_BOTH, VIRAMA

_CONTEXTUAL = "\u180b-\u180d\u180f\u200c\u200d\ufe0e\ufe0f"  # shapes of scripts, and emoji, need them in their places
_SUSPECT = re.compile(  # quicker, and a little too wide
    rf"[{IGNORABLE}\ufdd0-\ufdef\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_IN_PLACE = re.compile(f"[{_CONTEXTUAL}]")
_SENTENCE_END = re.compile(r"[.!?\u3002](?=\s)|\n")

_PLAIN = bytes((9, 10, 13, *range(0x20, 0x7F)))
_SMALL = 65_536
_SPELLED = re.compile(  # hidden characters as escapes of JSON or YAML
    rb"\\(?:u(?:00[01789aA]|[fF][dD][dDeE]|034[fF]|061[cC]|115[fF]|1160|17[bB]|180|20[026]|3164|[fF][eE][0fF]|[fF][fF][aAfF]"
    rb"|[dD]834|[dD][bB]4|[dD][89a-cA-C])|[abefvPN_L0]|r(?!\\n)|x[01789aA]|U000[0eE1])"
)


class CleanText(NamedTuple):
    """A text without what was hidden in it, and how many characters that were."""

    text: str
    removed: int = 0


@cache  # compiled for the first text that may hide something, because that takes as long as importing ten modules
def _get_hidden() -> re.Pattern[str]:
    """Return the pattern of all that is hidden."""
    escape = r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|[ -/]*[0-~]?)"
    c1_sequence = r"\x9b[0-?]*[ -/]*[@-~]?|[\x90\x98\x9d-\x9f][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    control = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)"
    invisible = f"(?![{_CONTEXTUAL}])[{IGNORABLE}\ufdd0-\ufdef\ufff9-\ufffb\ufffe\uffff\ud800-\udfff]"
    selector = rf"(?<![{EMOJI}0-9#*])[\ufe0e\ufe0f]|(?<=[0-9#*])[\ufe0e\ufe0f](?!\u20e3)"
    mongolian = r"(?<![\u1820-\u18aa])[\u180b-\u180d\u180f]"
    non_joiner = rf"\u200c(?<![{VIRAMA}]\u200c)(?!(?<=[{JOINS_BOTH}]\u200c)[{JOINS}])"
    joiner = (
        rf"\u200d(?<![{VIRAMA}]\u200d)(?!(?<=[{EMOJI}\U0001f3fb-\U0001f3ff\ufe0f]\u200d)[{EMOJI}])"
        rf"(?!(?<=[{JOINS_BOTH}]\u200d)(?![{JOINS}\u200c\u200d]))(?!(?<![{JOINS_BOTH}\u200c\u200d]\u200d)[{JOINS}])"
    )
    return re.compile("|".join((escape, c1_sequence, control, invisible, selector, mongolian, non_joiner, joiner)))


def clean(text: str) -> CleanText:
    """Return ``text`` as a person would read it."""
    # D-01, D-03
    if text.isascii() and text.isprintable():
        return CleanText(text)
    if _SUSPECT.search(text) is None or _get_hidden().search(text) is None:
        return CleanText(text if text.isascii() else normalize("NFC", text))
    plain = text
    while _get_hidden().search(plain) is not None:  # what is taken out may bring two halves of a sequence together
        plain = _get_hidden().sub("", plain)
    return CleanText(normalize("NFC", plain), len(text) - len(plain))


def clean_data(data: Json) -> Json:
    """Return ``data`` with all texts and names cleaned; if two names become equal, the first member stays."""
    if isinstance(data, str):
        return clean(data).text
    if isinstance(data, list):
        return [clean_data(item) for item in data]
    if isinstance(data, dict):
        names: dict[str, Json] = {}
        for name, item in data.items():
            names.setdefault(clean(name).text, clean_data(item))
        return names
    return data


def cap_text(text: str, limit: int) -> str:
    """Return ``text`` in at most ``limit`` characters, cut after a sentence if one ends in its last third."""
    # XL-071
    if len(text) <= limit:
        return text
    room = text[: limit - 1]
    ends = [found.start() + 1 for found in _SENTENCE_END.finditer(room, limit * 2 // 3)]
    return room[: ends[-1] if ends else len(room)].rstrip() + "\u2026"


def may_hide(document: bytes) -> bool:
    """Return whether a JSON or YAML text may hide something; ``False`` is certain, ``True`` is not."""
    if len(document) <= _SMALL and b"\\" not in document and not document.translate(None, _PLAIN):
        return False  # most results
    if b"\\" in document and _SPELLED.search(document) and _SPELLED.search(document.replace(b"\\\\", b"")):
        return True
    from .jsontext import split_text  # here, because --help cleans text and reads no JSON

    odd = set[str]()
    for part in split_text(document.removeprefix(b"\xef\xbb\xbf")):
        odd.update(part.translate(None, _PLAIN).decode("utf-8", "replace"))
    if not odd:
        return False
    if any(_get_hidden().search(character) for character in odd if not _IN_PLACE.match(character)):
        return True
    if not any(_IN_PLACE.match(character) for character in odd):
        return False
    text = document.decode("utf-8", "replace")
    return any(_get_hidden().match(text, found.start()) for found in _IN_PLACE.finditer(text))


def is_suspect(text: str) -> bool:
    """Return whether ``text`` may hide something; faster than ``clean``, with some false alarms."""
    return not (text.isascii() and text.isprintable()) and _SUSPECT.search(text) is not None


def is_hidden(text: str, place: int) -> bool:
    """Return whether the character of ``text`` at ``place`` is hidden there."""
    return _get_hidden().match(text, place) is not None


def find_hidden(data: Json) -> Iterator[tuple[str | int, ...]]:
    """Yield the path to each text in ``data``, or name of a member, in which something is hidden."""
    waiting: list[tuple[tuple[str | int, ...], Json]] = [((), data)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, str):
            if is_suspect(node) and clean(node).removed:
                yield path
        elif isinstance(node, list):
            waiting.extend(((*path, number), item) for number, item in enumerate(node))
        elif isinstance(node, dict):
            for name, item in node.items():
                if is_suspect(name) and clean(name).removed:
                    yield (*path, name)
                waiting.append(((*path, name), item))


_TEXTS: Final = frozenset(("title", "description", "$comment", "examples"))


def make_readable(tool: Tool) -> Tool:
    """Return ``tool`` without what is hidden in its texts: the same object where that is nothing."""
    changes: dict[str, Json] = {}
    for name, text in (("description", tool.description), ("hint", tool.hint), ("output_name", tool.output_name)):
        if is_suspect(text) and (plain := clean(text)).removed:
            changes[name] = plain.text
    for name, schema in get_stored_schemas(tool).items():
        if isinstance(schema, dict) and next(find_hidden(schema), None) is not None:  # any other was read with care
            changes[name] = clean_schema(schema)
    return copy_tool(tool, **changes) if changes else tool


def clean_schema(schema: Schema) -> dict[str, Json]:
    """Return ``schema`` with nothing hidden in its titles, descriptions, comments and examples, at any depth."""
    built = change_subschemas(schema, _clean_subschema)
    return built | {key: clean_data(value) for key, value in schema.items() if key in _TEXTS}


def _clean_subschema(inner: Json, _keyword: str, _name: str) -> Json:
    return clean_schema(inner) if isinstance(inner, Mapping) else inner
