"""Correct how real OpenTool implementations differ from the specification, one row for each difference.

Rules:
- A quirk is a function from JSON to JSON that leaves what it does not know as it is.
- A row says in which implementation it was seen, so that it can go when the last of them is gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from toolwire.core.model import Json
from toolwire.framing import jsontext

_STACK = re.compile(r"\r?\n[ \t]{0,16}(?:at |Traceback \(most recent call last\))")


class Quirk(NamedTuple):
    """One difference: who was seen to do it, what it is, and how to undo it."""

    seen_in: str
    what: str
    mend: Callable[[Json], Json]


def mend(data: Json, quirks: Iterable[Quirk]) -> Json:
    """Return ``data`` as the specification would have it, each quirk undone in turn."""
    for quirk in quirks:
        data = quirk.mend(data)
    return data


def _rename_version(data: Json) -> Json:
    return {"version": data["versionNumber"]} if isinstance(data, dict) and "versionNumber" in data else data


def _replace_null(data: Json) -> Json:
    return {} if data is None else data


def _replace_not_found(data: Json) -> Json:
    is_code = isinstance(data, dict) and data.get("code") == 404 and "functions" not in data
    return {} if is_code else data


def _remove_nulls(data: Json) -> Json:
    match data:
        case dict():
            return {
                name: _remove_nulls(value) if isinstance(value, dict | list) and name != "x-json-schema" else value
                for name, value in data.items()
                if value is not None or name == "x-json-schema"
            }
        case list():
            return [_remove_nulls(value) for value in data]
        case _:
            return data


def _read_error_in_result(data: Json) -> Json:
    match data:
        case {"result": {"code": int(code), "message": str(), **more} as result} if (
            "error" not in data and code >= 400 and not more
        ):
            return {"error": result}
        case _:
            return data


def _wrap_error_text(data: Json) -> Json:
    match data:
        case {"error": str(message)}:
            return {"error": {"message": message}}
        case _:
            return data


def _remove_null_member(data: Json) -> Json:
    if not isinstance(data, dict):
        return data
    if isinstance(data.get("error"), dict):
        return {"error": data["error"]}
    return {name: value for name, value in data.items() if name != "error" or value is not None}


def _unpack_json_message(data: Json) -> Json:
    match data:
        case {"error": {"message": str(text)} as error} if text.startswith("{"):
            match jsontext.read(text.encode("utf-8", "replace")):
                case {"message": str(inner)}:
                    return {"error": {**error, "message": inner}}
                case _:
                    return data
        case _:
            return data


def _remove_stack(data: Json) -> Json:
    match data:
        case {"error": {"message": str(text)} as error}:
            message = _STACK.split(text, maxsplit=1)[0].strip()
            return {"error": {**error, "message": message or text}}
        case _:
            return data


VERSION = (Quirk(".NET 8", "the version is called versionNumber", _rename_version),)
"""Of the answer to GET /version. [C-6, A-24]"""

DOCUMENT = (
    Quirk("Java", "no description is an empty body", _replace_null),
    Quirk("TypeScript, Dart, .NET", 'no description is {"code": 404, ...} with status 200', _replace_not_found),
    Quirk("Java", "every member that is not set is null", _remove_nulls),
)
"""Of the answer to GET /load; no description is ``{}`` afterwards. [C-4, C-5, A-21]"""

ANSWER = (
    Quirk(
        "examples of the TypeScript SDK", 'a result of {"code": 405, "message": ...} is an error', _read_error_in_result
    ),
    Quirk("TypeScript", "the error is a text", _wrap_error_text),
    Quirk("the specification, Java", "error null beside a result, result beside an error", _remove_null_member),
    Quirk("TypeScript", "the message of an error is JSON with the message in it", _unpack_json_message),
    Quirk(".NET 8, TypeScript", "the message of an error goes on with a stack trace", _remove_stack),
)
"""Of the answer to POST /call; it has either ``error``, an object, or ``result`` afterwards. [C-3, C-7, A-12, A-22]"""
