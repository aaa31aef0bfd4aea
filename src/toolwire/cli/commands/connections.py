"""``toolwire connections``: list the sites that the user is signed in to."""

from __future__ import annotations

import argparse

from toolwire.cli.exits import OK
from toolwire.cli.terminal.screen import escaped, json_text
from toolwire.client.login.saved_credentials import open_credentials


def run(arguments: argparse.Namespace) -> int:
    """List the sites and what each sign-in allows. Tokens are never printed."""
    known = sorted(open_credentials().list_all(), key=lambda each: each.resource)
    if arguments.json:
        rows = [
            {"resource": each.resource, "kind": each.kind, "issuer": each.issuer, "scopes": list(each.scopes)}
            for each in known
        ]
        print(json_text(rows, indent=2))
        return OK
    for each in known:
        scopes = escaped(" ".join(each.scopes)) or ("a key" if each.kind == "key" else "no scopes")
        print(f"{escaped(each.resource)}  {scopes}")
    if not known:
        print("You are signed in to no site: `toolwire login URL` signs you in.")
    return OK
