"""Decide whether a connection is made at another origin, where a site redirects discovery to it.

Rules:
- The other origin replaces the first one completely: discovery starts again there, and everything that is bound to an
  origin (keys, grants, network rules) is bound to the new one.
- The user decides each time. Only from http to https on the same host, no question is needed.
- Never from https to http, and never from another machine to this one, even if the user agrees.
"""

# XL-011: only the user lets an origin take another's place. D-05: a redirect must not reach this machine.

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from toolwire.client.transport.addresses import NetworkReach
from toolwire.client.transport.url_policy import admit
from toolwire.core.model import Problem

ApproveRelocation: TypeAlias = Callable[[str, str], bool]
"""Asks the user: gets the origin that redirects and the new origin, and returns True or False."""

MAX_RELOCATIONS = 3


class Relocation(NamedTuple):
    """A redirect to another origin that was not followed."""

    from_url: str
    to_url: str


def resolve_relocation(
    url: str, relocation: Relocation, approve: ApproveRelocation | None, private: frozenset[str] = frozenset()
) -> str:
    """Return the URL to connect to in place of ``url``, or ``""`` if the relocation is not allowed."""
    here, there = admit(relocation.from_url, private), admit(relocation.to_url, private)
    if isinstance(here, Problem) or isinstance(there, Problem):
        return ""
    if here.url.scheme == "https" and there.url.scheme != "https":
        return ""
    if there.reach is NetworkReach.LOOPBACK and here.reach is not NetworkReach.LOOPBACK:
        return ""
    secured = here.url.scheme == "http" and there.url.scheme == "https" and here.host == there.host
    if not secured and (approve is None or approve(here.origin, there.origin) is not True):
        return ""
    if urlsplit(relocation.from_url).path != urlsplit(relocation.to_url).path:
        return relocation.to_url
    # The redirect changed only the origin, so the path and the query of the user stay.
    parts = urlsplit(url)
    return there.origin + (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
