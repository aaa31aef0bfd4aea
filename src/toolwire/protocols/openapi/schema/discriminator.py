"""Let the tag of a union select its branch: each branch says which values of the discriminator's property are its own.

Rules:
- A branch that limits the property itself keeps its own values; else those of the mapping count, else its own name.
- A missing tag is refused only where the document requires one.
"""
# O-22, CV-19

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolwire.core.json_pointer import parse_fragment
from toolwire.core.model import Json
from toolwire.framing import text_cleaning
from toolwire.protocols.openapi.document.references import References
from toolwire.validation.exclusive import list_values

VALUE_EXTENSIONS = ("x-ms-discriminator-value", "x-discriminator-value")
"""The extensions by which a schema of Swagger 2.0 says which value of the tag is its own."""

_UNIONS = ("oneOf", "anyOf")


class Discriminator:
    """The discriminator of a schema: the name of its property, and the schema that each value selects."""

    __slots__ = ("_mapped", "_references", "name")

    def __init__(self, name: str, mapping: Json, references: References) -> None:
        self.name: str = name
        self._references = references
        self._mapped: dict[str, list[str]] = {}
        for value, target in mapping.items() if isinstance(mapping, dict) else ():
            if isinstance(target, str):
                self._mapped.setdefault(get_pointer(target), []).append(value)

    def list_values(self, branch: Json) -> list[Json]:
        """Return the values of the tag that select ``branch``; none where that cannot be said."""
        reference = branch.get("$ref") if isinstance(branch, dict) else None
        own = self.list_own_values(branch)
        if not isinstance(reference, str):
            return own or []
        wanted = self._mapped.get(reference) or self._list_declared_values(branch)
        if wanted:
            listed: list[Json] = [one for one in wanted if own is None or one in own]
            return listed or own or []
        name = _get_name(reference)
        if own is None:
            return [name]
        # All branches of a family share the enum of their parent: of such a list one value is meant.
        near = [one for one in own if isinstance(one, str) and _simplify(one) == _simplify(name)]
        return near if near and len(own) > 1 else own

    def list_own_values(self, branch: Json) -> list[Json] | None:
        """Return the values that ``branch`` itself allows for the tag, or None if it allows any."""
        schemas = [
            part["properties"][self.name]
            for part in self._list_parts(branch)
            if part is not None and isinstance(part.get("properties"), dict) and self.name in part["properties"]
        ]
        return list_values({"allOf": schemas}, self._list_parts) if schemas else None

    def _list_declared_values(self, branch: Json) -> list[str]:
        parts = (part for part in self._list_parts(branch) if part is not None)
        found = next((part[key] for part in parts for key in VALUE_EXTENSIONS if isinstance(part.get(key), str)), None)
        return [] if found is None else [found]

    def _list_parts(self, node: Json) -> Iterable[dict[str, Any] | None]:
        return self._references.iterate_parts(node, ("allOf",), beside=True)

    def takes_text(self, branch: Json) -> bool:
        """Return whether the tag is a text in ``branch``, as the values of a mapping and names are."""
        for part in self._list_parts(branch):
            inner = part.get("properties") if part is not None else None
            if isinstance(inner, dict) and self.name in inner:
                kind = self._references.follow_or_empty(inner[self.name]).get("type", "string")
                return kind == "string" or (isinstance(kind, list) and "string" in kind)
        return True


def read_discriminator(node: Mapping[str, Any], references: References) -> Discriminator | None:
    """Return the discriminator of the schema ``node``, or None if it has none that can be read."""
    declared = node.get("discriminator")
    name = declared.get("propertyName") if isinstance(declared, dict) else None
    if not isinstance(declared, dict) or not isinstance(name, str):
        return None
    return Discriminator(name, declared.get("mapping"), references)


def mark_branches(schema: dict[str, Json], node: dict[str, Any], references: References) -> dict[str, Json]:
    """Return ``schema`` with the values of the discriminator in each branch of its oneOf and anyOf.

    ``schema`` is ``node`` after its conversion. A branch that says its own values keeps them and gets nothing.
    """
    found = read_discriminator(node, references)
    if found is None:
        return schema
    for key in _UNIONS:
        branches, originals = schema.get(key), node.get(key)
        if not isinstance(branches, list) or not isinstance(originals, list) or len(branches) != len(originals):
            continue
        pairs = zip(branches, originals, strict=True)
        schema = {**schema, key: [_mark_branch(one, source, found) for one, source in pairs]}
    return schema


def _mark_branch(branch: Json, source: Json, discriminator: Discriminator) -> Json:
    if not isinstance(branch, dict) or not isinstance(source, dict) or not isinstance(source.get("$ref"), str):
        return branch
    if not discriminator.takes_text(source):
        return branch
    name = discriminator.name
    values = [one for one in discriminator.list_values(source) if isinstance(one, str)]
    # A value that hides something could not be shown as it is.
    if not values or text_cleaning.clean(name).removed or any(text_cleaning.clean(one).removed for one in values):
        return branch
    own = discriminator.list_own_values(source)
    if own is not None and len(own) <= len(values):
        return branch  # it says the same itself: repeating it only costs tokens
    tag: dict[str, Json] = {"type": "string", "enum": list(values)}
    inner = branch.get("properties")
    own_properties = inner if isinstance(inner, dict) else {}
    known = own_properties.get(name)
    # A branch that was merged or copied already has properties of its own.
    beside = known if isinstance(known, dict) and "$ref" not in known else {}
    return {**branch, "properties": {**own_properties, name: {**beside, **tag}}}


def get_pointer(target: str) -> str:
    """Return the pointer of a schema; a mapping may give its name instead."""
    return target if set("#/") & set(target) else f"#/components/schemas/{target}"


def _get_name(reference: str) -> str:
    return parse_fragment(reference)[-1] if "/" in reference else reference


def _simplify(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()
