"""Connect to a URL and call its tools, with consent and over a guarded network.

Each name is loaded when it is first used: a command that reads a target needs no network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.core.lazy_import import export_lazily

if TYPE_CHECKING:
    from toolwire.auth.client_identity import ClientIdentity
    from toolwire.core.selection import Selection

    from .calls.session import Session, open_stored_session
    from .connection.connect import connect, connect_sync
    from .connection.handle import Handle, SyncHandle
    from .connection.remote import Remote, SyncRemote
    from .discovery.cache import Cache, open_document_cache
    from .discovery.discover import Discovery, discover
    from .login.sign_in import SignInOptions, SignInUser
    from .transport.drivers import Approver, arun, run
    from .transport.key_fetcher import build_key_fetcher

__all__ = [
    "Approver",
    "Cache",
    "ClientIdentity",
    "Discovery",
    "Handle",
    "Remote",
    "Selection",
    "Session",
    "SignInOptions",
    "SignInUser",
    "SyncHandle",
    "SyncRemote",
    "arun",
    "build_key_fetcher",
    "connect",
    "connect_sync",
    "discover",
    "open_document_cache",
    "open_stored_session",
    "run",
]
_HOMES = {
    "Approver": "transport.drivers",
    "Cache": "discovery.cache",
    "ClientIdentity": "toolwire.auth.client_identity",
    "Discovery": "discovery.discover",
    "Handle": "connection.handle",
    "Remote": "connection.remote",
    "Selection": "toolwire.core.selection",
    "Session": "calls.session",
    "SignInOptions": "login.sign_in",
    "SignInUser": "login.sign_in",
    "SyncHandle": "connection.handle",
    "SyncRemote": "connection.remote",
    "arun": "transport.drivers",
    "build_key_fetcher": "transport.key_fetcher",
    "connect": "connection.connect",
    "connect_sync": "connection.connect",
    "discover": "discovery.discover",
    "open_document_cache": "discovery.cache",
    "open_stored_session": "calls.session",
    "run": "transport.drivers",
}

__getattr__, __dir__ = export_lazily(__name__, _HOMES)
