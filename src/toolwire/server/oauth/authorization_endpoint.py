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

from toolwire.auth.authorization_request import (
    AuthorizationRequest,
    build_response_url,
    choose_redirect_uri,
    read_authorization_request,
)
from toolwire.auth.clients import Client, client_fingerprint, hash_secret
from toolwire.auth.grants import Grant
from toolwire.auth.oauth_error import OAuthError
from toolwire.auth.redirect_uris import display_host, form_action_source, is_loopback_uri
from toolwire.auth.request_parameters import RequestParameters, read_parameters
from toolwire.auth.scopes import select_ticked_scopes
from toolwire.core.http import Response

from .client_lookup import find_client
from .pages import ConsentForm, build_consent_page, build_error_page
from .server_context import Account, OAuthRequest, ServerContext, build_redirect
from .sessions import BrowserSession, build_cookie, find_session, read_own_form
from .settings import OAuthSettings
from .token_issuing import create_code

_QUESTION_S = 600.0


async def handle_authorization(context: ServerContext, request: OAuthRequest) -> Response:
    """Return the next page for a person whom an app sent: sign in, consent, or back with an answer or an error."""
    if request.method == "POST":
        return build_redirect(f"{request.path}?{quote(request.body, safe='%&=+')}")
    begun = await _read_request(context, request)
    if isinstance(begun, OAuthError):
        return build_error_page(begun.description)
    parameters, client, redirect_uri = begun
    authorization = read_authorization_request(parameters, client, redirect_uri, context.settings.offered_scopes)
    session = await find_session(context, request)
    if isinstance(authorization, OAuthError):
        trusted = await _is_trusted(context, session, client)
        state = parameters.get("state")
        return (
            _redirect_back(context, redirect_uri, state, authorization.to_json())
            if trusted
            else build_error_page(authorization.description)
        )
    if session.user is None:
        return build_redirect(_build_login_url(context, f"{request.path}?{request.query}"))
    earlier = await context.run_in_thread(_compare_earlier, context, session.user, client, authorization)
    if earlier == "same":
        return await _send_code(context, authorization, client, session.user, authorization.scopes)
    return await _show_consent(context, session, session.user, client, authorization, changed=earlier == "changed")


async def _is_trusted(context: ServerContext, session: BrowserSession, client: Client) -> bool:
    """Return whether an error may be sent back to ``client``: anybody can register one that leads anywhere.

    So that our address is no way to send people elsewhere, it is one that was configured here, or that the person who
    is signed in has allowed before.
    """
    if client.origin == "configured":
        return True
    return session.user is not None and bool(await context.run_in_thread(_find_grants, context, session.user, client))


def _find_grants(context: ServerContext, user: Account, client: Client) -> list[Grant]:
    """Return what the person allows the client now, newest first."""
    with context.store.read_transaction() as rows:
        return [
            grant for grant in rows.list_grants(user.id, client.id) if grant.used and grant.is_active(context.now())
        ]


async def _read_request(
    context: ServerContext, request: OAuthRequest
) -> tuple[RequestParameters, Client, str] | OAuthError:
    """Return what is asked, by which client, and where the answer goes; nothing is redirected before that is clear."""
    parameters = read_parameters(request.query)
    if isinstance(parameters, OAuthError):
        return parameters
    client = await find_client(context, parameters.get("client_id"), request.network)
    if isinstance(client, OAuthError):
        return client
    redirect_uri = choose_redirect_uri(parameters, client)
    return redirect_uri if isinstance(redirect_uri, OAuthError) else (parameters, client, redirect_uri)


async def handle_consent(context: ServerContext, request: OAuthRequest) -> Response:
    """Take what a person decided, and send them back to the app with a code or a refusal."""
    # AS-07, AS-17
    session = await find_session(context, request)
    fields = read_own_form(context, request, session)
    if isinstance(fields, OAuthError):
        return build_error_page(fields.description, fields.status)
    taken = await context.run_in_thread(_take_question, context, fields.get("request", ""), session)
    if taken is None or session.user is None:
        return build_error_page("There is no such question for you, or it is too old: start again from the app.", 404)
    authorization, shown = taken
    scopes = select_ticked_scopes(authorization.scopes, parse_qs(request.body.decode("latin-1")).get("scope", []))
    client = await find_client(context, authorization.client_id, request.network)
    if isinstance(client, OAuthError):
        return build_error_page(client.description)
    if client_fingerprint(client) != shown:
        return build_error_page("This app changed while you were asked about it: start again from the app.", 409)
    if fields.get("decision") != "allow" or not scopes:
        refusal = OAuthError(error="access_denied", description="The person did not allow it.")
        return _redirect_back(context, authorization.redirect_uri, authorization.state, refusal.to_json())
    return await _send_code(context, authorization, client, session.user, scopes)


async def _send_code(
    context: ServerContext, authorization: AuthorizationRequest, client: Client, user: Account, scopes: tuple[str, ...]
) -> Response:
    code = await context.run_in_thread(create_code, context, authorization, client, user.id, scopes)
    return _redirect_back(context, authorization.redirect_uri, authorization.state, {"code": code})


async def _show_consent(
    context: ServerContext,
    session: BrowserSession,
    user: Account,
    client: Client,
    authorization: AuthorizationRequest,
    *,
    changed: bool,
) -> Response:
    handle = await context.run_in_thread(_store_question, context, session, user, client, authorization)
    words = context.settings.scopes
    notes = ["This app has changed since you last allowed it: look closely."] if changed else []
    asked = ConsentForm(
        site=context.settings.name,
        app=client.display_name,
        app_host=client.host,
        redirect_host=display_host(authorization.redirect_uri),
        is_local=all(is_loopback_uri(uri) for uri in client.redirect_uris),
        user_name=user.name,
        scopes=[
            (scope, words[scope], scope in context.settings.offered_scopes.defaults) for scope in authorization.scopes
        ],
        lifetime=_describe_lifetime(context.settings),
        connected_url=context.settings.connected_url,
        notes=notes,
        action=f"{context.settings.base_path}/consent",
        hidden=[("request", handle), ("token", session.form_token)],
        form_source=form_action_source(authorization.redirect_uri),
    )
    page = build_consent_page(asked)
    return page._replace(headers=(*page.headers, build_cookie(context, session.secret))) if session.is_new else page


def _describe_lifetime(settings: OAuthSettings) -> str:
    """Return how long what a person allows lasts, in words."""
    longest, idle = (round(seconds / 86_400) for seconds in (settings.grant_s, settings.idle_s))
    return f"It lasts {longest} days at the most, ends after {idle} days without use, and you can take it back before."


def _compare_earlier(context: ServerContext, user: Account, client: Client, authorization: AuthorizationRequest) -> str:
    """Return whether the person allowed just this before (``same``), another version of the app (``changed``), or not.

    Only an app whose answer goes to its own https address is known well enough not to be asked about again: on
    this machine anything may pretend to be it.
    """
    # AS-16, AS-17
    before = _find_grants(context, user, client)
    same = [grant for grant in before if grant.fingerprint == client_fingerprint(client)]
    if before and before[0] not in same:
        return "changed"
    known = any(
        set(authorization.scopes) <= set(grant.scopes) and grant.resource == authorization.resource for grant in same
    )
    proved = authorization.redirect_uri.startswith("https://") and client.origin != "registered"
    return "same" if known and proved and not authorization.force_consent else ""


def _store_question(
    context: ServerContext, session: BrowserSession, user: Account, client: Client, authorization: AuthorizationRequest
) -> str:
    handle = context.make_secret()
    whose = {"session": hash_secret(session.secret), "user": user.id, "shown": client_fingerprint(client)}
    record = json.dumps({**whose, "authorization": asdict(authorization)})
    with context.store.write_transaction() as rows:
        now = context.now()
        rows.save_record(hash_secret(f"asked {handle}"), record, now=now, until=now + _QUESTION_S)
    return handle


def _take_question(
    context: ServerContext, handle: str, session: BrowserSession
) -> tuple[AuthorizationRequest, str] | None:
    """Return what was asked, and the fingerprint of the app as the person was shown it."""
    # AS-16
    name = hash_secret(f"asked {handle}")
    with context.store.write_transaction() as rows:
        record = rows.find_record(name, context.now())
        kept = None if record is None else json.loads(record)
        if kept is None or session.user is None:
            return None
        theirs = compare_digest(kept["session"], hash_secret(session.secret))
        if not theirs or kept["user"] != session.user.id:
            return None
        if rows.take_record(name, context.now()) is None:
            return None
    authorization: dict[str, Any] = kept["authorization"]
    authorization["scopes"] = tuple(authorization["scopes"])
    return AuthorizationRequest(**authorization), kept.get("shown", "")


def _redirect_back(context: ServerContext, redirect_uri: str, state: str, members: dict[str, str]) -> Response:
    return build_redirect(build_response_url(redirect_uri, context.settings.issuer, state, members))


def _build_login_url(context: ServerContext, onward: str) -> str:
    """Return where people sign in, and come back from to ``onward``."""
    url = context.settings.login_url or f"{context.settings.base_path}/login"
    return f"{url}{'&' if '?' in url else '?'}next={quote(onward, safe='')}"
