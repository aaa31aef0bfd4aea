"""YAML text to data, as far as YAML says what JSON could: OpenAPI asks for no more.

Rules:
- Names of members are texts, whatever they look like: ``200:`` is ``"200"``. There are no dates and no sets, and
  ``on`` and ``yes`` stay texts. [XL-013]
- Aliases and names that repeat are refused, as are NaN and infinity. Nothing is deeper than 200. [D-16]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from toolwire.core.model import Json, Kind, Problem

from .jsontext import MAX_DEPTH, MAX_DIGITS
from .positions import Place, Spot

_MAX_BITS = int(MAX_DIGITS * math.log2(10))
_WORDS = {True: "true", False: "false", None: "null"}


def read(text: bytes) -> Json | Problem:
    """Return the data of a YAML text, or a Problem that says what is wrong with it."""
    try:
        import yaml_rs  # noqa: PLC0415 - only who meets YAML needs it
    except ImportError:
        return _bad("it is YAML, which needs the extra: pip install 'toolwire[yaml]'")
    try:
        limits = yaml_rs.AliasLimits(max_total_replayed_events=0)
        data = yaml_rs.loads(text.decode("utf-8-sig"), parse_datetime=False, alias_limits=limits)
        return _plain(data, 0)
    except UnicodeDecodeError:
        return _bad("it is not valid UTF-8")
    except TypeError:  # a name that is a mapping in a list, or the like, which Python cannot hash
        return _bad("the name of a member is no text")
    except (ValueError, RecursionError) as error:
        return _bad(str(error).strip().rpartition("\n")[2][:200] or "it cannot be read")


def locate(text: bytes, pointers: Iterable[str]) -> dict[str, Place]:
    """Return where each of the JSON Pointers ``pointers`` stands in ``text``, which is YAML that ``read`` reads.

    What goes over lines stands where its name does. What is not there, or is named otherwise than it is written, is
    left out, and so is everything where PyYAML is not installed or takes the text for something else.
    """
    try:
        import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 - likewise
    except ImportError:
        return {}
    try:
        root = yaml.compose(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return {}
    inside: dict[int, dict[str, _Member]] = {}
    found = ((pointer, _found(root, pointer, inside)) for pointer in pointers)
    return {pointer: member.place() for pointer, member in found if member is not None}


class _Member(NamedTuple):
    """A value and its name, as PyYAML's nodes; an item of a list is its own name."""

    name: Any
    value: Any

    def place(self) -> Place:
        over_lines = self.value.id != "scalar" and not self.value.flow_style
        mark = (self.name if over_lines else self.value).start_mark
        return Place(Spot(mark.line + 1, mark.column + 1))


def _found(root: Any, pointer: str, inside: dict[int, dict[str, _Member]]) -> _Member | None:
    """Return the member of ``root`` that ``pointer`` leads to; ``inside`` keeps the members of each node."""
    here = _Member(root, root)
    for part in pointer.split("/")[1:]:
        members = inside.get(id(here.value))
        if members is None:
            members = inside[id(here.value)] = _members(here.value)
        step = part.replace("~1", "/").replace("~0", "~")
        if step not in members:
            return None
        here = members[step]
    return here


def _members(node: Any) -> dict[str, _Member]:
    if node.id == "mapping":
        return {str(name.value): _Member(name, value) for name, value in node.value}
    return {str(number): _Member(item, item) for number, item in enumerate(node.value)} if node.id == "sequence" else {}


def _plain(data: Any, depth: int) -> Json:
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
        return [_plain(item, depth + 1) for item in data]
    if kind is dict:
        plain = {_name(name): _plain(item, depth + 1) for name, item in data.items()}
        if len(plain) != len(data):
            raise ValueError("duplicate mapping key: two that differ only by type")
        return plain
    raise ValueError(f"a {kind.__name__} is nothing that JSON has")


def _name(name: Any) -> str:
    if type(name) is str:
        return name
    if name is None or type(name) is bool:
        return _WORDS[name]
    if type(name) in (int, float):
        return str(name)
    raise ValueError("the name of a member is no text")


def _bad(reason: str) -> Problem:
    return Problem(kind=Kind.MALFORMED, message=f"The body is not valid YAML: {reason}.")
