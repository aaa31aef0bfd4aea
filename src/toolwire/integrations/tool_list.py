"""Show on a page of an application what models may do there, in the words of its document and its sign-in."""
# AO-04

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from toolwire.framing.html import Html, escape_text, join_html

from .route_marks import SAFE, Include, MarkedRoute, iterate_operations, mark_document, read_site_marks
from .sign_in import list_required_scopes

if TYPE_CHECKING:
    from toolwire.server.oauth import AuthorizationServer

__all__ = ["build_tool_list"]

_EFFECTS: Final = {"reads": "Reads.", "changes": "Changes something.", "destroys": "Deletes or destroys something."}
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def build_tool_list(
    document: Mapping[str, Any], sign_in: AuthorizationServer | None = None, *, include: Include | None = None
) -> str:
    """Return an HTML list of the tools in the OpenAPI ``document``, for a page of your application.

    Each item says what the tool does, whether models can call it without asking, which of ``sign_in``'s scopes the user
    must allow, and its rate limit. The list is an unstyled ``ul.toolwire-tools``. Each item's ``data-effect`` is
    ``reads``, ``changes`` or ``destroys``. For ``include``, see ``publish_tools``.
    """
    site = read_site_marks("", "", include)
    marked = mark_document(document, site)
    tools = [one for one in iterate_operations(marked) if _is_tool(one)]
    return Html(f'<ul class="toolwire-tools">{join_html(_build_item(one, marked, sign_in) for one in tools)}</ul>')


def _is_tool(one: MarkedRoute) -> bool:
    extension = one.node.get("x-llm")
    return isinstance(extension, Mapping) and extension.get("enabled", True) is not False


def _build_item(one: MarkedRoute, document: Mapping[str, Any], sign_in: AuthorizationServer | None) -> Html:
    extension: Mapping[str, Any] = one.node["x-llm"]
    effect = "destroys" if extension.get("destructive") else "reads" if one.method in SAFE else "changes"
    title = one.node.get("summary") or one.node.get("operationId") or one.where
    words = [_EFFECTS[effect], *_list_words(one, extension, effect, document, sign_in)]
    facts = join_html(Html(f"<li>{escape_text(text)}</li>") for text in words)
    return Html(
        f'<li data-effect="{escape_text(effect)}"><strong>{escape_text(str(title))}</strong><ul>{facts}</ul></li>'
    )


def _list_words(
    one: MarkedRoute,
    extension: Mapping[str, Any],
    effect: str,
    document: Mapping[str, Any],
    sign_in: AuthorizationServer | None,
) -> Iterator[str]:
    # A client asks before each call that changes something, whatever the document says.
    asks = extension.get("approval") != "auto" or effect != "reads"
    yield "You are asked before each call." if asks else "Needs no question."
    scopes = {} if sign_in is None else sign_in.settings.scopes
    needed = list_required_scopes(one.node, document)
    if needed:
        yield f"Requires your permission: {', '.join(scopes.get(scope, scope) for scope in needed)}."
    limit = extension.get("rateLimit")
    if isinstance(limit, Mapping):
        window = str(limit.get("window"))
        yield f"At most {limit.get('max')} calls in {window[:-1]} {_UNITS.get(window[-1:], window[-1:])}."
    if extension.get("costIndicator") in ("credits", "paid"):
        yield "Costs something."
