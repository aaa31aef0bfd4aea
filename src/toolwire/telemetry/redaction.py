"""Secrets taken out of what is written down.

Three layers: a secret is a ``Secret`` from the moment it is read, whose text is ``***``; whatever stands under a name
like ``token`` is taken out by that name; and the exact secrets of the call that runs are taken out of any text. [D-26]
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from toolwire.core.model import Context, Json, Problem, Secret

HIDDEN = "***"
_SHORTEST = 4  # a shorter text would be found in every other word
_DEEPEST = 20

_NAMES = r"authorization|token|secret|password|passwd|api[_-]?key|cookie|assertion|refresh"
_NAME = re.compile(rf"(?:{_NAMES})s?$|^code$", re.IGNORECASE)
_IN_TEXT = re.compile(
    rf"""(\b[\w-]*(?:{_NAMES})["']?\s*[:=]\s*["']?)((?:bearer|basic)\s+)?(?!\*\*\*)[^\s"',;&}}\])]+""", re.IGNORECASE
)
_BEARER = re.compile(r"\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)

_secrets: ContextVar[tuple[str, ...]] = ContextVar("toolwire_secrets", default=())


@contextmanager
def secrets_of(context: Context) -> Generator[None, None, None]:
    """Take the secrets of ``context`` out of all that is logged meanwhile, in its threads and tasks too."""
    texts = {secret.reveal() for secrets in (context.tokens, context.secrets) for secret in secrets.values()}
    before = _secrets.set(tuple(sorted((text for text in texts if len(text) >= _SHORTEST), key=len, reverse=True)))
    try:
        yield
    finally:
        _secrets.reset(before)


def scrubbed(text: str) -> str:
    """Return ``text`` without the secrets of the call that runs."""
    for secret in _secrets.get():
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def redacted(text: str) -> str:
    """Return ``text`` scrubbed, and without what stands behind names such as ``token=`` or ``Authorization:``.

    Half a character, which could not be written, becomes a question mark.
    """
    text = text if text.isascii() else text.encode("utf-8", "replace").decode()
    return _BEARER.sub(rf"\1{HIDDEN}", _IN_TEXT.sub(rf"\1\2{HIDDEN}", scrubbed(text)))


def redacted_data(name: str, value: Any, depth: int = 0) -> Json:
    """Return ``value``, found under ``name``, as JSON data in which nothing is secret."""
    if isinstance(value, Secret) or _NAME.search(name):
        return HIDDEN
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {redacted(str(key)): redacted_data(str(key), item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and depth < _DEEPEST:
        return [redacted_data("", item, depth + 1) for item in value]
    return redacted(str(value))


def scrub_record(record: logging.LogRecord) -> bool:
    """Take the secrets of the call that runs out of ``record``: a filter of logging that lets everything pass."""
    if not _secrets.get():
        return True
    text = record.getMessage()
    clean = scrubbed(text)
    if clean != text:
        record.msg, record.args = clean, ()
    if record.exc_info:
        text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        clean = scrubbed(text)
        if clean != text:  # the exception itself holds the secret: it goes no further
            record.exc_info, record.exc_text = None, clean
    return True


def without_secrets(problem: Problem) -> Problem:
    """Return ``problem`` without the secrets of the call that runs: a tool may have put one into its error."""
    if not _secrets.get():
        return problem
    return replace(
        problem,
        message=scrubbed(problem.message),
        developer_message=_optional(problem.developer_message),
        additional_prompt_content=_optional(problem.additional_prompt_content),
        parameter_errors={name: scrubbed(text) for name, text in problem.parameter_errors.items()},
        details=_data(problem.details),
    )


def _optional(text: str | None) -> str | None:
    return None if text is None else scrubbed(text)


def _data(value: Json) -> Any:
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, Mapping):
        return {name: _data(item) for name, item in value.items()}
    return [_data(item) for item in value] if isinstance(value, list | tuple) else value
