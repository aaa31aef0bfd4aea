"""Connect to an upstream as a gateway does: for callers, without a user of its own."""

from __future__ import annotations

from typing import Any

from toolwire.client import Remote, Session
from toolwire.client.connection.connect import connect_upstream
from toolwire.client.connection.options import ConnectOptions
from toolwire.client.connection.upstream_questions import ask_caller
from toolwire.core.resources import COMPLETE_RESULTS


def connect_without_user(url: str, session: Session, *, timeout_s: float = 30.0, **options: Any) -> Remote:
    """Return a Remote whose callers answer what its server asks; the call blocks until the server is discovered."""
    given = ConnectOptions(
        url, session=session, timeout_s=timeout_s, provide_input=ask_caller, caps=COMPLETE_RESULTS, **options
    )
    return connect_upstream(given)
