"""Build the approver for a server's callers: confirmations, receipts, or the inbox with its webhooks."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from toolwire.client.transport.key_fetcher import build_key_fetcher
from toolwire.core.errors import UsageError
from toolwire.core.model import Secret
from toolwire.gateway import CallerConsent, Webhook, Webhooks
from toolwire.server.asking.inbox import Inbox
from toolwire.server.asking.permissions import CallerPermissions
from toolwire.server.asking.receipt_keys import KeyFetcher
from toolwire.server.asking.receipts import open_receipt_verifier
from toolwire.server.build import open_inbox
from toolwire.stores.consent.open import is_in_database, open_decisions
from toolwire.stores.paths import find_decisions_place, find_state_places

from .serve_settings import ServeSettings, WebhookSettings

INBOX_PATH = "/inbox"
"""Where the inbox page of a caller is, below the address of the server."""


def build_caller_consent(settings: ServeSettings, upstream: str = "") -> CallerConsent:
    """Return the approver for callers of remote tools: they confirm, with a receipt or in the inbox if configured.

    ``upstream`` is the upstream's name in a gateway's file.

    Raises:
        DefinitionError: the receipt keys or a place cannot be used.
    """
    places = find_state_places(settings.server.state)
    return CallerConsent(
        confirmations=settings.server.confirmations,
        receipts=open_receipt_verifier(
            settings.server.receipts,
            find_receipt_keys(settings),
            audience=settings.server.receipt_audience,
            place=places.receipts,
        ),
        inbox=find_inbox(settings),
        permissions=CallerPermissions(places.inbox),
        # GW-06: who decided what, for as long as the state exists
        audit=open_decisions(places.inbox) if settings.upstreams and places.inbox else None,
        upstream=upstream,
        approvers=next((one.approvers for one in settings.upstreams if one.name == upstream), {}),
    )


def find_inbox(settings: ServeSettings) -> Inbox | None:
    """Return the server's inbox, or None if its users do not decide elsewhere. All parts of the server share it.

    Raises:
        DefinitionError: the place cannot be used.
    """
    if not settings.has_inbox:
        return None
    places = find_state_places(settings.server.state)
    page = f"{settings.server.public_url.rstrip('/')}{INBOX_PATH}" if settings.server.public_url else ""
    place = places.inbox or find_decisions_place()
    callers = tuple((name, one.webhook) for name, one in settings.callers.items() if one.webhook is not None)
    where = str(place if is_in_database(place) else Path(place).absolute())
    return _open_inbox(
        where,
        page,
        settings.webhook,
        callers,
        settings.remote.ca_file or "",
        self_approval=settings.has_self_approval,
    )


@lru_cache(maxsize=8)
def _open_inbox(
    place: str,
    page_url: str,
    every: WebhookSettings | None,
    callers: tuple[tuple[str, WebhookSettings], ...],
    ca_file: str,
    *,
    self_approval: bool,
) -> Inbox:
    # The upstreams and the server itself share it, including its limits for each caller and its message queue.
    webhooks: Webhooks | None = None
    if every is not None or callers:
        webhooks = Webhooks(
            None if every is None else _build_webhook(every),
            callers={name: _build_webhook(one) for name, one in callers},
            ca_file=ca_file or None,
        )
    return open_inbox(place, page_url=page_url, on_question=webhooks, self_approval=self_approval)


def find_webhook_faults(inbox: Inbox | None) -> list[str]:
    """Return the current faults of this process's webhooks, as sentences for operators."""
    webhooks = None if inbox is None else inbox.on_question
    return [webhooks.fault] if isinstance(webhooks, Webhooks) and webhooks.fault else []


def _build_webhook(settings: WebhookSettings) -> Webhook:
    """Return the webhook with its secret.

    Raises:
        UsageError: the environment variable is not set.
        DefinitionError: the URL or the secret cannot be used.
    """
    secret = os.environ.get(settings.secret_env)
    if secret is None:
        raise UsageError(f"The environment variable {settings.secret_env} for the webhook's secret is not set.")
    return Webhook(url=settings.url, secret=Secret(secret), arguments=settings.arguments)


def find_receipt_keys(settings: ServeSettings) -> Path | str | KeyFetcher:
    """Return the file with the receipt keys, or a function that fetches them from a URL."""
    where = settings.server.receipt_keys
    if not isinstance(where, str) or not where.startswith(("http://", "https://")):
        return where
    return build_key_fetcher(where, ca_file=settings.remote.ca_file)
