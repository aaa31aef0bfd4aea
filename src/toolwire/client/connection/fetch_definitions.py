"""The definitions a URL has now, without calling anything: what a lock pins and compares."""

from __future__ import annotations

from typing import NamedTuple

from toolwire.client.calls.session import Session
from toolwire.core.model import Json, Secret
from toolwire.core.selection import DEFAULT_SELECTION, Selection

from .connect import connect_sync


class FetchedDefinitions(NamedTuple):
    """Where a connection is, and the definition of each of its tools."""

    url: str
    definitions: list[dict[str, Json]]


def list_definitions(
    url: str,
    *,
    api_key: Secret | None,
    protocol: str | None,
    session: Session,
    selection: Selection = DEFAULT_SELECTION,
) -> FetchedDefinitions:
    """Return the definitions of the selected tools at ``url``.

    Raises:
        ConnectError: nothing was found there.
        ValueError: ``protocol`` is not one of ours.
    """
    with connect_sync(url, api_key=api_key, protocol=protocol, session=session, selection=selection) as remote:
        return FetchedDefinitions(remote.url, remote.definitions())
