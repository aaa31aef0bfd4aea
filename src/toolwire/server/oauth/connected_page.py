"""Serve the page of connected apps, where a user takes back what an app may do."""
# XL-116, FU-31

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from toolwire.auth.grants import OAuthGrant
from toolwire.auth.request_parameters import OAuthError
from toolwire.core.http import Response
from toolwire.core.url_origin import get_host

from .pages import ConnectedApp, build_connected_page, build_error_page, clean_name
from .server_context import OAuthRequest, ServerContext, build_app_url, build_login_url, build_redirect
from .sessions import build_cookie, find_session, read_own_form
from .settings import OAuthSettings

_ID_CHARS = 6
"""How much of the id of an app tells it from others with its name."""


def list_grants(context: ServerContext, user_id: str) -> list[OAuthGrant]:
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
        return build_redirect(build_login_url(context, request, here))
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
        _describe_grants(context, grants, used),
        base=settings.base_path,
        token=session.form_token,
        home=here,
        logout_url=None if context.identify_user is None else build_app_url(request, settings.logout_url),
    )
    return page._replace(headers=(*page.headers, build_cookie(context, session.secret))) if session.is_new else page


def _describe_grants(
    context: ServerContext, grants: Sequence[OAuthGrant], used: Mapping[str, float]
) -> list[ConnectedApp]:
    names = Counter(clean_name(grant.client_name) for grant in grants)
    marks = {grant.id: get_host(grant.client_id) or grant.client_id[-_ID_CHARS:] for grant in grants}
    # The same app can have been allowed twice, by one user on two machines: then the time tells them apart.
    same = Counter((clean_name(grant.client_name), marks[grant.id]) for grant in grants)
    described: list[ConnectedApp] = []
    for grant in grants:
        name = clean_name(grant.client_name)
        mark = marks[grant.id] if names[name] > 1 else ""
        if same[name, marks[grant.id]] > 1:
            mark = f"{mark}, {datetime.fromtimestamp(grant.created, UTC):%Y-%m-%d %H:%M:%S} UTC"
        described.append(_describe_grant(context, grant, used.get(grant.id, grant.created), mark))
    return described


def _describe_grant(context: ServerContext, grant: OAuthGrant, used: float, qualifier: str) -> ConnectedApp:
    settings, now = context.settings, context.now()
    idle = round(settings.idle_s / 86_400)
    return ConnectedApp(
        grant=grant.id,
        name=grant.client_name,
        origin=_describe_origin(settings, grant.client_id),
        qualifier=qualifier,
        scopes=[(scope, settings.scopes.get(scope, scope)) for scope in grant.scopes],
        since=_show_day(grant.created, now),
        last_use=_show_day(used, now),
        until=f"{_show_day(grant.until, now)} at the latest, or after {idle} days without use",
    )


def _describe_origin(settings: OAuthSettings, client_id: str) -> str:
    """Return where the app with this id comes from, in words."""
    host = get_host(client_id)
    if host:
        return host
    if any(client.id == client_id for client in settings.clients):
        return f"set up at {settings.name}"
    return f"registered itself, as …{client_id[-_ID_CHARS:]}"


def _show_day(seconds: float, now: float) -> str:
    # In UTC, because the server does not know the time zone of the user.
    day, today = (datetime.fromtimestamp(moment, UTC).date() for moment in (seconds, now))
    return {0: "today", 1: "yesterday"}.get((today - day).days, f"{day.day} {day:%B} {day.year}")
