"""From a URL to tools: discovery, the guarded network, and calls with consent."""

from .connecting import connect, connect_sync
from .discover import Discovery, discover
from .drive import Approver, arun, run
from .remote import Remote, SyncRemote

__all__ = ["Approver", "Discovery", "Remote", "SyncRemote", "arun", "connect", "connect_sync", "discover", "run"]
