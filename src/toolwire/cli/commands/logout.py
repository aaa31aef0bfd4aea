"""``toolwire logout``: revoke the tokens of a sign-in, and delete them here."""

from __future__ import annotations

import argparse

from toolwire.cli.exits import NOT_FOUND, OK
from toolwire.cli.targets.open_target import read_access
from toolwire.cli.terminal.screen import escaped, print_error, print_warning
from toolwire.client.discovery.discover import complete_url
from toolwire.client.login import sign_out
from toolwire.client.login.saved_credentials import open_credentials
from toolwire.client.transport.network import SyncNetwork
from toolwire.client.transport.server_command import ServerCommand, read_server_command
from toolwire.core.url_display import show_url
from toolwire.stores.consent.agreed_digests import open_agreed_commands
from toolwire.stores.paths import find_state_folder


def run(arguments: argparse.Namespace) -> int:
    """Revoke the tokens for a URL and delete them here, even where revoking fails."""
    # AC-12, XL-116
    command = read_server_command(arguments.url)
    if command is not None:
        return _forget_command(command)
    access = read_access(arguments)
    credentials = open_credentials()
    found = credentials.find_covering(complete_url(arguments.url))
    if found is None:
        print_error(f"There is no sign-in for {show_url(arguments.url)}.")
        return NOT_FOUND
    transport = SyncNetwork(**access)
    try:
        taken_back = found.kind == "key" or sign_out(found, transport)
    finally:
        transport.close()
        credentials.delete(found.storage_name)
    if not taken_back:
        print_warning(f"{found.resource} did not take its tokens back; they are deleted here and end by themselves.")
    print(f"Signed out of {escaped(found.resource)}.")
    return OK


def _forget_command(command: ServerCommand) -> int:
    # MC-02
    if not open_agreed_commands(find_state_folder()).remove(command.digest):
        print_error(f"You did not agree to {command}.")
        return NOT_FOUND
    print(f"Before {escaped(str(command))} runs again, you are asked.")
    return OK
