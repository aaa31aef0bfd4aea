"""Define the objects of an OpenTool document as tables: members, their types, and the rule for each.

Rules:
- The validator, the reader of objects and the mending of foreign documents all walk these tables. A rule of the
  specification about one member is one row here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from toolwire.core.model import Json


class SchemaForm(Enum):
    """What a member's value must be."""

    TEXT = "a string"
    FLAG = "a boolean"
    ONE = "an object"
    ONE_OR_NULL = "an object or null"
    LIST = "an array of objects"
    MAP = "an object with objects in it"
    VALUES = "an array"
    NAMES = "an array of strings"


class Member(NamedTuple):
    """One member. ``shape`` is that of the objects in it; ``mended`` stands in where a foreign document lacks it."""

    name: str
    rule: str
    form: SchemaForm
    what: str
    shape: str = ""
    is_needed: bool = False
    mended: Json = None


Shape: TypeAlias = Mapping[str, Member]

NULL_NAMES: Final = frozenset({"return"})
"""The members whose null says something: no return value. [A-06]"""


def _shape(*members: Member) -> Shape:
    return MappingProxyType({member.name: member for member in members})


SHAPES: Final[Mapping[str, Shape]] = MappingProxyType(
    {
        "document": _shape(
            Member(
                "opentool", "OT-001", SchemaForm.TEXT, 'the version of the specification, like "1.1.0"', is_needed=True
            ),
            Member("info", "OT-002", SchemaForm.ONE, 'an object with "title" and "version"', "info", is_needed=True),
            Member("server", "OT-003", SchemaForm.ONE, 'an object with "url"', "server"),
            Member("functions", "OT-004", SchemaForm.LIST, "an array of functions", "function", is_needed=True),
            Member("schemas", "OT-005", SchemaForm.MAP, "an object with a schema under each name", "schema"),
        ),
        "info": _shape(
            Member("title", "OT-006", SchemaForm.TEXT, "the title of the document, a string", is_needed=True),
            Member("description", "OT-007", SchemaForm.TEXT, "a string"),
            Member("version", "OT-008", SchemaForm.TEXT, "the document's own version, a string", is_needed=True),
        ),
        "server": _shape(
            Member("url", "OT-009", SchemaForm.TEXT, "the URL of the server, a string", is_needed=True),
            Member("description", "OT-010", SchemaForm.TEXT, "a string"),
        ),
        "function": _shape(
            Member("name", "OT-011", SchemaForm.TEXT, "1 to 64 of a-z A-Z 0-9 - _", is_needed=True),
            Member("description", "OT-012", SchemaForm.TEXT, "what it does, a string", is_needed=True, mended=""),
            Member(
                "parameters",
                "OT-013",
                SchemaForm.LIST,
                "an array of parameters",
                "parameter",
                is_needed=True,
                mended=[],
            ),
            Member("return", "OT-014", SchemaForm.ONE_OR_NULL, "an object, or null for no return value", "return"),
            Member("stream", "A-11", SchemaForm.MAP, "an object with a return under each event", "return"),
        ),
        "parameter": _shape(
            Member("name", "OT-015", SchemaForm.TEXT, "a string that is not empty", is_needed=True),
            Member("description", "OT-016", SchemaForm.TEXT, "a string"),
            Member("schema", "OT-017", SchemaForm.ONE, "a schema", "schema", is_needed=True),
            Member("required", "OT-018", SchemaForm.FLAG, "true or false", is_needed=True, mended=False),
        ),
        "return": _shape(
            Member("name", "OT-019", SchemaForm.TEXT, "a string", is_needed=True),
            Member("description", "OT-020", SchemaForm.TEXT, "a string"),
            Member("schema", "OT-021", SchemaForm.ONE, "a schema", "schema", is_needed=True),
        ),
        "schema": _shape(
            Member(
                "type",
                "OT-022",
                SchemaForm.TEXT,
                "one of boolean, integer, number, string, array, object",
                is_needed=True,
            ),
            Member("description", "OT-023", SchemaForm.TEXT, "a string"),
            Member("properties", "OT-024", SchemaForm.MAP, "an object with a schema under each name", "schema"),
            Member("items", "OT-025", SchemaForm.ONE, "a schema", "schema"),
            Member("enum", "OT-026", SchemaForm.VALUES, "an array of the values there are"),
            Member("required", "OT-027", SchemaForm.NAMES, "an array of names, each a string"),
        ),
        "reference": _shape(
            Member("$ref", "A-01", SchemaForm.TEXT, '"#/schemas/NAME"', is_needed=True),
            Member("description", "OT-023", SchemaForm.TEXT, "a string"),
        ),
    }
)


def shape_of(name: str, data: Mapping[str, Json]) -> str:
    """Return the name of the shape of ``data`` where one called ``name`` is due: a schema may be a reference."""
    #
    return "reference" if name == "schema" and "$ref" in data else name
