"""Serve the page of connected apps, where a user takes back what an app may do."""
# XL-116, FU-31

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from toolwire.auth.grants import Grant
from toolwire.auth.oauth_error import OAuthError
from toolwire.core.http import Response

from .pages import ConnectedApp, build_connected_page, build_error_page
from .server_context import OAuthRequest, ServerContext, build_login_url, build_redirect
from .sessions import build_cookie, find_session, read_own_form


def list_grants(context: ServerContext, user_id: str) -> list[Grant]:
    """Return the active grants of a user, newest first."""
    with context.store.read_transaction() as rows:
        return [grant for grant in rows.list_grants(user_id) if grant.used and grant.is_active(context.now())]


def list_last_uses(context: ServerContext, user_id: str) -> Mapping[str, float]:
    """Return when each grant of a user last got a token, by its id."""
    with context.store.read_transaction() as rows:
        return rows.list_last_uses(user_id)


def revoke_own_grant(context: ServerContext, user_id: str, grant_id: str) -> bool:
    """Revoke a grant of a user with all its tokens. Return False if the user has no such grant."""
    with context.store.write_transaction() as rows:
        grant = rows.find_grant(grant_id)
        # The grant of another user counts as unknown, so that its id is not confirmed.
        if grant is None or grant.user != user_id:
            return False
        context.revoke_grant(rows, grant_id)
        context.record_event(rows, "revoked by the user", user=user_id, client_id=grant.client_id, grant=grant_id)
    return True


async def handle_connected(context: ServerContext, request: OAuthRequest) -> Response:
    """Return the page of connected apps, or take one back and return to it."""
    settings = context.settings
    session = await find_session(context, request)
    here = f"{settings.base_path}/connected"
    if session.user is None:
        return build_redirect(build_login_url(context, here))
    if request.method == "POST":
        fields = read_own_form(context, request, session)
        if isinstance(fields, OAuthError):
            return build_error_page(fields.description, fields.status)
        await context.run_in_thread(revoke_own_grant, context, session.user.id, fields.get("grant", ""))
        return build_redirect(here)
    grants = await context.run_in_thread(list_grants, context, session.user.id)
    used = await context.run_in_thread(list_last_uses, context, session.user.id)
    page = build_connected_page(
        settings.name,
        session.user.name,
        [_describe_grant(context, grant, used.get(grant.id, grant.created)) for grant in grants],
        base=settings.base_path,
        token=session.form_token,
        home=here,
        can_sign_out=context.identify_user is None,
    )
    return page._replace(headers=(*page.headers, build_cookie(context, session.secret))) if session.is_new else page


def _describe_grant(context: ServerContext, grant: Grant, used: float) -> ConnectedApp:
    words = context.settings.scopes
    return ConnectedApp(
        grant.id,
        grant.client_name,
        [(scope, words.get(scope, scope)) for scope in grant.scopes],
        _show_day(grant.created, context.now()),
        _show_day(used, context.now()),
        f"{_show_day(grant.until, context.now())} at the latest",
    )


def _show_day(seconds: float, now: float) -> str:
    # In UTC, because the server does not know the time zone of the user.
    day, today = (datetime.fromtimestamp(moment, UTC).date() for moment in (seconds, now))
    return {0: "today", 1: "yesterday"}.get((today - day).days, f"{day.day} {day:%B} {day.year}")
