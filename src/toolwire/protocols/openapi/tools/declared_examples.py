"""List the example values that a document gives beside a schema, and add them to the arguments they are about.

Rules:
- An argument gets at most three examples, and all arguments of a tool together at most 2,000 bytes.
- A list in an example that is too long keeps its first items; one that is still too long is left out.
- An example that does not look like its schema, or that cannot be shown as it is, is left out.
"""
# O-27

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toolwire.core.content import FILE_KEYWORD
from toolwire.core.json_pointer import resolve_reference
from toolwire.core.model import Json
from toolwire.framing import jsontext, text_cleaning
from toolwire.protocols.openapi.document.references import References
from toolwire.protocols.openapi.schema.contradictions import is_of_type

_MAX_EXAMPLES: Final = 3
_MAX_BYTES: Final = 2_000
_VALUE_BYTES: Final = 1_000
"""The largest size of one example, in bytes."""
_MAX_LISTED: Final = 50
_MAX_VALUES: Final = 2_000
_ITEMS: Final = (3, 1)
_MAX_DEPTH: Final = 5
_MAX_COMPARED: Final = 500
_DECLARES_VALUES: Final = frozenset(("const", "contentEncoding", "enum", "examples", FILE_KEYWORD))
_OF_AN_EXAMPLE: Final = frozenset(("dataValue", "description", "externalValue", "serializedValue", "summary", "value"))


def list_examples(references: References, node: Mapping[str, Any]) -> list[Json]:
    """Return the values that a parameter or a media type shows, and the example of its schema."""
    found = [node["example"]] if "example" in node else []
    several = node.get("examples")
    if isinstance(several, dict):
        for one in list(several.values())[:_MAX_LISTED]:
            shown = references.follow_or_empty(one)
            if "dataValue" in shown or "value" in shown:
                found.append(shown.get("dataValue", shown.get("value")))
            elif not shown.keys() & _OF_AN_EXAMPLE:
                found.append(one)  # many documents write the value itself where an Example Object belongs
    elif isinstance(several, list):
        found += several[:_MAX_LISTED]
    schema = references.follow_or_empty(node.get("schema"))
    if "example" in schema:
        found.append(schema["example"])
    if isinstance(schema.get("examples"), list):
        found += schema["examples"][:_MAX_LISTED]
    return found


def add_examples(schema: dict[str, Json], examples: Mapping[str, Sequence[Json]], most: int) -> dict[str, Json]:
    """Return the input ``schema`` with ``examples`` at its properties, in at most ``most`` bytes more."""
    properties = schema.get("properties")
    if not examples or not isinstance(properties, dict):
        return schema
    room, built, check = min(most, _MAX_BYTES), dict(properties), _FitCheck(schema)
    for name, values in examples.items():
        own = properties.get(name)
        if not isinstance(own, dict) or _names_values(own, schema):
            continue
        chosen: list[Json] = []
        for value in values:
            one, size = _limit_example(value)
            if size <= room and one not in chosen and check.may_fit(one, own):
                chosen.append(one)
                room -= size
            if len(chosen) == _MAX_EXAMPLES:
                break
        if chosen:
            built[name] = {**own, "examples": chosen}
    return {**schema, "properties": built}


def _names_values(own: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Return whether ``own`` or what it refers to says itself which values it takes, or takes a file."""
    target = resolve_reference(schema, own["$ref"]) if isinstance(own.get("$ref"), str) else {}
    return bool(_DECLARES_VALUES & (own.keys() | (target.keys() if isinstance(target, dict) else set())))


def _limit_example(value: Json) -> tuple[Json, int]:
    """Return ``value``, with shorter lists if it is too large, and what it costs; too much if it cannot be shown."""
    if _is_huge(value) or next(text_cleaning.find_hidden(value), None) is not None:
        return None, _MAX_BYTES + 1  # O-37: cleaned it would be another value
    for items in (None, *_ITEMS):
        one = value if items is None else _shorten_lists(value, items)
        size = len(jsontext.write(one))
        if size <= _VALUE_BYTES:
            return one, size + len(',"examples":[]')
    return None, _MAX_BYTES + 1


def _is_huge(value: Json) -> bool:
    waiting, count = [value], 0
    while waiting:
        one = waiting.pop()
        count += 1
        if count > _MAX_VALUES:
            return True
        if isinstance(one, (dict, list)):
            if len(one) > _MAX_VALUES:
                return True
            waiting.extend(one.values() if isinstance(one, dict) else one)
    return False


def _shorten_lists(value: Json, most: int) -> Json:
    if isinstance(value, list):
        return [_shorten_lists(one, most) for one in value[:most]]
    return {name: _shorten_lists(one, most) for name, one in value.items()} if isinstance(value, dict) else value


class _FitCheck:
    """Compares the examples of one tool with their schemas, which are below ``root``, in a bounded number of steps."""

    # D-15: a choice of choices that fits nothing would be compared branch by branch, for each example.

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = _MAX_COMPARED

    def may_fit(self, value: Json, schema: Json, depth: int = 0) -> bool:
        """Return whether ``value`` is of the type of ``schema`` and has what it requires; deeper nothing is compared.

        A complete check would cost a compiled schema for each tool of a document. False without steps left.
        """
        self._left -= 1
        if self._left < 0:
            return False
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return schema is not False
        if _is_unlike(value, schema):
            return False
        if not self.may_fit(value, resolve_reference(self._root, schema.get("$ref")), depth + 1):
            return False
        choices = [schema[word] for word in ("anyOf", "oneOf") if isinstance(schema.get(word), list)]
        return all(any(self.may_fit(value, one, depth + 1) for one in branches) for branches in choices)


def _is_unlike(value: Json, schema: Mapping[str, Any]) -> bool:
    kinds, required, values = schema.get("type"), schema.get("required"), schema.get("enum")
    listed = kinds if isinstance(kinds, list) else [kinds]
    return (
        not any(is_of_type(value, kind) for kind in listed)
        or (
            isinstance(required, list)
            and isinstance(value, dict)
            and any(isinstance(name, str) and name not in value for name in required)
        )
        or (isinstance(values, list) and value not in values)
    )
