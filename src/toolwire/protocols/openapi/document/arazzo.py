"""Read the recipes of an Arazzo 1.x document: tasks of several calls, which are shown and never run.

Rules:
- The document is hostile: bytes, recipes, steps and texts have limits, and no text keeps hidden characters.
- A recipe with a step that cannot be followed is left out, and becomes a finding. No document raises an error.
- Operations are those of the site's own OpenAPI document: one that another origin describes is not used.
"""
# OQ-2: the rules above.

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from toolwire.core.json_pointer import MISSING, join_pointer
from toolwire.core.model import Json, Problem
from toolwire.core.recipe import Recipe, RecipeStep
from toolwire.core.url_origin import has_same_origin
from toolwire.framing import jsontext
from toolwire.framing.text_cleaning import clean_data

from .descriptions import clean_text
from .findings import Note
from .loading import load_document
from .servers import join_url

MAX_BYTES = 262_144
_MOST_RECIPES = 50
_MOST_STEPS = 200  # of all recipes together: the schemas of their tools are read when a client connects
_MOST_MEMBERS = 50
_MOST_CONDITIONS = 10
_TITLE_CHARACTERS = 200
_TEXT_CHARACTERS = 1_000
_EXPRESSION_CHARACTERS = 300
_DATA_CHARACTERS = 4_000
_ID = re.compile(r"[A-Za-z0-9_.-]{1,80}", re.ASCII)
_OPERATION_ID = re.compile(r"\$sourceDescriptions\.([^.]{1,80})\.(.{1,200})", re.DOTALL)
_OPERATION_PATH = re.compile(r"\{\$sourceDescriptions\.([^.{}]{1,80})\.url\}#(/.{1,1000})", re.DOTALL)
_SHOWN = 80


class StepOperation(NamedTuple):
    """The operation of a step: the id of its tool, and what fills the tool's arguments.

    ``fill`` gets the parameters as ``place.name`` and the body (or ``MISSING``), and returns arguments by name.
    """

    tool: str
    fill: Callable[[Mapping[str, Json], Json], Mapping[str, Json]]


FindOperation: TypeAlias = Callable[[str], "StepOperation | None"]
"""Return the operation with an operationId, or with a JSON Pointer into the OpenAPI document, or None."""


class Recipes(NamedTuple):
    """The recipes of a document, and the findings: what was left out of it, and why."""

    items: tuple[Recipe, ...]
    notes: tuple[Note, ...]


def drop_incomplete(recipes: Sequence[Recipe]) -> Sequence[Recipe]:
    """Return ``recipes`` without those that have a step which is a recipe that is not there."""
    while True:
        known = {recipe.id for recipe in recipes} | {""}
        kept = [one for one in recipes if all(step.subrecipe in known for step in one.steps)]
        if len(kept) == len(recipes):
            return kept
        recipes = kept


def list_own_sources(data: Json, url: str) -> list[str]:
    """Return the names of the source descriptions that are OpenAPI documents of the site of ``url``."""
    sources = _list(data.get("sourceDescriptions")) if isinstance(data, dict) else []
    return [name for name, is_own in _read_sources(sources, url).items() if is_own]


def _read_sources(sources: list[Json], url: str) -> dict[str, bool]:
    """Return whether each source description, by its name, is an OpenAPI document of the site of ``url``."""
    return {
        one["name"]: _is_own(one, url)
        for one in sources[:_MOST_MEMBERS]
        if isinstance(one, dict) and isinstance(one.get("name"), str)
    }


class _UnusableRecipe(Exception):
    """A recipe that cannot be shown whole; the message is the end of a sentence."""

    def __init__(self, text: str, *path: str | int) -> None:
        super().__init__(text)
        self.path = path


def load_recipes(text: bytes, media_type: str, url: str, find_operation: FindOperation) -> Recipes:
    """Return the recipes of the Arazzo document ``text``, JSON or YAML, that was found at ``url``."""
    if len(text) > MAX_BYTES:
        return _refuse(f"it is larger than {MAX_BYTES:,} bytes")
    loaded = load_document(text, media_type, url)
    if isinstance(loaded, Problem):
        return _refuse(f"it {loaded.message}")
    data = loaded.data
    if not loaded.hidden:
        return read_recipes(data, url, find_operation)
    plain = clean_data(data)
    recipes = read_recipes(plain, url, find_operation)
    if plain == data:
        return recipes
    return recipes._replace(notes=(Note("Recipes", "hidden characters were taken out of them"), *recipes.notes))


def read_recipes(data: Json, url: str, find_operation: FindOperation) -> Recipes:
    """Return the recipes of ``data``, an Arazzo document of the site of ``url`` without hidden characters."""
    if not isinstance(data, dict) or not isinstance(data.get("arazzo"), str):
        return _refuse("it is no Arazzo document")
    if not data["arazzo"].startswith("1."):
        return _refuse(f"it is of version {clean_text(data['arazzo'], 20)!r} of Arazzo, and 1.x is read")
    workflows = data.get("workflows")
    if not isinstance(workflows, list) or not workflows:
        return _refuse("it has no workflows")
    return _Reader(data, url, find_operation).read(workflows)


def _refuse(text: str) -> Recipes:
    return Recipes((), (Note("Recipes", f"the document of workflows is not used: {text}"),))


class _Reader:
    """Reads the workflows of one document."""

    def __init__(self, document: dict[str, Json], url: str, find_operation: FindOperation) -> None:
        self._document = document
        self._find_operation = find_operation
        self._sources = _read_sources(_list(document.get("sourceDescriptions")), url)
        self._notes: list[Note] = []
        self._left = _MOST_STEPS

    def read(self, workflows: list[Json]) -> Recipes:
        """Return the recipes, and the findings."""
        found: dict[str, Recipe] = {}
        places: dict[str, int] = {}
        for number, one in enumerate(workflows[:_MOST_RECIPES]):
            id_ = _get_id(one, "workflowId")
            try:
                if not id_:
                    raise _UnusableRecipe("its workflowId is not made of letters, digits, '.', '_' and '-'")
                if id_ in found:
                    raise _UnusableRecipe("another one has this workflowId", "workflowId")
                found[id_] = self._read_recipe(one, id_)
                places[id_] = number
            except _UnusableRecipe as error:
                self._add_note(id_, number, error)
        if len(workflows) > _MOST_RECIPES:
            text = f"{len(workflows) - _MOST_RECIPES:,} are left out: {_MOST_RECIPES} are read"
            self._notes.append(Note("Recipes", text, "/workflows"))
        self._drop_incomplete(found, places)
        return Recipes(tuple(found.values()), tuple(self._notes))

    def _add_note(self, id_: str, number: int, error: _UnusableRecipe) -> None:
        where = f"Recipe {id_}" if id_ else f"Recipe {number + 1}"
        self._notes.append(Note(where, f"{error}: it is left out", join_pointer("", "workflows", number, *error.path)))

    def _drop_incomplete(self, found: dict[str, Recipe], places: Mapping[str, int]) -> None:
        """Drop each recipe with a step that is a recipe which is not there, until none is left."""
        while True:
            lost = [
                (id_, step)
                for id_, one in found.items()
                for step in one.steps
                if step.subrecipe and step.subrecipe not in found
            ]
            for id_, step in lost:
                if found.pop(id_, None) is not None:
                    text = f"its step {step.id} is the recipe {step.subrecipe}, which is not there"
                    self._add_note(id_, places[id_], _UnusableRecipe(text, "steps", step.number - 1, "workflowId"))
            if not lost:
                return

    def _read_recipe(self, data: dict[str, Json], id_: str) -> Recipe:
        steps = _list(data.get("steps"))
        if not steps:
            raise _UnusableRecipe("it has no steps", "steps")
        if len(steps) > self._left:
            raise _UnusableRecipe(f"{_MOST_STEPS} steps of all recipes together are read", "steps")
        # Counted also if the recipe is dropped later: reading it has cost its time.
        self._left -= len(steps)
        ids = [_get_id(step, "stepId") for step in steps]
        if "" in ids:
            text = "the stepId of a step is not made of letters, digits, '.', '_' and '-'"
            raise _UnusableRecipe(text, "steps", ids.index(""))
        if len(set(ids)) < len(ids):
            raise _UnusableRecipe("two steps have one stepId", "steps")
        return Recipe(
            id=id_,
            title=clean_text(data.get("summary"), _TITLE_CHARACTERS).strip(),
            description=clean_text(data.get("description"), _TEXT_CHARACTERS).strip(),
            inputs=self._read_inputs(data.get("inputs"), id_),
            steps=tuple(self._read_step(data, step, ids, number) for number, step in enumerate(steps)),
            outputs=_read_outputs(data.get("outputs")),
        )

    def _read_inputs(self, said: Json, id_: str) -> Mapping[str, Json]:
        if isinstance(said, dict) and isinstance(said.get("$ref"), str):
            said = self._resolve_component("inputs", said["$ref"].removeprefix("#/components/inputs/"))
        if not isinstance(said, dict):
            return {}
        if not _is_short(said):
            self._notes.append(Note(f"Recipe {id_}", "the schema of its inputs is too long, and left out"))
            return {}
        return said

    def _read_step(self, recipe: dict[str, Json], step: dict[str, Json], ids: list[str], number: int) -> RecipeStep:
        id_, subrecipe = ids[number], _get_id(step, "workflowId")
        operation = None if subrecipe else self._bind(step, id_, number)
        arguments = self._read_arguments(recipe, step, id_, operation)
        return RecipeStep(
            id=id_,
            recipe=recipe["workflowId"],
            number=number + 1,
            count=len(ids),
            tool="" if operation is None else operation.tool,
            subrecipe=subrecipe,
            description=clean_text(step.get("description"), _TEXT_CHARACTERS).strip(),
            arguments=arguments,
            conditions=tuple(_list_conditions(step.get("successCriteria"))),
            on_failure=self._find_failure_step(recipe, step, ids),
            outputs=_read_outputs(step.get("outputs")),
        )

    def _read_arguments(
        self, recipe: dict[str, Json], step: dict[str, Json], id_: str, operation: StepOperation | None
    ) -> Mapping[str, Json]:
        """Return the arguments of a step; a finding says which of them are left out."""
        given, body = self._list_parameters(recipe, step), _get_body(step)
        where = f"Recipe {recipe['workflowId']}"
        if operation is None:
            arguments: Mapping[str, Json] = {name.partition(".")[2]: value for name, value in given.items()}
        else:
            # Filled apart, so that each can be compared with what the step gave: a lost argument is a finding.
            parameters = operation.fill(given, MISSING)
            members = {} if body is MISSING else operation.fill({}, body)
            arguments = {**parameters, **members}
            if len(parameters) < len(given) or _loses_members(body, members):
                self._notes.append(Note(where, f"its step {id_} gives more than the arguments of {operation.tool}"))
        if _is_short(arguments):
            return arguments
        self._notes.append(Note(where, f"the arguments of its step {id_} are too long, and left out"))
        return {}

    def _bind(self, step: dict[str, Json], id_: str, number: int) -> StepOperation:
        """Return the operation of ``step``."""
        for member, pattern in (("operationId", _OPERATION_ID), ("operationPath", _OPERATION_PATH)):
            said = step.get(member)
            if not isinstance(said, str) or not said:
                continue
            path = ("steps", number, member)
            found = pattern.fullmatch(said)
            reference = said if found is None else found[2]
            if found is not None and found[1] not in self._sources:
                text = f"its step {id_} is of {found[1][:_SHOWN]!r}, which is no source description"
                raise _UnusableRecipe(text, *path)
            # A step must not lead a model to the operations of another site.
            if found is not None and not self._sources[found[1]]:
                text = f"its step {id_} is of {found[1][:_SHOWN]!r}, which is not the OpenAPI document of this site"
                raise _UnusableRecipe(text, *path)
            # operationPath is a URL, whose fragment is percent-encoded; operationId is plain text.
            operation = self._find_operation(unquote(reference) if member == "operationPath" else reference)
            if operation is None:
                raise _UnusableRecipe(f"its step {id_} is {reference[:_SHOWN]!r}, which is no tool here", *path)
            return operation
        raise _UnusableRecipe(f"its step {id_} names neither an operation nor a workflow", "steps", number)

    def _list_parameters(self, recipe: dict[str, Json], step: dict[str, Json]) -> dict[str, Json]:
        """Return the parameters of a step as ``place.name``; its own ones replace those of the recipe."""
        found: dict[str, Json] = {}
        for one in (*_list(recipe.get("parameters")), *_list(step.get("parameters")))[: 2 * _MOST_MEMBERS]:
            read = self._resolve("parameters", one)
            name, place = read.get("name"), read.get("in")
            if isinstance(name, str) and "value" in read:
                found[f"{place if isinstance(place, str) else ''}.{name}"] = read["value"]
        return found

    def _find_failure_step(self, recipe: dict[str, Json], step: dict[str, Json], ids: list[str]) -> str:
        """Return the id of the step that follows if ``step`` fails, or ``""``."""
        for one in (*_list(step.get("onFailure")), *_list(recipe.get("failureActions")))[:_MOST_MEMBERS]:
            action = self._resolve("failureActions", one)
            there = _get_id(action, "stepId")
            if action.get("type") == "goto" and there in ids:
                return there
        return ""

    def _resolve(self, kind: str, one: Json) -> dict[str, Json]:
        """Return an object of a step; a reference to a component of the document is followed once."""
        if not isinstance(one, dict):
            return {}
        reference = one.get("reference")
        if not isinstance(reference, str):
            return one
        target = self._resolve_component(kind, reference.removeprefix(f"$components.{kind}."))
        return {**target, **one} if isinstance(target, dict) else {}

    def _resolve_component(self, kind: str, name: str) -> Json:
        components = self._document.get("components")
        of_kind = components.get(kind) if isinstance(components, dict) else None
        return of_kind.get(name) if isinstance(of_kind, dict) else None


def _is_own(source: dict[str, Any], url: str) -> bool:
    """Return whether a source description names an OpenAPI document of the site of ``url``."""
    said = source.get("url")
    there = join_url(url, said) if isinstance(said, str) else None
    if source.get("type", "openapi") != "openapi" or there is None:
        return False
    # A file has no origin to compare. The URL of a source is only a name here, and nothing is read from it.
    return there.startswith("file:///") if url.startswith("file:///") else has_same_origin(there, url)


def _get_id(data: Json, member: str) -> str:
    said = data.get(member) if isinstance(data, dict) else None
    return said if isinstance(said, str) and _ID.fullmatch(said) else ""


def _list(data: Json) -> list[Json]:
    return data if isinstance(data, list) else []


def _get_body(step: dict[str, Json]) -> Json:
    body = step.get("requestBody")
    return body["payload"] if isinstance(body, dict) and "payload" in body else MISSING


def _loses_members(body: Json, members: Mapping[str, Json]) -> bool:
    """Return whether ``members``, the arguments that ``body`` fills, do not have all of it."""
    if body is MISSING or any(value is body for value in members.values()):
        return False
    return not isinstance(body, dict) or len(members) < len(body)


def _list_conditions(criteria: Json) -> Iterator[str]:
    for one in _list(criteria)[:_MOST_CONDITIONS]:
        condition = clean_text(one.get("condition"), _EXPRESSION_CHARACTERS) if isinstance(one, dict) else ""
        if condition:
            yield condition


def _read_outputs(data: Json) -> dict[str, str]:
    members = list(data.items())[:_MOST_MEMBERS] if isinstance(data, dict) else []
    return {
        clean_text(name, _SHOWN): clean_text(value, _EXPRESSION_CHARACTERS)
        for name, value in members
        if isinstance(value, str)
    }


def _is_short(data: Mapping[str, Json]) -> bool:
    return len(jsontext.write(dict(data))) <= _DATA_CHARACTERS
