"""``toolwire explain``: show every probe of a URL, what it meant, and which protocol was chosen."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Final

from toolwire.cli.exits import NOT_FOUND, OK
from toolwire.cli.parser import read_remote
from toolwire.cli.terminal.prompt import confirm_command
from toolwire.cli.terminal.screen import apply_style, escaped, json_text, print_error, write_count
from toolwire.cli.terminal.slow_work import announce_if_slow
from toolwire.cli.terminal.table import print_table
from toolwire.client.connection.connection import explain_failure
from toolwire.client.connection.connection_factory import ConnectionFactory
from toolwire.client.connection.options import ConnectOptions
from toolwire.client.discovery.auth_on_challenge import authenticate_on_challenge
from toolwire.client.discovery.discover import Discovery, discover, end_sessions
from toolwire.client.discovery.fetch_documents import TOTAL_S, limit_time
from toolwire.client.transport.drivers import BRIEF_S
from toolwire.client.transport.drivers import run as drive
from toolwire.client.transport.limits import DISCOVERY_LIMITS, TransportLimits
from toolwire.client.transport.message_network import SyncMessageNetwork
from toolwire.client.transport.network import NetworkAccess, SyncNetwork
from toolwire.core.codec import Peer, fetch
from toolwire.core.errors import UsageError
from toolwire.core.model import Json, Secret
from toolwire.core.url_display import show_url
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.hosting.targets.url_options import read_access, read_headers, read_key
from toolwire.protocols import BUILTIN

_NO_ACCESS: Final = NetworkAccess()
_NO_HEADERS: Final[Mapping[str, str | Secret]] = {}
_COLUMNS = ("protocol", "url", "status", "what it meant")


def run(arguments: argparse.Namespace) -> int:
    """Probe the URL for every protocol and print the results."""
    target = read_target(arguments.target)
    if not isinstance(target, UrlTarget):
        raise UsageError("explain needs a URL. A file speaks no protocol until it is served.")
    key = read_key(arguments.key, arguments.key_env)
    remote = read_remote(arguments)
    with announce_if_slow(f"Probing {show_url(target.text)} for every protocol"):
        found = _survey_program(target.text, arguments.timeout) or survey_url(
            target.text, key, read_access(remote), read_headers(remote), total_s=arguments.timeout
        )
    if arguments.json:
        print(json_text(describe(found), indent=2))
    else:
        _print(found)
    return OK if found.peer is not None else NOT_FOUND


def _survey_program(text: str, total_s: float) -> Discovery | None:
    """Return what the program speaks that ``text`` names, or None if it names a URL."""
    factory = ConnectionFactory(ConnectOptions(text, approve_command=confirm_command, discovery_s=total_s))
    program = factory.open_program()
    if program is None:
        return None
    with closing(program):
        return drive(factory.discover()[0], SyncMessageNetwork(program, replace(DISCOVERY_LIMITS, total_s=total_s)))


def survey_url(
    url: str,
    key: Secret | None,
    access: NetworkAccess = _NO_ACCESS,
    headers: Mapping[str, str | Secret] = _NO_HEADERS,
    *,
    total_s: float = TOTAL_S,
) -> Discovery:
    """Return every protocol that ``url`` speaks. The key is sent only where the server asks for it.

    No probe begins after ``total_s`` seconds, and none takes longer.
    """
    factory = ConnectionFactory(ConnectOptions(url=url, api_key=key, headers=headers, discovery_s=total_s, **access))
    if factory.has_stream_url:
        server = factory.open_event_stream()
        if server is not None:
            with closing(server):
                return drive(
                    factory.discover(is_mcp=True)[0],
                    SyncMessageNetwork(server, replace(DISCOVERY_LIMITS, total_s=total_s)),
                )
    open_network = partial(SyncNetwork, credentials=factory.credentials(), headers=factory.site_headers(), **access)
    with closing(open_network(limits=replace(DISCOVERY_LIMITS, total_s=total_s))) as network:
        found = drive(authenticate_on_challenge(limit_time(discover(url, survey=True), total_s)), network)
    with closing(open_network(limits=TransportLimits(total_s=BRIEF_S))) as network:
        for request in end_sessions(found):
            drive(authenticate_on_challenge(fetch(request)), network)
    return found


def describe(found: Discovery) -> dict[str, Json]:
    """Return the discovery as JSON data."""
    return {
        "url": show_url(found.url),
        "chosen": None if found.peer is None else _describe_peer(found.peer),
        "others": [_describe_peer(peer) for peer in found.others],
        "probes": [
            {
                "protocol": probe.protocol,
                "url": show_url(probe.url),
                "status": probe.status,
                "meaning": probe.meaning,
                "accepted": probe.accepted,
            }
            for probe in found.probes
        ],
    }


def _describe_peer(peer: Peer) -> dict[str, Json]:
    return {
        "protocol": peer.protocol,
        "url": show_url(peer.url),
        "site": peer.site,
        "tools": len(peer.catalog.tools),
        "findings": list(peer.findings()),
    }


def _print(found: Discovery) -> None:
    rows = [
        (
            probe.protocol,
            escaped(show_url(probe.url)),
            "-" if probe.status is None else str(probe.status),
            escaped(probe.meaning),
        )
        for probe in found.probes
    ]
    print_table(_COLUMNS, rows, sys.stdout)
    print(flush=True)
    if found.peer is None:
        print_error(explain_failure(found))
        return
    chosen = apply_style(_get_title(found.peer), "bold", sys.stdout)
    print(f"{chosen} was chosen: {_count_tools(found.peer)} at {escaped(show_url(found.peer.url))}.")
    if found.others:
        others = ", ".join(f"{_get_title(peer)} ({_count_tools(peer)})" for peer in found.others)
        print(f"It also speaks {others}. The first protocol in the search order is used.")


def _get_title(peer: Peer) -> str:
    return next(codec.title for codec in BUILTIN if codec.name == peer.protocol)


def _count_tools(peer: Peer) -> str:
    return write_count(len(peer.catalog.tools), "tool")
