"""Load a document from bytes: JSON or YAML, with facts about it that a search of the text finds quickly.

Rules:
- The content decides the format. If both are possible, the media type and the file name decide. A byte order mark is
  allowed.
- An object with two members of one name is refused: two readers could each use another of them.
"""
# The rules above: XL-013, D-16.

from __future__ import annotations

import json
import re
from typing import NamedTuple

from toolwire.core.interpreter import pause_collection
from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsontext, positions, text_cleaning, yamltext

from .consent_policy import SitePolicy
from .findings import Note

_BOM = b"\xef\xbb\xbf"
_LARGE = 1_048_576  # a text above this size is read so that other threads can run meanwhile
_REPEATS = "has an object with two members of one name"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_YAML_TYPES = frozenset(
    ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/vnd.yaml", "application/vnd.yaml")
)
_YAML_ENDINGS = (".yaml", ".yml")
_BEFORE_CONTENT = re.compile(rb"(?:\s+|\#[^\n]*(?:\n|\Z)|%[^\n]*(?:\n|\Z)|(?:---|\.\.\.)(?=\s))*+")
_YAML_CONTENT = re.compile(
    rb"""(?:[-?][ \t\r\n]|[&!][^\s,\[\]{}]*[ \t\r\n]"""  # an item, a long name, an anchor or a tag
    rb"""|(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s\#\[\]{}&*!|>'"%@`,-][^\n]{0,200}?)[ \t]*:[ \t\r\n])"""  # a name
)
_REFERENCE = re.compile(rb"""\$ref["']?\s*:\s*(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"',{}\[\]][^\s,{}\[\]]*))""")
_NAMES = re.compile(rb"""\$(?:id|anchor|self|dynamicAnchor|dynamicRef)["']?\s*:""")
_SPACED_NAME = re.compile(rb'"[ \t\r\n]+:')
_SPACED_COLONS = (b" :", b"\n:", b"\t:", b"\r:")
_ESCAPED_NAME = re.compile(rb"\\u00(?:09|0[aAdD]|2[02]|3[aA])")

_FLOW_CONTENT = re.compile(rb"\{[ \t\r\n]*[A-Za-z_][A-Za-z0-9_.-]*[ \t]*:[ \t\r\n]")  # braces and names without quotes


class Reading(NamedTuple):
    """The data of a text, or a Problem that says why it cannot be read. ``written_as`` is ``JSON`` or ``YAML``."""

    data: Json | Problem
    written_as: str


class Loaded(NamedTuple):
    """The data of a document. ``hidden``: a text in it may have hidden characters; ``references``: each ``$ref``.

    ``named``: parts of it have names besides JSON Pointers (``$id``, ``$anchor``, ``$self``). ``written_as`` is
    ``JSON`` or ``YAML``. ``write_only``: it may have writeOnly properties. ``notes`` are the findings of changes made
    after loading, such as an overlay. ``site`` is the policy at its root, if that was read.
    """

    data: Json
    hidden: bool = False
    references: frozenset[str] = frozenset()
    named: bool = False
    written_as: str = "JSON"
    write_only: bool = False
    notes: tuple[Note, ...] = ()
    site: SitePolicy | None = None


def load_document(text: bytes, media_type: str = "", name: str = "") -> Loaded | Problem:
    """Return the document in the JSON or YAML ``text``, or a Problem whose message is the rest of "it ...".

    ``media_type`` is the Content-Type of the response, ``name`` the URL or path of the document, if known.
    """
    with pause_collection():
        return _load(text, media_type, name)


def add_overlay_facts(loaded: Loaded, overlay: Json) -> Loaded:
    """Return ``loaded`` with the facts about the text of ``overlay`` too, because its updates enter the document."""
    # D-01: an overlay may hide text as well as a document does.
    try:
        text = jsontext.write(overlay)
    except (TypeError, ValueError):  # data of a program that is no JSON: no file can hold it
        return loaded._replace(hidden=True, write_only=True)
    return loaded._replace(
        hidden=loaded.hidden or text_cleaning.may_hide(text),
        references=loaded.references | _find_references(text),
        named=loaded.named or _NAMES.search(text) is not None,
        write_only=True,
    )


def read_data(text: bytes, media_type: str = "", name: str = "") -> Reading:
    """Return the data of ``text`` or a Problem, and the format, JSON or YAML, that it was read as."""
    text = _convert_to_utf_8(text)
    at = _BEFORE_CONTENT.match(text)
    before = b"" if at is None else at[0].strip()
    start = text[0 if at is None else at.end() :][:4_096]
    declared = _declares_yaml(media_type, name)
    # Only JSON documents of these two kinds can be OpenAPI; any other start is YAML or not for us.
    if start[:1] not in (b"{", b"["):
        is_yaml = declared or _YAML_CONTENT.match(start + b"\n") is not None
        return Reading(yamltext.read(text), "YAML") if is_yaml else Reading(jsontext.read(text), "JSON")
    # A text that is large is parsed by the reader that finds duplicates itself; the others are checked by counting.
    data = jsontext.read_without_duplicates(text) if len(text) > _LARGE else jsontext.read(text)
    # YAML in braces looks like JSON until the parser meets a name without quotes.
    if isinstance(data, Problem) and (before or declared or _FLOW_CONTENT.match(start)):
        return Reading(yamltext.read(text), "YAML")
    return Reading(data, "JSON")


def _declares_yaml(media_type: str, name: str) -> bool:
    media = media_type.partition(";")[0].strip().lower()
    path = name.partition("#")[0].partition("?")[0].lower()
    return media in _YAML_TYPES or media.endswith("+yaml") or path.endswith(_YAML_ENDINGS)


def _load(text: bytes, media_type: str, name: str) -> Loaded | Problem:
    text = _convert_to_utf_8(text)
    start = text[:512].lstrip()
    # "<<" is a merge key of YAML.
    if start[:1] == b"<" and not start.startswith(b"<<"):
        return _build_problem("is a web page")
    data, written_as = read_data(text, media_type, name)
    if isinstance(data, Problem):
        return _explain_unreadable(data, written_as)
    if written_as == "JSON" and len(text) <= _LARGE and _has_repeated_names(text, data):
        return _build_problem(_REPEATS)
    named = b"$" in text and _NAMES.search(text) is not None
    return Loaded(
        data, text_cleaning.may_hide(text), _find_references(text), named, written_as, write_only=b"writeOnly" in text
    )


def _convert_to_utf_8(text: bytes) -> bytes:
    """Return ``text`` as UTF-8 without byte order mark. YAML may be UTF-16, recognised by its mark."""
    if text.startswith(_UTF_16):
        return text.decode("utf-16", "replace").encode("utf-8", "replace")
    return text.removeprefix(_BOM)


def _explain_unreadable(problem: Problem, written_as: str) -> Problem:
    reason = problem.message.partition(": ")[2].rstrip(".")
    if "deeper" in problem.message:
        return _build_problem("is nested too deeply")
    if written_as == "YAML":
        return _build_problem(f"cannot be read as YAML: {reason}")
    if jsontext.DUPLICATE_MEMBER in reason:
        return _build_problem(_REPEATS)
    return _build_problem(f"is not JSON: {reason}")


def _has_repeated_names(text: bytes, data: Json) -> bool:
    """Return whether an object in ``text`` has two members of one name.

    A parser keeps one of them, so the data, written again, has fewer names. A text in which a search for a quote and a
    colon would count wrongly is parsed a second time by a slower parser.
    """
    if not isinstance(data, dict | list):
        return False
    spaced = any(space in text for space in _SPACED_COLONS) and _SPACED_NAME.search(text) is not None
    if not spaced and _ESCAPED_NAME.search(text) is None:
        # Counting is ten times faster than a parser that reports each name (docs/decisions/0022).
        return text.count(b'":') != jsontext.write(data).count(b'":')
    return positions.has_duplicates(text.decode())


def _find_references(text: bytes) -> frozenset[str]:
    # One search at a time: a list of all would keep other threads waiting for the whole of a large text.
    found = {one[one.lastindex or 0] for one in _REFERENCE.finditer(text)}
    return frozenset(_unescape(one) for one in found if one)


def _unescape(reference: bytes) -> str:
    if b"\\" not in reference:
        return reference.decode("utf-8", "replace")
    try:
        return str(json.loads(b'"' + reference + b'"'))
    except ValueError:
        return reference.decode("utf-8", "replace")


def _build_problem(meaning: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=meaning)
