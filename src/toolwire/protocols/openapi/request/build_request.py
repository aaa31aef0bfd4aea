"""A call as an HTTP request, by the plan that was made of its operation when the document was read.

Rules:
- No argument can change which route is asked, start another header or cookie, or choose the server. [D-07, D-10, D-11]
- Everything is written, and refused, before anything is sent: whoever is asked for consent is asked for a request
  that can be made. [XL-086]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from toolwire.core.http import Request
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.resources import Resources
from toolwire.framing import jsontext
from toolwire.protocols.openapi.tools.override_arguments import find_overriding_key

from . import body_encoder, forms, parameter_styles, path_template
from .plan import Parameter, Place, Plan

_HEADER_VALUE = re.compile(r"[!-~](?:[ \t!-~]*[!-~])?|")
_COOKIE = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+=[!#-:<-\[\]-~]*"
_COOKIES = re.compile(f"{_COOKIE}(?:; {_COOKIE})*")


def describe_plan(plan: Plan) -> str:
    """Return method and URL of a plan as declared, for where a call cannot be written."""
    return f"{plan.method} {plan.base}{plan.path}"


def build_request(
    plan: Plan, arguments: Mapping[str, Json], *, resources: Resources | None = None, call_id: str = ""
) -> Request | Problem:
    """Return the request that says ``arguments``, or a Problem that names each argument that cannot be sent.

    ``resources`` has the files that handles among the arguments stand for. ``call_id`` fills the header that makes
    a repeated call count once, where the operation has one and no argument fills it. [XL-077]
    """
    parts = _Parts({}, [plan.fixed_query] if plan.fixed_query else [], [], [], {})
    try:
        for argument, parameter in plan.parameters:
            _add_parameter(parts, argument, parameter, arguments)
        path = path_template.write_path(plan.path, parts.path, parts.errors)
        body = body_encoder.write_body(plan, arguments, resources, parts.errors)
    except (TypeError, ValueError, RecursionError):
        return _build_problem({"": "are not all JSON data"})
    if parts.errors:
        return _build_problem(parts.errors)
    url = f"{plan.base}{path}?{'&'.join(parts.query)}" if parts.query else plan.base + path
    return Request(plan.method, url, _build_headers(plan, parts, body, call_id), body.data)


def describe_places(plan: Plan, arguments: Mapping[str, Json]) -> dict[str, str]:
    """Return where each of ``arguments`` goes, as the end of a sentence: its place, and its name there if another."""
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
        if not parameter_styles.write(parameter, value):
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


def _add_parameter(parts: _Parts, argument: str, parameter: Parameter, arguments: Mapping[str, Json]) -> None:
    if argument not in arguments:
        if parameter.place is Place.PATH:
            parts.path[parameter.name] = argument, ""
        return
    value = arguments[argument]
    if key := find_overriding_key(parameter, value):
        parts.errors[argument] = f"cannot have {key[:100]!r}: some servers would take it for another method or path"
        return
    text = _write_parameter(parameter, value)
    if parameter.place is Place.PATH:
        parts.path[parameter.name] = argument, text
    elif not text:
        return
    elif parameter.place is Place.COOKIE:
        raw = jsontext.write(value) if parameter.style == "cookie" else text.encode()
        _add_cookie(parts, argument, text, whole=parameter.style not in ("cookie", "text") or b";" not in raw)
    elif parameter.place is not Place.HEADER:
        parts.query.append(text)
    elif _HEADER_VALUE.fullmatch(text) is None:
        parts.errors[argument] = "cannot be sent in a header: it may only hold visible ASCII characters"
    else:
        parts.headers.append((parameter.name.lower().encode(), text.encode()))


def _write_parameter(parameter: Parameter, value: Json) -> str:
    is_query = parameter.place is Place.QUERYSTRING
    if parameter.encodings and isinstance(value, dict):  # a form whose document says how its properties are written
        text = forms.encode_urlencoded(value, parameter.encodings).decode()
        return text if is_query else parameter_styles.write(parameter._replace(media_type="text/plain"), text)
    return (
        parameter_styles.write_querystring(parameter, value) if is_query else parameter_styles.write(parameter, value)
    )


def _add_cookie(parts: _Parts, argument: str, text: str, *, whole: bool) -> None:
    """Add a cookie; ``whole`` says that no item of it could start another."""
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
    key = plan.idempotency.lower().encode()
    if key and call_id and _HEADER_VALUE.fullmatch(call_id) and all(name != key for name, _ in parts.headers):
        headers.append((key, call_id.encode()))
    return tuple(headers)


def _build_problem(errors: Mapping[str, str]) -> Problem:
    said = "; ".join(f"{name}: {text}" if name else text for name, text in errors.items())
    return Problem(
        kind=Kind.INVALID_ARGUMENTS, message=f"The arguments cannot be sent: {said}.", parameter_errors=dict(errors)
    )
