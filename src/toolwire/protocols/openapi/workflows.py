"""Publish the recipes of a server: the author's Arazzo document, which must fit the tools.

The document names a tool by its operationId, which is the name of the tool.
"""
# OQ-2

from __future__ import annotations

from functools import partial

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Site
from toolwire.core.model import Json

from . import document_writer
from .document import arazzo
from .document.arazzo import Recipes
from .document.paths import CONVENTIONAL
from .recipes import find_operation
from .tools import operations

_URL = "https://document.invalid/workflows.json"  # relative references of the author stay on it, and others do not
_SOURCE = "tools"


def find_fault(workflows: Json, catalog: Catalog) -> str:
    """Return the first reason why ``workflows`` are not recipes of the tools in ``catalog``, or ``""``."""
    found = _read(workflows, catalog)
    if found.notes:
        return str(found.notes[0])
    return "" if found.items else "Recipes: it has no workflows."


def write_workflows(workflows: Json, catalog: Catalog, site: Site) -> dict[str, Json]:
    """Return the Arazzo document with the workflows whose steps are all tools of ``catalog``.

    Its source descriptions name the OpenAPI document of ``site``, wherever the application is mounted.
    """
    # What a caller may not see, or an upstream has withdrawn, is not named in a recipe either.
    offered = {recipe.id for recipe in _read(workflows, catalog).items}
    sources = arazzo.list_own_sources(workflows, _URL) or [_SOURCE]
    url = site.root + CONVENTIONAL[1]
    return {
        **workflows,
        "sourceDescriptions": [{"name": name, "url": url, "type": "openapi"} for name in sources],
        "workflows": [one for one in workflows["workflows"] if one["workflowId"] in offered],
    }


def _read(workflows: Json, catalog: Catalog) -> Recipes:
    """Return the recipes as a client reads them, from the OpenAPI document that it gets."""
    document = document_writer.write(catalog, Site())
    offer = operations.read_operations(document, _URL)
    return arazzo.read_recipes(workflows, _URL, partial(find_operation, offer.memo.references))
