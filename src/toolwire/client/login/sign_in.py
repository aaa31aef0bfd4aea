"""Signing in to a site as a user does it: in their browser, on another device, or with a key they type."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import sleep, time

from toolwire.auth.authorization_code import (
    StartedSignIn,
    finish_sign_in,
    request_client_credentials,
    revoke_credential,
    start_sign_in,
)
from toolwire.auth.challenge import Challenge, find_bearer
from toolwire.auth.client_identity import ClientIdentity, identify_client
from toolwire.auth.credential import Credential
from toolwire.auth.device_authorization import DeviceCode, poll_device_sign_in, start_device_sign_in
from toolwire.auth.metadata_discovery import SignInTarget, fetch_server_metadata, find_sign_in_target
from toolwire.auth.scopes import merge_scopes
from toolwire.auth.security_schemes import DeclaredSignIn, read_security_schemes
from toolwire.client.discovery.discover import Discovery
from toolwire.client.transport.drivers import SyncTransport, run
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.url_origin import get_origin
from toolwire.protocols.openapi.document import swagger_20
from toolwire.protocols.openapi.document.loading import read_data
from toolwire.protocols.openapi.document.references import References
from toolwire.protocols.openapi.tools.security import Security

from .browser import open_page
from .redirect_listener import RedirectListener

_GET = ((b"accept", b"application/json, text/event-stream"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInUser:
    """How the user is reached. ``open_page`` starts a browser, ``tell`` says a sentence.

    ``allow`` is asked before more scopes are asked for; ``wait_s`` is how long they have, ``sleep`` waits.
    """

    show: Callable[[str], None]
    open_page: Callable[[str], bool] = open_page
    allow: Callable[[str, Sequence[str]], bool] = lambda _site, _scopes: True
    wait_s: float = 300.0
    sleep: Callable[[float], None] = sleep
    now: Callable[[], float] = time
    secret: Callable[[], str] = field(default=lambda: secrets.token_urlsafe(32))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInOptions:
    """How somebody wants to sign in: as whom, for which scopes (none: the fewest that are needed), and in which way.

    ``document_url`` is where a metadata document of ours is, if we have one.
    """

    identity: ClientIdentity | None = None
    document_url: str = ""
    scopes: tuple[str, ...] = ()
    device: bool = False
    host: str = "127.0.0.1"


def find_sign_in(url: str, transport: SyncTransport, challenge: Challenge | None = None) -> SignInTarget | Problem:
    """Return where to sign in for ``url``; without a challenge it is asked for one. [AC-01]"""
    if challenge is None:
        answer = transport.send(Request("GET", url, _GET))
        if isinstance(answer, Response):
            challenge = find_bearer(
                [value.decode("latin-1") for name, value in answer.headers if name == b"www-authenticate"]
            )
    return run(find_sign_in_target(url, challenge), transport)


def read_declared_sign_in(found: Discovery, transport: SyncTransport) -> DeclaredSignIn | None:
    """Return what the OpenAPI document that was found at a URL declares, None where none was found. [AC-01]"""
    addresses = [probe.url for probe in found.probes if probe.protocol == "openapi" and probe.accepted]
    for address in addresses:
        answer = transport.send(Request("GET", address, ((b"accept", b"application/json"),)))
        if isinstance(answer, Problem) or answer.status != 200:
            continue
        data = read_data(answer.body, get_header(answer.headers, b"content-type"), address).data
        if isinstance(data, dict) and swagger_20.is_swagger(data):
            data, _ = swagger_20.upgrade(data, address)
        if isinstance(data, dict) and "openapi" in data:
            schemes: Json = {**Security(References(data)).schemes}
            return read_security_schemes({"components": {"securitySchemes": schemes}}, address, get_origin(found.url))
    return None


def resolve_sign_in(said: DeclaredSignIn, transport: SyncTransport, *, device: bool = False) -> SignInTarget | None:
    """Return where a document says that a user signs in: its flows, or the metadata it names."""
    target = said.targets.get("device" if device else "page")
    if target is not None:
        return target
    for address in said.metadata_urls:
        server = run(fetch_server_metadata(address), transport)
        if not isinstance(server, Problem):
            resource = get_origin(address)
            return SignInTarget(resource=resource, server=server, scopes=(), sends_resource=False)
    return None


def sign_in(
    target: SignInTarget, options: SignInOptions, user: SignInUser, transport: SyncTransport
) -> Credential | Problem:
    """Return the credential of a user who has signed in at ``target``. [AC-04..08, AC-13]"""
    scopes = options.scopes or target.scopes
    if options.device:
        return _sign_in_on_device(target, options, scopes, user, transport)
    listener = RedirectListener(options.host)
    try:
        identity = run(
            identify_client(
                target.server,
                (listener.redirect_uri,),
                configured=options.identity,
                document_url=options.document_url,
            ),
            transport,
        )
        if isinstance(identity, Problem):
            return identity
        started = start_sign_in(
            target, identity, listener.redirect_uri, scopes, state=user.secret(), verifier=user.secret()
        )
        return started if isinstance(started, Problem) else _await_redirect(started, listener, user, transport)
    finally:
        listener.close()


def step_up(
    options: SignInOptions, user: SignInUser, transport: SyncTransport
) -> Callable[[str, Challenge, Credential | None], Credential | Problem]:
    """Return what signs in when a request was refused: with all scopes there were, and those it needs. [AC-08]"""

    def sign_in_again(url: str, challenge: Challenge, held: Credential | None) -> Credential | Problem:
        target = find_sign_in(url, transport, challenge)
        if isinstance(target, Problem):
            return target
        scopes = merge_scopes(() if held is None else held.scopes, target.scopes)
        site = get_origin(url)
        if not user.allow(site, scopes):
            return Problem(kind=Kind.DENIED, message=f"Nothing more was asked of {site}.")
        known = options.identity
        if known is None and held is not None and held.issuer == target.server.issuer and not held.registered:
            known = ClientIdentity(client_id=held.client_id, secret=held.client_secret, method=held.method)
        again = SignInOptions(
            identity=known, document_url=options.document_url, scopes=scopes, device=options.device, host=options.host
        )
        return sign_in(target, again, user, transport)

    return sign_in_again


def sign_in_with_secret(
    target: SignInTarget, identity: ClientIdentity, scopes: Sequence[str], user: SignInUser, transport: SyncTransport
) -> Credential | Problem:
    """Return a credential that stands for a program and no user. [AC-13]"""
    return run(request_client_credentials(target, identity, scopes or target.scopes, user.now()), transport)


def sign_out(credential: Credential, transport: SyncTransport) -> bool:
    """Return whether the server took the tokens back; they are to be deleted here in any case. [AC-12]"""
    return run(revoke_credential(credential), transport)


def _await_redirect(
    started: StartedSignIn, listener: RedirectListener, user: SignInUser, transport: SyncTransport
) -> Credential | Problem:
    if user.open_page(started.url):
        user.show(f"Your browser opens {started.target.server.issuer}: sign in there.")
    else:
        user.show(f"Open this page in a browser on this machine: {started.url}")
    query = listener.wait(user.wait_s)
    return query if isinstance(query, Problem) else run(finish_sign_in(started, query, user.now()), transport)


def _sign_in_on_device(
    target: SignInTarget, options: SignInOptions, scopes: Sequence[str], user: SignInUser, transport: SyncTransport
) -> Credential | Problem:
    identity = run(
        identify_client(
            target.server,
            ("http://127.0.0.1/callback",),
            configured=options.identity,
            document_url=options.document_url,
        ),
        transport,
    )
    if isinstance(identity, Problem):
        return identity
    device = run(start_device_sign_in(target, identity, scopes, user.now()), transport)
    if isinstance(device, Problem):
        return device
    if device.warning:
        user.show(device.warning)
    user.show(f"On any device, open {device.url} and type {device.user_code}")
    return _poll_for_token(target, identity, device, scopes, user, transport)


def _poll_for_token(
    target: SignInTarget,
    identity: ClientIdentity,
    device: DeviceCode,
    scopes: Sequence[str],
    user: SignInUser,
    transport: SyncTransport,
) -> Credential | Problem:
    pause_s = device.interval_s
    while user.now() + pause_s < device.expires_at:
        user.sleep(pause_s)
        found = run(poll_device_sign_in(target, identity, device, scopes, user.now()), transport)
        error = found.details.get("error") if isinstance(found, Problem) else None
        if error == "slow_down":
            pause_s += 5.0
        elif error != "authorization_pending":
            return found
    return Problem(kind=Kind.TIMEOUT, message="Nobody typed the code in time.")
