"""From a URL to tools: discovery, the guarded network, and calls with consent."""

from toolwire.core.selection import Selection

from .cache import Cache
from .connecting import connect, connect_sync
from .discover import Discovery, discover
from .drive import Approver, arun, run
from .remote import Remote, SyncRemote
from .session import Session, stored_session

__all__ = [
    "Approver",
    "Cache",
    "Discovery",
    "Remote",
    "Selection",
    "Session",
    "SyncRemote",
    "arun",
    "connect",
    "connect_sync",
    "discover",
    "run",
    "stored_session",
]
