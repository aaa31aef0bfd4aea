"""Write the result of a recorded call as bytes, and read it.

Rules:
- A value is stored as the tool returned it. The tokens and secrets of the call are not stored.
- A problem's developer message is not stored: it is in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolwire.core.ledger import mark_replayed
from toolwire.core.model import Json, Kind, Problem, Result, Value
from toolwire.framing import jsontext


def write_result(result: Result, most: int) -> bytes:
    """Return ``result`` as JSON of at most ``most`` bytes. Instead of a longer one, return a problem that says so."""
    try:
        body = jsontext.write(_to_json(result))
    except (TypeError, ValueError, RecursionError):  # a user's own Toolbox can return a value that is not JSON data
        return jsontext.write(_to_json(_build_loss("its answer cannot be written as JSON")))
    if len(body) > most:
        return jsontext.write(_to_json(_build_loss(f"its answer of {len(body):,} bytes was too large to keep")))
    return body


def read_result(body: bytes, mark: Callable[[Mapping[str, Json] | None], dict[str, Json]] = mark_replayed) -> Result:
    """Return the result that ``write_result`` wrote; ``mark`` adds to its notes or details that it is a replay."""
    data: Any = jsontext.read(body)
    match data:
        case {"value": value, "notes": notes}:
            return Value(value, mark(notes) or None)
        case {"kind": str(kind), "message": str(message), "details": details}:
            return Problem(
                kind=Kind(kind),
                message=message,
                can_retry=data["can_retry"],
                retry_after_ms=data["retry_after_ms"],
                additional_prompt_content=data["additional_prompt_content"],
                parameter_errors=data["parameter_errors"],
                details=mark(details),
            )
        case _:
            return _build_loss("its answer cannot be read any more")


def _to_json(result: Result) -> Json:
    if isinstance(result, Value):
        return {"value": result.value, "notes": result.notes}
    return {
        "kind": result.kind.value,
        "message": result.message,
        "can_retry": result.can_retry,
        "retry_after_ms": result.retry_after_ms,
        "additional_prompt_content": result.additional_prompt_content,
        "parameter_errors": dict(result.parameter_errors),
        "details": dict(result.details),
    }


def _build_loss(why: str) -> Problem:
    return Problem(kind=Kind.INTERNAL, message=f"The call has already run and is not run again, but {why}.")
