"""``toolwire overlay``: write a first overlay for the API of another organization, with a line for each decision."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolwire.cli.exits import OK
from toolwire.cli.output_file import Output, OutputFile
from toolwire.cli.parser import read_remote
from toolwire.cli.terminal.screen import json_text
from toolwire.cli.terminal.slow_work import announce_if_slow
from toolwire.client.connection.connection import explain_failure
from toolwire.client.connection.connection_factory import ConnectionFactory
from toolwire.client.connection.options import ConnectOptions
from toolwire.client.discovery.auth_on_challenge import authenticate_on_challenge
from toolwire.client.discovery.discover import Discovery
from toolwire.client.discovery.fetch_documents import limit_time
from toolwire.client.transport.drivers import run as drive
from toolwire.client.transport.limits import DISCOVERY_LIMITS
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.codec import ConnectError, Flow, fetch
from toolwire.core.errors import UsageError
from toolwire.core.http import Request, get_header
from toolwire.core.model import Problem
from toolwire.core.selection import Selection
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import complete_url
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.hosting.targets.url_options import check_url, read_access, read_headers, read_key
from toolwire.protocols.openapi.discovery import find
from toolwire.protocols.openapi.document import overlay
from toolwire.protocols.openapi.document.loading import load_document

_EVERYTHING = Selection(include="all")


def run(arguments: argparse.Namespace) -> int:
    """Write the overlay to standard output, or to a file."""
    if arguments.force and not arguments.output:
        raise UsageError("--force needs --output FILE.")
    # An overlay is edited by hand, so a second run must not take its place unasked.
    output = OutputFile(arguments.output, replace=arguments.force) if arguments.output else None
    file = Path(arguments.target)
    document = (
        _read_document(file.read_bytes(), arguments.target)
        if file.is_file()
        else _fetch_document(arguments.target, arguments)
    )
    starter = overlay.build_starter(document)
    if not starter["actions"]:
        where = show_url(arguments.target)
        raise UsageError(f"{where} already declares x-llm for each operation, so an overlay has nothing to add.")
    text = json_text(starter, indent=2)
    if output is None:
        print(text)
    else:
        output.write(Output(f"{text}\n".encode(), "application/json"))
    return OK


def _fetch_document(text: str, arguments: argparse.Namespace) -> dict[str, Any]:
    target = read_target(text)
    if not isinstance(target, UrlTarget):
        raise UsageError("overlay needs a URL, or an OpenAPI file.")
    url, total_s = complete_url(check_url(target.text)), arguments.timeout
    key, headers = read_key(arguments.key, arguments.key_env), read_headers(read_remote(arguments))
    factory = ConnectionFactory(ConnectOptions(url, api_key=key, headers=headers))
    transport = SyncNetwork(
        limits=replace(DISCOVERY_LIMITS, total_s=total_s),
        credentials=factory.credentials(),
        headers=factory.site_headers(),
        **read_access(read_remote(arguments)),
    )
    with closing(transport), announce_if_slow(f"Reading the document of {show_url(url)}"):
        return drive(authenticate_on_challenge(limit_time(_find_document(url), total_s)), transport, None)


def _find_document(url: str) -> Flow[dict[str, Any]]:
    finding = yield from find(url, _EVERYTHING)
    if finding.peer is None and all(probe.status is None for probe in finding.probes):
        raise ConnectError(explain_failure(Discovery(url=url, peer=None, probes=finding.probes)), finding.probes)
    if finding.peer is None:
        raise ConnectError(f"No OpenAPI document was found at {show_url(url)}.", finding.probes)
    answer = yield from fetch(Request("GET", finding.peer.url, ((b"accept", b"application/json"),)))
    if isinstance(answer, Problem):
        raise ConnectError(answer.message, finding.probes)
    return _read_document(answer.body, finding.peer.url, get_header(answer.headers, b"content-type"))


def _read_document(body: bytes, where: str, media_type: str = "") -> dict[str, Any]:
    loaded = load_document(body, media_type, where)
    if isinstance(loaded, Problem):
        raise UsageError(f"{where} {loaded.message.rstrip('.')}.")
    if not isinstance(loaded.data, dict):
        raise UsageError(f"{where} is not an OpenAPI document: it must be an object.")
    if "openapi" not in loaded.data and "swagger" not in loaded.data:
        raise UsageError(f"{where} is not an OpenAPI document: it declares no version, such as openapi: 3.1.0.")
    return loaded.data
