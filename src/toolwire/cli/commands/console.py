"""``toolwire console``: pages in the browser about questions, permissions, rules, decisions, connections and limits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from toolwire.cli.exits import OK
from toolwire.cli.terminal.screen import print_instruction
from toolwire.cli.terminal.terminal_approver import open_session
from toolwire.client.login.browser import open_page
from toolwire.console import Console, ConsoleSource, OneTimeKey
from toolwire.console.app import PageGroup
from toolwire.hosting.user_console import build_browser_chat, build_source
from toolwire.server.http.process import ListenSettings, serve
from toolwire.stores.paths import find_decisions_place, find_state_places


def run(arguments: argparse.Namespace) -> int:
    """Serve the console on loopback until it is stopped."""
    places = find_state_places(arguments.state)
    place = arguments.path or (arguments.state and places.inbox) or find_decisions_place()
    source = build_source(place, lock=Path(arguments.lock), targets=arguments.targets, ledger=places.ledger)
    chat = build_browser_chat(source, open_session())
    serve_console(source, port=arguments.port, opens=not arguments.no_open, groups=[chat.group])
    return OK


def serve_console(
    source: ConsoleSource, *, port: int, opens: bool, groups: Sequence[PageGroup] = (), path: str = "/"
) -> None:
    """Serve the console of this user on loopback, and open its page ``path``; the link has the key that lets one in."""
    address: list[str] = []

    def show(key: str, words: str = "For another browser") -> None:
        print_instruction(f"{words}: {address[0]}{path}#key={key}")

    key = OneTimeKey("you", show)
    app = Console(source, key, own_user_only=True, groups=groups, find_known=key)

    def announce(url: str) -> None:
        address.append(url)
        link = f"{url}{path}#key={key.key}"
        if not (opens and open_page(link)):
            print_instruction(f"Open this page in a browser on this machine: {link}")
        else:
            print_instruction(f"The console is at {link}")
        print("Ctrl-C stops it.", file=sys.stderr, flush=True)

    serve(app, ListenSettings(port=port, announce=announce))
