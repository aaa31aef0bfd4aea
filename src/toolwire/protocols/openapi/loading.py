"""A document from bytes: JSON or YAML by its content, and what a quick look at its text says of the whole.

Rules:
- The content decides, not the content type; a byte order mark is tolerated. [XL-013]
- Two members of one name in an object are refused: two readers could each believe another. [D-16]
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import cleaning, jsontext, positions, yamltext

from .collecting import paused
from .findings import Note

_BOM = b"\xef\xbb\xbf"
_YAML = re.compile(rb"(?:^|\n)(?:%YAML|---|[\"']?(?:openapi|swagger)[\"']?[ \t]*:)")
_REFERENCE = re.compile(rb"""\$ref["']?\s*:\s*(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"',{}\[\]][^\s,{}\[\]]*))""")
_NAMES = re.compile(rb"""\$(?:id|anchor|self|dynamicAnchor|dynamicRef)["']?\s*:""")
_SPACED_NAME = re.compile(rb'"[ \t\r\n]+:')
_SPACED_COLONS = (b" :", b"\n:", b"\t:", b"\r:")
_ESCAPED_NAME = re.compile(rb"\\u00(?:09|0[aAdD]|2[02]|3[aA])")


class Loaded(NamedTuple):
    """The data of a document. ``hidden`` says that some text in it hides something; ``references`` is each ``$ref``.

    ``named`` says that it has names for its parts besides JSON pointers: ``$id``, ``$anchor`` or ``$self``. ``notes``
    is what was found on the way to what it is now.
    """

    data: Json
    hidden: bool = False
    references: frozenset[str] = frozenset()
    named: bool = False
    notes: tuple[Note, ...] = ()


def load(text: bytes) -> Loaded | Problem:
    """Return what the JSON or YAML ``text`` says, or a Problem whose message is the rest of "it ...". [XL-013]"""
    with paused():
        return _load(text)


def _load(text: bytes) -> Loaded | Problem:
    text = text.removeprefix(_BOM)
    start = text[:512].lstrip()
    if start[:1] == b"<":
        return _unfit("is a web page")
    if start[:1] not in (b"{", b"[") and _YAML.search(text[:65_536]) is not None:
        data = yamltext.read(text)
        if isinstance(data, Problem):
            return _unfit(f"is YAML that is not read: {data.message.partition(': ')[2].rstrip('.')}")
    else:
        data = jsontext.read(text)
        if isinstance(data, Problem):
            return _unfit("is nested too deep" if "deeper" in data.message else "is not JSON")
        if _repeats(text, data):
            return _unfit("says two things of one name: an object in it has a member twice")
    named = b"$" in text and _NAMES.search(text) is not None
    return Loaded(data, cleaning.may_hide(text), _references(text), named)


def _repeats(text: bytes, data: Json) -> bool:
    """Return whether an object in ``text`` has two members of one name.

    A parser keeps one of them, so that what it gives, written again, has fewer names. Texts in which that could not
    be counted by looking for a quote and a colon are read once more, slowly.
    """
    if not isinstance(data, dict | list):
        return False
    spaced = any(space in text for space in _SPACED_COLONS) and _SPACED_NAME.search(text) is not None
    if not spaced and _ESCAPED_NAME.search(text) is None:
        return text.count(b'":') != jsontext.write(data).count(b'":')
    return positions.repeats(text.decode())


def _references(text: bytes) -> frozenset[str]:
    found = {a or b or c for a, b, c in set(_REFERENCE.findall(text))}
    return frozenset(_unescaped(one) for one in found if one)


def _unescaped(reference: bytes) -> str:
    if b"\\" not in reference:
        return reference.decode("utf-8", "replace")
    try:
        return str(json.loads(b'"' + reference + b'"'))
    except ValueError:
        return reference.decode("utf-8", "replace")


def _unfit(meaning: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=meaning)
