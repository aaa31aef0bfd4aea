"""Connect to a URL and call its tools, with consent and over a guarded network."""

from toolwire.core.selection import Selection

from .calls.session import Session, open_stored_session
from .connection.connect import connect, connect_sync
from .connection.handle import Handle, SyncHandle
from .connection.remote import Remote, SyncRemote
from .discovery.cache import Cache
from .discovery.discover import Discovery, discover
from .transport.drivers import Approver, arun, run
from .transport.key_fetcher import build_key_fetcher

__all__ = [
    "Approver",
    "Cache",
    "Discovery",
    "Handle",
    "Remote",
    "Selection",
    "Session",
    "SyncHandle",
    "SyncRemote",
    "arun",
    "build_key_fetcher",
    "connect",
    "connect_sync",
    "discover",
    "open_stored_session",
    "run",
]
