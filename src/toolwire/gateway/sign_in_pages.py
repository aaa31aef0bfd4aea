"""Let the callers of a gateway sign in to its upstreams, on pages of the gateway.

Rules:
- A page says nothing before it knows the caller: by the caller's key or token in its form, or by a session at the
  gateway's own authorization server. So nobody can make another caller sign in for them.
- A sign-in ends in the browser where it began: a cookie of that browser belongs to it, once, for ten minutes. Who is
  signed in there at the gateway itself must be the person who began.
- The user sees at which host they sign in before they go there.
"""
# GW-02, GW-03

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import sha256
from hmac import compare_digest
from time import time
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import anyio.to_thread

from toolwire.auth.authorization_code import (
    StartedSignIn,
    finish_sign_in,
    push_sign_in,
    revoke_credential,
    start_sign_in,
)
from toolwire.auth.client_identity import ClientIdentity, identify_client
from toolwire.auth.credential import Credential, name_account
from toolwire.auth.metadata_discovery import SignInTarget
from toolwire.client.login.credential_auth import Refused
from toolwire.client.login.sign_in import find_declared_sign_in, find_target, read_challenge
from toolwire.client.login.token_refresher import build_prover, create_target_key
from toolwire.client.transport.drivers import run
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.http import JSON_HEADERS, STATUS_BY_KIND, Response
from toolwire.core.model import Json, Kind, Problem, Secret
from toolwire.core.url_origin import get_host, get_origin
from toolwire.framing import jsontext
from toolwire.framing.csrf import find_form_origin
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html, show_text
from toolwire.framing.html_page import (
    NO_STORE,
    build_alert,
    build_form,
    build_html_page,
    build_link,
    build_notice,
    write_page,
)
from toolwire.framing.visible_text import make_visible
from toolwire.limits import USER_PREFIX
from toolwire.server.access.browser_session import BrowserUser, FindUser
from toolwire.server.access.callers import Caller, Callers, Fields
from toolwire.server.http.cookies import build_cookie, find_cookie
from toolwire.server.page.browser_request import parse_form_fields
from toolwire.stores.credentials.caller_vault import CallerVault
from toolwire.stores.credentials.sealing import CredentialError
from toolwire.stores.outage_log import OutageLog

from .personal_toolbox import PersonalToolbox
from .sign_in_notice import SIGN_IN_PATH
from .started_sign_in import VALID_S, PendingSignIn, digest_cookie, store_sign_in, take_sign_in

RETURN_PATH: Final = f"{SIGN_IN_PATH}return"
_MAX_KEY: Final = 16_384
_log = logging.getLogger("toolwire")


class PageRequest(NamedTuple):
    """A request of a page: ``base`` is the URL of the gateway for its callers, ``fields`` the header fields."""

    method: str
    path: str
    query: str
    headers: Sequence[tuple[bytes, bytes]]
    fields: Fields
    body: bytes
    base: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInUpstream:
    """An upstream at which callers sign in.

    ``open_network`` returns a network that may reach it; ``identity`` is the client that is registered there, if one
    is. ``scopes`` are what a caller needs to use it.
    """

    toolbox: PersonalToolbox
    open_network: Callable[[], SyncNetwork]
    identity: ClientIdentity | None = None
    scopes: frozenset[str] = frozenset()


class SignInPages:
    """The pages below ``/sign-in/``.

    ``find_user`` finds people who are signed in at the gateway itself; ``login_path`` is its page for that. Without
    ``takes_keys``, no caller has a key or a token to type in. ``may_use`` says whether the operator's rules leave a
    caller any tool of an upstream, by its name.
    """

    def __init__(
        self,
        upstreams: Mapping[str, SignInUpstream],
        callers: Callers,
        vault: CallerVault,
        *,
        find_user: FindUser | None = None,
        login_path: str = "",
        takes_keys: bool = True,
        may_use: Callable[[Caller, str], bool] = lambda _caller, _name: True,
    ) -> None:
        self._outages = OutageLog(_log, "sign-ins can be kept again.")
        self._login_path, self._takes_keys, self._may_use = login_path, takes_keys, may_use
        self._upstreams, self._callers, self._vault, self._find_user = upstreams, callers, vault, find_user

    async def answer(self, request: PageRequest) -> Response:
        """Return the response to a request whose path begins with ``/sign-in/``."""
        try:
            response = await self._answer(request)
        except CredentialError as error:
            self._outages.record_failure("a sign-in cannot be kept: %s.", error)
            return _build_page(
                "This does not work now", Html("<p>Credentials cannot be read now. Try again later.</p>"), 503
            )
        self._outages.record_success()
        return response

    async def _answer(self, request: PageRequest) -> Response:
        if request.path == RETURN_PATH:
            return await self._finish(request)
        name, _, rest = unquote(request.path.removeprefix(SIGN_IN_PATH)).partition("/")
        if rest == "state" and request.method == "GET":
            return await self._answer_state(request, name)
        if rest or request.method not in ("GET", "POST"):
            return _build_page("There is nothing here", Html("<p>Look at the address again.</p>"), 404)
        return await self._answer_page(request, name)

    async def _answer_state(self, request: PageRequest, name: str) -> Response:
        caller = await self._identify(request.fields)
        if isinstance(caller, Problem):
            headers = (*JSON_HEADERS, *self._callers.challenge(caller, request.path))
            return Response(STATUS_BY_KIND[caller.kind], headers, jsontext.write({"status": "unknown caller"}))
        found = self._find_upstream(name, caller)
        is_granted = found is not None and await found.toolbox.has_credential(caller.name)
        body: Json = {"status": "granted" if is_granted else "pending"}
        return Response(200, (*JSON_HEADERS, NO_STORE), jsontext.write(body))

    async def _answer_page(self, request: PageRequest, name: str) -> Response:
        user = await self._find_user(request.headers) if self._find_user is not None else None
        if request.method == "GET":
            return self._build_first_page(name, user)
        if find_form_origin(request.fields, request.base) == "cross_site":  # D-22
            return _build_page("This did not work", Html("<p>This form came from another site.</p>"), 403)
        form = parse_form_fields(request.body.decode("utf-8", "replace"))
        caller = user.caller if user is not None else await self._identify_key(request, form)
        if isinstance(caller, Problem):
            return _build_entry(
                name,
                self._build_identity(name, None),
                build_alert(caller.message),
                status=401,
            )
        key_field = _build_key_field() if user is None else NO_HTML
        upstream = self._find_upstream(name, caller)
        if upstream is None:
            text = Html(f"<p>There is no {show_text(name[:100])} at which you can sign in.</p>")
            return _build_page("There is nothing here", text, 404)
        # PL-01: a key that was given for one host is for no other, to which the document may have moved meanwhile.
        site = get_origin(upstream.toolbox.url)
        is_key = form.get("step") == "key" and form.get("site", site) == site
        if is_key and (site_key := form.get("site_key", "").strip()):
            return await self._store_key(upstream, name, caller, site_key, key_field)
        return await self._start(request, upstream, name, caller, key_field)

    def _build_first_page(self, name: str, user: BrowserUser | None) -> Response:
        if user is None and not self._takes_keys:
            # GW-02: here is no other way to say who one is.
            return Response(303, ((b"location", self._link_login(name).encode()), NO_STORE))
        return _build_entry(name, self._build_identity(name, user))

    def _build_identity(self, name: str, user: BrowserUser | None) -> Html:
        """Return the part of the form that says who the caller is, or asks for it."""
        if user is not None:
            return Html(f"<p>You are signed in to this gateway as <b>{show_text(user.name)}</b>.</p>")
        key_field = _build_key_field(is_required=True)
        if self._find_user is None:
            return key_field
        link = build_link(self._link_login(name), "Sign in to this gateway")
        if not self._takes_keys:
            return Html(f"<p>{link} first.</p>")
        return Html(f"<p>{link}, or give your key of it.</p>{key_field}")

    def _link_login(self, name: str) -> str:
        # The page of the sign-in and this one are below the same path, and a browser goes from there to here.
        here = self._login_path.removesuffix("/oauth/login") + _link_page(name[:100])
        return f"{self._login_path}?next={quote(here, safe='')}"

    async def _start(
        self, request: PageRequest, upstream: SignInUpstream, name: str, caller: Caller, key_field: Html
    ) -> Response:
        """Return the page that leads to the authorization server of the upstream, or asks for a key of it."""
        redirect_uri = f"{request.base}{RETURN_PATH}"
        found = await anyio.to_thread.run_sync(_find_place, upstream, redirect_uri)
        if isinstance(found, Problem):
            return _build_key_page(name, upstream.toolbox.url, upstream.toolbox.describe_key() or found, key_field)
        target, identity = found
        state, verifier, cookie = (secrets.token_urlsafe(32) for _ in range(3))
        key = create_target_key(target)
        started = (
            key
            if isinstance(key, Problem)
            else start_sign_in(
                target, identity, redirect_uri, target.scopes, state=state, verifier=verifier, proof_key=key
            )
        )
        if isinstance(started, StartedSignIn) and target.server.pushed_url:
            started = await anyio.to_thread.run_sync(_push_in_thread, upstream, started)
        if isinstance(started, Problem):
            return _build_key_page(name, upstream.toolbox.url, started, key_field)
        started_sign_in = PendingSignIn(caller.name, name, digest_cookie(cookie), started)
        if not await anyio.to_thread.run_sync(store_sign_in, self._vault, started_sign_in, time()):
            return _build_page("Too many sign-ins wait", Html("<p>Try again in ten minutes.</p>"), 503)
        site, host = get_host(upstream.toolbox.url), get_host(target.server.authorization_url)
        there, calls = Html(f"<b>{escape_text(host)}</b>"), Html(f"<b>{escape_text(name)}</b>")
        lines = [Html(f"You sign in at {there}. The gateway then uses this sign-in for your calls of {calls}.")]
        if site != host:
            lines.append(Html(f"{escape_text(site)} sends users to another host to sign in."))
        if target.code_receiver:  # AT-39
            lines.append(Html(f"What you get there goes to <b>{escape_text(get_host(target.code_receiver))}</b>."))
        link = build_link(started.url, f"Continue to {host}", "button primary")
        html = Html(f'{join_html(Html(f"<p>{line}</p>") for line in lines)}<div class="actions bar">{link}</div>')
        base, more = request.base, f"SameSite=Lax; Max-Age={int(VALID_S)}"
        path = f"{urlsplit(base).path.rstrip('/')}{SIGN_IN_PATH}"
        field = build_cookie(_name_cookie(base), cookie, is_secure=_is_secure(base), path=path, more=more)
        page = _build_page(f"Sign in to {name}", html)
        return page._replace(headers=(*page.headers, field))

    async def _store_key(
        self, upstream: SignInUpstream, name: str, caller: Caller, key: str, key_field: Html
    ) -> Response:
        if not (key.isascii() and key.isprintable() and len(key) <= _MAX_KEY):
            problem = Problem(kind=Kind.INVALID_ARGUMENTS, message="This key contains an invalid character.")
            return _build_key_page(name, upstream.toolbox.url, problem, key_field)
        resource = get_origin(upstream.toolbox.url)
        await self._store(upstream, caller.name, Credential(kind="key", resource=resource, access=Secret(key)))
        return _build_done(name)

    async def _finish(self, request: PageRequest) -> Response:
        """Store the credential that the authorization server grants, and say so."""
        state = parse_form_fields(request.query).get("state", "")
        started_sign_in = await anyio.to_thread.run_sync(take_sign_in, self._vault, state, time()) if state else None
        cookie = find_cookie(request.fields, _name_cookie(request.base), is_secure=_is_secure(request.base))
        is_here = started_sign_in is not None and compare_digest(digest_cookie(cookie), started_sign_in.browser)
        if started_sign_in is None or not is_here or not await self._is_still_there(request, started_sign_in.principal):
            text = Html("<p>This sign-in did not begin in this browser, is over, or took longer than ten minutes.</p>")
            return _build_page("This did not work", text, 400)
        upstream = self._upstreams.get(started_sign_in.upstream)
        if upstream is None:
            return _build_page("There is nothing here", Html("<p>This upstream has been removed meanwhile.</p>"), 404)
        found = await anyio.to_thread.run_sync(_finish_in_thread, upstream, started_sign_in, request.query)
        if isinstance(found, Problem):
            return _build_page("You are not signed in", build_alert(make_visible(found.message)), 400)
        await self._store(upstream, started_sign_in.principal, found)
        return _build_done(started_sign_in.upstream)

    async def _is_still_there(self, request: PageRequest, principal: str) -> bool:
        """Return whether nobody else is signed in at this browser than who began a sign-in as ``principal``."""
        # D-09: another program at the same host, such as one at another port of this machine, can set our cookie.
        if self._find_user is None:
            return True
        user = await self._find_user(request.headers)
        return user.caller.name == principal if user is not None else not principal.startswith(USER_PREFIX)

    async def _store(self, upstream: SignInUpstream, principal: str, credential: Credential) -> None:
        await anyio.to_thread.run_sync(_replace_credential, self._vault, principal, upstream, credential)
        await upstream.toolbox.forget(principal)

    def _find_upstream(self, name: str, caller: Caller) -> SignInUpstream | None:
        found = self._upstreams.get(name)
        may_use = found is not None and (caller.scopes is None or caller.scopes >= found.scopes)
        return found if may_use and self._may_use(caller, name) else None

    async def _identify_key(self, request: PageRequest, form: Mapping[str, str]) -> Caller | Problem:
        key = form.get("key", "").strip().encode("latin-1", "replace")
        return await self._identify({**request.fields, b"authorization": b"Bearer " + key} if key else request.fields)

    async def _identify(self, fields: Fields) -> Caller | Problem:
        found = self._callers.find_caller(fields)
        return await self._callers.verify(fields) if found is None else found


def _find_place(upstream: SignInUpstream, redirect_uri: str) -> tuple[SignInTarget, ClientIdentity] | Problem:
    """Return where callers sign in at ``upstream``, and who the gateway is there. It blocks."""
    url, peer = upstream.toolbox.url, upstream.toolbox.peer
    with closing(upstream.open_network()) as network:
        declared = None if peer is None else find_declared_sign_in(replace(peer, url=url))
        refused = Refused(url, read_challenge(url, network), None, declared)
        target = find_target(refused, network)
        if isinstance(target, Problem):
            return target
        identity = run(identify_client(target.server, (redirect_uri,), configured=upstream.identity), network)
        if isinstance(identity, Problem):
            text = f"{target.server.issuer} does not know this gateway. Its operator registers it there, and names the"
            problem = Problem(kind=Kind.UNAUTHORIZED, message=f"{text} client-id in the gateway file.")
            return problem if identity.kind is Kind.UNAUTHORIZED else identity
        return target, identity


def _push_in_thread(upstream: SignInUpstream, started: StartedSignIn) -> StartedSignIn | Problem:
    with closing(upstream.open_network()) as network:
        return run(push_sign_in(started), network)


def _finish_in_thread(upstream: SignInUpstream, started_sign_in: PendingSignIn, query: str) -> Credential | Problem:
    started = started_sign_in.started
    with closing(upstream.open_network()) as network:
        return run(finish_sign_in(started, query, time(), build_prover(started.proof_key)), network)


def _replace_credential(vault: CallerVault, principal: str, upstream: SignInUpstream, newer: Credential) -> None:
    """Store ``newer``, and end what the caller had at this upstream before."""
    store, place = vault.open_store(principal), upstream.toolbox.place
    newer = replace(newer, principal=name_account(place.account))
    # AT-56: a connection that renews its tokens meanwhile must not store them in place of the new ones.
    with store.lock(newer.storage_name):
        older = store.find_covering(*place)
        store.put(newer)
    if older is None or older.storage_name == newer.storage_name:
        return
    with store.lock(older.storage_name):
        store.delete(older.storage_name)
    with closing(upstream.open_network()) as network:
        run(revoke_credential(older), network)


def _name_cookie(base: str) -> str:
    """Return the name of the cookie of a gateway: all ports of a host share their cookies."""
    return f"toolwire-sign-in-{sha256(base.encode()).hexdigest()[:12]}"


def _is_secure(base: str) -> bool:
    return base.startswith("https:")


def _build_key_field(*, is_required: bool = False) -> Html:
    return Html(
        '<div class="field"><label for="key">Your key or token for this gateway</label>'
        f'<input id="key" type="password" name="key" autocomplete="off"{" required" if is_required else ""}></div>'
    )


def _build_entry(name: str, identity_html: Html, notice_html: Html = NO_HTML, *, status: int = 200) -> Response:
    about = Html("<p>You sign in at a server. The gateway then uses this sign-in for your calls.</p>")
    button = Html('<div class="actions bar"><button class="primary">Continue</button></div>')
    form = build_form(_link_here(name[:100]), Html(f"{identity_html}{button}"))
    return _build_page("Sign in for your calls", Html(f"{about}{notice_html}{form}"), status)


def _build_key_page(name: str, url: str, reason: Problem | str, key_field: Html) -> Response:
    """Return the page that takes a key of the site, which offers no page to sign in at.

    ``reason`` is what its document says about the place of the key, or why nobody can sign in there.
    """
    step = [("step", "key"), ("site", get_origin(url))]
    fields = Html(
        f'{key_field}<div class="field"><label for="site-key">Your key for that site</label>'
        '<input id="site-key" type="password" name="site_key" autocomplete="off" required></div>'
        '<div class="actions bar"><button class="primary">Keep this key</button></div>'
    )
    if isinstance(reason, str):
        host = Html(f"<b>{escape_text(get_host(url))}</b>")
        about = Html(
            f"<p>Your calls of <b>{escape_text(name)}</b> go to {host}. Give your key for it once: it is kept here,"
            f" encrypted, and sent there with your own calls, {escape_text(reason)}.</p>"
        )
        return _build_page(f"Your key for {name}", Html(f"{about}{build_form(_link_here(name), fields, step)}"))
    html = Html(
        f"{build_notice(make_visible(reason.message), 'costs')}"
        f"<p>If <b>{escape_text(get_host(url))}</b> gave you a key, it is kept here, encrypted, for your own calls.</p>"
        f"{build_form(_link_here(name), fields, step)}"
    )
    return _build_page(f"Your key for {name}", html)


def _link_page(name: str) -> str:
    """Return the address of the page where callers sign in at the upstream ``name``."""
    return f"{SIGN_IN_PATH}{quote(name, safe='')}"


def _link_here(name: str) -> str:
    """Return the address of the page of ``name`` for a form on it: a proxy may have the gateway below a path."""
    return f"./{quote(name, safe='')}"


def _build_done(name: str) -> Response:
    about = Html(f"Your calls of <b>{escape_text(name)}</b> are made with your own credentials now.")
    return _build_page(f"You are signed in to {name}", Html(f"<p>{about} Go back to your program.</p>"))


def _build_page(title: str, html: Html, status: int = 200) -> Response:
    shown = make_visible(title)
    page = build_html_page(shown, Html(f'<div class="card"><h1>{escape_text(shown)}</h1>{html}</div>'), width="narrow")
    return write_page(page, status)
