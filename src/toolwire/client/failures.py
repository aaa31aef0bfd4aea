"""The Problems of talking to a server: one sentence each, naming the origin and never the query or a credential.

``details`` has ``reason``, a word for programs: ``request``, ``url``, ``blocked``, ``dns``, ``refused``, ``tls``,
``timeout``, ``closed``, ``redirect``, ``too_large``, ``encoding`` or ``not_http``; ``sent``, which is False where
nothing can have reached the server; and ``answered``, which is False where the connection ended before any answer.
"""

from __future__ import annotations

from dataclasses import replace

from pyreqwest.exceptions import (
    BuilderError,
    DecodeError,
    DetailedPyreqwestError,
    RequestTimeoutError,
)

from toolwire.core.model import Kind, Problem


def malformed(message: str, reason: str = "request") -> Problem:
    """Return the Problem of a request that cannot be sent as it is."""
    return Problem(kind=Kind.MALFORMED, message=message, details={"reason": reason, "sent": False})


def blocked(message: str) -> Problem:
    """Return the Problem of a URL that the rules do not let through."""
    return Problem(kind=Kind.UNREACHABLE, message=message, details={"reason": "blocked", "sent": False})


def unreachable(message: str, reason: str, *, sent: bool) -> Problem:
    """Return the Problem of a server that could not be reached, or that fell silent."""
    return Problem(kind=Kind.UNREACHABLE, message=message, details={"reason": reason, "sent": sent})


def bad_answer(message: str, reason: str) -> Problem:
    """Return the Problem of an answer that is not taken."""
    return Problem(kind=Kind.BAD_ANSWER, message=message, details={"reason": reason, "sent": True})


def too_slow(origin: str, *, sent: bool) -> Problem:
    """Return the Problem of a server that did not finish in time."""
    return unreachable(f"{origin} did not answer in time.", "timeout", sent=sent)


def failure(error: DetailedPyreqwestError, origin: str) -> Problem:
    """Return ``error`` as a Problem. Its own text is not passed on: that holds the whole URL."""
    causes = [cause["message"] for cause in error.details["causes"] or ()]
    if isinstance(error, BuilderError):
        return malformed("The request cannot be put into HTTP: check its URL and headers.")
    if "client error (Connect)" in causes:
        return _no_connection(error, origin, causes)
    if isinstance(error, RequestTimeoutError):
        return too_slow(origin, sent=True)
    if "message head is too large" in causes:
        return bad_answer(f"{origin} sent more headers than are taken.", "too_large")
    if isinstance(error, DecodeError) and "end of file before message length reached" not in causes:
        return bad_answer(f"{origin} did not answer in HTTP.", "not_http")
    return _closed(origin, causes)


def _closed(origin: str, causes: list[str]) -> Problem:
    problem = unreachable(f"{origin} closed the connection before its answer was complete.", "closed", sent=True)
    if "client error (SendRequest)" in causes:
        return replace(problem, details={**problem.details, "answered": False})
    return problem


def _no_connection(error: DetailedPyreqwestError, origin: str, causes: list[str]) -> Problem:
    if isinstance(error, RequestTimeoutError):
        return too_slow(origin, sent=False)
    if "tcp connect error" in causes:
        return unreachable(f"{origin} does not take connections: is the server running there?", "refused", sent=False)
    text = f"{origin} could not be reached safely: its TLS certificate or handshake is not valid."
    return unreachable(text, "tls", sent=False)
