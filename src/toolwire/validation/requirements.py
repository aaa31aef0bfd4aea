"""Refuse a call that lacks a scope, a token, a secret or the user id that its tool requires, and say where it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from toolwire.core.catalog import Catalog
from toolwire.core.check import ALLOW, Check, Deny, Verdict
from toolwire.core.model import NO_REQUIREMENTS, Authorization, Call, Context, Json, Kind, Problem, Tool
from toolwire.core.server_features import is_reader


def check_requirements(call: Call) -> Verdict:
    """Refuse a call that lacks a token, a secret or the user id its tool requires, whatever the protocol."""
    # OXP-011
    if call.tool.requirements is NO_REQUIREMENTS:
        return ALLOW
    problem = find_missing(call.tool, call.context)
    return ALLOW if problem is None else Deny(problem)


def check_own_context(call: Call) -> Verdict:
    """Refuse, before its user is asked, a call of ours that lacks a secret or the user id that its tool requires.

    A token can be missing: its server may have it, or name the page where the user gets it.
    """
    # I-27
    if call.tool.requirements is NO_REQUIREMENTS:
        return ALLOW
    problem = find_missing(call.tool, call.context)
    lacking = {} if problem is None else problem.details["missing_requirements"]
    if problem is None or not lacking.keys() & {"secrets", "user_id"}:
        return ALLOW
    options = [f"--token {one['id']}" for one in lacking.get("authorization", ())]
    options += [f"--secret {one['id']}" for one in lacking.get("secrets", ())]
    options += ["--user-id ID"] if "user_id" in lacking else []
    text = f"{problem.message} Pass {' '.join(options)}, or in Python context=Context(...)."
    return Deny(replace(problem, message=text, details={**problem.details, "sent": False}))


def build_requirements_check(authorizer: Authorizer) -> Check:
    """Return ``check_requirements`` with the pages of ``authorizer``, before those that a tool's hints name."""

    def check(call: Call) -> Verdict:
        if call.tool.requirements is NO_REQUIREMENTS:
            return ALLOW
        problem = find_missing(call.tool, call.context, authorizer)
        return ALLOW if problem is None else Deny(problem)

    return check


def find_missing(tool: Tool, context: Context, authorizer: Authorizer | None = None) -> Problem | None:
    """Return the Problem of a call that does not bring what ``tool`` requires, or None."""
    # OXP-011, OTC-014
    needs = tool.requirements
    tokens = [needed for needed in needs.authorization if needed.id not in context.tokens]
    secrets = [id_ for id_ in needs.secrets if id_ not in context.secrets]
    wants = [f"a token for {needed.id}" for needed in tokens] + [f"the secret {id_}" for id_ in secrets]
    lacking: dict[str, Json] = {}
    if tokens:
        lacking["authorization"] = [_build_challenge(tool, needed, context, authorizer) for needed in tokens]
    if secrets:
        lacking["secrets"] = [{"id": id_} for id_ in secrets]
    if needs.user_id and context.user_id is None:
        lacking["user_id"] = True
        wants.append("a user_id")
    if not lacking:
        return None
    return Problem(
        kind=Kind.MISSING_REQUIREMENTS,
        message=f"{tool.name} needs {', '.join(wants)} in the call's context.",
        details={"missing_requirements": lacking},
    )


def _build_challenge(
    tool: Tool, needed: Authorization, context: Context, authorizer: Authorizer | None
) -> dict[str, Json]:
    """Return which token is missing, and where a user gets it if a page is known."""
    page = None if authorizer is None else authorizer.find_page(needed, context.principal)
    page = _find_hinted_page(tool, needed.id) if page is None else page
    # SE-04: no empty URL, which a client would open
    pages = {"url": page.url, "check_url": page.check_url}
    return {"id": needed.id, **{name: url for name, url in pages.items() if url}}


def _find_hinted_page(tool: Tool, id_: str) -> GrantPage:
    """Return the page in ``hints["otc"]["authorization"][id]``."""
    hint: Json = tool.hints
    for name in ("otc", "authorization", id_):
        hint = hint.get(name) if isinstance(hint, Mapping) else None
    pages = hint if isinstance(hint, Mapping) else {}
    url, check_url = pages.get("url"), pages.get("check_url")
    return GrantPage(url if isinstance(url, str) else "", check_url if isinstance(check_url, str) else "")


@dataclass(frozen=True, slots=True)
class GrantPage:
    """The page where a user grants access. A program polls ``check_url`` to learn whether they did."""

    # OXP-011

    url: str
    check_url: str = ""


class Authorizer(Protocol):
    """Finds the page where authorization by a provider begins."""

    def find_page(self, needed: Authorization, principal: str) -> GrantPage | None:
        """Return where ``principal`` grants ``needed``, a provider and its scopes, or ``None`` if there is no page."""
        ...


class GrantPages:
    """The grant page of each provider, by the provider's ID: a URL or a ``GrantPage``. All callers share it."""

    def __init__(self, pages: Mapping[str, str | GrantPage]) -> None:
        self._pages = {id_: GrantPage(page) if isinstance(page, str) else page for id_, page in pages.items()}

    def find_page(self, needed: Authorization, principal: str) -> GrantPage | None:
        """Return the provider's page. It is the same for every ``principal``."""
        del principal
        return self._pages.get(needed.id)


Scopes = frozenset[str] | None
"""The scopes of a caller; ``None`` if callers have no scopes and may call everything."""


def permits(scopes: Scopes, tool: Tool) -> bool:
    """Return whether a caller with ``scopes`` may see ``tool`` and call it: they must have all that it names."""
    return scopes is None or not tool.scopes or scopes.issuperset(tool.scopes)


def check_scopes(call: Call) -> Verdict:
    """Refuse a call if its caller lacks a scope of the tool."""
    # OTC-042
    return (
        ALLOW
        if not call.tool.scopes or permits(call.context.scopes, call.tool)
        else Deny(build_insufficient_scopes(call.tool, call.context.scopes))
    )


def build_insufficient_scopes(tool: Tool, granted: Scopes) -> Problem:
    """Return the Problem of lacking a scope; ``details["scopes"]`` is what the caller has, and all that the tool needs.

    A client asks its user for exactly what a challenge names, and the new token must not do less than the old one.
    """
    # D-30: the caller of a resource gave its URI, and learns no name that they may not see.
    what = "This" if is_reader(tool) else tool.name
    return Problem(
        kind=Kind.FORBIDDEN,
        message=f"{what} needs credentials with the scopes {' '.join(tool.scopes)}.",
        details={"scopes": list(dict.fromkeys((*sorted(granted or ()), *tool.scopes)))},
    )


def has_scopes(catalog: Catalog) -> bool:
    """Return whether any tool, resource or prompt of ``catalog`` requires a scope."""
    return any(tool.scopes for tool in (*catalog.tools, *catalog.features.readers))


def filter_visible(catalog: Catalog, scopes: Scopes) -> Catalog:
    """Return what a caller with ``scopes`` sees of ``catalog``: the same object where that is all."""
    tools = tuple(tool for tool in catalog.tools if permits(scopes, tool))
    features = catalog.features.filter(lambda reader: permits(scopes, reader))
    is_all = len(tools) == len(catalog.tools) and features == catalog.features
    return catalog if is_all else replace(catalog, tools=tools, features=features)
