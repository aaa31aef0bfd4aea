"""``toolwire connections``: list the sites that the user is signed in to."""

from __future__ import annotations

import argparse

from toolwire.auth.credential import name_as
from toolwire.cli.exits import OK
from toolwire.cli.terminal.screen import escaped, json_text
from toolwire.client.login.saved_credentials import open_credentials
from toolwire.stores.consent.agreed_digests import open_agreed_commands
from toolwire.stores.paths import find_state_folder


def run(arguments: argparse.Namespace) -> int:
    """List the sites and what each sign-in allows. Tokens are never printed."""
    known = sorted(open_credentials().list_all(), key=lambda each: (each.resource, each.account))
    commands = sorted(open_agreed_commands(find_state_folder()).list_all().values())
    if arguments.json:
        rows = [
            {name: getattr(each, name) for name in ("resource", "account", "kind", "issuer")}
            | {"scopes": list(each.scopes)}
            for each in known
        ]
        rows += [{"resource": text, "account": "", "kind": "command", "issuer": "", "scopes": []} for text in commands]
        print(json_text(rows, indent=2))
        return OK
    for each in known:
        scopes = escaped(" ".join(each.scopes)) or ("a key" if each.kind == "key" else "no scopes")
        print(f"{escaped(each.resource)}{name_as(escaped(each.account))}  {scopes}")
    for text in commands:
        print(f"stdio:{escaped(text)}  a command that you agreed to")
    if not known and not commands:
        print("You are not signed in to any server. `toolwire login URL` signs you in.")
    return OK
