"""The JSON Schema (2020-12) of a Python type, of a whole signature, and of a result.

**Rules**

- Every parameter has a description. [OTC-011]
- Titles are dropped: pydantic makes them from names, and the name is there already.
- Bytes are base64 text, in both directions.

Importing this costs 60 ms, for pydantic: only ``definition`` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NewType, get_args, get_origin

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Json

from .native import plain
from .signature import Parameter

_MAPS = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")
_DROPPED = ("title", "discriminator")  # the second is OpenAPI's word; ``oneOf`` says the same


class Argument(NamedTuple):
    """A parameter, and pydantic's reading of its type."""

    parameter: Parameter
    adapter: TypeAdapter[Any]


def argument(parameter: Parameter, where: str) -> Argument:
    """Return ``parameter`` with its type understood.

    Raises:
        DefinitionError: the type cannot be described, or the default does not fit it or stands in the wrong place.
    """
    where = f"{where}: the parameter {parameter.name!r}"
    _refuse_misplaced(parameter, where)
    adapter = type_adapter(parameter.annotation, where, "validation")
    if not parameter.required:
        _refuse_unfit(parameter, where)
    return Argument(parameter, adapter)


def type_adapter(annotation: Any, where: str, mode: Literal["validation", "serialization"]) -> TypeAdapter[Any]:
    """Return pydantic's reading of ``annotation``. ``where`` opens the sentence of a refusal.

    Raises:
        DefinitionError: the type cannot be described, or not as JSON.
    """
    settings = ConfigDict(
        ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants", allow_inf_nan=False
    )
    # Under another name even a class with settings of its own, such as a dataclass, takes ours.
    named = NewType("named", annotation)  # type: ignore[valid-newtype]  # a type known only at run time
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(named, config=settings)
        adapter.json_schema(mode=mode)
    except Exception as error:  # noqa: BLE001 - besides its own, pydantic raises whatever a constraint or a type raises
        raise DefinitionError(f"{where} is of the type {_shown(annotation)}, {_advice(error)}") from None
    return adapter


def input_schema(arguments: Sequence[Argument], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the schema of one object that holds an argument for each parameter. ``texts`` describes them by name.

    A description in the annotation wins over one in ``texts``. A default that JSON cannot say is left out.
    """
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for parameter, adapter in arguments:
        schema = _hoisted(adapter, parameter.name, definitions)
        schema["description"] = schema.get("description") or texts[parameter.name]
        if not parameter.required:
            schema |= _default(parameter, adapter)
        properties[parameter.name] = schema
    whole: dict[str, Any] = {"type": "object", "properties": properties}
    required = [parameter.name for parameter, _ in arguments if parameter.required]
    return whole | ({"required": required} if required else {}) | ({"$defs": definitions} if definitions else {})


def output_schema(adapter: TypeAdapter[Any], text: str, *, streams: bool) -> dict[str, Any] | None:
    """Return the schema of a result: ``{}`` for any value, None for none, an array if it is streamed. [OTC-012]"""
    schema = _bare(adapter.json_schema(mode="serialization"))
    if streams:
        definitions = schema.pop("$defs", None)
        schema = {"type": "array", "items": schema} | ({"$defs": definitions} if definitions else {})
    elif schema == {"type": "null"}:
        return None
    return schema if not schema or not text else {"description": text, **schema}


def _hoisted(adapter: TypeAdapter[Any], name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one parameter, its definitions moved to ``definitions``."""
    schema = _bare(adapter.json_schema())
    own = schema.pop("$defs", {})
    if any(definitions.get(key, value) != value for key, value in own.items()):  # two classes of one name
        schema = _bare(adapter.json_schema(ref_template=f"#/$defs/{name}.{{model}}"))
        own = {f"{name}.{key}": value for key, value in schema.pop("$defs").items()}
    definitions.update(own)
    return schema


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    for inner in _inner(schema):
        for key in _DROPPED:
            inner.pop(key, None)
    return schema


def _inner(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield ``schema`` and every schema in it, but nothing that only looks like one (a default, a name)."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key, value in schema.items():
        if key in _SINGLE:
            yield from _inner(value)
        elif key in _MAPS or key in _LISTS:
            for each in value.values() if key in _MAPS else value:
                yield from _inner(each)


def _default(parameter: Parameter, adapter: TypeAdapter[Any]) -> dict[str, Json]:
    try:
        default = adapter.dump_python(parameter.default, mode="json", by_alias=True, warnings="error")
    except Exception:  # noqa: BLE001 - a type's own serializer may raise anything; a default need not be shown
        return {}
    return {"default": default} if plain(default) else {}


def _refuse_unfit(parameter: Parameter, where: str) -> None:
    try:
        TypeAdapter(parameter.annotation).validate_python(parameter.default)  # without our settings: infinity is fine
    except Exception as error:  # noqa: BLE001 - a type's own validator may raise anything
        raise DefinitionError(
            f"{where} has the default {_shown(parameter.default)}, which does not fit its type: {reason(error)}."
        ) from None


def _refuse_misplaced(parameter: Parameter, where: str) -> None:
    if isinstance(parameter.default, FieldInfo):
        raise DefinitionError(f"{where} has a Field as its default: write Annotated[type, Field(...)] = default.")
    metadata = get_args(parameter.annotation)[1:] if get_origin(parameter.annotation) is Annotated else ()
    for field in metadata:
        if isinstance(field, FieldInfo) and not field.is_required():
            raise DefinitionError(f"{where} has its default in a Field: write it after the type, as in x: int = 1.")
        if isinstance(field, FieldInfo) and (field.alias or field.validation_alias):
            raise DefinitionError(f"{where} has an alias: an argument is called what its parameter is called.")


def reason(error: Exception) -> str:
    """Return why a value was refused, in one line, without the value itself. [D-26]"""
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__} was raised"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(str(part)[:40] for part in first["loc"])
    return f"{first['msg'][:300]}{f' at {path[:200]}' if path else ''}"


def _advice(error: Exception) -> str:
    if not isinstance(error, PydanticUserError):
        return f"which cannot be described: {str(error).partition(chr(10))[0][:300]}."
    if error.code == "class-not-fully-defined":
        return "which is not complete: define every type it names first."
    if error.code == "typed-dict-version":
        where = "typing_extensions before Python 3.12: import TypedDict from there."
        return f"which holds a TypedDict that must come from {where}"
    return "which has no JSON form: use one that has, such as str, a list, a dataclass or a pydantic model."


def _shown(value: Any) -> str:
    name = value.__name__ if isinstance(value, type) else re.sub(r"\s+", " ", repr(value))
    return name if len(name) <= 80 else f"{name[:80]}..."
