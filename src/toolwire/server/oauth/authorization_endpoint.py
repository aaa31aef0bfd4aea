"""The authorization endpoint and the consent page behind it.

Rules:
- Until client and redirect are known to belong together, nothing is redirected.
- What a person allows is the stored request they were shown, of the app they were shown: by handle, for them alone,
  once.
"""
# AS-01, AS-16, D-31

from __future__ import annotations

import json
from dataclasses import asdict
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qs, quote

from toolwire.auth.authorization_request import AuthorizationRequest, answer_url, read_asking, read_redirect_of
from toolwire.auth.clients import Client, digest, fingerprint
from toolwire.auth.grants import Grant
from toolwire.auth.oauth_error import OAuthError
from toolwire.auth.redirect_uris import form_source, host_of, is_loopback
from toolwire.auth.request_parameters import RequestParameters, read_parameters
from toolwire.auth.scopes import ticked
from toolwire.core.http import Response

from .client_lookup import find_client
from .pages import ConsentForm, consent_page, error_page
from .server_context import Account, OAuthRequest, ServerContext, see_other
from .sessions import BrowserSession, cookie, read_own_form, session_of
from .settings import OAuthSettings
from .token_issuing import grant_code

_HANDLE_S = 600.0


async def authorize(desk: ServerContext, visit: OAuthRequest) -> Response:
    """Return the next page for a person whom an app sent: sign in, consent, or back with an answer or an error."""
    if visit.method == "POST":
        return see_other(f"{visit.path}?{quote(visit.body, safe='%&=+')}")
    begun = await _begun(desk, visit)
    if isinstance(begun, OAuthError):
        return error_page(begun.description)
    parameters, client, redirect_uri = begun
    asking = read_asking(parameters, client, redirect_uri, desk.settings.offer)
    session = await session_of(desk, visit)
    if isinstance(asking, OAuthError):
        trusted = await _is_trusted(desk, session, client)
        state = parameters.get("state")
        return _answered(desk, redirect_uri, state, asking.write()) if trusted else error_page(asking.description)
    if session.user is None:
        return see_other(_login(desk, f"{visit.path}?{visit.query}"))
    earlier = await desk.run_in_thread(_earlier, desk, session.user, client, asking)
    if earlier == "same":
        return await _allowed(desk, asking, client, session.user, asking.scopes)
    return await _asked(desk, session, session.user, client, asking, changed=earlier == "changed")


async def _is_trusted(desk: ServerContext, session: BrowserSession, client: Client) -> bool:
    """Return whether an error may be sent back to ``client``: anybody can register one that leads anywhere.

    So that our address is no way to send people elsewhere, it is one that was configured here, or that the person who
    is signed in has allowed before.
    """
    if client.origin == "configured":
        return True
    return session.user is not None and bool(await desk.run_in_thread(_granted, desk, session.user, client))


def _granted(desk: ServerContext, user: Account, client: Client) -> list[Grant]:
    """Return what the person allows the client now, newest first."""
    with desk.store.looking() as rows:
        return [grant for grant in rows.grants(user.id, client.id) if grant.used and grant.alive(desk.now())]


async def _begun(desk: ServerContext, visit: OAuthRequest) -> tuple[RequestParameters, Client, str] | OAuthError:
    """Return what is asked, by which client, and where the answer goes; nothing is redirected before that is clear."""
    parameters = read_parameters(visit.query)
    if isinstance(parameters, OAuthError):
        return parameters
    client = await find_client(desk, parameters.get("client_id"), visit.network)
    if isinstance(client, OAuthError):
        return client
    redirect_uri = read_redirect_of(parameters, client)
    return redirect_uri if isinstance(redirect_uri, OAuthError) else (parameters, client, redirect_uri)


async def consent(desk: ServerContext, visit: OAuthRequest) -> Response:
    """Take what a person decided, and send them back to the app with a code or a refusal."""
    # AS-07, AS-17
    session = await session_of(desk, visit)
    fields = read_own_form(desk, visit, session)
    if isinstance(fields, OAuthError):
        return error_page(fields.description, fields.status)
    taken = await desk.run_in_thread(_taken, desk, fields.get("request", ""), session)
    if taken is None or session.user is None:
        return error_page("There is no such question for you, or it is too old: start again from the app.", 404)
    asking, shown = taken
    scopes = ticked(asking.scopes, parse_qs(visit.body.decode("latin-1")).get("scope", []))
    client = await find_client(desk, asking.client_id, visit.network)
    if isinstance(client, OAuthError):
        return error_page(client.description)
    if fingerprint(client) != shown:
        return error_page("This app changed while you were asked about it: start again from the app.", 409)
    if fields.get("decision") != "allow" or not scopes:
        refusal = OAuthError(error="access_denied", description="The person did not allow it.")
        return _answered(desk, asking.redirect_uri, asking.state, refusal.write())
    return await _allowed(desk, asking, client, session.user, scopes)


async def _allowed(
    desk: ServerContext, asking: AuthorizationRequest, client: Client, user: Account, scopes: tuple[str, ...]
) -> Response:
    code = await desk.run_in_thread(grant_code, desk, asking, client, user.id, scopes)
    return _answered(desk, asking.redirect_uri, asking.state, {"code": code})


async def _asked(
    desk: ServerContext,
    session: BrowserSession,
    user: Account,
    client: Client,
    asking: AuthorizationRequest,
    *,
    changed: bool,
) -> Response:
    handle = await desk.run_in_thread(_handed, desk, session, user, client, asking)
    words = desk.settings.scopes
    notes = ["This app has changed since you last allowed it: look closely."] if changed else []
    asked = ConsentForm(
        site=desk.settings.name,
        app=client.shown,
        app_host=client.host,
        redirect_host=host_of(asking.redirect_uri),
        local=all(is_loopback(uri) for uri in client.redirect_uris),
        person=user.name,
        scopes=[(scope, words[scope], scope in desk.settings.offer.first) for scope in asking.scopes],
        lasts=_lasts(desk.settings),
        connected_url=desk.settings.connected_url,
        notes=notes,
        action=f"{desk.settings.base}/consent",
        hidden=[("request", handle), ("token", session.token)],
        source=form_source(asking.redirect_uri),
    )
    page = consent_page(asked)
    return page._replace(headers=(*page.headers, cookie(desk, session.secret))) if session.fresh else page


def _lasts(settings: OAuthSettings) -> str:
    """Return how long what a person allows lasts, in words."""
    longest, idle = (round(seconds / 86_400) for seconds in (settings.whole_s, settings.idle_s))
    return f"It lasts {longest} days at the most, ends after {idle} days without use, and you can take it back before."


def _earlier(desk: ServerContext, user: Account, client: Client, asking: AuthorizationRequest) -> str:
    """Return whether the person allowed just this before (``same``), another version of the app (``changed``), or not.

    Only an app whose answer goes to its own https address is known well enough not to be asked about again: on
    this machine anything may pretend to be it.
    """
    # AS-16, AS-17
    before = _granted(desk, user, client)
    same = [grant for grant in before if grant.fingerprint == fingerprint(client)]
    if before and before[0] not in same:
        return "changed"
    known = any(set(asking.scopes) <= set(grant.scopes) and grant.resource == asking.resource for grant in same)
    proved = asking.redirect_uri.startswith("https://") and client.origin != "registered"
    return "same" if known and proved and not asking.anew else ""


def _handed(
    desk: ServerContext, session: BrowserSession, user: Account, client: Client, asking: AuthorizationRequest
) -> str:
    handle = desk.secret()
    whose = {"session": digest(session.secret), "user": user.id, "shown": fingerprint(client)}
    record = json.dumps({**whose, "asking": asdict(asking)})
    with desk.store.changing() as rows:
        rows.keep(digest(f"asked {handle}"), record, desk.now() + _HANDLE_S)
    return handle


def _taken(desk: ServerContext, handle: str, session: BrowserSession) -> tuple[AuthorizationRequest, str] | None:
    """Return what was asked, and the fingerprint of the app as the person was shown it."""
    # AS-16
    name = digest(f"asked {handle}")
    with desk.store.changing() as rows:
        record = rows.kept(name, desk.now())
        kept = None if record is None else json.loads(record)
        if kept is None or session.user is None:
            return None
        theirs = compare_digest(kept["session"], digest(session.secret))
        if not theirs or kept["user"] != session.user.id:
            return None
        if rows.take(name, desk.now()) is None:
            return None
    asking: dict[str, Any] = kept["asking"]
    asking["scopes"] = tuple(asking["scopes"])
    return AuthorizationRequest(**asking), kept.get("shown", "")


def _answered(desk: ServerContext, redirect_uri: str, state: str, members: dict[str, str]) -> Response:
    return see_other(answer_url(redirect_uri, desk.settings.issuer, state, members))


def _login(desk: ServerContext, onward: str) -> str:
    """Return where people sign in, and come back from to ``onward``."""
    url = desk.settings.login_url or f"{desk.settings.base}/login"
    return f"{url}{'&' if '?' in url else '?'}next={quote(onward, safe='')}"
