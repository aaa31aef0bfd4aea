"""``toolwire login``: sign in to a site in a browser, on another device, or with a key."""

from __future__ import annotations

import argparse
import sys
from base64 import b64encode
from collections.abc import Sequence
from getpass import getpass

from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.credential import Credential
from toolwire.auth.metadata_discovery import SignInTarget
from toolwire.auth.security_schemes import DeclaredSignIn
from toolwire.cli.exits import OK, UsageError, exit_code
from toolwire.cli.targets.open_target import check_url, read_key
from toolwire.cli.targets.target import UrlTarget, read_target
from toolwire.cli.terminal.screen import escaped, print_error
from toolwire.client.discovery.discover import Discovery, complete_url, discover
from toolwire.client.login import (
    SignInOptions,
    SignInUser,
    find_sign_in,
    read_declared_sign_in,
    resolve_sign_in,
    sign_in,
    sign_in_with_secret,
)
from toolwire.client.login.saved_credentials import open_credentials
from toolwire.client.transport.drivers import run as drive
from toolwire.client.transport.limits import DISCOVERY_LIMITS
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.connect_error import ConnectError
from toolwire.core.model import Problem, Secret
from toolwire.core.url_origin import get_origin


def run(arguments: argparse.Namespace) -> int:
    """Sign in, and store the credential for later calls."""
    target = read_target(arguments.url)
    if not isinstance(target, UrlTarget):
        raise UsageError("login needs a URL; this target is code on this machine.")
    url = complete_url(check_url(target.text))
    transport = SyncNetwork(limits=DISCOVERY_LIMITS)
    try:
        found = _ask_for_key(url, transport) if arguments.key else _sign_in(url, arguments, transport)
    finally:
        transport.close()
    if isinstance(found, Problem):
        print_error(found.message)
        return exit_code(found)
    credentials = open_credentials()
    credentials.put(found)
    for older in credentials.list_all():
        if older.resource == found.resource and older.storage_name != found.storage_name:
            credentials.delete(older.storage_name)  # one sign-in for each site; which of two would be used is undefined
    scopes = f", for {escaped(', '.join(found.scopes))}" if found.scopes else ""
    print(f"Signed in to {escaped(found.resource)}{scopes}.")
    return OK


def _sign_in(url: str, arguments: argparse.Namespace, transport: SyncNetwork) -> Credential | Problem:
    identity = _read_identity(arguments)
    person = SignInUser(show=lambda sentence: print(escaped(sentence), file=sys.stderr))
    place = find_sign_in(url, transport)
    if isinstance(place, Problem):
        said = read_declared_sign_in(_discover(url, transport), transport)
        place = _choose_declared(said, place, transport, arguments) if said is not None else place
    if isinstance(place, Problem):
        return place
    if not place.server.is_proven:
        print("The site does not say whether it protects sign-in with PKCE; it is used all the same.", file=sys.stderr)
    scopes: Sequence[str] = tuple(arguments.scope)
    if arguments.as_program:
        if identity is None or identity.secret is None:
            raise UsageError("--as-program needs --client-id and --client-secret-env.")
        return sign_in_with_secret(place, identity, scopes, person, transport)
    wish = SignInOptions(
        identity=identity,
        document_url=arguments.client_document or "",
        scopes=tuple(scopes),
        device=arguments.device,
    )
    return sign_in(place, wish, person, transport)


def _discover(url: str, transport: SyncNetwork) -> Discovery:
    return drive(discover(url), transport, None)


def _choose_declared(
    said: DeclaredSignIn, sought: Problem, transport: SyncNetwork, arguments: argparse.Namespace
) -> SignInTarget | Problem:
    """Return the sign-in that the site's document declares, or what the user can do instead."""
    # AC-13
    if arguments.as_program and "secret" in said.targets:
        return said.targets["secret"]
    place = resolve_sign_in(said, transport, device=arguments.device)
    if place is not None:
        return place
    if said.unsafe:
        flows = " and ".join(said.unsafe)
        text = f"The site only has the {flows} flow, which is not safe: give a token you have, with --key."
        return Problem(kind=sought.kind, message=text)
    return Problem(kind=sought.kind, message="The site takes keys: give one with --key.") if said.keys else sought


def _read_identity(arguments: argparse.Namespace) -> ClientIdentity | None:
    if arguments.client_id is None:
        return None
    secret = read_key(None, arguments.client_secret_env)
    return ClientIdentity(
        client_id=arguments.client_id, secret=secret, method="none" if secret is None else "client_secret_basic"
    )


def _ask_for_key(url: str, transport: SyncNetwork) -> Credential | Problem:
    """Ask once, without echo, for a key, a token, or a name and password."""
    # AC-14
    found = _discover(url, transport)
    reached = [probe for probe in found.probes if probe.status is not None]
    if not reached:
        raise ConnectError(f"{get_origin(url)} could not be reached.", found.probes)
    said = read_declared_sign_in(found, transport)
    header, prefix = said.keys[0] if said is not None and said.keys else ("authorization", "Bearer ")
    resource = get_origin(url)
    if prefix == "Basic ":
        name = _ask(f"Name at {resource}: ", masked=False)
        pair = f"{name}:{_ask('Password: ', masked=True)}"
        key = Secret(b64encode(pair.encode()).decode())
    else:
        key = read_key(_ask(f"Key for {resource}: ", masked=True), None) or Secret("")
    return Credential(kind="key", resource=resource, access=key, header=header, prefix=prefix)


def _ask(question: str, *, masked: bool) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    return getpass(escaped(question)) if masked else input(escaped(question))
