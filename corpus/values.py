"""Arguments for a schema, made of the schema alone: the same on every run, plain where it leaves a choice."""

from __future__ import annotations

import re
from re import _constants, _parser  # type: ignore[attr-defined]  # the only parser of patterns that Python has
from typing import Any

import jsonschema_rs

from . import patterns

_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:30:00Z",
    "time": "12:30:00Z",
    "duration": "P1DT2H",
    "email": "ada@example.com",
    "idn-email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/a",
    "url": "https://example.com/a",
    "uri-reference": "/a",
    "uuid": "4f9e2f7e-5b1c-4d4e-8a5f-0c2f6f0a9d11",
    "byte": "YWJj",
    "json-pointer": "/a",
    "regex": "a",
}
_LETTERS = "aZ5 _-./"
_LIKELY = ("Aa1!Aa1!Aa1!", "a", "aa", "7", "A1", "arn:aws:fsx:us-east-1:123456789012:a")
"""Texts for patterns with conditions, as passwords and names of resources have."""

_WRONG = ([], {}, 0, "x")
_MAX_DEPTH = 6


class Unmade(Exception):
    """No value was found for a schema."""


def arguments(schema: dict[str, Any], *, full: bool) -> dict[str, Any] | None:
    """Return arguments that fit ``schema``: the least of them, or ``full`` with everything optional near the root.

    None where none was found.
    """
    try:
        made = _Maker(schema).value(schema, 0, 2 if full else 0)
        return made if isinstance(made, dict) and jsonschema_rs.is_valid(schema, made) else None
    except (Unmade, RecursionError):
        return None


def made(schema: dict[str, Any], wide: int, *, examples: bool = True) -> Any:
    """Return a value for ``schema``, with what is optional down to ``wide`` levels; it may yet not fit.

    Where ``examples`` is false those of the schema are not used.

    Raises:
        Unmade: none was found.
    """
    try:
        return _Maker(schema, examples=examples).value(schema, 0, wide)
    except (RecursionError, TypeError, ValueError, KeyError, OverflowError) as error:  # of a schema that is wrong
        raise Unmade from error


class _Maker:
    def __init__(self, root: dict[str, Any], *, examples: bool = True) -> None:
        self._root = root
        self._examples = examples

    def value(self, node: Any, depth: int, wide: int) -> Any:
        """Return a value of ``node``; objects have their optional members down to ``wide`` levels."""
        node = self._whole(node, depth)
        if depth > _MAX_DEPTH + 20:
            raise Unmade
        for key in ("const",):
            if key in node:
                return node[key]
        if node.get("enum"):
            return node["enum"][0]
        choices = node.get("anyOf") or node.get("oneOf")
        if choices:
            return self._chosen(node, choices, depth, wide)
        for example in node.get("examples", ())[:3] if self._examples else ():
            if self._fits(node, example):
                return example
        kind = node.get("type", _guessed(node))
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "null")
        return getattr(self, f"_{kind}")(node, depth, wide)

    def _fits(self, node: dict[str, Any], value: Any) -> bool:
        whole = {**node, "$defs": self._root.get("$defs", {})}
        return jsonschema_rs.is_valid(whole, value)

    def _whole(self, node: Any, depth: int) -> dict[str, Any]:
        """Return ``node`` with its reference and the branches of its allOf in it."""
        if node is True:
            return {}
        if not isinstance(node, dict):
            raise Unmade
        for _ in range(40):
            reference = node.get("$ref")
            if reference is None:
                break
            target = self._root["$defs"][reference.removeprefix("#/$defs/")]
            node = {**({} if target is True else target), **{key: one for key, one in node.items() if key != "$ref"}}
        else:
            raise Unmade
        branches = node.get("allOf", [])
        if depth > _MAX_DEPTH + 20 and branches:
            raise Unmade
        merged = {key: one for key, one in node.items() if key != "allOf"}
        for branch in branches:
            merged = _both(merged, self._whole(branch, depth + 1))
        return merged

    def _chosen(self, node: dict[str, Any], choices: list[Any], depth: int, wide: int) -> Any:
        outer = {key: one for key, one in node.items() if key not in ("anyOf", "oneOf")}
        for number, choice in enumerate(choices[:12]):
            try:
                made = self.value(_both(outer, self._whole(choice, depth + 1)), depth + 1, wide)
            except Unmade:
                continue
            if "oneOf" not in node or self._fits(node, made):
                return made
            if isinstance(made, dict) and (only := self._of_one_branch(node, choices, made)) is not None:
                return only
            if number == len(choices) - 1:
                return made
        raise Unmade

    def _of_one_branch(self, node: dict[str, Any], choices: list[Any], made: dict[str, Any]) -> dict[str, Any] | None:
        """Return ``made`` with something more, so that only one branch of a oneOf fits; None where none is found."""
        names = {name for one in choices for name in self._whole(one, _MAX_DEPTH).get("properties", {})}
        for name in sorted(names - made.keys())[:20]:
            for wrong in _WRONG:
                if self._fits(node, {**made, name: wrong}):
                    return {**made, name: wrong}
        return None

    def _object(self, node: dict[str, Any], depth: int, wide: int) -> dict[str, Any]:
        properties = node.get("properties", {})
        required = node.get("required", [])
        made: dict[str, Any] = {}
        for name in dict.fromkeys([*required, *(properties if wide > 0 and depth < _MAX_DEPTH else ())]):
            inner = properties.get(name, node.get("additionalProperties", {}))
            try:
                made[name] = self.value(inner if inner is not False else {}, depth + 1, wide - 1)
            except Unmade:
                if name in required:
                    raise
        rest = node.get("additionalProperties", {})
        for number in range(node.get("minProperties", 0) - len(made)):
            made[f"key{number}"] = self.value(rest, depth + 1, 0)
        while len(made) > node.get("maxProperties", 10**6):
            made.pop(next(name for name in reversed(made) if name not in required))
        return made

    def _array(self, node: dict[str, Any], depth: int, wide: int) -> list[Any]:
        first = [self.value(one, depth + 1, wide) for one in node.get("prefixItems", [])]
        least = max(node.get("minItems", 0) - len(first), 1 if not first and depth < _MAX_DEPTH else 0)
        least = min(least, node.get("maxItems", least), 50)
        items = node.get("items", {})
        if items is False:
            return first
        try:
            made = [self.value(items, depth + 1, wide - 1) for _ in range(least)]
        except Unmade:
            if node.get("minItems", 0):
                raise
            return first
        if node.get("uniqueItems") and least > 1:
            made = self._different(items, made)
        return first + made

    def _different(self, items: Any, made: list[Any]) -> list[Any]:
        whole = self._whole(items, 0)
        if isinstance(whole.get("enum"), list):
            return whole["enum"][: len(made)]
        if isinstance(made[0], str):
            return [f"{one}{number}" if number else one for number, one in enumerate(made)]
        return [one + number for number, one in enumerate(made)] if isinstance(made[0], int) else made

    def _string(self, node: dict[str, Any], depth: int, wide: int) -> str:
        least, most = int(node.get("minLength", 0)), int(node.get("maxLength", 10**6))
        if "pattern" in node:
            return self._matching(node, least)
        if least > 100_000:
            raise Unmade
        text = _FORMATS.get(node.get("format", ""), "some text")
        if node.get("contentEncoding") == "base64":
            text = "YWJj"
        text = text if len(text) >= least else text.ljust(least, "x")
        return text if len(text) <= most else "x" * max(least, min(most, 5))

    def _matching(self, node: dict[str, Any], least: int) -> str:
        pattern = patterns.translate(node["pattern"])
        if pattern is None:
            raise Unmade
        for repeats in (1, 3, max(least, 1), 0, least + 8, *range(4, min(least, 64))):
            try:
                text = _match(_parser.parse(pattern), min(repeats, 2_000))
            except (re.error, Unmade, OverflowError):
                raise Unmade from None
            for tried in (text, text.ljust(least, text[-1:] or "x"), *_LIKELY):
                if self._fits(node, tried):
                    return tried
        raise Unmade

    def _integer(self, node: dict[str, Any], depth: int, wide: int) -> int:
        return int(self._number(node, depth, wide, whole=True))

    def _number(self, node: dict[str, Any], depth: int, wide: int, *, whole: bool = False) -> Any:
        low = node.get("minimum", node.get("exclusiveMinimum"))
        high = node.get("maximum", node.get("exclusiveMaximum"))
        step = node.get("multipleOf", 1 if whole else 0.5)
        for start in (7, low, high, 0, None if low is None or high is None else (low + high) / 2):
            if start is None:
                continue
            for offset in (0, step, -step):
                value = round((start + offset) / step) * step
                value = int(value) if whole or value == int(value) else value
                if self._fits({**node, "type": "number"}, value):
                    return value
        raise Unmade

    def _boolean(self, node: dict[str, Any], depth: int, wide: int) -> bool:
        return True

    def _null(self, node: dict[str, Any], depth: int, wide: int) -> None:
        return None


def _guessed(node: dict[str, Any]) -> str:
    if {"properties", "additionalProperties", "required", "minProperties"} & node.keys():
        return "object"
    if {"items", "minItems", "maxItems"} & node.keys():
        return "array"
    return "number" if {"minimum", "maximum"} & node.keys() else "string"


def _both(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    both = {**first, **second}
    for key in ("properties",):
        if key in first and key in second:
            shared = first[key].keys() & second[key].keys()
            both[key] = {
                **first[key],
                **second[key],
                **{one: _met(first[key][one], second[key][one]) for one in shared},
            }
    if "required" in first and "required" in second:
        both["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
    if isinstance(first.get("enum"), list) and isinstance(second.get("enum"), list):
        both["enum"] = [one for one in first["enum"] if one in second["enum"]]
    for key in ("anyOf", "oneOf"):
        if key in first and key in second and first[key] != second[key]:
            both[key] = [{"allOf": [one, two]} for one in first[key] for two in second[key]][:40]
    return both


def _met(one: Any, two: Any) -> Any:
    return one if one == two else {"allOf": [one, two]}


def _match(pattern: Any, repeats: int) -> str:  # noqa: C901 - a sort of node each
    text = ""
    for operation, argument in pattern:
        match str(operation):
            case "LITERAL":
                text += chr(argument)
            case "NOT_LITERAL":
                text += next(one for one in _LETTERS if one != chr(argument))
            case "ANY":
                text += "a"
            case "IN":
                text += _member(argument)
            case "BRANCH":
                text += _match(argument[1][0], repeats)
            case "SUBPATTERN":
                text += _match(argument[3], repeats)
            case "ATOMIC_GROUP":
                text += _match(argument, repeats)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inner = argument
                most = repeats if most is _constants.MAXREPEAT else most
                text += _match(inner, repeats) * max(least, min(most, repeats, 2_000))
            case "AT" | "ASSERT" | "ASSERT_NOT":
                pass
            case _:
                raise Unmade
        if len(text) > 100_000:
            raise Unmade
    return text


def _member(members: list[Any]) -> str:
    if str(members[0][0]) == "NEGATE":
        taken = re.compile("[" + "".join(map(_said, members[1:])) + "]")
        return next((one for one in _LETTERS + "qK#" if not taken.match(one)), "a")
    operation, argument = next((one for one in members if str(one[0]) == "RANGE"), members[0])
    match str(operation):
        case "LITERAL":
            return chr(argument)
        case "RANGE":
            return chr(argument[0])
        case _:
            return {"CATEGORY_DIGIT": "5", "CATEGORY_SPACE": " ", "CATEGORY_NOT_WORD": "-"}.get(str(argument), "a")


def _said(member: Any) -> str:
    operation, argument = member
    match str(operation):
        case "LITERAL":
            return re.escape(chr(argument))
        case "RANGE":
            return f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}"
        case _:
            words = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w", "NOT_DIGIT": r"\D", "NOT_SPACE": r"\S"}
            return words.get(str(argument).removeprefix("CATEGORY_"), r"\W")
