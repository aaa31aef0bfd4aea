"""Make one Toolbox of several: a gateway is a Toolbox of remote ones. Imports core, consent, server and client."""

from .caller_consent import CallerConsent
from .connections import ListedConnection, read_connections, write_connections
from .merged_toolbox import merge_toolboxes
from .upstream import UpstreamLimits
from .webhooks import Webhook, Webhooks

__all__ = [
    "CallerConsent",
    "ListedConnection",
    "UpstreamLimits",
    "Webhook",
    "Webhooks",
    "merge_toolboxes",
    "read_connections",
    "write_connections",
]
