"""Where a response says to go instead, and whether the client goes there.

Rules:
- Never to another origin: the user connected to this one, and credentials are bound to it.
- A request is repeated as it was or not at all: GET and HEAD on any redirect, the others only on 307 and 308.
"""

from __future__ import annotations

from toolwire.core.http import Response, header
from toolwire.core.model import Json, Kind, Problem

from .failures import bad_answer
from .targets import Target

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAME_METHOD = frozenset({307, 308})


def onward(method: str, target: Target, response: Response) -> str | Problem | None:
    """Return the URL ``response`` leads to, None if it is no redirect, or why it is not followed. [XL-011, C-13]"""
    location = header(response.headers, b"location")
    if response.status not in _REDIRECTS or not location:
        return None
    try:
        url = target.url.join(location)
    except ValueError:
        return bad_answer(f"{target.origin} redirects to something that is not a URL.", "redirect")
    if url.origin_ascii != target.origin:
        if url.scheme not in ("http", "https"):
            return _elsewhere(target.origin, f"{url.scheme[:20]}:")
        return _elsewhere(target.origin, url.origin_ascii, url.path)
    if method not in ("GET", "HEAD") and response.status not in _SAME_METHOD:
        text = f"{target.origin} redirects a {method} in a way that would turn it into another request."
        return bad_answer(text, "redirect")
    return str(url)


def going_round(origin: str, redirects: int) -> Problem:
    """Return the Problem of a server that redirects again and again."""
    return bad_answer(f"{origin} redirects more than {redirects} times.", "redirect")


def _elsewhere(origin: str, other: str, path: str = "") -> Problem:
    """Return the Problem of a redirect to ``other``. Its ``url`` is where to go on, without what a query may hide."""
    text = f"{origin} redirects to {other}, which is not followed: connect to that one if you trust it."
    details: dict[str, Json] = {"reason": "redirect", "sent": True, "origin": other}
    if path:
        details["url"] = other + path
    return Problem(kind=Kind.UNREACHABLE, message=text, details=details)
