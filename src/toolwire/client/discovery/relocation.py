"""Where a site sends whoever looks at it, and whether the connection is made there instead.

Rules:
- Another origin takes the place of the first as a whole, or not at all: looking begins again there, and whatever is
  bound to an origin (keys, grants, the guard of the network) is bound to that one.
- The user decides, each time; only from http to https on the same host nobody is asked. [XL-011]
- Never from https to http, and never from another machine to this one, whoever agrees. [D-05]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from toolwire.client.transport.addresses import NetworkReach
from toolwire.client.transport.url_policy import admit
from toolwire.core.model import Problem

ApproveRelocation: TypeAlias = Callable[[str, str], bool]
"""Asks the user: is given the origin that was connected to and the one it sends on to, returns yes or no."""

MAX_RELOCATIONS = 3


class Relocation(NamedTuple):
    """A redirect to another origin that was not followed: from which URL, to which one."""

    from_url: str
    to_url: str


def resolve_relocation(
    url: str, relocation: Relocation, approve: ApproveRelocation | None, private: frozenset[str] = frozenset()
) -> str:
    """Return the URL that takes the place of ``url`` after ``move``, or ``""`` where that is not to be. [XL-011]"""
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
    parts = urlsplit(url)
    return there.origin + (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
