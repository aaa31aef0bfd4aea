"""Publish the recipes of a server: the author's Arazzo document, which must fit the tools, or those of other sites.

The document names a tool by its operationId, which is the name of the tool.
"""
# OQ-2

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Site
from toolwire.core.model import Json
from toolwire.core.recipe import Recipe, RecipeStep

from . import document_writer
from .document import arazzo
from .document.arazzo import Recipes
from .document.paths import CONVENTIONAL
from .document_writer import OfferedTool
from .recipes import find_operation
from .request import query
from .tools import operations

_URL = "https://document.invalid/workflows.json"  # relative references of the author stay on it, and others do not
_SOURCE = "tools"
_HTTP_EXPRESSION = re.compile(r"\$(?:statusCode|url|method|(?:request|response)\.header)")


def find_fault(workflows: Json, catalog: Catalog) -> str:
    """Return the first reason why ``workflows`` are not recipes of the tools in ``catalog``, or ``""``."""
    found = _read(workflows, catalog)
    if found.notes:
        return str(found.notes[0])
    return "" if found.items else "Recipes: it has no workflows."


def write_workflows(catalog: Catalog, site: Site) -> dict[str, Json]:
    """Return the Arazzo document of ``site`` with the workflows whose steps are all tools of ``catalog``.

    Its source descriptions name the OpenAPI document of ``site``, wherever the application is mounted.
    """
    workflows = _write_recipes(site.recipes, catalog) if site.workflows is None else _select(site.workflows, catalog)
    sources = arazzo.list_own_sources(workflows, _URL) or [_SOURCE]
    url = site.root + CONVENTIONAL[1]
    return {**workflows, "sourceDescriptions": [{"name": name, "url": url, "type": "openapi"} for name in sources]}


def _select(workflows: Json, catalog: Catalog) -> dict[str, Json]:
    # What a caller may not see, or an upstream has withdrawn, is not named in a recipe either.
    offered = {recipe.id for recipe in _read(workflows, catalog).items}
    return {**workflows, "workflows": [one for one in workflows["workflows"] if one["workflowId"] in offered]}


def _write_recipes(recipes: tuple[Recipe, ...], catalog: Catalog) -> dict[str, Json]:
    """Return an Arazzo document with ``recipes``, as calls of the operations that ``catalog`` is served as."""
    offered = {one.tool.id: one for one in document_writer.list_offered(catalog)}
    written = [
        _drop_empty(
            {
                "workflowId": recipe.id,
                "summary": recipe.title,
                "description": recipe.description,
                "inputs": dict(recipe.inputs),
                "steps": [_write_step(step, offered.get(step.tool)) for step in recipe.steps],
                "outputs": _keep_body_expressions(recipe.outputs),
            }
        )
        for recipe in arazzo.drop_incomplete(
            [one for one in recipes if all(not step.tool or step.tool in offered for step in one.steps)]
        )
    ]
    info = {"title": catalog.title, "version": catalog.version}
    return {"arazzo": "1.0.1", "info": info, "workflows": written}


def _write_step(step: RecipeStep, offered: OfferedTool | None) -> dict[str, Json]:
    data: dict[str, Json] = {
        "stepId": step.id,
        "description": step.description,
        "workflowId": step.subrecipe,
        # The status of a response here is not that of the site, so a condition about it would mean something else.
        "successCriteria": [{"condition": one} for one in step.conditions if not _HTTP_EXPRESSION.search(one)],
        "outputs": _keep_body_expressions(step.outputs),
    }
    if step.on_failure:
        data["onFailure"] = [{"name": "on_failure", "type": "goto", "stepId": step.on_failure}]
    if offered is None:
        data["parameters"] = [{"name": name, "value": value} for name, value in step.arguments.items()]
    else:
        data["operationId"] = offered.operation_id
        if query.is_in_query(offered.tool):
            data["parameters"] = [
                {"name": name, "in": "query", "value": value} for name, value in step.arguments.items()
            ]
        elif step.arguments:
            data["requestBody"] = {"contentType": "application/json", "payload": dict(step.arguments)}
    return _drop_empty(data)


def _keep_body_expressions(outputs: Mapping[str, str]) -> dict[str, Json]:
    return {name: text for name, text in outputs.items() if not _HTTP_EXPRESSION.search(text)}


def _drop_empty(data: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in data.items() if value not in ("", [], {})}


def _read(workflows: Json, catalog: Catalog) -> Recipes:
    """Return the recipes as a client reads them, from the OpenAPI document that it gets."""
    document = document_writer.write(catalog, Site())
    offer = operations.read_operations(document, _URL)
    return arazzo.read_recipes(workflows, _URL, partial(find_operation, offer.memo.references))
