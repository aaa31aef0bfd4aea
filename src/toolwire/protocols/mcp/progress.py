"""Write the progress of a tool as ``notifications/progress`` and its log as ``notifications/message``, and read both.

Rules:
- A message of the log is sent only to a client that wants its level.
- Each ``progress`` is a number larger than the one before. What a tool says need be none: it stands beside it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite, nextafter
from typing import Any, TypeGuard

from toolwire.core.model import LOG_EVENT, PROGRESS_EVENT, Json, Progress, reaches_level
from toolwire.framing.jsontext import get_object
from toolwire.framing.jsontext import write as to_json
from toolwire.framing.text_cleaning import clean

from .revision import PROGRESS_EVENT_META, PROGRESS_META

LOG_METHOD = "notifications/message"

_MAX_MESSAGE_LENGTH = 2_000
_MAX_NAME_LENGTH = 200
_MAX_EXACT = 2**53


class Notifications:
    """Makes the notifications of one call, for a client that wants progress by ``token`` and a log from ``level``."""

    __slots__ = ("_last", "_level", "_said", "_token")

    def __init__(self, token: str | int | None, level: str = "") -> None:
        self._token = token
        self._level = level
        self._last: float | None = None  # sent, and what the tool said for it
        self._said: float | None = None

    def write(self, progress: Progress) -> dict[str, Json] | None:
        """Return the notification of ``progress``, or None if the client did not ask for it."""
        if progress.event == LOG_EVENT:
            return _write_log(progress.value, self._level)
        if self._token is None:
            return None
        value = progress.value
        data: Mapping[str, Any] = value if isinstance(value, dict) else {"progress": value}
        number, total = data.get("progress"), data.get("total")
        last = self._last
        is_same = _is_number(number) and number == self._said  # many tools say a number twice, with another message
        if _is_number(number) and (last is None or number > last):
            self._last = self._said = number
        elif last is None:
            self._last = 1
        else:
            # A number that is said again comes a trace later, so that the next one of the tool is still larger.
            has_said = self._said is not None and abs(last) < _MAX_EXACT
            self._last = nextafter(last, inf) if has_said else last + 1
        params: dict[str, Json] = {"progressToken": self._token, "progress": self._last}
        if _is_number(total) and (is_same or number == self._last):
            params["total"] = total
        message = _write_message(value, data)
        if message:
            params["message"] = message[:_MAX_MESSAGE_LENGTH]
        params["_meta"] = {PROGRESS_META: value, PROGRESS_EVENT_META: progress.event}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def _write_log(value: Json, level: str) -> dict[str, Json] | None:
    # MC-06: a server behind this one may send messages of any level, or what is none at all.
    if not isinstance(value, dict) or not reaches_level(value.get("level"), level):
        return None
    params = {name: value[name] for name in ("level", "logger", "data") if name in value}
    return {"jsonrpc": "2.0", "method": LOG_METHOD, "params": params}


def read_log(params: Mapping[str, Json], level: str) -> Progress | None:
    """Return the message of a server's log that ``params`` describe; None if it is none, or below ``level``."""
    if not reaches_level(params.get("level"), level):
        return None
    value = {"level": params["level"], "data": params.get("data")}
    logger = params.get("logger")
    if isinstance(logger, str):
        value["logger"] = clean(logger[:_MAX_NAME_LENGTH]).text
    return Progress(value, LOG_EVENT)


def read(params: Mapping[str, Json]) -> Progress:
    """Return what a notification says: exactly what the tool said where our server sent it."""
    meta = get_object(params, "_meta")
    if PROGRESS_META in meta:
        event = meta.get(PROGRESS_EVENT_META)
        return Progress(meta[PROGRESS_META], event if isinstance(event, str) else PROGRESS_EVENT)
    data = {name: params[name] for name in ("progress", "total", "message") if params.get(name) is not None}
    return Progress(data, PROGRESS_EVENT)


def _write_message(value: Json, data: Mapping[str, Any]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(data.get("message"), str):
        return str(data["message"])
    return "" if _is_number(data.get("progress")) else to_json(value).decode()


def _is_number(value: Json) -> TypeGuard[float]:
    return type(value) is int or (type(value) is float and isfinite(value))
