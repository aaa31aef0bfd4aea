"""Sign a user in to a site, in the browser or on another device; or a program, with a secret, a key or an assertion."""

# AC-01: where to sign in comes from the challenge or the document. AC-04..08, AC-13: the grants that are used.

from __future__ import annotations

import secrets
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from time import sleep, time

from toolwire.auth.authorization_code import (
    StartedSignIn,
    finish_sign_in,
    push_sign_in,
    revoke_credential,
    start_sign_in,
)
from toolwire.auth.challenge import Challenge
from toolwire.auth.client_identity import DEVICE_GRANT, ClientIdentity, identify_client
from toolwire.auth.credential import Credential
from toolwire.auth.device_authorization import DeviceCode, poll_device_sign_in, start_device_sign_in
from toolwire.auth.dpop import Prover, find_token_challenge
from toolwire.auth.metadata_discovery import SignInTarget, fetch_server_metadata, find_sign_in_target
from toolwire.auth.program_grants import (
    IdentityProvider,
    exchange_id_token,
    refuse_described,
    request_by_assertion,
    request_client_credentials,
)
from toolwire.auth.scopes import merge_scopes
from toolwire.auth.security_schemes import DeclaredSignIn, SignInMethod, read_security_schemes
from toolwire.client.discovery.required_scopes import list_sign_in_schemes
from toolwire.client.transport.drivers import SyncTransport, run
from toolwire.core.codec import Peer
from toolwire.core.http import Request
from toolwire.core.model import Json, Kind, Problem, Secret
from toolwire.core.url_origin import get_origin

from .browser import open_page
from .credential_auth import Refused, SignIn
from .redirect_listener import RedirectListener
from .token_refresher import build_prover, create_target_key

_GET = ((b"accept", b"application/json, text/event-stream"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInUser:
    """How to reach the user during a sign-in.

    - ``show``: prints a sentence.
    - ``open_page``: opens a page in a browser. It returns whether that worked.
    - ``allow``: called with the server and the scopes before a sign-in that begins during a call.
    - ``allow_server``: called with the server and an origin before the user is sent to another origin. If the sign-in
      code goes to a different origin than the page, it is called with the code's receiver and the page's origin.
      Without it, other origins are refused.
    - ``wait_s``: how long the user has, in seconds.
    - ``sleep``, ``now``, ``secret``: wait, return seconds since 1970, and return a random string.
    """

    show: Callable[[str], None]
    open_page: Callable[[str], bool] = open_page
    allow: Callable[[str, Sequence[str]], bool] = lambda _site, _scopes: True
    allow_server: Callable[[str, str], bool] = lambda _site, _origin: False
    wait_s: float = 300.0
    sleep: Callable[[float], None] = sleep
    now: Callable[[], float] = time
    # AC-06: 256 random bits, for the state and for the verifier of PKCE.
    secret: Callable[[], str] = field(default=lambda: secrets.token_urlsafe(32))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInOptions:
    """How the user wants to sign in.

    - ``identity``: the OAuth client to sign in as. With a key, it needs no browser and no user.
    - ``document_url``: the URL of the client's metadata document, if it has one.
    - ``scopes``: the scopes to request. Default: those that the server requires.
    - ``device``: the user signs in on another device. Otherwise the browser returns to ``host``.
    - ``assertion``: called with the authorization server's issuer for each sign-in of a program. It returns the
      workload's signed token (JWT). With a ``provider``, it returns the user's ID token at the organization's identity
      provider.
    """

    identity: ClientIdentity | None = None
    document_url: str = ""
    scopes: tuple[str, ...] = ()
    device: bool = False
    host: str = "127.0.0.1"
    assertion: Callable[[str], Secret] | None = field(default=None, repr=False)
    provider: IdentityProvider | None = None


def find_sign_in(url: str, transport: SyncTransport, challenge: Challenge | None = None) -> SignInTarget | Problem:
    """Return where to sign in for ``url``. Without a ``challenge``, the URL is requested to get one."""
    if challenge is None:
        challenge = read_challenge(url, transport)
    return run(find_sign_in_target(url, challenge), transport)


def read_challenge(url: str, transport: SyncTransport) -> Challenge | None:
    """Request ``url`` and return the challenge of the response, if it has one."""
    answer = transport.send(Request("GET", url, _GET))
    if isinstance(answer, Problem):
        return None
    return find_token_challenge(answer)


def read_declared_sign_in(peer: Peer, schemes: Container[str] | None = None) -> DeclaredSignIn | None:
    """Return the sign-in that the document of ``peer`` declares, or None without a document.

    ``schemes`` names the security schemes to use; without it, all are.
    """
    declaration = peer.declared_auth
    if declaration is None:
        return None
    chosen: Json = {name: one for name, one in declaration.schemes.items() if schemes is None or name in schemes}
    declared = read_security_schemes(
        {"components": {"securitySchemes": chosen}}, declaration.base, get_origin(peer.url)
    )
    return replace(
        declared, authorization_server=declaration.authorization_server, resource_metadata=declaration.resource_metadata
    )


def find_declared_sign_in(peer: Peer) -> DeclaredSignIn | None:
    """Return the sign-in that the document of ``peer`` declares for its tools; see ``read_declared_sign_in``."""
    # AC-08: a scheme that no selected tool needs says nothing about where to sign in for them.
    return read_declared_sign_in(peer, list_sign_in_schemes(peer.catalog.tools) or None)


def resolve_sign_in(
    declaration: DeclaredSignIn, transport: SyncTransport, method: SignInMethod = "page"
) -> SignInTarget | None:
    """Return where a document declares that users sign in: its flows, or the metadata it names."""
    target = declaration.targets.get(method)
    if target is not None:
        return target
    for address in declaration.metadata_urls:
        server = run(fetch_server_metadata(address), transport)
        if not isinstance(server, Problem):
            return SignInTarget(
                resource=declaration.resource, server=server, scopes=(), sends_resource=False, is_declared=True
            )
    return None


def find_target(refused: Refused, transport: SyncTransport, method: SignInMethod = "page") -> SignInTarget | Problem:
    """Return where to sign in after ``refused``: by its challenge, metadata, llm.json, or the flows of the document."""
    # AC-01, XL-102, XL-110
    declaration = refused.declared
    found = run(
        find_sign_in_target(
            refused.url,
            refused.challenge,
            scopes=refused.scopes,
            authorization_server="" if declaration is None else declaration.authorization_server,
            resource_metadata="" if declaration is None else declaration.resource_metadata,
        ),
        transport,
    )
    # Metadata that is there and wrong is not a reason to believe a document that promises less.
    if declaration is None or not isinstance(found, Problem) or found.kind is not Kind.UNAUTHORIZED:
        return found
    target = resolve_sign_in(declaration, transport, method)
    if target is None:
        return found
    named = () if refused.challenge is None else tuple(refused.challenge.parameters.get("scope", "").split())
    scopes = named or (target.scopes if refused.scopes is None else refused.scopes)
    # The challenge knows best what this call needs; then the document; then the flow as a whole.
    return replace(target, scopes=scopes)


def refuse_server(target: SignInTarget, user: SignInUser) -> Problem | None:
    """Return why the user is not sent to the server of ``target``, or None if they may be."""
    # AC-02, D-28, AT-46: a site can name any server as the one to sign in at, and gets the token that it gives. Its
    # metadata says so as cheaply as a document.
    site, page, receiver = (
        get_origin(target.resource),
        get_origin(target.server.authorization_url),
        target.code_receiver,
    )
    # AT-39: the user is told who gets the code of a page, where that is not the server of the page.
    split = {page: receiver} if receiver else {}
    for origin in dict.fromkeys((*target.foreign_origins, *split)):
        asking = split.get(origin, site)
        if not user.allow_server(asking, origin):
            text = f"{asking} wants you to sign in at {origin}, which is a different server."
            text += f" Allow that with --sign-in-at {origin}, or SignInUser(allow_server=...)."
            return Problem(kind=Kind.DENIED, message=text, details={"server": origin})
    return None


def sign_in(
    target: SignInTarget, options: SignInOptions, user: SignInUser, transport: SyncTransport
) -> Credential | Problem:
    """Sign the user in at ``target``, and return the credential or why there is none."""
    scopes = options.scopes or target.scopes
    if options.assertion is not None:
        return _sign_in_by_assertion(target, options, options.assertion, scopes, user, transport)
    if options.identity is not None and options.identity.key is not None:
        return sign_in_with_secret(target, options.identity, scopes, user, transport)
    key = create_target_key(target)
    if isinstance(key, Problem):
        return key
    if options.device:
        return _sign_in_on_device(target, options, scopes, user, transport, build_prover(key, user.now))
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
            target,
            identity,
            listener.redirect_uri,
            scopes,
            state=user.secret(),
            verifier=user.secret(),
            proof_key=key,
        )
        if isinstance(started, StartedSignIn):
            started = run(push_sign_in(started), transport)
        return started if isinstance(started, Problem) else _await_redirect(started, listener, user, transport)
    finally:
        listener.close()


def step_up(options: SignInOptions, user: SignInUser, transport: SyncTransport) -> SignIn:
    """Return a function that signs in after a refusal, with the present scopes and those that are needed."""

    def sign_in_again(refused: Refused, credential: Credential | None) -> Credential | Problem | None:
        target = find_target(refused, transport, "device" if options.device else "page")
        if isinstance(target, Problem):
            return None if target.kind is Kind.UNAUTHORIZED else target
        if credential is not None and credential.proof_key is not None:
            # RFC 9449: a challenge for a bearer token does not weaken a sign-in that was bound to a key.
            target = replace(target, binds_tokens=True)
        scopes = merge_scopes(() if credential is None else credential.scopes, options.scopes, target.scopes)
        is_same_server = credential is not None and credential.issuer == target.server.issuer
        refusal = None if is_same_server and not target.code_receiver else refuse_server(target, user)
        if refusal is not None:
            return refusal
        site = get_origin(refused.url)
        if not user.allow(site, scopes):
            return None
        known = options.identity
        # A client that the user registered there stays the same client; an automatic one is made anew.
        if known is None and credential is not None and is_same_server and not credential.registered:
            known = ClientIdentity(
                client_id=credential.client_id, secret=credential.client_secret, method=credential.method
            )
        return sign_in(target, replace(options, identity=known, scopes=scopes), user, transport)

    return sign_in_again


def sign_in_with_secret(
    target: SignInTarget, identity: ClientIdentity, scopes: Sequence[str], user: SignInUser, transport: SyncTransport
) -> Credential | Problem:
    """Return a credential of a program, without a user, by the secret or the key of ``identity``."""
    key = create_target_key(target)
    if isinstance(key, Problem):
        return key
    prover = build_prover(key, user.now)
    wanted = scopes or target.scopes
    grant = request_client_credentials(target, identity, wanted, user.now(), prover=prover, unique_id=user.secret())
    return run(grant, transport)


def sign_out(credential: Credential, transport: SyncTransport) -> bool:
    """Return whether the server revoked the tokens. Delete them here in any case."""
    # AC-12: signing out ends a token at its server, not only here.
    return run(revoke_credential(credential), transport)


def _sign_in_by_assertion(
    target: SignInTarget,
    options: SignInOptions,
    assertion: Callable[[str], Secret],
    scopes: Sequence[str],
    user: SignInUser,
    transport: SyncTransport,
) -> Credential | Problem:
    refusal = refuse_described(target.server)
    if refusal is not None:
        return refusal
    key = create_target_key(target)
    if isinstance(key, Problem):
        return key
    given = assertion(target.server.issuer)
    if options.provider is not None:
        exchanged = run(exchange_id_token(options.provider, given, target, scopes, user.now()), transport)
        if isinstance(exchanged, Problem):
            return exchanged
        given = exchanged
    identity = options.identity or ClientIdentity(client_id="")
    prover = build_prover(key, user.now)
    grant = request_by_assertion(target, identity, given, scopes, user.now(), prover=prover, unique_id=user.secret())
    return run(grant, transport)


def _await_redirect(
    started: StartedSignIn, listener: RedirectListener, user: SignInUser, transport: SyncTransport
) -> Credential | Problem:
    if user.open_page(started.url):
        user.show(f"Your browser opens {started.target.server.issuer}. Sign in there.")
    else:
        user.show(f"Open this page in a browser on this machine: {started.url}")
    query = listener.wait(user.wait_s)
    if isinstance(query, Problem):
        return query
    return run(finish_sign_in(started, query, user.now(), build_prover(started.proof_key, user.now)), transport)


def _sign_in_on_device(
    target: SignInTarget,
    options: SignInOptions,
    scopes: Sequence[str],
    user: SignInUser,
    transport: SyncTransport,
    prover: Prover | None,
) -> Credential | Problem:
    identity = run(
        identify_client(
            target.server,
            # A server that registers clients may require a redirect URI, although this sign-in uses none.
            ("http://127.0.0.1/callback",),
            configured=options.identity,
            document_url=options.document_url,
            grants=(DEVICE_GRANT,),
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
    return _poll_for_token(target, identity, device, scopes, user, transport, prover=prover)


def _poll_for_token(
    target: SignInTarget,
    identity: ClientIdentity,
    device: DeviceCode,
    scopes: Sequence[str],
    user: SignInUser,
    transport: SyncTransport,
    *,
    prover: Prover | None,
) -> Credential | Problem:
    pause_s = device.interval_s
    # A pause that ends after the code has expired would only make the user wait.
    while user.now() + pause_s < device.expires_at:
        user.sleep(pause_s)
        found = run(poll_device_sign_in(target, identity, device, scopes, user.now(), prover), transport)
        error = found.details.get("error") if isinstance(found, Problem) else None
        # RFC 8628, 3.5: each slow_down adds five seconds to all pauses that follow.
        if error == "slow_down":
            pause_s += 5.0
        elif error != "authorization_pending":
            return found
    return Problem(kind=Kind.TIMEOUT, message="The code was not entered in time.")
