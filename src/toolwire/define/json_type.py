"""Describe a Python type as JSON: its schema, and how to convert values from and to JSON data."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from toolwire.core.model import Json

from .plain_types import SIMPLE_TYPES, CoreSchema, SchemaMode, build_core_schema, build_json_schema


class JsonForm(NamedTuple):
    """What is known about a type.

    ``core`` is its pydantic core schema, ``json_schema`` returns its JSON Schema. ``load`` takes JSON data and ``dump``
    returns JSON data; both raise if a value does not fit. ``plain`` means that the type is nothing but JSON: only
    ``load`` and ``dump`` import pydantic.
    """

    core: CoreSchema
    json_schema: Callable[..., dict[str, Any]]
    load: Callable[[Json], Any]
    dump: Callable[[Any], Json]
    plain: bool = False


def find_plain_form(annotation: Any) -> JsonForm | None:
    """Return the form of a plain type, without pydantic, or ``None`` for any other type."""
    core = build_core_schema(annotation)
    return None if core is None else _SHARED.get(id(core)) or _build_lazy_form(annotation, core)


def _build_lazy_form(annotation: Any, core: CoreSchema) -> JsonForm:
    @cache
    def get_adapted() -> JsonForm:
        return build_adapted_form(annotation, "", "validation")

    return JsonForm(
        core=core,
        json_schema=lambda **_: build_json_schema(core),
        load=lambda value: get_adapted().load(value),
        dump=lambda value: get_adapted().dump(value),
        plain=True,
    )


# Most arguments of ten thousand tools are of these types. What is shared takes no memory for each tool, and the garbage
# collector does not look through it. (These core schemas are never freed, so no other one has the id of one of them.)
_SHARED = {id(core): _build_lazy_form(annotation, core) for annotation, core in SIMPLE_TYPES}


def build_adapted_form(annotation: Any, where: str, mode: SchemaMode) -> JsonForm:
    """Return the form of a type by pydantic; ``where`` begins the sentence of an error.

    Raises:
        DefinitionError: the type cannot be described, or not as JSON.
    """
    from .adapter import (  # brings pydantic, half a server's start
        JsonSchemaGenerator,
        build_dumper,
        build_loader,
        build_type_adapter,
    )

    adapter = build_type_adapter(annotation, where, mode)
    described = partial(adapter.json_schema, schema_generator=JsonSchemaGenerator)
    return JsonForm(adapter.core_schema, described, build_loader(adapter), build_dumper(adapter))
