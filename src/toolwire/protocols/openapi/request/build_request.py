"""Build the HTTP request of a call by the plan of its operation.

Rules:
- No argument can change the route, start another header or cookie, or choose the server.
- The complete request is built, or refused, before anything is sent, so that users are asked only about requests
  that can be sent.
"""
# D-07, D-10, D-11, XL-086

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from toolwire.core.http import Request
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.resources import Resources
from toolwire.core.url_origin import MAX_URL
from toolwire.framing import jsontext

from . import body_encoder, forms, parameter_styles, path_template
from .override_names import describe_override, find_overriding_key
from .parameter_styles import FORM
from .plan import Parameter, Place, Plan

_HEADER_VALUE = re.compile(r"[!-~](?:[ \t!-~]*[!-~])?|")
# GR-05: a call that only reads is a GET, whose arguments are in its URL, unless its server takes QUERY.
_TOO_LONG = (
    f"is too long for a URL, which would have {{:,}} characters and can have {MAX_URL:,}; send less, or call the tool"
    " over another protocol of its server, with --protocol mcp, otc or opentool, in Python protocol=..."
)
_COOKIE = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+=[!#-:<-\[\]-~]*"
_COOKIES = re.compile(f"{_COOKIE}(?:; {_COOKIE})*")


def describe_plan(plan: Plan) -> str:
    """Return method and URL template of a plan, shown if the request of a call cannot be built."""
    return f"{plan.method} {plan.base}{plan.path}"


def build_request(
    plan: Plan,
    arguments: Mapping[str, Json],
    *,
    resources: Resources | None = None,
    call_id: str = "",
    takes_query: bool = False,
) -> Request | Problem:
    """Return the request for ``arguments``, or a Problem that names each argument that cannot be sent.

    ``resources`` has the files of handles in the arguments. ``call_id`` is sent in the idempotency header of the
    operation, if it has one and no argument fills it. ``takes_query``: the server takes QUERY in place of a GET whose
    URL would be too long.
    """
    # XL-077
    parts = _Parts({}, [plan.fixed_query] if plan.fixed_query else [], [], [], {})
    try:
        for argument, parameter in plan.parameters:
            _add_parameter(plan, parts, argument, parameter, arguments)
        # All errors are collected, so that a model can correct every argument at once.
        path = path_template.write_path(plan.path, parts.path, parts.errors)
        body = body_encoder.write_body(plan, arguments, resources, parts.errors)
    except (TypeError, ValueError, RecursionError):
        return _build_problem({"": "are not all JSON data"})
    if parts.errors:
        return _build_problem(parts.errors)
    url = f"{plan.base}{path}?{'&'.join(parts.query)}" if parts.query else plan.base + path
    method = plan.method
    if len(url) > MAX_URL:
        short = plan.base + path
        if takes_query and method == "GET" and not plan.fixed_query and not body.data and len(short) <= MAX_URL:
            method, url, body = "QUERY", short, body_encoder.Payload("&".join(parts.query).encode(), FORM)
        elif longest := _find_longest(plan, arguments):
            return _build_problem({longest: _TOO_LONG.format(len(url))})
    return Request(method, url, _build_headers(plan, parts, body, call_id), body.data)


def _find_longest(plan: Plan, arguments: Mapping[str, Json]) -> str:
    """Return the argument of the path or the query with the longest value; ``""`` if none is sent there."""
    places = (Place.PATH, Place.QUERY, Place.QUERYSTRING)
    named = [name for name, parameter in plan.parameters if parameter.place in places and name in arguments]
    return max(named, key=lambda name: len(jsontext.write(arguments[name])), default="")


def describe_places(plan: Plan, arguments: Mapping[str, Json]) -> dict[str, str]:
    """Return the place of each argument as the end of a sentence, with its name there if it is another."""
    parameters_ = dict(plan.parameters)
    properties = dict(plan.properties)
    found: dict[str, str] = {}
    for argument, value in arguments.items():
        parameter = parameters_.get(argument)
        if parameter is not None:
            found[argument] = _describe_place(parameter, argument, value)
        elif argument == plan.whole_body:
            found[argument] = "as the whole body"
        else:
            found[argument] = body_encoder.describe_place(plan, properties.get(argument, argument), argument, value)
    return found


def _describe_place(parameter: Parameter, argument: str, value: Json) -> str:
    if parameter.place is Place.QUERYSTRING:
        return "as the whole query"
    try:
        if not parameter_styles.write(parameter, value) and not _is_sent_empty(parameter, value):
            return "not sent: it is empty"
    except (TypeError, ValueError, RecursionError):
        return ""
    place = f"in the {parameter.place.value}"
    if parameter.place is Place.HEADER or parameter.name != argument:
        return f"{place} {parameter.name}" if parameter.place is Place.HEADER else f"{place}, as {parameter.name}"
    return place


class _Parts(NamedTuple):
    path: dict[str, tuple[str, str]]
    query: list[str]
    headers: list[tuple[bytes, bytes]]
    cookies: list[str]
    errors: dict[str, str]


def _add_parameter(
    plan: Plan, parts: _Parts, argument: str, parameter: Parameter, arguments: Mapping[str, Json]
) -> None:
    if argument not in arguments:
        if parameter.place is Place.PATH:
            # write_path() reports each empty value, with the name of the argument.
            parts.path[parameter.name] = argument, ""
        return
    value = arguments[argument]
    if isinstance(value, Mapping) and (key := find_overriding_key(plan, parameter, value)):
        parts.errors[argument] = f"cannot have {key[:100]!r}: {describe_override(key)}"
        return
    is_usual = not parameter.encodings and parameter.place is not Place.QUERYSTRING
    text = parameter_styles.write(parameter, value) if is_usual else _write_form(parameter, value)
    if parameter.place is Place.PATH:
        parts.path[parameter.name] = argument, text
    elif not text and not _is_sent_empty(parameter, value):
        return
    elif parameter.place is Place.COOKIE:
        # These two styles do not encode: a semicolon in a value would begin another cookie.
        raw = jsontext.write(value) if parameter.style == "cookie" else text.encode()
        _add_cookie(parts, argument, text, whole=parameter.style not in ("cookie", "text") or b";" not in raw)
    elif parameter.place is not Place.HEADER:
        parts.query.append(text)
    elif _HEADER_VALUE.fullmatch(text) is None:
        is_plain = _HEADER_VALUE.fullmatch(text.strip(" \t")) is not None
        why = "may not begin or end with a space or a tab" if is_plain else "may only hold visible ASCII characters"
        parts.errors[argument] = f"cannot be sent in a header: it {why}"
    else:
        parts.headers.append((parameter.name.lower().encode(), text.encode()))


def _is_sent_empty(parameter: Parameter, value: Json) -> bool:
    """Return whether the header is sent without text: it is required, and that is how its style writes ``value``."""
    return parameter.place is Place.HEADER and parameter.is_required and value is not None


def _write_form(parameter: Parameter, value: Json) -> str:
    """Return ``value`` as a whole query, or as a form whose document says how its properties are written."""
    is_query = parameter.place is Place.QUERYSTRING
    if parameter.encodings and isinstance(value, dict):
        text = forms.encode_urlencoded(value, parameter.encodings).decode()
        return text if is_query else parameter_styles.write(parameter._replace(media_type="text/plain"), text)
    return (
        parameter_styles.write_querystring(parameter, value) if is_query else parameter_styles.write(parameter, value)
    )


def _add_cookie(parts: _Parts, argument: str, text: str, *, whole: bool) -> None:
    """Add a cookie; ``whole``: no item of it can start another cookie."""
    if not whole or _COOKIES.fullmatch(text) is None:
        parts.errors[argument] = "cannot be sent in a cookie: it holds a space, a quote, a semicolon or the like"
    else:
        parts.cookies.append(text)


def _build_headers(
    plan: Plan, parts: _Parts, body: body_encoder.Payload, call_id: str
) -> tuple[tuple[bytes, bytes], ...]:
    headers = [(b"accept", plan.accept.encode()), *parts.headers]
    if parts.cookies:
        headers.append((b"cookie", "; ".join(parts.cookies).encode()))
    if body.media_type:
        headers.append((b"content-type", body.media_type.encode()))
    # An argument that fills the field wins: the caller may have a key of their own.
    key = plan.idempotency.lower().encode()
    if key and call_id and _HEADER_VALUE.fullmatch(call_id) and all(name != key for name, _ in parts.headers):
        headers.append((key, call_id.encode()))
    return tuple(headers)


def _build_problem(errors: Mapping[str, str]) -> Problem:
    sentence = "; ".join(f"{name}: {text}" if name else text for name, text in errors.items())
    return Problem(
        kind=Kind.INVALID_ARGUMENTS, message=f"Cannot send the arguments: {sentence}.", parameter_errors=dict(errors)
    )
