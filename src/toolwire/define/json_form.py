"""A Python type as JSON: what it looks like, and the way in and out where a value is not of that look yet."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias

from toolwire.core.model import Json

from .plain_types import SIMPLE, Core, core_schema, json_schema

Mode: TypeAlias = Literal["validation", "serialization"]


class Form(NamedTuple):
    """What is known of a type.

    ``core`` says it in the words of pydantic's core schemas, ``json_schema`` returns it in those of JSON Schema.
    ``load`` takes JSON data, ``dump`` returns some; both raise where a value does not fit. ``plain`` says that the
    type is nothing but JSON: then ``load`` and ``dump`` are the first to need pydantic.
    """

    core: Core
    json_schema: Callable[..., dict[str, Any]]
    load: Callable[[Json], Any]
    dump: Callable[[Any], Json]
    plain: bool = False


def plain_form(annotation: Any) -> Form | None:
    """Return what is known of a plain type, without pydantic, or None for any other type."""
    core = core_schema(annotation)
    return None if core is None else _SHARED.get(id(core)) or _form_of(annotation, core)


def _form_of(annotation: Any, core: Core) -> Form:
    @cache
    def asked() -> Form:
        return adapted_form(annotation, "", "validation")

    return Form(
        core=core,
        json_schema=lambda **_: json_schema(core),
        load=lambda value: asked().load(value),
        dump=lambda value: asked().dump(value),
        plain=True,
    )


# Most arguments of ten thousand tools are of these types. What is shared takes no memory for each tool, and the garbage
# collector does not look through it. (These core schemas are never freed, so no other one has the id of one of them.)
_SHARED = {id(core): _form_of(annotation, core) for annotation, core in SIMPLE}


def adapted_form(annotation: Any, where: str, mode: Mode) -> Form:
    """Return what pydantic knows of a type; ``where`` opens the sentence of a refusal.

    Raises:
        DefinitionError: the type cannot be described, or not as JSON.
    """
    from .adapter import JsonSchema, dump, load, type_adapter  # noqa: PLC0415 - brings pydantic, half a server's start

    adapter = type_adapter(annotation, where, mode)
    described = partial(adapter.json_schema, schema_generator=JsonSchema)
    return Form(adapter.core_schema, described, load(adapter), dump(adapter))
