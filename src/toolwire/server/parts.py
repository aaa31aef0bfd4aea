"""Define what an application is put together from: what its options open, once for each server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from toolwire.core.ledger import Ledger
from toolwire.core.long_call import CallEngine, LongCallStore
from toolwire.core.model import Json
from toolwire.limits import LocalRates, RulesByCaller, Windows

from .access.callers import Callers
from .access.host_guard import HostGuard
from .asking.confirmation import ConfirmationCheck, ConfirmationQuestion
from .asking.decision_log import DecisionLog
from .asking.inbox import Inbox
from .asking.permissions import CallerPermissions
from .asking.receipts import ReceiptVerifier
from .limits import ServerLimits
from .options import SessionUse
from .route_table import Document

if TYPE_CHECKING:  # few servers keep sessions, or take tokens of others
    from toolwire.stores.sessions.session_rows import SessionRows

    from .access.protected_resource import ProtectedResource
    from .run.long_results import ResultStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """The opened stores and the gates of one application.

    Without a ledger, windows or a store of long calls, an application keeps its own in memory. ``takes_keys`` says
    whether one of the callers' credentials is an API key, and ``is_removed`` whether a caller's key has been removed.
    ``check_accepted`` refuses long calls of callers whose access was revoked before they begin.
    ``ask_restored`` asks about calls that may have run before the state was restored.
    """

    callers: Callers
    guard: HostGuard
    limits: ServerLimits
    ledger: Ledger | None = None
    rates: Windows | None = None
    local_rates: LocalRates | None = None
    rules: RulesByCaller | None = None
    documents: Mapping[str, Document] = field(default_factory=dict)
    resource: ProtectedResource | None = None
    sign_in: Json = None
    takes_keys: bool = True
    is_removed: Callable[[str], bool] | None = None
    check_accepted: ConfirmationCheck | None = None
    confirmations: Path | str = ""
    inbox: Inbox | None = None
    permissions: CallerPermissions | None = None
    decisions: DecisionLog | None = None
    receipts: ReceiptVerifier | None = None
    sessions: SessionUse = "all"
    session_rows: SessionRows | None = None
    results: ResultStore | None = None
    long_calls: Callable[[], LongCallStore] | None = None
    engine: CallEngine | None = None
    ask_restored: ConfirmationQuestion | None = None
