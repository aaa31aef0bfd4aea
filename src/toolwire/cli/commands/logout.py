"""``toolwire logout``: revoke the tokens of a sign-in, and delete them here."""

from __future__ import annotations

import argparse

from toolwire.auth.credential import name_as
from toolwire.cli.exits import OK
from toolwire.cli.parser import read_remote
from toolwire.cli.terminal.screen import escaped, print_warning
from toolwire.client.login import sign_out
from toolwire.client.login.saved_credentials import open_credentials
from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.network import SyncNetwork
from toolwire.client.transport.server_command import ServerCommand, read_server_command
from toolwire.core.errors import ToolwireError
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import complete_url
from toolwire.hosting.targets.url_options import read_access
from toolwire.stores.consent.agreed_digests import open_agreed_commands
from toolwire.stores.paths import find_state_folder


def run(arguments: argparse.Namespace) -> int:
    """Revoke the tokens for a URL and delete them here, even where revoking fails."""
    # AC-12, XL-116
    command = read_server_command(arguments.url)
    if command is not None:
        return _forget_command(command)
    access = read_access(read_remote(arguments))
    credentials = open_credentials()
    found = credentials.find_covering(complete_url(arguments.url), arguments.account)
    if found is None:
        # A mistyped site must not look as if its tokens were revoked.
        raise ToolwireError(
            f"You are not signed in to {show_url(arguments.url)}{name_as(escaped(arguments.account))}. "
            "`toolwire connections` lists your sign-ins."
        )
    transport = SyncNetwork(limits=TransportLimits(total_s=arguments.timeout), **access)
    try:
        taken_back = found.kind == "key" or sign_out(found, transport)
    finally:
        transport.close()
        credentials.delete(found.storage_name)
    if not taken_back:
        print_warning(f"{found.resource} did not revoke its tokens. They were deleted here, and expire by themselves.")
    print(f"Signed out of {escaped(found.resource)}{name_as(escaped(found.account))}.")
    return OK


def _forget_command(command: ServerCommand) -> int:
    # MC-02
    agreed = open_agreed_commands(find_state_folder())
    # The program may have moved or changed since: then only the text is the same.
    same = [digest for digest, text in agreed.list_all().items() if text == command.summary]
    removed = [agreed.remove(digest) for digest in {command.digest, *same}]
    if not any(removed):
        raise ToolwireError(
            f"You have not allowed {command.name} to run in {command.folder}. `toolwire connections` "
            "lists the allowed commands, each with its folder as PWD."
        )
    print(f"You will be asked before {escaped(command.name)} runs again in {escaped(command.folder)}.")
    return OK
