"""``toolwire publish``: write what a registry takes, to hand to its own publisher. Nothing is sent."""
# FD-09

from __future__ import annotations

import argparse
import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from toolwire.cli.exits import OK
from toolwire.cli.targets.open_target import open_target, read_reach
from toolwire.cli.terminal.screen import json_text
from toolwire.cli.terminal.terminal_approver import build_terminal_approver
from toolwire.client import SyncRemote
from toolwire.core.errors import UsageError
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.protocols.mcp.server_card import build_server_json

_NAME: Final = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?")


def run(arguments: argparse.Namespace) -> int:
    """Print the server.json of the target."""
    if not arguments.server_json:
        raise UsageError("Choose an output: --server-json writes the file for the MCP registry.")
    is_url = isinstance(read_target(arguments.target), UrlTarget)
    if not (is_url or arguments.url):
        raise UsageError(
            "Give the URL at which MCP clients will reach these tools: --url https://tools.example.com/mcp."
        )
    if arguments.name and not _NAME.fullmatch(arguments.name):
        raise UsageError(f"{arguments.name!r} is not a valid registry name. Write it like io.github.yourname/shop.")
    reach = read_reach(
        arguments,
        protocol="mcp" if is_url else arguments.protocol,
        include_site_description=True,  # no model reads it here
    )
    with open_target(arguments.target, reach, build_terminal_approver("ask")) as source:
        url = arguments.url or (source.url if isinstance(source, SyncRemote) else "")
        if not _is_listed(url):
            text = "The registry lists addresses that everyone reaches, by https and without a key in them"
            raise UsageError(f"{text}. Set a public URL: --url https://tools.example.com/mcp.")
        written = build_server_json(source.catalog(), url, name=arguments.name, needs_key=reach.key is not None)
        print(json_text(written, indent=2))
    return OK


def _is_listed(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme != "https" or parts.username or parts.query or not url.isprintable() or " " in url:
        return False
    try:
        return ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith((".local", ".internal", ".localhost"))
