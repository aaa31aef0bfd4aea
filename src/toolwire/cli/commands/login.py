"""``toolwire login``: sign in to a site in a browser, on another device, with a key, or as a program."""

from __future__ import annotations

import argparse
import sys
from base64 import b64encode
from dataclasses import replace
from getpass import getpass

from toolwire.auth.credential import Credential, name_account, name_as
from toolwire.auth.scopes import merge_scopes
from toolwire.auth.security_schemes import DeclaredSignIn, SignInMethod
from toolwire.cli.exits import OK, exit_code
from toolwire.cli.parser import read_remote
from toolwire.cli.targets.sign_in_options import read_program_sign_in, read_sign_in
from toolwire.cli.terminal.screen import escaped, print_error
from toolwire.cli.terminal.terminal_user import build_login_user
from toolwire.client.connection.connection import explain_failure
from toolwire.client.discovery.discover import Discovery, discover
from toolwire.client.discovery.fetch_documents import limit_time
from toolwire.client.discovery.required_scopes import find_required_scopes
from toolwire.client.login import (
    Refused,
    find_declared_sign_in,
    find_target,
    read_challenge,
    read_declared_sign_in,
    refuse_server,
    sign_in,
    sign_in_with_secret,
)
from toolwire.client.login.saved_credentials import open_credentials
from toolwire.client.transport.drivers import run as drive
from toolwire.client.transport.limits import DISCOVERY_LIMITS
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.codec import ConnectError, Peer
from toolwire.core.errors import UsageError
from toolwire.core.model import Kind, Problem, Secret
from toolwire.core.selection import Selection
from toolwire.core.url_origin import complete_url, get_origin
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.hosting.targets.url_options import check_url, read_access, read_key, read_selection


def run(arguments: argparse.Namespace) -> int:
    """Sign in, and store the credential for later calls."""
    target = read_target(arguments.url)
    if not isinstance(target, UrlTarget):
        raise UsageError("login needs a URL, but this target is local code.")
    url = complete_url(check_url(target.text))
    limits = replace(DISCOVERY_LIMITS, total_s=arguments.timeout)
    transport = SyncNetwork(limits=limits, **read_access(read_remote(arguments)))
    try:
        found = _ask_for_key(url, arguments, transport) if arguments.key else _sign_in(url, arguments, transport)
    finally:
        transport.close()
    if isinstance(found, Problem):
        print_error(found.message)
        return exit_code(found)
    found = replace(found, principal=name_account(arguments.account))
    credentials = open_credentials()
    credentials.put(found)
    for older in credentials.list_all():
        is_same = (older.resource, older.principal) == (found.resource, found.principal)
        if is_same and older.storage_name != found.storage_name:
            credentials.delete(
                older.storage_name
            )  # one sign-in for each account; which of two would be used is undefined
    scopes = f", for {escaped(', '.join(found.scopes))}" if found.scopes else ""
    print(f"Signed in to {escaped(found.resource)}{name_as(escaped(found.account))}{scopes}.")
    return OK


def _sign_in(url: str, arguments: argparse.Namespace, transport: SyncNetwork) -> Credential | Problem:
    options = read_program_sign_in(arguments, read_sign_in(arguments))
    person = build_login_user(arguments.sign_in_at)
    found = _discover(url, transport, read_selection(read_remote(arguments)), arguments.timeout)
    _check_reached(found)
    url, declared = _find_api(found, url), None
    if found.peer is not None:
        declared = find_declared_sign_in(replace(found.peer, url=url))
    refused = Refused(url, read_challenge(url, transport), _list_scopes(found.peer), declared)
    method: SignInMethod = "secret" if arguments.as_program else "device" if arguments.device else "page"
    target = find_target(refused, transport, method)
    if isinstance(target, Problem):
        return (
            _explain_no_page(declared, target) if declared is not None and target.kind is Kind.UNAUTHORIZED else target
        )
    refusal = refuse_server(target, person)
    if refusal is not None:
        return refusal
    if not target.server.is_proven:
        print("The server does not declare whether it supports PKCE. It is used anyway.", file=sys.stderr)
    has_key = options.identity is not None and options.identity.key is not None
    if arguments.as_program and options.assertion is None and not has_key:
        if options.identity is None or options.identity.secret is None:
            raise UsageError("--as-program needs --client-id, and --client-secret-env or --client-key.")
        return sign_in_with_secret(target, options.identity, tuple(arguments.scope), person, transport)
    return sign_in(target, replace(options, scopes=tuple(arguments.scope), device=arguments.device), person, transport)


def _find_api(found: Discovery, url: str) -> str:
    """Return the URL to sign in for: that of the API, if the document at ``url`` is about one at another origin."""
    # PL-01
    return url if found.peer is None else found.peer.api_url or url


def _discover(url: str, transport: SyncNetwork, selection: Selection, total_s: float) -> Discovery:
    """Return what ``url`` offers; a document that offers nothing to models still says how to sign in."""
    found = drive(limit_time(discover(url, selection=selection), total_s), transport, None)
    if found.peer is not None or selection.include == "all":
        return found
    return drive(limit_time(discover(url, selection=replace(selection, include="all")), total_s), transport, None)


def _check_reached(found: Discovery) -> None:
    """Raise ConnectError if nothing at the URL answered: then nothing can be said about signing in there."""
    if all(probe.status is None for probe in found.probes):
        raise ConnectError(explain_failure(found), found.probes)


def _list_scopes(peer: Peer | None) -> tuple[str, ...] | None:
    """Return the scopes that the selected tools need, or None if no document says it."""
    # AC-08
    declared = [find_required_scopes(tool) for tool in peer.catalog.tools] if peer is not None else []
    named = [scopes for scopes in declared if scopes is not None]
    return merge_scopes(*named) if named else None


def _explain_no_page(declared: DeclaredSignIn, sought: Problem) -> Problem:
    """Return what the user can do where there is no page to sign in at."""
    # AC-13
    if declared.unsafe:
        flows = " and ".join(declared.unsafe)
        text = f"The server offers only the {flows} flow, which is not secure. Pass an existing token with --key."
        return Problem(kind=sought.kind, message=text)
    return (
        Problem(kind=sought.kind, message="The server uses API keys. Pass one with --key.") if declared.keys else sought
    )


def _ask_for_key(url: str, arguments: argparse.Namespace, transport: SyncNetwork) -> Credential | Problem:
    """Ask once, without echo, for a key, a token, or a name and password."""
    # AC-14
    found = _discover(url, transport, read_selection(read_remote(arguments)), arguments.timeout)
    _check_reached(found)
    declared = None if found.peer is None else read_declared_sign_in(found.peer)
    header, prefix = declared.keys[0] if declared is not None and declared.keys else ("authorization", "Bearer ")
    resource = get_origin(_find_api(found, url))
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
