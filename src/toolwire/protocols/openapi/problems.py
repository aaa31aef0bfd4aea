"""Write Problems as problem+json (RFC 9457), and read error responses as Problems.

Rules:
- ``kind`` is a member of toolwire: with it a Problem is read as it was written; without it the status decides.
- The text of a foreign server is cleaned, shortened for people and models, and kept in ``details``.
"""
# XL-101, XL-104

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any
from urllib.parse import quote

from toolwire.core.http import JSON_HEADERS, STATUS_BY_KIND, Response, get_header
from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsontext, problem_members, rate_headers, text_cleaning

STATUSES: dict[Kind, int] = {
    **STATUS_BY_KIND,
    Kind.UNKNOWN_TOOL: 404,
    Kind.CONFLICT: 409,
    Kind.ACCEPTED: 202,
    Kind.TOOL_FAILED: 500,
    Kind.INTERNAL: 500,
    Kind.CANCELLED: 500,
    Kind.INTERRUPTED: 500,
    Kind.UNREACHABLE: 502,
    Kind.BAD_ANSWER: 502,
    Kind.OVERLOADED: 503,
    Kind.TIMEOUT: 504,
}
"""The HTTP status for each kind of Problem."""

_KINDS: dict[int, Kind] = {
    400: Kind.INVALID_ARGUMENTS,
    401: Kind.UNAUTHORIZED,
    403: Kind.FORBIDDEN,
    404: Kind.NOT_FOUND,
    405: Kind.WRONG_METHOD,
    408: Kind.TOO_SLOW,
    409: Kind.CONFLICT,
    410: Kind.NOT_FOUND,
    413: Kind.TOO_LARGE,
    415: Kind.UNSUPPORTED_TYPE,
    421: Kind.MISDIRECTED,
    422: Kind.INVALID_ARGUMENTS,
    428: Kind.UNCONFIRMED,
    429: Kind.RATE_LIMITED,
    503: Kind.OVERLOADED,
    504: Kind.TIMEOUT,
}
_TITLES = {
    202: "Accepted",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    428: "Precondition Required",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
_MEDIA_TYPE = b"application/problem+json"
_URL_CHARACTERS = "!#$%&'()*+,/:;=?@[]~"
_MAX_CHARACTERS = 1_000
_MAX_ERRORS = 20
_ENTRY_TEXTS = ("msg", "message", "detail", "title", "description", "code")
_ENTRY_PLACES = ("loc", "field", "path", "pointer", "param", "property")
_REQUEST_PARTS = frozenset(("body", "query", "path", "header", "headers", "cookie", "cookies")) | {
    *("json", "form", "files", "querystring", "json_or_form", "form_and_files", "view_args"),  # of webargs
}
_WHOLE = frozenset(("", "__all__", "_schema", "non_field_errors"))
"""The names under which Django and marshmallow put the errors of a whole request."""
_MAX_LEVELS = 4
_MAX_DETAIL_BYTES = 16 * 1024


def write(problem: Problem) -> Response:
    """Return ``problem`` as a response; its type is ``about:blank``: the status alone says the type."""
    # XL-101
    page = find_sign_in_page(problem)
    status = 401 if page else STATUSES[problem.kind]
    if "call" in problem.details and problem.kind is Kind.ACCEPTED:  # LC-02: its status, as it is at its own address
        seconds = max(1, -(-(problem.retry_after_ms or 0) // 1_000))
        fields = (*JSON_HEADERS, (b"retry-after", b"%d" % seconds))
        return Response(status, fields, jsontext.write(dict(jsontext.get_object(problem.details, "call"))))
    body: dict[str, Json] = {
        "type": "about:blank",
        "title": _TITLES[status],
        "status": status,
        "detail": problem.message,
        "kind": problem.kind.value,
        "can_retry": problem.can_retry,
        **problem_members.write(problem),
    }
    headers: list[tuple[bytes, bytes]] = [(b"content-type", _MEDIA_TYPE)]
    if problem.kind is Kind.OVERLOADED or (problem.kind is Kind.RATE_LIMITED and problem.retry_after_ms is not None):
        # Retry-After has whole seconds. They are rounded up, so that no client comes too early.
        seconds = max(1, -(-(problem.retry_after_ms or 0) // 1_000))
        headers.append((b"retry-after", b"%d" % seconds))
    if problem.kind is Kind.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
        # Seed 004 has these two members in the answer to a missing credential.
        body |= {"error": problem.kind.value, "message": problem.message}
    elif page:
        # GW-03: the caller is known here; what is missing is a sign-in elsewhere, and this is its page.
        challenge = f'Bearer error="sign_in_required", authorization_uri="{quote(page, safe=_URL_CHARACTERS)}"'
        headers.append((b"www-authenticate", challenge.encode()))
    return Response(status, headers, jsontext.write(body))


def find_sign_in_page(problem: Problem) -> str:
    """Return the page where the user signs in to a site that the tool needs, or ``""``."""
    if problem.kind is not Kind.MISSING_REQUIREMENTS:
        return ""
    listed = jsontext.get_object(problem.details, "missing_requirements").get("authorization")
    pages = [one.get("url") for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return next((page for page in pages if isinstance(page, str) and page), "")


def read(response: Response) -> Problem:
    """Return the Problem for a response with an error status, from toolwire or from any other server."""
    data = jsontext.read(response.body) if response.body else None
    if text_cleaning.may_hide(response.body):
        data = data if isinstance(data, Problem) else text_cleaning.clean_data(data)
    body: Mapping[str, Any] = data if isinstance(data, dict) else {"errors": data} if isinstance(data, list) else {}
    ours = body.get("kind")
    # Our own server said which kind it is: nothing has to be guessed from the status.
    if isinstance(ours, str) and ours in set(Kind):
        return _read_own(Kind(ours), body, response)
    kind = _KINDS.get(response.status, Kind.TOOL_FAILED)
    retry = rate_headers.read_retry_after_ms(response)
    details: dict[str, Json] = {"status": response.status}
    if data is not None and not isinstance(data, Problem) and len(response.body) <= _MAX_DETAIL_BYTES:
        details["body"] = data
    elif isinstance(data, Problem) and (text := _read_plain_text(response)):
        details["body"] = text
    return Problem(
        kind=kind,
        message=_find_message(body, response.status),
        # Only these two say that the call was not carried out.
        can_retry=response.status in (429, 503),
        retry_after_ms=retry,
        details=details,
    )


def _read_own(kind: Kind, body: Mapping[str, Any], response: Response) -> Problem:
    problem = problem_members.read(body, kind, _find_message(body, response.status))
    if problem.retry_after_ms is not None:
        return problem
    return replace(problem, retry_after_ms=rate_headers.read_retry_after_ms(response))


def _find_message(body: Mapping[str, Any], status: int) -> str:
    """Return the error message from the members in which servers commonly put it, at most 1,000 characters."""
    error = body.get("error")
    inner = error.get("message") if isinstance(error, dict) else error
    several = _list_sentences(body.get("detail")) or _list_sentences(body.get("errors"))
    candidates = (body.get("detail"), body.get("message"), inner, body.get("title"))
    text = next((one.strip() for one in candidates if isinstance(one, str) and one.strip()), "")
    if not text and not several and status == 400 and all(isinstance(one, list | dict) for one in body.values()):
        several = _list_sentences(body)  # Django REST Framework answers with the errors of each argument alone
    if several:
        text = f"{text.rstrip('.:')}: {several}" if text else several
    if text:
        return text if len(text) <= _MAX_CHARACTERS else text[:_MAX_CHARACTERS] + "..."
    return f"The server answered {status} {_TITLES.get(status, '')}".rstrip() + "."


def _list_sentences(errors: Any) -> str:
    """Return the errors of a request, as frameworks answer with status 422, as one text: place and sentence of each."""
    if not isinstance(errors, list | dict):
        return ""
    texts = (_describe_entry(one) for one in _iterate_errors(errors, "", 0))
    return "; ".join(islice(filter(None, texts), _MAX_ERRORS))


def _iterate_errors(errors: Any, place: str, level: int) -> Iterator[Any]:
    """Yield each entry of a list, or of an object by arguments, such as ``{"json": {"items": {"0": ["is bad"]}}}``."""
    if level > _MAX_LEVELS:
        return
    if isinstance(errors, dict):
        for name, one in errors.items():
            is_part = level == 0 and name in _REQUEST_PARTS and isinstance(one, dict)
            inner = place if is_part or name in _WHOLE else f"{place}.{name}" if place else str(name)
            yield from _iterate_errors(one, inner, level + 1)
    elif isinstance(errors, list) and any(isinstance(one, dict) for one in errors):
        for index, one in enumerate(errors):
            if isinstance(one, dict) and not any(one.get(key) for key in _ENTRY_TEXTS):
                yield from _iterate_errors(one, f"{place}.{index}" if place else str(index), level + 1)
            else:
                yield one
    elif isinstance(errors, list) and not place:
        yield from errors
    else:
        yield {"field": place, "message": errors}


def _describe_entry(entry: Any) -> str:
    if isinstance(entry, str):
        return entry.strip().rstrip(".")
    if not isinstance(entry, dict):
        return ""
    detail = next((entry[key] for key in _ENTRY_TEXTS if entry.get(key)), "")
    text = ", ".join(one for one in detail if isinstance(one, str)) if isinstance(detail, list) else detail
    place = next((entry[key] for key in _ENTRY_PLACES if entry.get(key)), "")
    if isinstance(place, list):  # FastAPI begins with the part of the request
        steps = place[1:] if place[:1] and place[0] in _REQUEST_PARTS and len(place) > 1 else place
        place = ".".join(str(one) for one in steps if isinstance(one, str | int))
    if not isinstance(text, str) or not text:
        return ""
    return f"{place}: {text.strip().rstrip('.')}" if isinstance(place, str) and place else text.strip().rstrip(".")


def _read_plain_text(response: Response) -> str:
    """Return the start of a plain-text body, cleaned; ``""`` for other types, such as a web page."""
    if not get_header(response.headers, b"content-type").lower().startswith("text/plain"):
        return ""
    return text_cleaning.clean(response.body[:_MAX_DETAIL_BYTES].decode("utf-8", "replace")[:_MAX_CHARACTERS]).text
