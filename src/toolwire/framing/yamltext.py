"""Read YAML text as JSON data, which is all that OpenAPI needs.

Rules:
- Plain scalars are what YAML 1.2's core schema says: ``1_000``, ``0b1``, ``on`` and ``2020-01-01`` are strings,
  ``0x10`` is 16. Names of members are strings as written: ``200:`` is ``"200"`` and ``1.10:`` is ``"1.10"``. There are
  no sets.
- An alias is a copy of what its anchor names. Aliases may add 1,000,000 values to a document; one inside its own anchor
  is refused.
- ``<<`` merges mappings as YAML 1.1 has it: the members of the mapping itself come first, then those of earlier ones.
- Names that repeat are refused, as are NaN and infinity. Nothing is deeper than 200.
"""
# The rules above: XL-013 (strings), D-16 (budgets).

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Final, NamedTuple

from toolwire.core.json_pointer import parse_pointer
from toolwire.core.model import Json, Kind, Problem

from .jsontext import MAX_DEPTH, MAX_DIGITS
from .positions import TextPosition, ValuePosition

MAX_COPIED: Final = 1_000_000
"""How many values the aliases of one document may add to it."""

_MAX_BITS = int(MAX_DIGITS * math.log2(10))
_MERGE = "<<"
_TAG = "tag:yaml.org,2002:"
# Numbers that yaml-rs does not read as YAML 1.2's core schema does, and names whose spelling it would lose.
# D-16: possessive, so that a long number takes no time of its length squared.
_ODD_NUMBER = re.compile(
    rb"(?:(?<![^\s\[{,:])[-+]?(?:(?=[0-9.]*_)(?=[._]*[0-9])[0-9._]+(?:[eE][-+]?[0-9_]+)?"
    rb"|0[xob][0-9A-Fa-f]*+_[0-9A-Fa-f_]*|0b[01]++|[0-9]++\.?[0-9]*+[eE][-+]?[0-9]*+_[0-9_]*)"
    rb"|(?:^|[{?]|[,-][ \t])[ \t]*(?:[-+]?0[0-9xo][0-9A-Fa-f]*|\+[0-9]+|-0)(?=[ \t]*:[ \t\r\n]))"
    rb"(?=[ \t]*(?:[,\]}#]|:[ \t\r\n]|\r?\n|\Z))",
    re.MULTILINE,
)
_CORE = re.compile(
    r"(?P<null>null|Null|NULL|~|)|(?P<bool>true|True|TRUE|false|False|FALSE)|(?P<int>[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
    r"|(?P<merge><<)"
)
_ANCHOR = re.compile(rb"(?<![^\s\[{,:])&([^\s,\[\]{}]+)")
_ALIAS = re.compile(rb"(?<![^\s\[{,:])\*([^\s,\[\]{}]+)")


class _NeedsNodesError(Exception):
    """The data of yaml-rs does not show how a value was written, and that is needed here."""


def read(text: bytes) -> Json | Problem:
    """Return the data of a YAML text, or a Problem that says what is wrong with it."""
    try:
        yaml_rs = import_module("yaml_rs")  # an extra, which only YAML documents need
    except ImportError:
        return _build_problem("it is YAML, which needs the extra: pip install 'toolwire[yaml]'")
    try:
        characters = text.decode("utf-8-sig")
        return _read(characters, text, yaml_rs)
    except UnicodeDecodeError:
        return _build_problem("it is not valid UTF-8")
    except TypeError:  # a name that is a mapping in a list, or the like, which Python cannot hash
        return _build_problem("the name of a member is no text")
    except (ValueError, RecursionError) as error:
        reason = str(error).strip().rpartition("\n")[2][:200]
        if "alias replay" in reason:
            reason = f"its aliases stand for more than {MAX_COPIED:,} values, or are nested too deep"
        return _build_problem(reason or "it cannot be read")


def _read(characters: str, text: bytes, yaml_rs: Any) -> Json:
    """Return the data by yaml-rs, which is quick, or by PyYAML's events where how it is written matters.

    yaml-rs reads in both cases: what is too deep, or grows too large by aliases, ends there.
    """
    data = yaml_rs.loads(characters, parse_datetime=False, alias_limits=yaml_rs.AliasLimits(MAX_COPIED))
    if not _has_aliases(text) and _ODD_NUMBER.search(text) is None:
        try:
            return _copy_plain(data, 0)
        except _NeedsNodesError:
            pass
    del data
    return _read_nodes(characters)


def _has_aliases(text: bytes) -> bool:
    """Return whether ``text`` may have an alias; a text in quotes can look like one."""
    anchors: set[bytes] = set(_ANCHOR.findall(text)) if b"&" in text and b"*" in text else set()
    return bool(anchors) and not anchors.isdisjoint(_ALIAS.findall(text))


def _read_nodes(characters: str) -> Json:
    yaml = import_module("yaml")
    try:
        events = yaml.parse(characters, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        roots = list(_build_nodes(events))
    except yaml.YAMLError as error:
        raise ValueError(getattr(error, "problem", None) or "it cannot be read") from None
    data = [_Values().build_value(root, 0) for root in roots]
    return data if len(data) > 1 else data[0] if data else None


class _Node:
    """A value as it is written. ``kind`` is scalar, sequence or mapping; ``value`` the text, the items or the pairs."""

    __slots__ = ("kind", "tag", "value")

    def __init__(self, kind: str, tag: str, value: Any) -> None:
        self.kind = kind
        self.tag = tag
        self.value = value


def _build_nodes(events: Iterable[Any]) -> Iterator[_Node]:
    """Yield the root of each document; an alias is the same node as its anchor, the last of that name before it."""
    anchors: dict[str, _Node] = {}
    above: list[_Node] = []
    for event in events:
        name = type(event).__name__
        if name == "DocumentStartEvent":
            anchors = {}
        elif name in ("SequenceEndEvent", "MappingEndEvent"):
            ended = above.pop()
            if ended.kind == "mapping":
                ended.value = list(zip(ended.value[::2], ended.value[1::2], strict=True))
        elif name in ("ScalarEvent", "SequenceStartEvent", "MappingStartEvent", "AliasEvent"):
            node = _build_node(event, name, anchors)
            if above:
                above[-1].value.append(node)
            else:
                yield node
            if node.kind != "scalar" and name != "AliasEvent":
                above.append(node)


def _build_node(event: Any, name: str, anchors: dict[str, _Node]) -> _Node:
    if name == "AliasEvent":
        if event.anchor not in anchors:
            raise ValueError(f"there is no anchor {event.anchor[:100]!r} for an alias")
        return anchors[event.anchor]
    tag = (event.tag or "").removeprefix(_TAG)
    if name == "ScalarEvent":
        node = _Node("scalar", _detect_core_type(event.value) if event.implicit[0] else tag, event.value)
    else:
        node = _Node("sequence" if name == "SequenceStartEvent" else "mapping", tag, [])
    if event.anchor:
        anchors[event.anchor] = node
    return node


def _detect_core_type(text: str) -> str:
    """Return the type of a plain scalar by YAML 1.2's core schema, and ``merge`` for ``<<``."""
    found = _CORE.fullmatch(text)
    return (found.lastgroup or "null") if found is not None else "str"


class _Values:
    """Makes data of PyYAML's nodes; a node that aliases repeat is made anew each time, so that no two places share."""

    __slots__ = ("_left", "_open", "_seen")

    def __init__(self) -> None:
        self._left = MAX_COPIED
        self._seen: set[int] = set()
        self._open: set[int] = set()

    def build_value(self, node: _Node, depth: int) -> Json:
        self._count(node)
        if node.kind == "scalar":
            return _parse_scalar(node)
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
        if id(node) in self._open:
            raise ValueError("an alias stands inside its own anchor")
        self._open.add(id(node))
        try:
            if node.kind == "sequence":
                return [self.build_value(item, depth + 1) for item in node.value]
            if node.tag == "set":
                raise ValueError("a set is nothing that JSON has")
            return {name: self.build_value(item, depth + 1) for name, item in self._list_members(node)}
        finally:
            self._open.discard(id(node))

    def _list_members(self, node: _Node) -> Iterator[tuple[str, _Node]]:
        """Yield the members of a mapping, then those that it merges and does not have."""
        names: set[str] = set()
        merged: list[_Node] = []
        for key, item in node.value:
            if _is_merge(key, item):
                merged.append(item)
                continue
            name = _get_written_name(key)
            if name in names:
                raise ValueError(f"duplicate mapping key: {name[:100]!r}")
            names.add(name)
            yield name, item
        for name, item in _walk_merges(merged, self._count):
            self._spend()
            if name not in names:
                names.add(name)
                yield name, item

    def _count(self, node: _Node) -> None:
        if id(node) not in self._seen:
            self._seen.add(id(node))
            return
        self._spend()

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"its aliases stand for more than {MAX_COPIED:,} values")


def _is_merge(key: _Node, item: _Node) -> bool:
    """Return whether a member is ``<<`` with a mapping or mappings; with anything else it is a name like any other."""
    if key.kind != "scalar" or key.tag != "merge":
        return False
    return item.kind == "mapping" or (item.kind == "sequence" and all(one.kind == "mapping" for one in item.value))


def _walk_merges(merged: list[_Node], count: Callable[[_Node], object], depth: int = 0) -> Iterator[tuple[str, _Node]]:
    """Yield the members of the mappings that are ``merged``, the earlier first, with what they merge themselves."""
    if depth > MAX_DEPTH:
        raise ValueError("an alias stands inside its own anchor")
    for item in merged:
        for one in [item] if item.kind == "mapping" else item.value:
            count(one)
            inner = [value for key, value in one.value if _is_merge(key, value)]
            yield from ((_get_written_name(key), value) for key, value in one.value if not _is_merge(key, value))
            yield from _walk_merges(inner, count, depth + 1)


def _get_written_name(key: _Node) -> str:
    if key.kind != "scalar":
        raise ValueError("the name of a member is no text")
    return str(key.value)


def _parse_scalar(node: _Node) -> Json:
    """Return the data of a scalar; one with a tag that JSON has no type for is the text it is written as."""
    text = str(node.value)
    match node.tag:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return _parse_integer(text)
        case "float":
            number = float(text.replace(".inf", "inf").replace(".nan", "nan"))
            if not math.isfinite(number):
                raise ValueError(f"{number} is no number of JSON")
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
    left out, and so is everything where PyYAML is not installed or takes the text for something else.
    """
    try:
        yaml = import_module("yaml")
    except ImportError:
        return {}
    try:
        root = yaml.compose(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError):
        return {}
    inside: dict[int, dict[str, _Member]] = {}
    found = ((pointer, _find_member(root, pointer, inside)) for pointer in pointers)
    return {pointer: member.find_position() for pointer, member in found if member is not None}


class _Member(NamedTuple):
    """A value and its name, as PyYAML's nodes; an item of a list is its own name."""

    name: Any
    value: Any

    def find_position(self) -> ValuePosition:
        over_lines = self.value.id != "scalar" and not self.value.flow_style
        mark = (self.name if over_lines else self.value).start_mark
        return ValuePosition(TextPosition(mark.line + 1, mark.column + 1))


def _find_member(root: Any, pointer: str, inside: dict[int, dict[str, _Member]]) -> _Member | None:
    """Return the member of ``root`` that ``pointer`` leads to; ``inside`` keeps the members of each node."""
    here = _Member(root, root)
    for step in parse_pointer(pointer):
        members = inside.get(id(here.value))
        if members is None:
            members = inside[id(here.value)] = _list_members(here.value)
        if step not in members:
            return None
        here = members[step]
    return here


def _list_members(node: Any) -> dict[str, _Member]:
    if node.id == "mapping":
        own = {str(name.value): _Member(name, value) for name, value in node.value}
        merged = [own[_MERGE].value] if _MERGE in own and own[_MERGE].value.id != "scalar" else []
        for one in merged[0].value if merged and merged[0].id == "sequence" else merged:
            for name, value in one.value if one.id == "mapping" else ():
                own.setdefault(str(name.value), _Member(name, value))
        return own
    return {str(number): _Member(item, item) for number, item in enumerate(node.value)} if node.id == "sequence" else {}


def _copy_plain(data: Any, depth: int) -> Json:
    kind = type(data)
    if kind is str or kind is bool or data is None:
        return data
    if kind is int:
        if data.bit_length() > _MAX_BITS:
            raise ValueError(f"a number has more than {MAX_DIGITS:,} digits")
        return data
    if kind is float:
        if not math.isfinite(data):
            raise ValueError(f"{data} is no number of JSON")
        return data
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    if kind is list:
        return [_copy_plain(item, depth + 1) for item in data]
    if kind is dict:
        return _copy_mapping(data, depth)
    raise ValueError(f"a {kind.__name__} is nothing that JSON has")


def _copy_mapping(data: dict[Any, Any], depth: int) -> Json:
    plain = {_convert_name(name): _copy_plain(item, depth + 1) for name, item in data.items()}
    if len(plain) != len(data):
        raise ValueError("duplicate mapping key: two that differ only by type")
    if _MERGE in plain:
        raise _NeedsNodesError
    return plain


def _convert_name(name: Any) -> str:
    if type(name) is str:
        return name
    if type(name) is int:
        return str(name)
    if name is None or type(name) in (bool, float):
        raise _NeedsNodesError
    raise ValueError("the name of a member is no text")


def _build_problem(reason: str) -> Problem:
    return Problem(kind=Kind.MALFORMED, message=f"The body is not valid YAML: {reason}.")
