"""A Python type as JSON: what it looks like, and the way in and out where a value is not of that look yet."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from toolwire.core.model import Json

from .plain_types import SIMPLE_TYPES, CoreSchema, SchemaMode, build_core_schema, build_json_schema


class JsonForm(NamedTuple):
    """What is known of a type.

    ``core`` says it in the words of pydantic's core schemas, ``json_schema`` returns it in those of JSON Schema.
    ``load`` takes JSON data, ``dump`` returns some; both raise where a value does not fit. ``plain`` says that the
    type is nothing but JSON: then ``load`` and ``dump`` are the first to need pydantic.
    """

    core: CoreSchema
    json_schema: Callable[..., dict[str, Any]]
    load: Callable[[Json], Any]
    dump: Callable[[Any], Json]
    plain: bool = False


def find_plain_form(annotation: Any) -> JsonForm | None:
    """Return what is known of a plain type, without pydantic, or None for any other type."""
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
    """Return what pydantic knows of a type; ``where`` opens the sentence of a refusal.

    Raises:
        DefinitionError: the type cannot be described, or not as JSON.
    """
    from .adapter import JsonSchemaGenerator, build_dumper, build_loader, build_type_adapter  # noqa: PLC0415 - brings pydantic, half a server's start

    adapter = build_type_adapter(annotation, where, mode)
    described = partial(adapter.json_schema, schema_generator=JsonSchemaGenerator)
    return JsonForm(adapter.core_schema, described, build_loader(adapter), build_dumper(adapter))
