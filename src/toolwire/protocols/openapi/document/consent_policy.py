"""What a site says of consent in an OpenAPI document: the root ``x-llm``, and that of each operation.

Rules:
- ``x-opentools`` is read where there is no ``x-llm``. [XL-038]
- A neighbour's extension may tighten, never loosen. [XL-039]
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from toolwire.core.model import Approval, Json
from toolwire.framing import xllm
from toolwire.framing.tool_description import HINT_CHARACTERS

from .descriptions import clean_text

SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS", "QUERY"))
_UNASKED_METHODS = frozenset(("HEAD", "OPTIONS", "TRACE"))
_SAID = frozenset(("callbacks", "x-mcp", "x-openai-isConsequential"))
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})", re.ASCII)
_NAME_CHARACTERS = 80
_DESCRIPTION_CHARACTERS = 500


class SitePolicy(NamedTuple):
    """The root ``x-llm``. ``cautious`` means a version newer than we know: no blanket, auto only for reading."""

    name: str
    description: str = ""
    approval: Approval = Approval.PER_CALL
    declared: bool = False
    cautious: bool = False
    supported: bool = True


def get_extension(node: dict[str, Any]) -> Json:
    """Return the ``x-llm`` of a document or operation, or its alias, or None. An ``x-llm`` of null reads as false."""
    for key in ("x-llm", "x-opentools"):
        if key in node:
            return node[key] if node[key] is not None else False
    return None


def read_site(document: dict[str, Any]) -> SitePolicy:
    """Return what the root of ``document`` says; a root that is no object counts as absent. [XL-025, XL-030]"""
    info = document.get("info")
    title = info.get("title") if isinstance(info, dict) else None
    name = clean_text(title, _NAME_CHARACTERS).strip() or "Tools"
    root = get_extension(document)
    if not isinstance(root, dict):
        return SitePolicy(name)
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
    """Return the policy of ``operation`` with the site's approval filled in.

    Without an ``x-llm`` it is hidden, unless all are included; then what deletes counts as destructive, and the
    methods that are no use to a model stay hidden. [XL-034, XL-041, CV-34]
    """
    declared = get_extension(operation)
    if declared is None and include_all and not _SAID.intersection(operation):
        return _build_default_policy(site, method)
    if declared is not None:
        policy = xllm.read(declared)
    elif not include_all or method in _UNASKED_METHODS:
        policy = xllm.HIDDEN_POLICY
    else:
        policy = xllm.Policy(destructive=method == "DELETE")
    policy = policy._replace(approval=policy.approval or site.approval, hint=clean_text(policy.hint, HINT_CHARACTERS))
    if isinstance(operation.get("callbacks"), dict) and operation["callbacks"]:
        policy = policy._replace(approval=Approval.PER_CALL, blanket_allowed=False)  # it makes the site call others
    if operation.get("x-mcp") is False:
        policy = policy._replace(exposed=False)
    if operation.get("x-openai-isConsequential") is True:
        policy = policy._replace(approval=Approval.PER_CALL, blanket_allowed=False)
    if site.cautious:
        approval = policy.approval if method in SAFE_METHODS else Approval.PER_CALL
        policy = policy._replace(approval=approval, blanket_allowed=False)
    return policy


@lru_cache(maxsize=64)
def _build_default_policy(site: SitePolicy, method: str) -> xllm.Policy:
    """Return the policy of an operation about which nothing is said, where all are included."""
    return read_operation(
        {"x-llm": {"destructive": method == "DELETE", "enabled": method not in _UNASKED_METHODS}}, site, method
    )


def _check_version(text: Json) -> tuple[bool, bool]:
    """Return whether to be cautious with a version, and whether it is supported at all. [OQ-3, XL-028]"""
    match = _VERSION.fullmatch(str(text)) if isinstance(text, str | int | float) else None
    if match is None:
        return True, True
    major, minor = int(match[1]), int(match[2])
    return minor > 1, major == 0
