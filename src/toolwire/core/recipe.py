"""Define recipes: tasks of several calls, as a site describes them. A client shows a recipe and never runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from .model import Json

_NO_MEMBERS: Mapping[str, Json] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeStep:
    """One step of a recipe: a call of ``tool``, or another recipe of the site, ``subrecipe``.

    - ``id``: its name in the recipe; ``recipe``: the id of the recipe; ``number``: its place there, 1 to ``count``.
    - ``tool``: the id of the tool; empty if the step is a recipe.
    - ``arguments``: by the names of the tool's arguments: values, or Arazzo runtime expressions such as
      ``$steps.reserve.outputs.hold``.
    - ``conditions``: when the step has succeeded, in the notation of Arazzo.
    - ``on_failure``: the id of the step to go to if this one fails, such as the one that cancels; or empty.
    - ``outputs``: the expression of each value that later steps use.

    All texts are the site's and untrusted.
    """

    id: str
    recipe: str
    number: int
    count: int
    tool: str = ""
    subrecipe: str = ""
    description: str = ""
    arguments: Mapping[str, Json] = field(default_factory=lambda: _NO_MEMBERS)
    conditions: tuple[str, ...] = ()
    on_failure: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A task of several calls, as the site describes it. Nothing runs it: each call of it is asked about as any other.

    ``inputs`` is the JSON Schema of what the user or the model must know first, and ``outputs`` has the expression of
    each result. All texts are the site's and untrusted.
    """

    # OQ-2

    id: str
    title: str = ""
    description: str = ""
    inputs: Mapping[str, Json] = field(default_factory=lambda: _NO_MEMBERS)
    steps: tuple[RecipeStep, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)


def rename_recipe(recipe: Recipe, tools: Mapping[str, str], prefix: str) -> Recipe | None:
    """Return ``recipe`` with ``prefix`` before the ids of recipes, and with other ids of tools.

    ``tools`` has the new id of each tool; without one for each step, there is no such recipe, and None is returned.
    """
    if any(step.tool and step.tool not in tools for step in recipe.steps):
        return None
    steps = tuple(
        replace(
            step,
            recipe=prefix + step.recipe,
            tool=tools[step.tool] if step.tool else "",
            subrecipe=prefix + step.subrecipe if step.subrecipe else "",
        )
        for step in recipe.steps
    )
    return replace(recipe, id=prefix + recipe.id, steps=steps)


def describe_step(step: RecipeStep) -> str:
    """Return the place of ``step`` in words, such as ``step 2 of 3 of the recipe book``."""
    return f"step {step.number} of {step.count} of the recipe {step.recipe}"


def describe_recipe(recipe: Recipe, name_tool: Callable[[str], str] = str) -> dict[str, Json]:
    """Return ``recipe`` as JSON data without empty members; ``name_tool`` gives the name of a tool by its id."""
    steps: list[Json] = [
        _drop_empty(
            {
                "step": step.number,
                "id": step.id,
                "tool": name_tool(step.tool) if step.tool else "",
                "recipe": step.subrecipe,
                "description": step.description,
                "arguments": dict(step.arguments),
                "conditions": list(step.conditions),
                "on_failure": step.on_failure,
                "outputs": dict(step.outputs),
            }
        )
        for step in recipe.steps
    ]
    return _drop_empty(
        {
            "id": recipe.id,
            "title": recipe.title,
            "description": recipe.description,
            "inputs": dict(recipe.inputs),
            "steps": steps,
            "outputs": dict(recipe.outputs),
        }
    )


def _drop_empty(data: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in data.items() if value not in ("", [], {})}
