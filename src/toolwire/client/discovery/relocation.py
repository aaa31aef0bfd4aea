"""Where a site sends whoever looks at it, and whether the connection is made there instead.

Rules:
- Another origin takes the place of the first as a whole, or not at all: looking begins again there, and whatever is
  bound to an origin (keys, grants, the guard of the network) is bound to that one.
- The person decides, each time; only from http to https on the same host nobody is asked. [XL-011]
- Never from https to http, and never from another machine to this one, whoever agrees. [D-05]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from toolwire.client.transport.addresses import NetworkReach
from toolwire.client.transport.url_policy import admit
from toolwire.core.model import Problem

Moved: TypeAlias = Callable[[str, str], bool]
"""Asks the person: is given the origin that was connected to and the one it sends on to, returns yes or no."""

MOST = 3


class Relocation(NamedTuple):
    """A redirect to another origin that was not followed: from which URL, to which one."""

    asked: str
    there: str


def goes_on_at(url: str, move: Relocation, moved: Moved | None, private: frozenset[str] = frozenset()) -> str:
    """Return the URL that takes the place of ``url`` after ``move``, or ``""`` where that is not to be. [XL-011]"""
    here, there = admit(move.asked, private), admit(move.there, private)
    if isinstance(here, Problem) or isinstance(there, Problem):
        return ""
    if here.url.scheme == "https" and there.url.scheme != "https":
        return ""
    if there.reach is NetworkReach.LOOPBACK and here.reach is not NetworkReach.LOOPBACK:
        return ""
    secured = here.url.scheme == "http" and there.url.scheme == "https" and here.host == there.host
    if not secured and (moved is None or moved(here.origin, there.origin) is not True):
        return ""
    if urlsplit(move.asked).path != urlsplit(move.there).path:
        return move.there
    parts = urlsplit(url)
    return there.origin + (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
