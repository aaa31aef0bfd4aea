"""Read the consent policy of an OpenAPI document: ``x-llm`` at the root and at each operation.

Rules:
- ``x-opentools`` is an alias, read if there is no ``x-llm``.
- Extensions of other projects (``x-mcp``, ``x-openai-isConsequential``) may tighten a policy, not loosen it.
"""
# XL-038, XL-039

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from toolwire.core.model import Approval, Json
from toolwire.framing import xllm
from toolwire.framing.tool_description import HINT_CHARACTERS

from .descriptions import clean_text

SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS", "QUERY"))
_METADATA_METHODS = frozenset(("HEAD", "OPTIONS", "TRACE"))
_CONSENT_MEMBERS = frozenset(("callbacks", "x-mcp", "x-openai-isConsequential"))
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})", re.ASCII)
_NAME_CHARACTERS = 80
_DESCRIPTION_CHARACTERS = 500


class SitePolicy(NamedTuple):
    """The root ``x-llm``. ``cautious``: its version is newer than 0.1; no blanket approval, ``auto`` for reads only.

    ``supported`` is false for a later major version; if such a document is read, each call needs consent.
    ``silent``: nothing in the document uses ``x-llm``.
    """

    name: str
    description: str = ""
    approval: Approval = Approval.PER_CALL
    declared: bool = False
    cautious: bool = False
    supported: bool = True
    silent: bool = False


def get_extension(node: dict[str, Any]) -> Json:
    """Return the ``x-llm`` of a document or operation, or its alias, or None. A value of null counts as false."""
    for key in ("x-llm", "x-opentools"):
        if key in node:
            return node[key] if node[key] is not None else False
    return None


def read_site(document: dict[str, Any]) -> SitePolicy:
    """Return the policy at the root of ``document``; an ``x-llm`` that is not an object is ignored."""
    # XL-025, XL-030
    info = document.get("info")
    title = info.get("title") if isinstance(info, dict) else None
    name = clean_text(title, _NAME_CHARACTERS).strip() or "Tools"
    root = get_extension(document)
    if not isinstance(root, dict):
        return SitePolicy(name, silent=root is None and not _uses_extension(document))
    own, description = root.get("name"), root.get("description")
    cautious, supported = _check_version(root.get("version", "0.1"))
    return SitePolicy(
        clean_text(own, _NAME_CHARACTERS).strip() or name,
        clean_text(description, _DESCRIPTION_CHARACTERS),
        xllm.read_approval(root.get("defaultApproval")),
        declared=True,
        cautious=cautious,
        supported=supported,
    )


def read_operation(
    operation: dict[str, Any], site: SitePolicy, method: str, *, include_all: bool = False
) -> xllm.Policy:
    """Return the policy of ``operation``; the site's approval is used if it declares none.

    An operation without ``x-llm`` is hidden. With ``include_all`` it is exposed, DELETE is destructive, and HEAD,
    OPTIONS and TRACE stay hidden.
    """
    # XL-034, XL-041, CV-34
    declared = get_extension(operation)
    # Most operations of foreign documents declare nothing; they share one policy for each method.
    if declared is None and include_all and not _CONSENT_MEMBERS.intersection(operation):
        return _build_default_policy(site, method)
    if declared is not None:
        policy = xllm.read(declared)
    # HEAD, OPTIONS and TRACE describe a resource, which models do not need.
    elif not include_all or method in _METADATA_METHODS:
        policy = xllm.HIDDEN_POLICY
    else:
        unmarked = xllm.SILENT_POLICY if site.silent else xllm.Policy()
        policy = unmarked._replace(destructive=method == "DELETE")
    policy = policy._replace(approval=policy.approval or site.approval, hint=clean_text(policy.hint, HINT_CHARACTERS))
    if isinstance(operation.get("callbacks"), dict) and operation["callbacks"]:
        # The server calls back a URL that the caller chose, so a model must not choose it unseen.
        policy = policy._replace(approval=Approval.PER_CALL, blanket_allowed=False)
    if operation.get("x-mcp") is False:
        policy = policy._replace(exposed=False)
    if operation.get("x-openai-isConsequential") is True:
        policy = policy._replace(approval=Approval.PER_CALL, blanket_allowed=False)
    if not site.supported:
        # OQ-3: the words of another major version may mean something else, so not even reading goes unasked.
        policy = policy._replace(approval=Approval.PER_CALL, blanket_allowed=False)
    elif site.cautious:
        # A later version may have a stricter member that is not known here, so nothing that changes data goes unasked.
        approval = policy.approval if method in SAFE_METHODS else Approval.PER_CALL
        policy = policy._replace(approval=approval, blanket_allowed=False)
    return policy


def _uses_extension(document: dict[str, Any]) -> bool:
    paths = document.get("paths")
    items = paths.values() if isinstance(paths, dict) else ()
    operations = (one for item in items if isinstance(item, dict) for one in item.values())
    return any(isinstance(one, dict) and get_extension(one) is not None for one in operations)


@lru_cache(maxsize=64)
def _build_default_policy(site: SitePolicy, method: str) -> xllm.Policy:
    """Return the policy of an operation without ``x-llm``, if all are included; the same for each method."""
    return read_operation({"x-mcp": True}, site, method, include_all=True)


def _check_version(text: Json) -> tuple[bool, bool]:
    """Return whether a version requires caution, and whether it is supported."""
    # OQ-3, XL-028
    match = _VERSION.fullmatch(str(text)) if isinstance(text, str | int | float) else None
    if match is None:
        # What is no version is treated like a later one: read, with caution.
        return True, True
    major, minor = int(match[1]), int(match[2])
    return minor > 1, major == 0
