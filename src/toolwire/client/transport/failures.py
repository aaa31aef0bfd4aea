"""Build the Problems of talking to a server: one sentence each, with the origin, never with a query or a credential.

``details`` has ``reason``, a word for programs: ``request``, ``url``, ``blocked``, ``dns``, ``refused``, ``tls``,
``timeout``, ``closed``, ``left`` (closed by this side), ``redirect``, ``too_large``, ``encoding``, ``not_http``,
``offline`` or ``proxy`` (a forward proxy refuses, or cannot be used).
``sent`` is False if nothing can have reached the server. ``answered`` is False if the connection ended before any
response.
"""

from __future__ import annotations

from dataclasses import replace

from toolwire.core.model import Kind, Problem

_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})
"""What OpenSSL calls an answer that is no TLS."""
_UNKNOWN_ISSUER = ("self-signed", "self signed", "unable to get")


def invalid_request(message: str, reason: str = "request") -> Problem:
    """Return the Problem of a request that cannot be sent as it is."""
    return Problem(kind=Kind.MALFORMED, message=message, details={"reason": reason, "sent": False})


def forbidden_target(message: str) -> Problem:
    """Return the Problem of a URL that the rules do not allow."""
    return Problem(kind=Kind.UNREACHABLE, message=message, details={"reason": "blocked", "sent": False})


def unreachable(message: str, reason: str, *, sent: bool) -> Problem:
    """Return the Problem of a server that could not be reached, or that stopped answering."""
    return Problem(kind=Kind.UNREACHABLE, message=message, details={"reason": reason, "sent": sent})


def bad_response(message: str, reason: str) -> Problem:
    """Return the Problem of a response that is refused."""
    return Problem(kind=Kind.BAD_ANSWER, message=message, details={"reason": reason, "sent": True})


def timeout(origin: str, *, sent: bool) -> Problem:
    """Return the Problem of a server that did not answer within the time limit."""
    return unreachable(f"{origin} did not answer in time.", "timeout", sent=sent)


def early_close(origin: str, *, answered: bool) -> Problem:
    """Return the Problem of a connection that ended before the response was complete.

    ``answered`` means that a part of the response had arrived.
    """
    problem = unreachable(f"{origin} closed the connection before its answer was complete.", "closed", sent=True)
    return problem if answered else replace(problem, details={**problem.details, "answered": False})


def offline() -> Problem:
    """Return the Problem of a request that was not sent because the user wants to stay offline."""
    return unreachable("Nothing is sent in offline mode.", "offline", sent=False)


def is_offline(reply: object) -> bool:
    """Return whether ``reply`` is the Problem that ``offline`` returns."""
    return isinstance(reply, Problem) and reply.details.get("reason") == "offline"


def local_close(origin: str) -> Problem:
    """Return the Problem of a call that ended because its own client closed the connection."""
    text = f"The connection to {origin} was closed on this side during the call."
    return Problem(kind=Kind.CANCELLED, message=text, details={"reason": "left", "sent": True})


def connection_refusal(origin: str) -> Problem:
    """Return the Problem of a server that refuses connections."""
    return unreachable(f"{origin} refused the connection. Is the server running?", "refused", sent=False)


def tls_failure(origin: str, error: Exception) -> Problem:
    """Return the Problem of a server with which no TLS connection can be made; ``error`` is that of the handshake."""
    why = "its TLS certificate or handshake is not valid."
    reason = getattr(error, "verify_message", "")  # of a certificate; OpenSSL's own words, and none of the server
    if reason:
        name = str(reason).partition(",")[0].strip()
        why = f"its TLS certificate is not valid ({name})."
        if any(words in name for words in _UNKNOWN_ISSUER):
            why += " If the server is your own, trust its issuer with --ca-file or SSL_CERT_FILE."
    elif getattr(error, "reason", "") in _NO_TLS:
        why = "it does not speak TLS there. Is the port right? Only a server on this machine may be http://."
    return unreachable(f"{origin} could not be reached safely: {why}", "tls", sent=False)
