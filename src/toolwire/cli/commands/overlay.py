"""``toolwire overlay``: write a first overlay for the API of another organization, with a line for each decision."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from toolwire.cli.exits import OK, UsageError
from toolwire.cli.output_file import Output, OutputFile
from toolwire.cli.targets.open_target import check_url, read_access
from toolwire.cli.targets.target import UrlTarget, read_target
from toolwire.cli.terminal.screen import json_text
from toolwire.client.discovery.discover import complete_url
from toolwire.client.transport.drivers import run as drive
from toolwire.client.transport.limits import DISCOVERY_LIMITS
from toolwire.client.transport.network import NetworkAccess, SyncNetwork
from toolwire.core.codec import Flow, fetch
from toolwire.core.connect_error import ConnectError
from toolwire.core.http import Request, get_header
from toolwire.core.model import Problem
from toolwire.core.selection import Selection
from toolwire.core.url_display import show_url
from toolwire.protocols.openapi.discovery import find
from toolwire.protocols.openapi.document import overlay
from toolwire.protocols.openapi.document.loading import load_document

_EVERYTHING = Selection(include="all")


def run(arguments: argparse.Namespace) -> int:
    """Write the overlay to standard output, or to a file."""
    if arguments.force and not arguments.output:
        raise UsageError("--force replaces the file of --output: name one.")
    # An overlay is edited by hand, so a second run must not take its place unasked.
    output = OutputFile(arguments.output, replace=arguments.force) if arguments.output else None
    file = Path(arguments.target)
    document = (
        _read_document(file.read_bytes(), arguments.target)
        if file.is_file()
        else _fetch_document(arguments.target, read_access(arguments))
    )
    text = json_text(overlay.build_starter(document), indent=2)
    if output is None:
        print(text)
    else:
        output.write(Output(f"{text}\n".encode(), "application/json"))
    return OK


def _fetch_document(text: str, access: NetworkAccess) -> dict[str, Any]:
    target = read_target(text)
    if not isinstance(target, UrlTarget):
        raise UsageError("overlay takes a URL, or a file that is an OpenAPI document.")
    transport = SyncNetwork(limits=DISCOVERY_LIMITS, **access)
    try:
        return drive(_find_document(complete_url(check_url(target.text))), transport, None)
    finally:
        transport.close()


def _find_document(url: str) -> Flow[dict[str, Any]]:
    finding = yield from find(url, _EVERYTHING)
    if finding.peer is None:
        raise ConnectError(f"{show_url(url)} has no OpenAPI document that could be found.", finding.probes)
    answer = yield from fetch(Request("GET", finding.peer.url, ((b"accept", b"application/json"),)))
    if isinstance(answer, Problem):
        raise ConnectError(answer.message, finding.probes)
    return _read_document(answer.body, finding.peer.url, get_header(answer.headers, b"content-type"))


def _read_document(body: bytes, where: str, media_type: str = "") -> dict[str, Any]:
    loaded = load_document(body, media_type, where)
    if isinstance(loaded, Problem):
        raise UsageError(f"{where} {loaded.message.rstrip('.')}.")
    if not isinstance(loaded.data, dict):
        raise UsageError(f"{where} is no OpenAPI document, which is an object.")
    return loaded.data
