"""The authorization endpoint and the consent page behind it.

Rules:
- Until client and redirect are known to belong together, nothing is redirected. [AS-01]
- What a person allows is the stored request they were shown, of the app they were shown: by handle, for them alone,
  once. [AS-16, D-31]
"""

from __future__ import annotations

import json
from dataclasses import asdict
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qs, quote

from toolwire.auth.asking import Asking, answer_url, read_asking, read_redirect_of
from toolwire.auth.clients import Client, digest, fingerprint
from toolwire.auth.parameters import Parameters, read_parameters
from toolwire.auth.redirects import form_source, host_of, is_loopback
from toolwire.auth.refusal import Refusal
from toolwire.auth.scopes import ticked
from toolwire.core.http import Response

from .clients import find_client
from .desk import Account, Desk, Visit, aside, see_other
from .issuing import grant_code
from .pages import Asked, consent_page, error_page
from .sessions import Session, forged, session_of

_HANDLE_S = 600.0


async def authorize(desk: Desk, visit: Visit) -> Response:
    """Return the next page for a person whom an app sent: sign in, consent, or back with an answer or an error."""
    if visit.method == "POST":
        return see_other(f"{visit.path}?{quote(visit.body, safe='%&=+')}")
    begun = await _begun(desk, visit)
    if isinstance(begun, Refusal):
        return error_page(begun.description)
    parameters, client, redirect_uri = begun
    asking = read_asking(parameters, client, redirect_uri, desk.settings.offer)
    if isinstance(asking, Refusal):
        return _answered(desk, redirect_uri, parameters.get("state"), asking.write())
    session = await session_of(desk, visit)
    if session.user is None:
        return see_other(f"{_login(desk)}?next={quote(f'{visit.path}?{visit.query}', safe='')}")
    earlier = await aside(_earlier, desk, session.user, client, asking)
    if earlier == "same":
        return await _allowed(desk, asking, client, session.user, asking.scopes)
    return await _asked(desk, session, session.user, client, asking, changed=earlier == "changed")


async def _begun(desk: Desk, visit: Visit) -> tuple[Parameters, Client, str] | Refusal:
    """Return what is asked, by which client, and where the answer goes; nothing is redirected before that is clear."""
    parameters = read_parameters(visit.query)
    if isinstance(parameters, Refusal):
        return parameters
    client = await find_client(desk, parameters.get("client_id"))
    if isinstance(client, Refusal):
        return client
    redirect_uri = read_redirect_of(parameters, client)
    return redirect_uri if isinstance(redirect_uri, Refusal) else (parameters, client, redirect_uri)


async def consent(desk: Desk, visit: Visit) -> Response:
    """Take what a person decided, and send them back to the app with a code or a refusal. [AS-07, AS-17]"""
    fields = parse_qs(visit.body.decode("latin-1"), max_num_fields=100)
    session = await session_of(desk, visit)
    problem = forged(desk, visit, session, fields.get("token", [""])[0])
    if problem is not None:
        return error_page(problem.description, problem.status)
    taken = await aside(_taken, desk, fields.get("request", [""])[0], session)
    if taken is None or session.user is None:
        return error_page("There is no such question for you, or it is too old: start again from the app.", 404)
    asking, shown = taken
    scopes = ticked(asking.scopes, fields.get("scope", []))
    client = await find_client(desk, asking.client_id)
    if isinstance(client, Refusal):
        return error_page(client.description)
    if fingerprint(client) != shown:
        return error_page("This app changed while you were asked about it: start again from the app.", 409)
    if fields.get("decision", [""])[0] != "allow" or not scopes:
        refusal = Refusal(error="access_denied", description="The person did not allow it.")
        return _answered(desk, asking.redirect_uri, asking.state, refusal.write())
    return await _allowed(desk, asking, client, session.user, scopes)


async def _allowed(desk: Desk, asking: Asking, client: Client, user: Account, scopes: tuple[str, ...]) -> Response:
    code = await aside(grant_code, desk, asking, client, user.id, scopes)
    return _answered(desk, asking.redirect_uri, asking.state, {"code": code})


async def _asked(
    desk: Desk, session: Session, user: Account, client: Client, asking: Asking, *, changed: bool
) -> Response:
    handle = await aside(_handed, desk, session, user, client, asking)
    words = desk.settings.scopes
    notes = ["This app has changed since you last allowed it: look closely."] if changed else []
    asked = Asked(
        site=desk.settings.name,
        app=client.shown,
        app_host=client.host,
        redirect_host=host_of(asking.redirect_uri),
        local=all(is_loopback(uri) for uri in client.redirect_uris),
        person=user.name,
        scopes=[(scope, words[scope]) for scope in asking.scopes],
        notes=notes,
        action=f"{desk.settings.base}/consent",
        hidden=[("request", handle), ("token", session.token)],
        source=form_source(asking.redirect_uri),
    )
    return consent_page(asked)


def _earlier(desk: Desk, user: Account, client: Client, asking: Asking) -> str:
    """Return whether the person allowed just this before (``same``), another version of the app (``changed``), or not.

    Only an app whose answer goes to its own https address is known well enough not to be asked about again: on
    this machine anything may pretend to be it. [AS-16, AS-17]
    """
    with desk.store.looking() as rows:
        before = [grant for grant in rows.grants(user.id, client.id) if grant.used and grant.alive(desk.now())]
    same = [grant for grant in before if grant.fingerprint == fingerprint(client)]
    if before and before[0] not in same:
        return "changed"
    known = any(set(asking.scopes) <= set(grant.scopes) and grant.resource == asking.resource for grant in same)
    proved = asking.redirect_uri.startswith("https://") and client.origin != "registered"
    return "same" if known and proved and not asking.anew else ""


def _handed(desk: Desk, session: Session, user: Account, client: Client, asking: Asking) -> str:
    handle = desk.secret()
    whose = {"session": digest(session.secret), "user": user.id, "shown": fingerprint(client)}
    record = json.dumps({**whose, "asking": asdict(asking)})
    with desk.store.changing() as rows:
        rows.keep(digest(f"asked {handle}"), record, desk.now() + _HANDLE_S)
    return handle


def _taken(desk: Desk, handle: str, session: Session) -> tuple[Asking, str] | None:
    """Return what was asked, and the fingerprint of the app as the person was shown it. [AS-16]"""
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
    return Asking(**asking), kept.get("shown", "")


def _answered(desk: Desk, redirect_uri: str, state: str, members: dict[str, str]) -> Response:
    return see_other(answer_url(redirect_uri, desk.settings.issuer, state, members))


def _login(desk: Desk) -> str:
    return desk.settings.login_url or f"{desk.settings.base}/login"
