"""Remove secrets from logs, spans and problems.

There are three layers. A secret is a ``Secret`` from the moment it is read, and its text is ``***``. A value under a
name such as ``token`` is hidden because of the name. The secrets of the current call are removed from any text.
"""
# D-26

from __future__ import annotations

import json
import logging
import re
import traceback
from base64 import b64encode
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from urllib.parse import quote, quote_plus

from toolwire.core.model import Context, Json, Problem, Secret
from toolwire.core.url_display import show_urls

HIDDEN = "***"
_MIN_SECRET = 4  # a shorter text would be found in many words
_MIN_BASE64 = 8  # of a part of a longer text
_MAX_DEPTH = 20

_NAMES = r"authorization|token|secret|password|passwd|api[_-]?key|cookie|assertion|refresh"
_NAME = re.compile(rf"(?:{_NAMES})s?$|^code$", re.IGNORECASE)
# D-15: it does not begin with a repetition, so its time is linear.
_IN_TEXT = re.compile(
    rf"""((?:{_NAMES})["']?\s*[:=]\s*["']?)((?:bearer|basic)\s+)?(?!\*\*\*)[^\s"',;&}}\])]+""", re.IGNORECASE
)
_BEARER = re.compile(r"\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)

_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")  # characters that no encoding changes
_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_URL_SAFE = str.maketrans("+/", "-_")
_secrets: ContextVar[tuple[str, ...]] = ContextVar("toolwire_secrets", default=())


@contextmanager
def hide_secrets(context: Context) -> Generator[None, None, None]:
    """Remove the secrets of ``context`` from everything that is logged meanwhile, by any logger, also in its tasks.

    The ``extra`` of a log record is not searched, and neither are the records of threads that a tool starts itself.
    """
    _watch_records()
    texts = {secret.reveal() for secrets in (context.tokens, context.secrets) for secret in secrets.values()}
    forms = {form for text in texts for form in find_forms(text)}
    before = _secrets.set(tuple(sorted((form for form in forms if len(form) >= _MIN_SECRET), key=len, reverse=True)))
    try:
        yield
    finally:
        _secrets.reset(before)


def find_forms(secret: str) -> set[str]:
    """Return the forms of ``secret`` in a text: plain, and as Python, JSON, URLs, HTML, hex and base64 write it."""
    if _PLAIN.fullmatch(secret):
        return {secret, *_find_encodings(secret.encode())}
    from html import escape  # here, because it loads the names of all characters of HTML, and most secrets are plain

    data = secret.encode("utf-8", "surrogatepass")
    in_urls = {quote(data), quote(data, safe=""), quote_plus(data), quote(data, safe="!'()*")}
    return {
        secret,
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        repr(data)[2:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        *in_urls,
        *(_ESCAPE.sub(lambda match: match[0].lower(), text) for text in in_urls),
        escape(secret),
        escape(secret, quote=False),
        *_find_encodings(data),
    }


def _find_encodings(data: bytes) -> set[str]:
    """Return ``data`` in hex, and in both alphabets of base64, also as a part of a longer text such as ``user:KEY``."""
    # AT-44
    hexadecimal = data.hex()
    texts = {b64encode(data).decode()}
    for before, first in ((0, 0), (1, 2), (2, 3)):
        text = b64encode(bytes(before) + data).decode().rstrip("=")[first:]
        # The last character also holds bits of the byte after it, unless the data ends there.
        whole = text if (before + len(data)) % 3 == 0 else text[:-1]
        texts |= {form for form in (text, whole) if len(form) >= _MIN_BASE64}
    return {hexadecimal, hexadecimal.upper(), *texts, *(text.translate(_URL_SAFE) for text in texts)}


def _watch_records() -> None:
    """Install a factory that removes secrets from each log record of the process."""
    # A filter of a logger does not see the records of the loggers below it.
    make = logging.getLogRecordFactory()
    if getattr(make, "is_toolwire", False):
        return

    def make_clean(*args: Any, **more: Any) -> logging.LogRecord:
        record = make(*args, **more)
        scrub_record(record)
        return record

    make_clean.is_toolwire = True  # type: ignore[attr-defined]  # marks it as installed
    logging.setLogRecordFactory(make_clean)


def scrub_text(text: str) -> str:
    """Return ``text`` without the secrets of the current call."""
    for secret in _secrets.get():
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def redact_text(text: str) -> str:
    """Return ``text`` without the secrets of the current call and without values after ``token=`` and similar names.

    A lone surrogate, which UTF-8 cannot encode, becomes a question mark.
    """
    text = text if text.isascii() else text.encode("utf-8", "replace").decode()
    return _BEARER.sub(rf"\1{HIDDEN}", _IN_TEXT.sub(rf"\1\2{HIDDEN}", show_urls(scrub_text(text))))


def redact_data(name: str, value: Any, depth: int = 0) -> Json:
    """Return ``value``, which stands under ``name``, as JSON data with secrets hidden."""
    if isinstance(value, Secret) or _NAME.search(name):
        return HIDDEN
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        return {redact_text(str(key)): redact_data(str(key), item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and depth < _MAX_DEPTH:
        return [redact_data("", item, depth + 1) for item in value]
    return redact_text(str(value))


def scrub_record(record: logging.LogRecord) -> None:
    """Remove the secrets of the current call from ``record``."""
    if not _secrets.get():
        return
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001 - the arguments do not fit the message; logging would print all of them
        given = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
        text = " ".join(map(str, (record.msg, *given)))
        record.msg, record.args = text, ()
    clean = scrub_text(text)
    if clean != text:
        record.msg, record.args = clean, ()
    if record.stack_info:
        record.stack_info = scrub_text(record.stack_info)
    if record.exc_info:
        text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        clean = scrub_text(text)
        if clean != text:  # the exception object holds the secret, so it is dropped
            record.exc_info, record.exc_text = None, clean


def scrub_problem(problem: Problem) -> Problem:
    """Return ``problem`` without the secrets of the current call, which a tool may have put into its error."""
    if not _secrets.get():
        return problem
    return replace(
        problem,
        message=scrub_text(problem.message),
        developer_message=_scrub_optional(problem.developer_message),
        additional_prompt_content=_scrub_optional(problem.additional_prompt_content),
        parameter_errors={name: scrub_text(text) for name, text in problem.parameter_errors.items()},
        details=scrub_data(problem.details),
    )


def _scrub_optional(text: str | None) -> str | None:
    return None if text is None else scrub_text(text)


def scrub_data(value: Json) -> Any:
    """Return ``value`` without the secrets of the current call in its texts."""
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, Mapping):
        return {name: scrub_data(item) for name, item in value.items()}
    return [scrub_data(item) for item in value] if isinstance(value, list | tuple) else value
