"""Say one schema object of an older dialect in the keywords of JSON Schema 2020-12.

Rules:
- The dialect is the one that ``$schema`` names: draft-04, 06, 07, 2019-09, 2020-12 or OpenAPI 3.0. A schema that names
  none is read as 2020-12.
- Older forms that 2020-12 has no other meaning for are read in every dialect: a list under ``items``, bounds that are
  true or false.
- Keywords beside ``$ref`` do not count in draft-07 and before; texts and definitions stay.
"""
# O-34

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from toolwire.core.model import Json


class Dialect(IntEnum):
    """A dialect of JSON Schema, the oldest first."""

    DRAFT_04 = 4
    OPENAPI_30 = 5
    DRAFT_06 = 6
    DRAFT_07 = 7
    DRAFT_2019_09 = 2019
    DRAFT_2020_12 = 2020


META_SCHEMA: Final = "https://json-schema.org/draft/2020-12/schema"
RECURSIVE_ANCHOR: Final = "__recursive__"
"""The anchor that stands for ``$recursiveAnchor`` of draft 2019-09."""

_NAMED: Final = {
    "json-schema.org/draft-04/schema": Dialect.DRAFT_04,
    "json-schema.org/draft-06/schema": Dialect.DRAFT_06,
    "json-schema.org/draft-07/schema": Dialect.DRAFT_07,
    "json-schema.org/draft/2019-09/schema": Dialect.DRAFT_2019_09,
    "json-schema.org/draft/2020-12/schema": Dialect.DRAFT_2020_12,
    "spec.openapis.org/oas/3.1/dialect/base": Dialect.DRAFT_2020_12,
}
_OPENAPI_30: Final = "spec.openapis.org/oas/3.0"
_BESIDE_REFERENCE: Final = frozenset(
    ("$comment", "$defs", "$ref", "$schema", "default", "definitions", "deprecated", "description", "examples", "title")
)
_OLD_FORMS: Final = frozenset(
    ("$id", "additionalItems", "dependencies", "exclusiveMaximum", "exclusiveMinimum", "id", "items", "$recursiveRef")
)
_ANCHOR: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")
_LATER: Final = {
    "const": Dialect.DRAFT_06,
    "contains": Dialect.DRAFT_06,
    "propertyNames": Dialect.DRAFT_06,
    "if": Dialect.DRAFT_07,
    "then": Dialect.DRAFT_07,
    "else": Dialect.DRAFT_07,
    "dependentRequired": Dialect.DRAFT_2019_09,
    "dependentSchemas": Dialect.DRAFT_2019_09,
    "maxContains": Dialect.DRAFT_2019_09,
    "minContains": Dialect.DRAFT_2019_09,
    "unevaluatedItems": Dialect.DRAFT_2019_09,
    "unevaluatedProperties": Dialect.DRAFT_2019_09,
    "prefixItems": Dialect.DRAFT_2020_12,
}
"""The keywords that an older dialect does not have, and ignores."""


def read_dialect(node: Mapping[str, Any], otherwise: Dialect) -> Dialect:
    """Return the dialect that ``$schema`` of ``node`` names, or ``otherwise`` if it names none that is known."""
    named = node.get("$schema")
    if not isinstance(named, str):
        return otherwise
    address = named.partition("://")[2].rstrip("#").rstrip("/")
    if address.startswith(_OPENAPI_30):
        return Dialect.OPENAPI_30
    return _NAMED.get(address, otherwise)


def upgrade_node(node: dict[str, Json], dialect: Dialect) -> dict[str, Json]:
    """Return one schema object in the keywords of 2020-12, without a look at the schemas in it; itself if it is so."""
    if dialect is Dialect.DRAFT_2020_12 and _OLD_FORMS.isdisjoint(node):
        return node
    built = dict(node)
    if dialect <= Dialect.DRAFT_07 and isinstance(node.get("$ref"), str):
        built = {key: one for key, one in node.items() if key in _BESIDE_REFERENCE}
    for key in [key for key in built if _LATER.get(key, dialect) > dialect]:
        del built[key]
    _upgrade_identifiers(built, dialect)
    _upgrade_items(built)
    _upgrade_bounds(built)
    if dialect <= Dialect.DRAFT_07:
        _upgrade_dependencies(built)
    if dialect is Dialect.DRAFT_2019_09 and built.get("minContains") == 0 and "contains" not in built:
        del built["minContains"]
    return node if built == node else built


def _upgrade_identifiers(built: dict[str, Json], dialect: Dialect) -> None:
    if dialect is Dialect.DRAFT_04 and isinstance(built.get("id"), str):
        built["$id"] = built.pop("id")
    identifier = built.get("$id")
    if not isinstance(identifier, str) or "#" not in identifier:
        return
    address, _, anchor = identifier.partition("#")
    if anchor:
        # In draft-07 and before, a fragment names a schema without making a resource of it.
        del built["$id"]
        if _ANCHOR.fullmatch(anchor):
            built.setdefault("$anchor", anchor)
    else:
        built["$id"] = address
    if not built.get("$id", "x"):
        del built["$id"]


def _upgrade_items(built: dict[str, Json]) -> None:
    listed = built.get("items")
    rest = built.get("additionalItems")
    if isinstance(listed, list):
        del built["items"]
        if listed:
            built.setdefault("prefixItems", listed)
        if isinstance(rest, dict | bool):
            built["items"] = rest
    elif "additionalItems" not in built:
        return
    # Beside one schema for all items, and beside none, it says nothing.
    built.pop("additionalItems", None)


def _upgrade_bounds(built: dict[str, Json]) -> None:
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        flag = built.get(exclusive)
        if isinstance(flag, bool):
            del built[exclusive]
            # The flag changes the meaning of the inclusive bound; 2020-12 has a keyword for each.
            if flag and bound in built:
                built[exclusive] = built.pop(bound)


def _upgrade_dependencies(built: dict[str, Json]) -> None:
    declared = built.get("dependencies")
    if not isinstance(declared, dict):
        return
    del built["dependencies"]
    names = {
        name: [one] if isinstance(one, str) else one for name, one in declared.items() if isinstance(one, list | str)
    }
    schemas = {name: one for name, one in declared.items() if isinstance(one, dict | bool)}
    if names:
        built["dependentRequired"] = names
    if schemas:
        built["dependentSchemas"] = schemas
