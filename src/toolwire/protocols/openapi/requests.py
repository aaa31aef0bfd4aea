"""A call as an HTTP request, by the plan that was made of its operation when the document was read.

Rules:
- No argument can change which route is asked: a path value is never empty, and nothing that some server could
  decode to a dot segment. [CV-05, D-10]
- No argument can start another header or cookie. [D-11]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote

from toolwire.core.http import Request
from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsontext

from . import parameters
from .parameters import Parameter, Place

ACCEPT = (b"accept", b"application/json, */*;q=0.1")

_VARIABLE = re.compile(r"\{([^{}/]*)\}")
_LITERAL = "/:@!$&'()*+,;=-._~%"
_HEADER_VALUE = re.compile(r"[!-~](?:[ \t!-~]*[!-~])?|")
_COOKIE = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+=[!#-:<-\[\]-~]*"
_COOKIES = re.compile(f"{_COOKIE}(?:; {_COOKIE})*")
_MOST_DECODINGS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one tool is called: worked out once, when the document was read.

    ``base`` has no slash at its end, ``path`` is the template as declared. ``parameters`` and ``properties`` go
    from argument to parameter or body property; ``whole_body`` is the argument that is the body. ``media_type`` is
    None where there is no body.
    """

    method: str
    base: str
    path: str
    fixed_query: str = ""
    parameters: tuple[tuple[str, Parameter], ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    whole_body: str | None = None
    media_type: str | None = None
    body_required: bool = False


def variables(path: str) -> list[str]:
    """Return the names in braces of a path template, in order."""
    return _VARIABLE.findall(path)


def is_template(path: str) -> bool:
    """Return whether ``path`` is a path whose braces all close within one segment."""
    return path.startswith("/") and not set("{}") & set(_VARIABLE.sub("", path))


def shown(plan: Plan) -> str:
    """Return method and URL of a plan as declared, for where a call cannot be written."""
    return f"{plan.method} {plan.base}{plan.path}"


def write(plan: Plan, arguments: Mapping[str, Json]) -> Request | Problem:
    """Return the request that says ``arguments``, or a Problem that names each argument that cannot be sent."""
    try:
        parts = _parts(plan, arguments)
        path = _path(plan, parts)
        body = _body(plan, arguments)
    except (TypeError, ValueError, RecursionError):
        return _refused({"": "are not all JSON data"})
    if parts.errors:
        return _refused(parts.errors)
    query = "&".join(one for one in (plan.fixed_query, *parts.query) if one)
    headers = [ACCEPT, *parts.headers]
    if parts.cookies:
        headers.append((b"cookie", "; ".join(parts.cookies).encode()))
    if body is not None:
        headers.append((b"content-type", (plan.media_type or "application/json").encode()))
    return Request(plan.method, plan.base + path + (f"?{query}" if query else ""), tuple(headers), body or b"")


class _Parts(NamedTuple):
    path: dict[str, tuple[str, str]]
    query: list[str]
    headers: list[tuple[bytes, bytes]]
    cookies: list[str]
    errors: dict[str, str]


def _parts(plan: Plan, arguments: Mapping[str, Json]) -> _Parts:
    parts = _Parts({}, [], [], [], {})
    for argument, parameter in plan.parameters:
        value = arguments.get(argument)
        text = parameters.write(parameter, value) if argument in arguments else ""
        if parameter.place is Place.PATH:
            parts.path[parameter.name] = argument, text
        elif not text:
            continue
        elif parameter.place is Place.QUERY:
            parts.query.append(text)
        elif parameter.place is Place.COOKIE:
            _cookie(parts, argument, text, whole=parameter.style != "cookie" or b";" not in jsontext.write(value))
        elif _HEADER_VALUE.fullmatch(text) is None:
            parts.errors[argument] = "cannot be sent in a header: it may only hold visible ASCII characters"
        else:
            parts.headers.append((parameter.name.lower().encode(), text.encode()))
    return parts


def _cookie(parts: _Parts, argument: str, text: str, *, whole: bool) -> None:
    """Add a cookie; ``whole`` says that no item of it could start another."""
    if not whole or _COOKIES.fullmatch(text) is None:
        parts.errors[argument] = "cannot be sent in a cookie: it holds a space, a quote, a semicolon or the like"
    else:
        parts.cookies.append(text)


def _path(plan: Plan, parts: _Parts) -> str:
    """Return the path with its variables filled in; what may not stand there is noted in ``parts.errors``."""
    written: list[str] = []
    for segment in plan.path.split("/"):
        arguments: list[str] = []
        position, text = 0, ""
        for found in _VARIABLE.finditer(segment):
            argument, value = parts.path.get(found[1], ("", ""))
            text += quote(segment[position : found.start()], safe=_LITERAL) + value
            position = found.end()
            arguments.append(argument)
            if not value:
                parts.errors[argument] = "cannot be empty: it is a part of the path"
        text += quote(segment[position:], safe=_LITERAL)
        if arguments and not _is_plain(text):
            parts.errors.setdefault(arguments[0], "cannot be sent: it would change the path")
        written.append(text)
    return "/".join(written)


def _is_plain(segment: str) -> bool:
    """Return whether a path segment stays one, however often a server decodes it and whatever it cuts off."""
    for _ in range(_MOST_DECODINGS):
        for part in re.split(r"[/\\]", segment):
            if part.partition(";")[0].strip() in (".", ".."):
                return False
        if any(character < " " or character == "\x7f" for character in segment):
            return False
        decoded = unquote(segment)
        if decoded == segment:
            return True
        segment = decoded
    return False


def _body(plan: Plan, arguments: Mapping[str, Json]) -> bytes | None:
    if plan.media_type is None:
        return None
    if plan.whole_body is not None:
        return jsontext.write(arguments[plan.whole_body]) if plan.whole_body in arguments else None
    data = {name: arguments[argument] for argument, name in plan.properties if argument in arguments}
    return jsontext.write(data) if data or plan.body_required else None


def _refused(errors: Mapping[str, str]) -> Problem:
    said = "; ".join(f"{name}: {text}" if name else text for name, text in errors.items())
    return Problem(
        kind=Kind.INVALID_ARGUMENTS, message=f"The arguments cannot be sent: {said}.", parameter_errors=dict(errors)
    )
