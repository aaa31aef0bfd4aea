"""Read YAML text as JSON data, which is all that OpenAPI needs.

Rules:
- Plain scalars are what YAML 1.2's core schema says: ``1_000``, ``0b1``, ``on`` and ``2020-01-01`` are strings,
  ``0x10`` is 16. Names of members are strings as written: ``200:`` is ``"200"`` and ``1.10:`` is ``"1.10"``. There are
  no sets.
- Where a document can only mean text, a number stays as it is written: ``enum: [1.10]`` beside ``type: string``.
- An alias is a copy of what its anchor names. Aliases may add 1,000,000 values to a document; one inside its own anchor
  is refused.
- ``<<`` merges mappings as YAML 1.1 has it: the members of the mapping itself come first, then those of earlier ones.
- Names that repeat are refused, as are NaN and infinity. Nothing is deeper than 200.
- The parser of PyYAML gives one event after the other, and keeps no more than its state. Its composer and its
  constructors are not used: the composer calls itself for each level in native code.
"""
# The rules above: XL-013 (strings), D-16 (budgets), AT-31 (events only), O-32 (text as written).

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from toolwire.core.json_pointer import parse_pointer
from toolwire.core.model import Json, Kind, Problem

from .jsontext import MAX_DEPTH, MAX_DIGITS
from .positions import SyntaxFault, TextPosition, ValuePosition

MAX_COPIED: Final = 1_000_000
"""How many values the aliases of one document may add to it."""
MAX_EVENTS: Final = 5_000_000
"""How many names, values and ends of lists and mappings one document may have: about 90 MB of a usual one."""

_MAX_DIRECTIVES = 100
_MAX_DIRECTIVE = 1_000  # characters
_MERGE = "<<"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_TAG = "tag:yaml.org,2002:"
_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
_TOO_MANY_COPIES = f"its aliases stand for more than {MAX_COPIED:,} values"
_INSIDE_ITSELF = "an alias stands inside its own anchor"
_NO_TEXT = "the name of a member is not text"
_CORE = re.compile(
    r"(?P<null>null|Null|NULL|~|)|(?P<bool>true|True|TRUE|false|False|FALSE)|(?P<int>[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
    r"|(?P<merge><<)"
)
_CORE_STARTS = frozenset("nN~tTfF0123456789+-.<")
_IS_MERGE = "\0<<"  # stands for the name of a member that merges; "<<" in quotes is a name like any other
# What libyaml refuses, or takes for the end of a line as YAML 1.1 did, is passed through it as other characters.
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")
_STAND_IN = 0xF0000
_STAND_INS = re.compile("[\U000f0000-\U000fffff]")
_VERSION = re.compile(r"^(%YAML[ \t]+1\.)[0-9]", re.MULTILINE)
_DIRECTIVE = re.compile(r"^%(?:TAG|YAML).*", re.MULTILINE)
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*+)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_HALF_REFUSED = "found invalid Unicode character escape code"
_TEXT_VALUES = ("enum", "const", "default", "example", "examples")
_NAME_LISTS = ("required", "tags")


class _FaultError(Exception):
    """What is wrong with a text, and the line and the column, from 1."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(reason)
        self.fault = SyntaxFault(TextPosition(line, column), reason)


def read(text: bytes) -> Json | Problem:
    """Return the data of a YAML text, or a Problem that says what is wrong with it, and where."""
    try:
        return _read_data(text)
    except ImportError:
        return _build_problem("it is YAML, which needs an optional package: pip install 'toolwire[yaml]'")
    except _FaultError as error:
        (line, column), reason = error.fault
        if reason == _TOO_DEEP:  # AT-31: the same as for JSON
            message = f"The YAML is nested deeper than {MAX_DEPTH} levels at line {line} column {column}."
            return Problem(kind=Kind.MALFORMED, message=message)
        return _build_problem(f"{reason}, at line {line} column {column}")


def find_fault(text: bytes) -> SyntaxFault:
    """Return where and why ``text``, which ``read`` refuses, is not read."""
    try:
        _read_data(text)
    except ImportError:
        return SyntaxFault(TextPosition(1, 1), "it needs the extra: pip install 'toolwire[yaml]'")
    except _FaultError as error:
        return error.fault
    return SyntaxFault(TextPosition(1, 1), "it cannot be read")


def _read_data(text: bytes, spots: _Spots | None = None) -> Json:
    """Return the data of ``text``, and put where its values stand into ``spots``."""
    characters = _decode(text)
    try:
        return _build_data(_list_events(characters), spots)
    except _FaultError as error:
        if error.fault.reason != _HALF_REFUSED:
            raise
    return _build_data(_list_events(_PAIR.sub(_join_pair, characters)), spots)


def _decode(text: bytes) -> str:
    if text.startswith(_UTF_16):
        return text.decode("utf-16", "replace")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        good = text[: error.start].decode("utf-8-sig", "replace")
        raise _FaultError("it is not valid UTF-8", *_find_position(good, len(good))) from None


def _join_pair(pair: re.Match[str]) -> str:
    """Return the character that two escapes of JSON stand for together; libyaml takes each for itself."""
    return pair[1] + chr(0x10000 + ((int(pair[2], 16) - 0xD800) << 10) + int(pair[3], 16) - 0xDC00)


def _list_events(characters: str) -> Iterator[Any]:
    """Yield the events of PyYAML, which libyaml makes where it is built in.

    Raises:
        ImportError: PyYAML is not installed.
        _FaultError: the text is not YAML.
    """
    yaml = import_module("yaml")  # an extra, which only YAML documents need
    _check_directives(characters)
    readable = _VERSION.sub(r"\g<1>2", characters)
    stands_in = _UNREADABLE.search(readable) is not None and _STAND_INS.search(readable) is None
    if stands_in:
        readable = _UNREADABLE.sub(lambda one: chr(_STAND_IN + ord(one[0])), readable)
    try:
        for event in yaml.parse(readable, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if stands_in and getattr(event, "value", None):
                event.value = _STAND_INS.sub(lambda one: chr(ord(one[0]) - _STAND_IN), event.value)
            yield event
    except yaml.YAMLError as error:
        raise _describe_error(error, characters) from None


def _check_directives(characters: str) -> None:
    """Raise _FaultError where the directives of ``characters`` would take long: libyaml compares each with all."""
    # D-16: the prefix of a %TAG is copied into each tag.
    found = [one[0] for one in _DIRECTIVE.finditer(characters)] if "%" in characters else []
    if len(found) > _MAX_DIRECTIVES or any(len(one) > _MAX_DIRECTIVE for one in found):
        raise _FaultError("it has too many directives, or a long one", 1, 1)


def _describe_error(error: Any, characters: str) -> _FaultError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        reason = getattr(error, "problem", None) or getattr(error, "context", None) or "it cannot be read"
        if "cannot start any token" in reason and _get_character(characters, mark) == "\t":
            reason = "a tab indents a line, where YAML takes spaces only"
        return _FaultError(str(reason)[:200], mark.line + 1, mark.column + 1)
    reason = getattr(error, "reason", None) or "it cannot be read"
    return _FaultError(str(reason)[:200], *_find_position(characters, getattr(error, "position", None) or 0))


def _get_character(characters: str, mark: Any) -> str:
    lines = characters.splitlines()[mark.line : mark.line + 1]
    return lines[0][mark.column : mark.column + 1] if lines else ""


def _find_position(characters: str, at: int) -> tuple[int, int]:
    return characters.count("\n", 0, at) + 1, at - characters.rfind("\n", 0, at)


class _Open:
    """A list or mapping that has begun. ``name`` is that of the member to come; ``merged`` is what ``<<`` names.

    ``written`` keeps how numbers in it are written, by name or place: of a list among its members, those of the list.
    ``event`` began it, and ``name_event`` is that of the name of the member to come.
    """

    __slots__ = ("anchor", "data", "event", "merged", "name", "name_event", "written")

    def __init__(self, data: list[Json] | dict[str, Json], event: Any) -> None:
        self.data: Any = data
        self.anchor: str | None = event.anchor
        self.event = event
        self.name: str | None = None
        self.name_event: Any = None
        self.merged: list[dict[str, Json]] = []
        self.written: dict[Any, Any] = {}

    def wants_name(self) -> bool:
        return self.name is None and type(self.data) is dict

    def set_name(self, name: str) -> None:
        if name in self.data:
            raise ValueError(f"duplicate mapping key: {name[:100]!r}")
        self.name = name

    def add(self, value: Json, written: Any) -> None:
        if type(self.data) is list:
            if written:
                self.written[len(self.data)] = written
            self.data.append(value)
            return
        name, self.name = self.name, None
        if name is _IS_MERGE:
            merged = value if isinstance(value, list) else [value]
            if all(isinstance(one, dict) for one in merged):
                self.merged += merged
                return
            name = _MERGE  # with anything else it is a name like any other
        if written:
            self.written[name] = written
        self.data[name] = value


class _Anchored(NamedTuple):
    """What an anchor names. ``written`` is the text of a scalar, or that of a list or mapping as ``_Open`` has it.

    ``event`` is the one with which it begins.
    """

    value: Json
    written: Any
    event: Any


_UNFINISHED = _Anchored(None, None, None)


def _build_data(events: Iterator[Any], spots: _Spots | None) -> Json:
    """Return the data of ``events``: of several documents a list.

    Raises:
        _FaultError: it is more than JSON has, or than the limits allow.
    """
    builder = _Builder(spots)
    takers = {
        "ScalarEvent": builder.take_scalar,
        "MappingStartEvent": builder.begin_mapping,
        "SequenceStartEvent": builder.begin_list,
        "MappingEndEvent": builder.end,
        "SequenceEndEvent": builder.end,
        "AliasEvent": builder.take_alias,
        "DocumentStartEvent": builder.forget_anchors,
    }
    for number, event in enumerate(events):
        take = takers.get(type(event).__name__)
        try:
            if number > MAX_EVENTS:
                raise ValueError(f"it contains more than {MAX_EVENTS:,} names and values")
            if take is not None:
                take(event)
        except ValueError as error:
            raise _FaultError(str(error), event.start_mark.line + 1, event.start_mark.column + 1) from None
    roots = builder.take_roots()
    return roots if len(roots) > 1 else roots[0] if roots else None


class _Size(NamedTuple):
    """How many values a list or mapping is with all that it holds, and how many levels deep."""

    data: Json
    values: int
    levels: int


class _Spots:
    """Where the values of a text stand: its first document, and by the identity of each list or mapping its members."""

    __slots__ = ("members", "root")

    def __init__(self) -> None:
        self.root: TextPosition | None = None
        self.members: dict[int, dict[str, TextPosition]] = {}

    def record(self, above: _Open | None, event: Any) -> None:
        """Record the value of ``event``, which is about to be added to ``above``."""
        mark = event.start_mark
        if above is not None and above.name_event is not None:
            is_over_lines = type(event).__name__ != "ScalarEvent" and not event.flow_style
            mark = above.name_event.start_mark if is_over_lines else mark
        spot = TextPosition(mark.line + 1, mark.column + 1)
        if above is not None:
            place = str(len(above.data)) if above.name is None else above.name
            self.members[id(above.data)][place] = spot
        elif self.root is None:
            self.root = spot

    def merge(self, into: dict[str, Json], merged: dict[str, Json]) -> None:
        """Record the members of ``merged`` that ``into`` takes over."""
        self.members[id(into)] = self.members[id(merged)] | self.members[id(into)]


class _Builder:
    """Makes data of events. An alias shares what it names until all is read and known to be within the limits."""

    __slots__ = ("_above", "_anchors", "_left", "_roots", "_sizes", "_spots")

    def __init__(self, spots: _Spots | None) -> None:
        self._spots = spots
        self._roots: list[Json] = []
        self._above: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._sizes: dict[int, _Size] = {}  # of lists and mappings that aliases name, by identity
        self._left = MAX_COPIED

    def take_roots(self) -> list[Json]:
        """Return the documents, in which no two places share a list or mapping any more.

        Where spots are recorded, they stay shared, because a spot is that of what an alias names.
        """
        if self._sizes and self._spots is None:
            _separate(self._roots, set())
        return self._roots

    def forget_anchors(self, _: Any) -> None:
        self._anchors = {}

    def take_scalar(self, event: Any) -> None:
        text, above = event.value, self._above
        kind = _detect_type(text) if event.implicit[0] else (event.tag or "").removeprefix(_TAG)
        value = _parse_scalar(kind, text)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, text, event)
        if above and above[-1].wants_name():
            above[-1].set_name(_IS_MERGE if kind == "merge" else text)
            above[-1].name_event = event
        else:
            self._add(value, None if type(value) is str else text, event)

    def begin_mapping(self, event: Any) -> None:
        if event.tag == _TAG + "set":
            raise ValueError("JSON has no type for a set")
        self._begin({}, event)

    def begin_list(self, event: Any) -> None:
        self._begin([], event)

    def _begin(self, data: list[Json] | dict[str, Json], event: Any) -> None:
        if len(self._above) >= MAX_DEPTH:
            raise ValueError(_TOO_DEEP)
        if self._above and self._above[-1].wants_name():
            raise ValueError(_NO_TEXT)
        if event.anchor:
            self._anchors[event.anchor] = _UNFINISHED
        if self._spots is not None:
            self._spots.members[id(data)] = {}
        self._above.append(_Open(data, event))

    def end(self, _: Any) -> None:
        ended = self._above.pop()
        data, written = ended.data, ended.written
        if type(data) is dict:
            for merged in ended.merged:
                if self._spots is not None:
                    self._spots.merge(data, merged)
                for name, value in merged.items():
                    data.setdefault(name, value)
            if written and self._spots is None:
                above = [one.name for one in self._above[-2:]]
                _restore_texts(data, written, is_info=above[-1:] == ["info"], is_variable=above[:1] == ["variables"])
        if ended.anchor:
            self._anchors[ended.anchor] = _Anchored(data, written, ended.event)
        self._add(data, written if type(data) is list else None, ended.event)

    def take_alias(self, event: Any) -> None:
        found = self._anchors.get(event.anchor)
        if found is None:
            raise ValueError(f"an alias refers to {event.anchor[:100]!r}, which is not defined")
        if found is _UNFINISHED:
            raise ValueError(_INSIDE_ITSELF)
        if self._above and self._above[-1].wants_name():
            if type(found.written) is not str:
                raise ValueError(_NO_TEXT)
            self._above[-1].set_name(found.written)
            self._above[-1].name_event = event
        else:
            value = found.value
            self._count_copies(value)
            self._add(value, None if type(value) in (str, dict) else found.written, found.event)

    def _count_copies(self, value: Json) -> None:
        """Count the values for which an alias of ``value`` stands, none of which is made before all are counted."""
        # D-16: a bomb of aliases is refused for what it would become
        _, values, levels = self._measure(value) if isinstance(value, dict | list) else _Size(value, 1, 0)
        self._left -= values
        if self._left < 0:
            raise ValueError(_TOO_MANY_COPIES)
        if len(self._above) + levels > MAX_DEPTH:
            raise ValueError(_TOO_DEEP)

    def _measure(self, data: list[Json] | dict[str, Json]) -> _Size:
        """Return the size of ``data``. What an alias in it names was measured when that alias was read."""
        found = self._sizes.get(id(data))
        if found is None:
            found = self._sizes[id(data)] = self._sum_up(data)
        return found

    def _sum_up(self, data: list[Json] | dict[str, Json]) -> _Size:
        values, levels = 1, 0
        for item in data if isinstance(data, list) else data.values():
            if isinstance(item, dict | list):
                one = self._sizes.get(id(item)) or self._sum_up(item)
                values, levels = values + one.values, max(levels, one.levels)
            else:
                values += 1
        return _Size(data, values, levels + 1)

    def _add(self, value: Json, written: Any, event: Any) -> None:
        if self._spots is not None:
            self._spots.record(self._above[-1] if self._above else None, event)
        if self._above:
            self._above[-1].add(value, written)
        else:
            self._roots.append(value)


def _separate(data: list[Json] | dict[str, Json], seen: set[int]) -> None:
    """Put a copy in each place of ``data`` whose list or mapping stands in another place before it."""
    for at, item in enumerate(data) if isinstance(data, list) else data.items():
        if not isinstance(item, dict | list):
            continue
        if id(item) in seen:
            data[at] = _copy(item)  # type: ignore[index]
        else:
            seen.add(id(item))
            _separate(item, seen)


def _copy(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _restore_texts(data: dict[str, Json], written: Mapping[Any, Any], *, is_info: bool, is_variable: bool) -> None:
    """Put back how numbers in ``data`` are written where only text can be meant: ``1.10`` is not ``1.1``."""
    # O-32
    names = [*_NAME_LISTS]
    if is_variable or _is_of_text(data) or _is_of_text(data.get("schema")):
        names += _TEXT_VALUES
    if is_info:
        names.append("version")
    for name in names:
        texts, value = written.get(name), data.get(name)
        if isinstance(texts, dict) and isinstance(value, list):
            data[name] = [value[n] if value[n] is None else texts.get(n, value[n]) for n in range(len(value))]
        elif isinstance(texts, str) and value is not None and name not in _NAME_LISTS:
            data[name] = texts


def _is_of_text(schema: Json) -> bool:
    """Return whether ``schema`` says that a value is text, or null."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind == "string" or (isinstance(kind, list) and sorted(map(str, kind)) in (["null", "string"], ["string"]))


def _detect_type(text: str) -> str:
    """Return the type of a plain scalar by YAML 1.2's core schema, and ``merge`` for ``<<``."""
    if text and text[0] not in _CORE_STARTS:
        return "str"
    found = _CORE.fullmatch(text)
    return (found.lastgroup or "null") if found is not None else "str"


def _parse_scalar(kind: str, text: str) -> Json:
    """Return the data of a scalar; one with a tag that JSON has no type for is the text it is written as."""
    match kind:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return _parse_integer(text)
        case "float":
            number = float(text.replace(".inf", "inf").replace(".nan", "nan"))
            if not math.isfinite(number):
                raise ValueError(f"{number} is not a valid JSON number")
            return number
        case _:
            return text


def _parse_integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS:,} digits")
    return int(text, {"0x": 16, "0o": 8}.get(text[:2], 10))


def locate(text: bytes, pointers: Iterable[str]) -> dict[str, ValuePosition]:
    """Return where each of the JSON Pointers ``pointers`` stands in ``text``, which is YAML that ``read`` reads.

    What goes over lines stands where its name does. What is not there, or is named otherwise than it is written, is
    left out, and so is everything where PyYAML is not installed.
    """
    spots = _Spots()
    try:
        data = _read_data(text, spots)
    except (ImportError, _FaultError):
        return {}
    found = ((pointer, _find_spot(data, spots, parse_pointer(pointer))) for pointer in pointers)
    return {pointer: ValuePosition(spot) for pointer, spot in found if spot is not None}


def _find_spot(data: Json, spots: _Spots, steps: Sequence[str]) -> TextPosition | None:
    """Return where the member of ``data`` stands to which ``steps`` lead, or None if there is none."""
    spot = spots.root
    for step in steps:
        spot = spots.members.get(id(data), {}).get(step)
        if spot is None:
            return None
        data = data[int(step)] if isinstance(data, list) else data[step]
    return spot


def _build_problem(reason: str) -> Problem:
    return Problem(kind=Kind.MALFORMED, message=f"The body is not valid YAML: {reason}.")
