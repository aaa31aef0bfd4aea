"""Write the log as JSON, one object per line, without secrets."""

from __future__ import annotations

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

from toolwire.core.model import Json
from toolwire.framing import jsontext

from .propagation import current_traceparent
from .redaction import redact_data, redact_text

_NAMES = ("toolwire", "uvicorn.error", "uvicorn.access")
_MAX_TEXT = 20_000


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, message, and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return ``record`` as JSON text, with secrets hidden and long texts shortened."""
        line: dict[str, Json] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": redact_text(record.getMessage())[:_MAX_TEXT],
        }
        fields: dict[str, Any] = getattr(record, "fields", None) or _current_span_fields()
        line |= {name: redact_data(name, value) for name, value in fields.items() if value is not None}
        if raised := _format_exception(record):
            line["exception"] = redact_text(raised)[-_MAX_TEXT:]
        return jsontext.write(line).decode()


def log_json(stream: TextIO | None = None) -> None:
    """Write the log of this process as JSON to ``stream`` (default: standard error): each call, and each error."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines())
    for name in _NAMES:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
    logging.getLogger("toolwire").setLevel(logging.INFO)


def is_json_log() -> bool:
    """Return whether the log of this process is JSON."""
    return any(isinstance(handler.formatter, JsonLines) for handler in logging.getLogger("toolwire").handlers)


def _format_exception(record: logging.LogRecord) -> str:
    if record.exc_info:
        return "".join(traceback.format_exception(*record.exc_info))
    return record.exc_text or ""


def _current_span_fields() -> dict[str, str]:
    """Return the ids of the span that is active now, as fields."""
    parts = current_traceparent().split("-")
    return {"trace_id": parts[1], "span_id": parts[2]} if len(parts) == 4 else {}
