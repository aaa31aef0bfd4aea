"""Wait until the user has granted a tool access to a provider, if the server names a page and a URL to poll.

Rules:
- The user sees the page. The client only polls the other URL, with GET, until the user's time is over.
- The call is then repeated from the beginning. The user's approval covers it if it is the same call.
"""

# OXP-011: the server stores what was granted. ``check_url`` tells the client when to call again.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from toolwire.core.codec import Flow, fetch, pause
from toolwire.core.http import Request, Response
from toolwire.core.model import Json, Kind, Problem, Result
from toolwire.framing import jsontext

_POLL_S = 2.0
_MIN_POLLS = 5
_ACCEPT_JSON = ((b"accept", b"application/json"),)
_WAITING = frozenset({"pending", "not_started", "waiting"})
_MAX_PAGES = 10
_MAX_CHARACTERS = 2_000


class MissingGrant(NamedTuple):
    """A provider that the user must grant access to: the page, and the URL that tells when it is done."""

    provider: str
    url: str
    check_url: str


class GrantUser(NamedTuple):
    """How to reach the user: ``show`` a grant and where, and how many seconds they have."""

    show: Callable[[MissingGrant], None]
    wait_s: float


def find_missing_grants(result: Result) -> list[MissingGrant]:
    """Return the missing grants of a refused call that have a page."""
    if not isinstance(result, Problem) or result.kind is not Kind.MISSING_REQUIREMENTS:
        return []
    lacking = result.details.get("missing_requirements")
    named = lacking.get("authorization") if isinstance(lacking, Mapping) else None
    rows = [one for one in named if isinstance(one, Mapping)] if isinstance(named, (list, tuple)) else []
    grants = [MissingGrant(*(_read_text(one.get(name)) for name in MissingGrant._fields)) for one in map(_rename, rows)]
    return [grant for grant in grants if grant.url][:_MAX_PAGES]


def wait_for_grants(start: Callable[[], Flow[Result]], user: GrantUser | None) -> Flow[Result]:
    """Run the flow of ``start``. If it lacks grants, show them to ``user``, wait for them, and run it once more."""
    result = yield from start()
    missing = find_missing_grants(result) if user is not None else []
    if user is None or not missing or user.wait_s <= 0:
        return result
    for grant in missing:
        user.show(grant)
    if not all(grant.check_url for grant in missing):
        return result
    # OXP-011: poll every two seconds. A short time limit still allows five requests.
    every_s = min(_POLL_S, user.wait_s / _MIN_POLLS)
    granted = yield from _poll(missing, round(user.wait_s / every_s), every_s)
    return (yield from start()) if granted else result


def _poll(missing: Iterable[MissingGrant], times: int, every_s: float) -> Flow[bool]:
    waiting = list(missing)
    for _ in range(times):
        yield from pause(every_s)
        while waiting:
            response = yield from fetch(Request("GET", waiting[0].check_url, _ACCEPT_JSON))
            if isinstance(response, Problem) and not response.can_retry:
                return False  # requests to it are not allowed
            if not _is_granted(response):
                break
            del waiting[0]
        if not waiting:
            return True
    return False


def _is_granted(response: Response | Problem) -> bool:
    """Return whether ``response`` says that access was granted: 200, unless its ``status`` is still pending."""
    if isinstance(response, Problem) or response.status != 200:
        return False
    data = jsontext.read(response.body)
    status = data.get("status") if isinstance(data, dict) else None
    return not (isinstance(status, str) and status.lower() in _WAITING)


def _rename(one: Mapping[str, Json]) -> Mapping[str, Json]:
    return {"provider": one.get("id"), "url": one.get("url"), "check_url": one.get("check_url")}


def _read_text(value: Json) -> str:
    return value if isinstance(value, str) and len(value) <= _MAX_CHARACTERS else ""
