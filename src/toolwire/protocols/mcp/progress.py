"""Write the progress of a tool as MCP's ``notifications/progress``, and read it.

Rules:
- Each ``progress`` is a number larger than the one before. What a tool says need be none: it stands beside it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, TypeGuard

from toolwire.core.model import Json, Progress
from toolwire.framing.jsontext import get_object
from toolwire.framing.jsontext import write as to_json

from .revision import PROGRESS_EVENT_META, PROGRESS_META

_LONGEST_MESSAGE = 2_000


class Notifications:
    """Makes the notifications of one call."""

    __slots__ = ("_last", "_token")

    def __init__(self, token: str | int) -> None:
        self._token = token
        self._last = 0.0

    def write(self, progress: Progress) -> dict[str, Json]:
        """Return the notification of ``progress``."""
        value = progress.value
        said: Mapping[str, Any] = value if isinstance(value, dict) else {"progress": value}
        number, total = said.get("progress"), said.get("total")
        self._last = number if _is_number(number) and number > self._last else self._last + 1.0
        params: dict[str, Json] = {"progressToken": self._token, "progress": self._last}
        if total is not None and _is_number(total) and number == self._last:
            params["total"] = total
        message = _write_message(value, said)
        if message:
            params["message"] = message[:_LONGEST_MESSAGE]
        params["_meta"] = {PROGRESS_META: value, PROGRESS_EVENT_META: progress.event}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def read(params: Mapping[str, Json]) -> Progress:
    """Return what a notification says: exactly what the tool said where our server sent it."""
    meta = get_object(params, "_meta")
    if PROGRESS_META in meta:
        event = meta.get(PROGRESS_EVENT_META)
        return Progress(meta[PROGRESS_META], event if isinstance(event, str) else "progress")
    said = {name: params[name] for name in ("progress", "total", "message") if params.get(name) is not None}
    return Progress(said, "progress")


def _write_message(value: Json, said: Mapping[str, Any]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(said.get("message"), str):
        return str(said["message"])
    return "" if _is_number(said.get("progress")) else to_json(value).decode()


def _is_number(value: Json) -> TypeGuard[float]:
    return type(value) is int or (type(value) is float and isfinite(value))
