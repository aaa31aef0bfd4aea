"""Put the inbox page of its callers before the application that ``toolwire serve`` runs."""
# GW-04

from __future__ import annotations

from pathlib import Path

from toolwire.console.caller_inbox import add_caller_inbox
from toolwire.server.access.api_keys import parse_api_key
from toolwire.server.access.callers import Callers
from toolwire.server.app import App
from toolwire.stores.consent.open import is_in_database
from toolwire.stores.paths import find_decisions_place, find_state_places

from .gateway_sign_in import OpenSignIn
from .serve_settings import ServeSettings, list_caller_rules


def add_inbox(app: App, settings: ServeSettings, callers: Callers, sign_in: OpenSignIn | None = None) -> App:
    """Add to ``app`` the inbox page of its ``callers``; people who sign in by ``sign_in`` need no key there.

    Raises:
        DefinitionError: the place of the questions cannot be used.
    """
    place = find_state_places(settings.server.state).inbox or find_decisions_place()
    return add_caller_inbox(
        app,
        place if is_in_database(place) else Path(place),
        callers=callers,
        api_keys=[parse_api_key(key) for key in settings.api_keys],
        hosts=settings.server.hosts,
        public_url=settings.server.public_url,
        find_user=None if sign_in is None else sign_in.find_user,
        login_path="" if sign_in is None else sign_in.login_path,
        caller_rules=list_caller_rules(settings),
    )
