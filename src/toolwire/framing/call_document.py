"""Write the status of a long call as JSON, and read it: the body of ``/calls/ID``.

Rules:
- Times are UTC as RFC 3339 writes them. ``result`` or ``error`` is there once the call is over.
- What another machine says is bounded and cleaned. A document without an id and a known state is no status.
"""
# LC-02

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import isnan
from typing import Final, TypeGuard

from toolwire.core.call_status import CallStatus, LongCallState
from toolwire.core.model import Json, Kind, Result, Value

from . import problem_members
from .jsontext import get_object, get_text
from .text_cleaning import cap_text, clean

MAX_ID: Final = 2_000
"""The most characters of a call's id."""
_MAX_TOOL: Final = 400
_MAX_MESSAGE: Final = 1_000
_LAST_S: Final = 253_402_300_799.0  # the end of the year 9999
_STATES: Final = {state.value: state for state in LongCallState}


def write_status(status: CallStatus) -> dict[str, Json]:
    """Return ``status`` as JSON data, with its result if it has one."""
    data: dict[str, Json] = {
        "id": status.id,
        "tool": status.tool,
        "state": status.state.value,
        "progress": status.progress,
        "message": status.message,
        "created_at": write_time(status.created_at),
        "updated_at": write_time(status.updated_at),
        "expires_at": None if status.expires_at is None else write_time(status.expires_at),
    }
    if status.cancel_asked:
        data["cancel_asked"] = True
    if status.input:
        data["input"] = dict(status.input)
    if isinstance(status.result, Value):
        data["result"] = status.result.value
    elif status.result is not None:
        data["error"] = {"message": status.result.message, **problem_members.write(status.result)}
    return data


def read_status(data: Json, read_value: Callable[[Json], Result] = Value) -> CallStatus | None:
    """Return the status that ``data`` says, or None if it is none. ``read_value`` makes a result of the value in it."""
    if not isinstance(data, dict):
        return None
    id_, found = data.get("id"), _STATES.get(get_text(data, "state"))
    if found is None or not is_call_id(id_):
        return None
    return CallStatus(
        id=id_,
        tool=cap_text(clean(get_text(data, "tool")).text, _MAX_TOOL),
        state=found,
        progress=read_part(data.get("progress")),
        message=read_message(data.get("message")),
        created_at=read_time(data.get("created_at")) or 0.0,
        updated_at=read_time(data.get("updated_at")) or 0.0,
        expires_at=read_time(data.get("expires_at")),
        result=_read_result(data, found, read_value) if found.is_final else None,
        input=get_object(data, "input"),
        cancel_asked=data.get("cancel_asked") is True,
    )


def is_call_id(id_: object) -> TypeGuard[str]:
    """Return whether ``id_`` can be the id of a call: a plain text without spaces, of at most 2,000 characters."""
    return isinstance(id_, str) and 0 < len(id_) <= MAX_ID and id_.isascii() and id_.isprintable() and " " not in id_


def read_part(data: Json) -> float | None:
    """Return ``data`` as a number from 0 to 1, or None if it is no number."""
    if type(data) not in (int, float) or (type(data) is float and isnan(data)):
        return None
    return 0.0 if data <= 0 else 1.0 if data >= 1 else float(data)  # an integer may be too large for a float


def read_message(data: Json) -> str:
    """Return ``data`` as a short text without hidden characters; ``""`` if it is no text."""
    return cap_text(clean(data[: 4 * _MAX_MESSAGE]).text, _MAX_MESSAGE) if isinstance(data, str) else ""


def write_time(seconds: float) -> str:
    """Return a time in seconds since 1970 as RFC 3339 writes it, in UTC, with milliseconds."""
    text = datetime.fromtimestamp(max(0.0, min(seconds, _LAST_S)), UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def read_time(data: Json) -> float | None:
    """Return a time of RFC 3339 in seconds since 1970, or None if ``data`` is none."""
    if not isinstance(data, str) or len(data) > 40:
        return None
    try:
        time = datetime.fromisoformat(data)
        return None if time.tzinfo is None else time.timestamp()
    except (ValueError, OverflowError):
        return None


def _read_result(data: Mapping[str, Json], state: LongCallState, read_value: Callable[[Json], Result]) -> Result:
    if "result" in data:
        return read_value(data["result"])
    error = get_object(data, "error")
    kind, message = error.get("kind"), error.get("message")
    # A call that is over is not going on, whatever its server calls the reason.
    known = _KINDS.get(state, Kind.TOOL_FAILED)
    if isinstance(kind, str) and kind in set(Kind) - {Kind.ACCEPTED}:
        known = Kind(kind)
    text = (
        message
        if isinstance(message, str) and message
        else f"The call is {state.value}, and its server gives no details."
    )
    return problem_members.read(error, known, text)


_KINDS: Final = {LongCallState.CANCELLED: Kind.CANCELLED, LongCallState.INTERRUPTED: Kind.INTERRUPTED}
