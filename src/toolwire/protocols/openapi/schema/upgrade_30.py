"""Upgrade the keywords of OpenAPI 3.0 to those of JSON Schema 2020-12."""
# CV-20

from __future__ import annotations

from toolwire.core.model import Json
from toolwire.framing import text_cleaning
from toolwire.validation.schema_keywords import SEVERAL

_EXAMPLE_CHARACTERS = 60


def add_example(built: dict[str, Json], example: Json) -> None:
    """Add a short example if the schema has no example or enum; a long one costs more tokens than it helps."""
    plain = isinstance(example, str | int | float) and not isinstance(example, bool)
    if plain and len(str(example)) <= _EXAMPLE_CHARACTERS and not {"enum", "const", "examples"} & built.keys():
        built["examples"] = [text_cleaning.clean_data(example)]


def upgrade_schema(schema: dict[str, Json], node: dict[str, Json]) -> dict[str, Json]:
    """Upgrade nullable, exclusive bounds and bytes of a converted OpenAPI 3.0 schema to 2020-12."""
    # CV-20
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        flag = schema.get(exclusive)
        if isinstance(flag, bool):
            del schema[exclusive]
            # In 3.0 the flag changes the meaning of the inclusive bound; 2020-12 has a keyword for each.
            if flag and bound in schema:
                schema[exclusive] = schema.pop(bound)
    if schema.get("format") == "byte":
        schema.setdefault("contentEncoding", "base64")
    if schema.get("format") == "int-or-string" and schema.get("type") == "string":
        schema["type"] = ["integer", "string"]  # the format of Kubernetes for two types: 3.0 has no list of types
    if node.get("nullable") is not True:
        return schema
    kinds = schema.get("type")
    if isinstance(kinds, str | list):
        enum = schema.get("enum")
        schema["type"] = list(dict.fromkeys([*([kinds] if isinstance(kinds, str) else kinds), "null"]))
        # Nullable allows null beside the values of an enum, although 3.0.3 is read both ways.
        if isinstance(enum, list) and None not in enum:
            schema["enum"] = [*enum, None]
        return schema
    return {"anyOf": [schema, {"type": "null"}]} if (SEVERAL | {"$ref"}) & schema.keys() else schema
