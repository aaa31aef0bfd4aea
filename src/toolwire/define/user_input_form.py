"""Describe a model or dataclass as a form for a user, and read what the user entered."""
# MC-09

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from toolwire.core.model import Json

from .function import LETS_OTHERS_RUN
from .json_type import build_adapted_form


class UserForm(NamedTuple):
    """A form: its schema, and how to read the content. ``load`` raises if the content does not fit."""

    schema: dict[str, Json]
    load: Callable[[Json], Any]


@lru_cache(maxsize=1_000)
def build_user_form(form: Hashable) -> UserForm:
    """Return ``form`` as a form. Nothing is nested in its schema unless it is nested in ``form``.

    Raises:
        DefinitionError: it has no JSON form.
    """
    adapted = build_adapted_form(form, "What context.ask() asks for", "validation")
    whole = adapted.json_schema()
    definitions = whole.pop("$defs", {})
    whole = _resolve(whole, definitions)
    properties = whole.get("properties", {})
    schema: dict[str, Json] = {
        "type": whole.get("type"),
        "properties": {name: _simplify(one, definitions) for name, one in properties.items()},
    }
    if whole.get("required"):
        schema["required"] = whole["required"]

    def load(content: Json) -> Any:
        # In place, however large it is: the tool waits for it.
        place = LETS_OTHERS_RUN.set(True)
        try:
            return adapted.load(content)
        finally:
            LETS_OTHERS_RUN.reset(place)

    return UserForm(schema, load)


def describe_fault(error: Exception) -> str:
    """Return why a content does not fit, as the end of a sentence that does not hold it."""
    from .adapter import describe_error  # brings pydantic

    return describe_error(error)


def _resolve(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return dict(schema)
    found = definitions.get(reference.rpartition("/")[2], {})
    return {**found, **{name: value for name, value in schema.items() if name != "$ref"}}


def _simplify(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a field in the words that forms have: no reference, no null, no constant alone."""
    plain = _resolve(schema, definitions)
    choices = plain.get("anyOf")
    if isinstance(choices, list):
        others = [one for one in choices if one.get("type") != "null"]
        if len(others) == 1:
            del plain["anyOf"]
            plain = {**_resolve(others[0], definitions), **plain}
    if plain.get("default", 0) is None:
        del plain["default"]
    if "const" in plain:
        plain["enum"] = [plain.pop("const")]
    if plain.get("type") == "array" and isinstance(plain.get("items"), dict):
        plain["items"] = _simplify(plain["items"], definitions)
    return plain
