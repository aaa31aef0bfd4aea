"""Build the JSON Schema (2020-12) of a signature and of its result.

**Rules**

- No description is invented: a protocol that needs one makes its own.
- Titles are dropped: pydantic makes them from names, which are in the schema already.
- A ``format`` is one that validators know. In a result, every value of the type meets it.
"""
# OTC-011: the rules above.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from toolwire.core.model import Json
from toolwire.core.subschemas import iterate_schemas

from .json_type import JsonForm, build_adapted_form, find_plain_form
from .native_values import build_matcher, is_plain_json
from .plain_types import convert_numbers
from .signature import Parameter

_DROPPED = ("title", "discriminator")  # the second is OpenAPI's word; ``oneOf`` says the same

_ENCODINGS = {"base64": "base64", "base64url": "base64url"}
_SPELLINGS = {f"uuid{version}": "uuid" for version in range(1, 9)}
_UNKNOWN_FORMATS = frozenset(
    {
        *("path", "file-path", "directory-path", "socket-path", "binary", "multi-host-uri", "name-email", "fraction"),
        *("ipv4network", "ipv6network", "ipv4interface", "ipv6interface"),
        *("ipvanyaddress", "ipvanynetwork", "ipvanyinterface"),
    }
)
"""Formats that pydantic makes up. Validators print a warning for each of them, or refuse the schema."""

_UNMET_FORMATS = frozenset({"email", "uri", "ipv6", "regex"})
"""Formats that some values of their types do not meet: an internationalized address, a URL as browsers allow it, an
address with its zone, a pattern as Python writes it."""


class Argument(NamedTuple):
    """A parameter, the form of its type, and the ``default`` member of its schema, if JSON can express it."""

    parameter: Parameter
    form: JsonForm
    default: Mapping[str, Json]


def build_argument(parameter: Parameter, where: str) -> Argument:
    """Return ``parameter`` with its type understood, without pydantic if type and default are plain JSON.

    Raises:
        DefinitionError: the type cannot be described, or the default does not fit it or stands in the wrong place.
    """
    form = find_plain_form(parameter.annotation)
    default = _find_plain_default(parameter, form) if form else None
    return _adapt_argument(parameter, where) if form is None or default is None else Argument(parameter, form, default)


def build_result_form(annotation: Any, where: str) -> JsonForm:
    """Return what is known of the type of a result.

    Raises:
        DefinitionError: the type cannot be described, or not as JSON.
    """
    return find_plain_form(annotation) or build_adapted_form(annotation, f"{where}: its result", "serialization")


def build_input_schema(arguments: Sequence[Argument], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the schema of one object that holds an argument for each parameter. ``texts`` describes them by name.

    A description in the annotation wins over one in ``texts``. A default that JSON cannot say is left out. A function
    takes no other arguments, so the object is closed.
    """
    # I-28
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for parameter, form, default in arguments:
        schema = _hoist_definitions(form, parameter.name, definitions)
        if text := schema.get("description") or texts.get(parameter.name):
            schema["description"] = text
        properties[parameter.name] = {**schema, **default}
    whole: dict[str, Any] = {"type": "object", "properties": properties}
    required = [parameter.name for parameter, *_ in arguments if parameter.is_required]
    whole |= {"required": required} if required else {}
    whole["additionalProperties"] = False
    return whole | ({"$defs": definitions} if definitions else {})


def build_output_schema(form: JsonForm, text: str, *, streams: bool) -> dict[str, Any] | None:
    """Return the schema of a result: ``{}`` for any value, None for none, an array if it is streamed."""
    # OTC-012
    schema = _strip_schema(form.json_schema(mode="serialization"))
    for inner in iterate_schemas(schema):
        if inner.get("format") in _UNMET_FORMATS:
            del inner["format"]
    if streams:
        definitions = schema.pop("$defs", None)
        schema = {"type": "array", "items": schema} | ({"$defs": definitions} if definitions else {})
    elif schema == {"type": "null"}:
        return None
    return schema if not schema or not text else {"description": text, **schema}


def _hoist_definitions(form: JsonForm, name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one parameter, its definitions moved to ``definitions``."""
    schema = _strip_schema(form.json_schema())
    own = schema.pop("$defs", {})
    if any(definitions.get(key, value) != value for key, value in own.items()):  # two classes of one name
        schema = _strip_schema(form.json_schema(ref_template=f"#/$defs/{name}.{{model}}"))
        own = {f"{name}.{key}": value for key, value in schema.pop("$defs").items()}
    definitions.update(own)
    return schema


def _strip_schema(schema: dict[str, Any]) -> dict[str, Any]:
    for inner in iterate_schemas(schema):
        for key in _DROPPED:
            inner.pop(key, None)
        _mend_format(inner)
    return schema


def _mend_format(schema: dict[str, Any]) -> None:
    """Say the ``format`` of ``schema`` in words that validators know, or leave it out."""
    name = schema.get("format")
    if not isinstance(name, str):
        return
    if name == "password":  # what a SecretBytes shows of itself is no base64
        schema.pop("contentEncoding", None)
    if name in _ENCODINGS:
        schema["contentEncoding"] = _ENCODINGS[name]
    if name in _ENCODINGS or name in _UNKNOWN_FORMATS:
        del schema["format"]
    else:
        schema["format"] = _SPELLINGS.get(name, name)


def _find_plain_default(parameter: Parameter, form: JsonForm) -> dict[str, Json] | None:
    """Return the member that shows a default of a plain type, or None if only pydantic can tell whether it fits."""
    if parameter.is_required:
        return {}
    native = build_matcher(form.core, is_plain_json)
    default = convert_numbers(form.core, parameter.default, reading=False)
    return {"default": deepcopy(default)} if native is not None and native(default) else None


def _adapt_argument(parameter: Parameter, where: str) -> Argument:
    from .adapter import check_default, check_field_placement  # brings pydantic, half a server's start

    where = f"{where}: the parameter {parameter.name!r}"
    check_field_placement(parameter, where)
    form = build_adapted_form(parameter.annotation, where, "validation")
    if parameter.is_required:
        return Argument(parameter, form, {})
    check_default(parameter, where)
    return Argument(parameter, form, _dump_default(parameter, form))


def _dump_default(parameter: Parameter, form: JsonForm) -> dict[str, Json]:
    try:
        default = form.dump(parameter.default)
    except Exception:  # noqa: BLE001 - a type's own serializer may raise anything; a default need not be shown
        return {}
    return {"default": default} if is_plain_json(default) else {}
