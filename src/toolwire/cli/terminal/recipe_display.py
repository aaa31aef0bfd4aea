"""Print the recipes of a site: what it says about tasks of several calls, as text that cannot move or hide anything."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from toolwire.core.recipe import Recipe, RecipeStep

from .screen import apply_style, escape_first_line, escaped, json_text

_MOST_TEXT = 200


def print_recipes(recipes: tuple[Recipe, ...], name_tool: Callable[[str], str]) -> None:
    """Print ``recipes`` with their steps; ``name_tool`` gives the name of a tool by its id."""
    if not recipes:
        print("The site describes no recipes.")
        return
    for number, recipe in enumerate(recipes):
        title = f"{recipe.id}: {recipe.title}" if recipe.title else recipe.id
        print(("\n" if number else "") + apply_style(escaped(title), "bold", sys.stdout))
        for line in _list_lines(recipe, name_tool):
            print(f"  {line}")
    print("\nThese are the words of the site. Nothing runs a recipe: call its tools, and each call asks as always.")


def _list_lines(recipe: Recipe, name_tool: Callable[[str], str]) -> Iterator[str]:
    if recipe.description:
        yield escape_first_line(recipe.description)[:_MOST_TEXT]
    properties = recipe.inputs.get("properties")
    if isinstance(properties, dict) and properties:
        yield f"needs: {escaped(', '.join(properties))[:_MOST_TEXT]}"
    for step in recipe.steps:
        yield from _list_step_lines(step, name_tool)


def _list_step_lines(step: RecipeStep, name_tool: Callable[[str], str]) -> Iterator[str]:
    called = name_tool(step.tool) if step.tool else f"the recipe {step.subrecipe}"
    words = escape_first_line(step.description)[:_MOST_TEXT]
    yield f"{step.number}. {escaped(called)}" + (f"  {words}" if words else "")
    for name, value in step.arguments.items():
        yield f"     {escaped(name)} = {escaped(value if isinstance(value, str) else json_text(value))[:_MOST_TEXT]}"
    if step.on_failure:
        yield f"     if it fails: go to the step {escaped(step.on_failure)}"
