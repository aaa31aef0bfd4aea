"""Serve the authorization endpoint and the consent page behind it.

Rules:
- Nothing is redirected before the redirect URI is known to belong to the client.
- A user allows the stored request of the client that the page showed. The page refers to it by a random id, which is
  valid for one user, in one session, once.
"""
# AS-01, AS-16, D-31

from __future__ import annotations

import json
from dataclasses import asdict, replace
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
from toolwire.auth.grants import OAuthGrant
from toolwire.auth.redirect_uris import display_host, form_action_source, is_loopback_uri
from toolwire.auth.request_parameters import OAuthError, RequestParameters, read_parameters
from toolwire.auth.scopes import select_ticked_scopes
from toolwire.core.http import Response

from .client_lookup import find_client
from .pages import ConsentForm, build_consent_page, build_error_page
from .server_context import Account, OAuthRequest, ServerContext, build_app_url, build_login_url, build_redirect
from .sessions import AccountSession, build_cookie, find_session, read_own_form
from .settings import OAuthSettings
from .token_issuing import create_code

_QUESTION_S = 600.0


async def handle_authorization(context: ServerContext, request: OAuthRequest) -> Response:
    """Return the next page for a user whom a client sent here: sign in, consent, or the redirect back to the client."""
    if request.method == "POST":
        # As a GET the request survives signing in, and the browser does not ask whether to send a form again.
        return build_redirect(f"{request.path}?{quote(request.body, safe='%&=+')}")
    read = await _read_request(context, request)
    if isinstance(read, OAuthError):
        return build_error_page(read.description)
    parameters, client, redirect_uri = read
    authorization = read_authorization_request(parameters, client, redirect_uri, context.settings.supported_scopes)
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
        return build_redirect(build_login_url(context, request, f"{request.path}?{request.query}"))
    return await _ask_user(context, request, session, session.user, client, authorization)


async def _ask_user(
    context: ServerContext,
    request: OAuthRequest,
    session: AccountSession,
    user: Account,
    client: Client,
    authorization: AuthorizationRequest,
) -> Response:
    """Return the consent page, or the redirect with a code if the user allowed the same before."""
    authorization = await context.run_in_thread(_narrow_scopes, context, user, authorization)
    if not authorization.scopes:
        return build_error_page(
            ("Your account has none of the permissions that this app asks for. Ask the operator of this server."), 403
        )
    earlier = await context.run_in_thread(_compare_earlier, context, user, client, authorization)
    if earlier == "same":
        return await _send_code(context, authorization, client, user, authorization.scopes)
    return await _show_consent(context, request, session, user, client, authorization, changed=earlier == "changed")


def _narrow_scopes(context: ServerContext, user: Account, authorization: AuthorizationRequest) -> AuthorizationRequest:
    """Return ``authorization`` with the scopes alone that the user may give to an app."""
    # GW-02: the page offers nobody what they do not have themselves.
    find_scopes = context.settings.find_scopes
    own = None if find_scopes is None else find_scopes(user.id)
    if own is None:
        return authorization
    return replace(authorization, scopes=tuple(scope for scope in authorization.scopes if scope in own))


async def _is_trusted(context: ServerContext, session: AccountSession, client: Client) -> bool:
    """Return whether an error may be redirected to ``client``."""
    # Anyone can register a client whose redirect URI is a hostile page. To be no open redirector, the server sends
    # errors only to clients that it was configured with, or that the signed-in user has allowed before.
    if client.origin == "configured":
        return True
    return session.user is not None and bool(await context.run_in_thread(_find_grants, context, session.user, client))


def _find_grants(context: ServerContext, user: Account, client: Client) -> list[OAuthGrant]:
    """Return the active grants of the user for the client, newest first."""
    with context.store.read_transaction() as rows:
        return [
            grant for grant in rows.list_grants(user.id, client.id) if grant.used and grant.is_active(context.now())
        ]


async def _read_request(
    context: ServerContext, request: OAuthRequest
) -> tuple[RequestParameters, Client, str] | OAuthError:
    """Return the parameters of a request, its client, and the redirect URI of the response."""
    parameters = read_parameters(request.query)
    if isinstance(parameters, OAuthError):
        return parameters
    client = await find_client(context, parameters.get("client_id"), request.network)
    if isinstance(client, OAuthError):
        return client
    redirect_uri = choose_redirect_uri(parameters, client)
    return redirect_uri if isinstance(redirect_uri, OAuthError) else (parameters, client, redirect_uri)


async def handle_consent(context: ServerContext, request: OAuthRequest) -> Response:
    """Process the decision of a user, and redirect to the client with a code or an error."""
    # AS-07, AS-17
    session = await find_session(context, request)
    fields = read_own_form(context, request, session)
    if isinstance(fields, OAuthError):
        return build_error_page(fields.description, fields.status)
    question = await context.run_in_thread(_take_question, context, fields.get("request", ""), session)
    if question is None or session.user is None:
        return build_error_page("This question is not for you, or it has expired. Start again from the app.", 404)
    authorization, shown = question
    scopes = select_ticked_scopes(authorization.scopes, parse_qs(request.body.decode("latin-1")).get("scope", []))
    client = await find_client(context, authorization.client_id, request.network)
    if isinstance(client, OAuthError):
        return build_error_page(client.description)
    # Between the page and the button the client may have changed its document: the user allowed the one they saw.
    if client_fingerprint(client) != shown:
        return build_error_page("This app changed while you were being asked. Start again from the app.", 409)
    if fields.get("decision") != "allow" or not scopes:
        refusal = OAuthError(error="access_denied", description="The user did not allow it.")
        return _redirect_back(context, authorization.redirect_uri, authorization.state, refusal.to_json())
    return await _send_code(context, authorization, client, session.user, scopes)


async def _send_code(
    context: ServerContext, authorization: AuthorizationRequest, client: Client, user: Account, scopes: tuple[str, ...]
) -> Response:
    code = await context.run_in_thread(_create_code, context, authorization, client, user.id, scopes)
    if code is None:
        return build_error_page("Your account has been removed.", 403)
    return _redirect_back(context, authorization.redirect_uri, authorization.state, {"code": code})


def _create_code(
    context: ServerContext, authorization: AuthorizationRequest, client: Client, user: str, scopes: tuple[str, ...]
) -> str | None:
    """Return a code for a new grant; None if the account has been removed."""
    code = create_code(context, authorization, client, user, scopes)
    # AT-58: once the grant is stored. An account that is removed after this look takes the grant with it.
    if context.users.find(user) is not None:
        return code
    with context.store.write_transaction() as rows:
        for grant in rows.list_grants(user):
            rows.revoke_grant(grant.id, context.now())
    return None


async def _show_consent(
    context: ServerContext,
    request: OAuthRequest,
    session: AccountSession,
    user: Account,
    client: Client,
    authorization: AuthorizationRequest,
    *,
    changed: bool,
) -> Response:
    handle = await context.run_in_thread(_store_question, context, session, user, client, authorization)
    words = context.settings.scopes
    notes = ["This app has changed since you last allowed it. Check it before you continue."] if changed else []
    form = ConsentForm(
        site=context.settings.name,
        app=client.display_name,
        app_host=client.host,
        redirect_host=display_host(authorization.redirect_uri),
        is_local=all(is_loopback_uri(uri) for uri in client.redirect_uris),
        user_name=user.name,
        scopes=[
            (scope, words[scope], scope in context.settings.supported_scopes.defaults) for scope in authorization.scopes
        ],
        lifetime=_describe_lifetime(context.settings),
        connected_url=build_app_url(request, context.settings.grants_url),
        notes=notes,
        action=f"{context.settings.base_path}/consent",
        hidden=[("request", handle), ("token", session.form_token)],
        form_source=form_action_source(authorization.redirect_uri),
    )
    page = build_consent_page(form)
    return page._replace(headers=(*page.headers, build_cookie(context, session.secret))) if session.is_new else page


def _describe_lifetime(settings: OAuthSettings) -> str:
    """Return the lifetime of a grant as a sentence for the user."""
    max_days, idle = (round(seconds / 86_400) for seconds in (settings.grant_s, settings.idle_s))
    return f"It lasts at most {max_days} days, and ends after {idle} days without use."


def _compare_earlier(context: ServerContext, user: Account, client: Client, authorization: AuthorizationRequest) -> str:
    """Return ``same`` if the user allowed this before, ``changed`` if the client changed since, else an empty text."""
    # AS-16, AS-17
    before = _find_grants(context, user, client)
    same = [grant for grant in before if grant.fingerprint == client_fingerprint(client)]
    if before and before[0] not in same:
        return "changed"
    is_known = any(
        set(authorization.scopes) <= set(grant.scopes) and grant.resource == authorization.resource for grant in same
    )
    # Only the owner of the https address of a redirect URI receives the code. On this machine any program can pretend
    # to be the client, and a registered client can use any name: for those the user is asked each time.
    is_proven = authorization.redirect_uri.startswith("https://") and client.origin != "registered"
    return "same" if is_known and is_proven and not authorization.force_consent else ""


def _store_question(
    context: ServerContext, session: AccountSession, user: Account, client: Client, authorization: AuthorizationRequest
) -> str:
    handle = context.make_secret()
    whose = {"session": hash_secret(session.secret), "user": user.id, "shown": client_fingerprint(client)}
    record = json.dumps({**whose, "authorization": asdict(authorization)})
    with context.store.write_transaction() as rows:
        now = context.now()
        # One table has several kinds of records; the word before the id keeps them apart.
        rows.save_record(hash_secret(f"asked {handle}"), record, now=now, until=now + _QUESTION_S)
    return handle


def _take_question(
    context: ServerContext, handle: str, session: AccountSession
) -> tuple[AuthorizationRequest, str] | None:
    """Return the stored request, and the fingerprint of the client that the page showed."""
    # AS-16
    name = hash_secret(f"asked {handle}")
    with context.store.write_transaction() as rows:
        record = rows.find_record(name, context.now())
        stored = None if record is None else json.loads(record)
        if stored is None or session.user is None:
            return None
        theirs = compare_digest(stored["session"], hash_secret(session.secret))
        # A wrong session must not use the question up: its owner can still answer it.
        if not theirs or stored["user"] != session.user.id:
            return None
        if rows.take_record(name, context.now()) is None:
            return None
    authorization: dict[str, Any] = stored["authorization"]
    authorization["scopes"] = tuple(authorization["scopes"])
    return AuthorizationRequest(**authorization), stored.get("shown", "")


def _redirect_back(context: ServerContext, redirect_uri: str, state: str, members: dict[str, str]) -> Response:
    return build_redirect(build_response_url(redirect_uri, context.settings.issuer, state, members))
