"""Fetch the recipes of a site: the Arazzo document that ``workflows`` of the root ``x-llm`` names."""
# OQ-2

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from toolwire.core.codec import Flow, fetch
from toolwire.core.gc_pause import pause_collection
from toolwire.core.http import Request, get_header
from toolwire.core.model import Json, Problem
from toolwire.core.recipe import Recipe

from .document import arazzo
from .document.arazzo import StepOperation
from .document.consent_policy import get_extension
from .document.findings import SHOWN, Note
from .document.servers import is_beside, join_url
from .tools.links import fill_arguments
from .tools.operation_tool import NamedOperation

_HEADERS = ((b"accept", b"application/json"),)


class SiteRecipes(NamedTuple):
    """The recipes of a site, the URL of their document if it was requested, and the findings."""

    items: tuple[Recipe, ...] = ()
    url: str = ""
    notes: tuple[Note, ...] = ()


def fetch_recipes(document: dict[str, Any], url: str, operations: Mapping[str, NamedOperation]) -> Flow[SiteRecipes]:
    """Return the recipes of the site whose OpenAPI ``document`` was read at ``url``; whatever fails is a finding.

    ``operations`` has each tool by its operationId and by its pointer.
    """
    root = get_extension(document)
    said = root.get("workflows") if isinstance(root, dict) else None
    if not isinstance(said, str) or not said.strip():
        return SiteRecipes()
    there = join_url(url, said)
    # A document must not make its visitors fetch another site, or a file of another folder.
    if there is None or not is_beside(there, url):
        return SiteRecipes(notes=(_build_note(f"{said[:SHOWN]!r} is not on this site, and was not read"),))
    answer = yield from fetch(Request("GET", there, _HEADERS))
    if isinstance(answer, Problem):
        return SiteRecipes(url=there, notes=(_build_note(f"{there[:SHOWN]} {answer.message.rstrip('.')}"),))
    if not 200 <= answer.status < 300:
        text = f"{there[:SHOWN]} answers with status {answer.status}"
        return SiteRecipes(url=there, notes=(_build_note(text),))
    with pause_collection():
        media_type = get_header(answer.headers, b"content-type")
        found = arazzo.load_recipes(answer.body, media_type, there, partial(find_operation, operations))
    return SiteRecipes(found.items, there, found.notes)


def find_operation(operations: Mapping[str, NamedOperation], reference: str) -> StepOperation | None:
    """Return the operation that a step names by ``reference``, an operationId or a pointer, or None."""
    found = operations.get(reference)
    if found is None:
        return None

    def fill(parameters: Mapping[str, Json], body: Json) -> dict[str, Json]:
        return fill_arguments(found.work.arguments(), parameters, body)

    return StepOperation(found.id, fill)


def _build_note(text: str) -> Note:
    return Note("Recipes", f"the document of workflows is not used: {text}", "/x-llm/workflows")
