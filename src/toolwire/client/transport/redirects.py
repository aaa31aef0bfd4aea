"""Decide whether the client follows a redirect.

Rules:
- A redirect to another origin is never followed: the user connected to this one, and credentials are bound to it.
- A request is repeated unchanged or not at all: GET and HEAD on any redirect, other methods only on 307 and 308.
- A request that a user approved, or that changes something, is not sent to another path or with another query before
  the user is asked. A slash at the end does not make another path: servers add and remove it.
"""

# XL-011, C-13: redirects stay within the origin, and a method never changes.

from __future__ import annotations

import re

from toolwire.core.http import SIGN_IN_PAGE, Response, get_header
from toolwire.core.model import Json, Kind, Problem

from .failures import bad_response, invalid_request
from .url_policy import Target
from .urls import Url, find_scheme, has_user, parse_url, resolve_location

REDIRECTS = frozenset({301, 302, 303, 307, 308})
# RFC 9110, 15.4.8 and 15.4.9: a client must not change the method on these two.
_SAME_METHOD = frozenset({307, 308})
_SIGN_IN_PATH = re.compile(r"/(?:log|sign)[-_]?in/?\Z", re.IGNORECASE)


def find_redirect(method: str, target: Target, response: Response) -> str | Problem | None:
    """Return the URL that ``response`` redirects to, None if it is no redirect, or why it is not followed."""
    if response.status not in REDIRECTS:
        return None
    location = get_header(response.headers, b"location")
    if not location:
        return None
    url = _read_location(target, location)
    if isinstance(url, Problem):
        return url
    # A browser turns such a POST into a GET, which is another call than the one approved.
    if method not in ("GET", "HEAD") and response.status not in _SAME_METHOD:
        text = f"{target.origin} redirects a {method} in a way that would change the request."
        return bad_response(text, "redirect")
    return url.origin + url.request_target


def _read_location(target: Target, location: str) -> Url | Problem:
    """Return the URL of ``location``, or the Problem that it is not on the same origin."""
    try:
        url = resolve_location(target.url, location)
    except ValueError:
        scheme = find_scheme(location)
        if scheme not in ("", "http", "https"):
            return _cross_origin_redirect(target.origin, f"{scheme[:20]}:")
        return bad_response(f"{target.origin} redirects to an invalid URL.", "redirect")
    if url.origin != target.origin:
        return _cross_origin_redirect(target.origin, url.origin, url.path)
    if has_user(location):
        return invalid_request(f"{target.origin} redirects to a URL that contains a user name or password.", "url")
    return url


def is_same_resource(target: Target, url: str) -> bool:
    """Return whether a user who approved ``target`` approved ``url`` of the same origin too."""
    here, there = target.url, parse_url(url)
    # TE-03: another query is another call, such as ``?all=1``.
    return (here.path.removesuffix("/"), here.query) == (there.path.removesuffix("/"), there.query)


def note_sign_in_page(method: str, asked: Target, target: Target, response: Response | Problem) -> Response | Problem:
    """Return ``response``, which came from ``target`` after ``asked``, with a note if it is a sign-in page."""
    # Web applications send browsers there instead of refusing them. As a result, a model would take it for the answer.
    # FU-30: a request that may have done its work keeps its result: a POST that was repeated, or a slash added.
    page = target.url.path
    if (
        isinstance(response, Problem)
        or method not in ("GET", "HEAD")
        or page.removesuffix("/") == asked.url.path.removesuffix("/")
        or _SIGN_IN_PATH.search(page) is None
        or not get_header(response.headers, b"content-type").lower().startswith("text/html")
    ):
        return response
    return response._replace(headers=(*response.headers, (SIGN_IN_PAGE, page.encode("ascii", "replace"))))


def redirect_without_approval(method: str, origin: str, url: str) -> Problem:
    """Return the Problem of a redirect that needs a question first; ``details["onward"]`` is its URL."""
    text = f"{origin} redirects the {method} to a URL that was not approved, so the redirect was not followed."
    return Problem(kind=Kind.UNREACHABLE, message=text, details={"reason": "redirect", "sent": True, "onward": url})


def redirect_loop(origin: str, redirects: int) -> Problem:
    """Return the Problem of a server that redirects again and again."""
    return bad_response(f"{origin} redirects more than {redirects} times.", "redirect")


def _cross_origin_redirect(origin: str, other: str, path: str = "") -> Problem:
    """Return the Problem of a redirect to the origin ``other``; ``details["url"]`` is its URL without the query."""
    text = f"{origin} redirects to {other}, which was not followed. Connect to that URL if you trust it."
    details: dict[str, Json] = {"reason": "redirect", "sent": True, "origin": other}
    if path:
        details["url"] = other + path
    return Problem(kind=Kind.UNREACHABLE, message=text, details=details)
