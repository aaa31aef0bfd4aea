"""Combine several Toolboxes into one gateway. Imports core, consent, server and client."""

from .caller_consent import CallerConsent
from .merged_toolbox import merge_toolboxes
from .upstream import UpstreamLimits
from .webhooks import Webhook, Webhooks

__all__ = [
    "CallerConsent",
    "UpstreamLimits",
    "Webhook",
    "Webhooks",
    "merge_toolboxes",
]
