"""Read types with pydantic. Importing pydantic takes half of a server's start, so ``json_type`` imports this on demand.

**Rules**

- Bytes are base64 text, in both directions.
- An error is one sentence, and never holds the refused value of a call.
"""
# D-26: the rules above.

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final, NewType, get_args, get_origin

import orjson
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreConfig, core_schema, from_json, to_json

from toolwire.core.errors import DefinitionError
from toolwire.core.interpreter import pause_collection
from toolwire.core.model import Json

from .function import LETS_OTHERS_RUN, LargeArguments
from .large_arguments import build_patient_validator, is_on_loop
from .plain_types import SchemaMode
from .signature import Parameter

_NO_FORM = "which has no JSON form: use one that has, such as str, a list, a dataclass or a pydantic model."

_LARGE = 65_536  # bytes
_SETTINGS: Final = ConfigDict(
    ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants", allow_inf_nan=False
)
_CORE_SETTINGS: Final = CoreConfig(
    ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants", allow_inf_nan=False
)


class JsonSchemaGenerator(GenerateJsonSchema):
    """Pydantic's JSON Schema, but for what the JSON form of a value need not meet.

    ``format`` is what RFC 3339 says, and real clients check it: a time without an offset does not meet it, nor do the
    durations that pydantic writes of a negative timedelta, of a fraction of a second, or of hours without minutes.
    """

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        """Return the schema of a date and time; as an argument it has an offset unless it must not.

        As a result only pydantic's ``AwareDatetime`` always has one.
        """
        zone = schema.get("tz_constraint")
        written = super().datetime_schema(schema)
        return written if zone == "aware" else self._drop_unmet_format(written, naive=zone == "naive")

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        """Return the schema of a time of day, whose offset is hardly ever given."""
        return self._drop_unmet_format(super().time_schema(schema), naive=True)

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        """Return the schema of a duration."""
        return self._drop_unmet_format(super().timedelta_schema(schema))

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        """Return the schema of bytes: their limits count bytes, and those of JSON Schema the letters of base64.

        A model may have settings of its own, by which its bytes are another text.
        """
        text: JsonSchemaValue = {"type": "string"}
        config = self._config
        if (config.ser_json_bytes if self.mode == "serialization" else config.val_json_bytes) != "base64":
            return text
        text["contentEncoding"] = "base64url"
        for theirs, ours in (("min_length", "minLength"), ("max_length", "maxLength")):
            limit = schema.get(theirs)
            if isinstance(limit, int):
                text[ours] = -(-limit // 3) * 4
        return text

    def _drop_unmet_format(self, schema: JsonSchemaValue, *, naive: bool = False) -> JsonSchemaValue:
        if self.mode == "serialization" or naive:
            schema.pop("format", None)
        return schema


def build_type_adapter(annotation: Any, where: str, mode: SchemaMode) -> TypeAdapter[Any]:
    """Return pydantic's adapter for ``annotation``. ``where`` begins the sentence of an error.

    Raises:
        DefinitionError: the type cannot be described, or not as JSON.
    """
    # Under another name even a class with settings of its own, such as a dataclass, takes ours.
    named = NewType("named", annotation)  # type: ignore[valid-newtype]  # a type known only at run time
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(named, config=_SETTINGS)
        adapter.json_schema(mode=mode, schema_generator=JsonSchemaGenerator)
    except Exception as error:  # noqa: BLE001 - besides its own, pydantic raises whatever a constraint or a type raises
        raise DefinitionError(
            f"{where} has the type {_format_value(annotation)}, {_explain_unsupported(error)}"
        ) from None
    if _lacks_json_form(adapter.core_schema):
        raise DefinitionError(f"{where} has the type {_format_value(annotation)}, {_NO_FORM}")
    return adapter


def _lacks_json_form(schema: Any) -> bool:
    """Return whether a core schema asks for a class, or for a literal of bytes, neither of which JSON has."""
    if isinstance(schema, list | tuple):
        return any(_lacks_json_form(inner) for inner in schema)
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "is-subclass":
        return True
    if schema.get("type") == "literal":
        return any(isinstance(value, bytes) for value in schema["expected"])
    return any(_lacks_json_form(inner) for inner in schema.values())


def build_loader(adapter: TypeAdapter[Any]) -> Callable[[Json], Any]:
    """Return a function from JSON data to a value of the type.

    It raises LargeArguments on an event loop for more than 64 KiB: a thread reads them with pauses.
    """
    validate = adapter.validate_json
    build_patient = cache(lambda: build_patient_validator(adapter.core_schema, _CORE_SETTINGS))

    def load(value: Json) -> Any:
        text = _encode_json(value)  # as JSON, so that strict types take their JSON forms too
        if len(text) <= _LARGE:
            return validate(text)
        is_patient = LETS_OTHERS_RUN.get()
        if is_on_loop() and not is_patient:
            raise LargeArguments
        patient = build_patient() if is_patient else None
        with pause_collection():  # AT-38: of 130,000 models, nine tenths of the time went to the collector
            return (patient or validate)(text)

    return load


def build_dumper(adapter: TypeAdapter[Any]) -> Callable[[Any], Json]:
    """Return a function from a value of the type to JSON data, by way of JSON text: that is three times faster."""
    write = adapter.dump_json
    return lambda value: from_json(write(value, by_alias=True, warnings="error"), allow_inf_nan=False)


def _encode_json(value: Json) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits
        return to_json(value)


def check_default(parameter: Parameter, where: str) -> None:
    """Check that a default fits its type.

    Raises:
        DefinitionError: it does not.
    """
    try:
        TypeAdapter(parameter.annotation).validate_python(parameter.default)  # without our settings: infinity is fine
    except Exception as error:  # noqa: BLE001 - a type's own validator may raise anything
        default = _format_value(parameter.default)
        raise DefinitionError(
            f"{where}: the default {default} does not match the type: {describe_error(error)}."
        ) from None


def check_field_placement(parameter: Parameter, where: str) -> None:
    """Check that a ``Field`` of ``parameter`` stands where pydantic reads it.

    Raises:
        DefinitionError: it does not; the message says where it belongs.
    """
    metadata = get_args(parameter.annotation)[1:] if get_origin(parameter.annotation) is Annotated else ()
    for field in metadata:
        if isinstance(field, FieldInfo) and not field.is_required():
            raise DefinitionError(f"{where}: write the default after the type, as in x: int = 1, not in a Field.")
        if isinstance(field, FieldInfo) and (field.alias or field.validation_alias):
            raise DefinitionError(f"{where}: an alias is not allowed. Rename the parameter instead.")


def describe_error(error: Exception) -> str:
    """Return in one line why a value was refused, without the value."""
    # D-26
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__} was raised"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(str(part)[:40] for part in first["loc"])
    return f"{first['msg'][:300]}{f' at {path[:200]}' if path else ''}"


def _explain_unsupported(error: Exception) -> str:
    if not isinstance(error, PydanticUserError):
        return f"which cannot be described: {str(error).partition(chr(10))[0][:300]}."
    if error.code == "class-not-fully-defined":
        return "which is not complete: define every type it names first."
    if error.code == "typed-dict-version":
        where = "typing_extensions before Python 3.12: import TypedDict from there."
        return f"which holds a TypedDict that must come from {where}"
    return _NO_FORM


def _format_value(value: Any) -> str:
    name = value.__name__ if isinstance(value, type) else re.sub(r"\s+", " ", repr(value))
    return name if len(name) <= 80 else f"{name[:80]}..."
