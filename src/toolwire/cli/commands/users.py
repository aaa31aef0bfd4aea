"""``toolwire users``: say who may sign in at a gateway, and end what they began."""
# GW-02

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import closing
from getpass import getpass
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolwire.cli.exits import DENIED, FAILED, OK
from toolwire.cli.terminal.prompt import ask_trust, is_terminal
from toolwire.cli.terminal.screen import escaped, json_text, print_error
from toolwire.cli.terminal.table import print_list
from toolwire.core.errors import UsageError
from toolwire.hosting.gateway_callers import forget_caller
from toolwire.hosting.gateway_file import NO_FILE, parse_gateway_file
from toolwire.hosting.gateway_sign_in import find_people_place, make_user_id, open_people
from toolwire.hosting.gateway_trust import trust_gateway
from toolwire.hosting.toml_file import read_bytes
from toolwire.limits import USER_PREFIX, RulesByCaller
from toolwire.stores.ledger.call_overview import CallOverview
from toolwire.stores.paths import find_state_places

if TYPE_CHECKING:
    from toolwire.stores.oauth.accounts import Accounts, StoredAccount  # an extra brings its database

# What a person types, an audit log names and a file has as the name of a table.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,39}")


def run(arguments: argparse.Namespace) -> int:
    """Do what the action says, in the state that the file of the gateway names."""
    if arguments.action == "list" and arguments.name:
        raise UsageError("list prints all users. Leave out the name.")
    if arguments.action != "list" and not arguments.name:
        raise UsageError(f"`users {arguments.action}` needs a user name.")
    path = Path(arguments.file)
    data = read_bytes(path, NO_FILE)
    file = parse_gateway_file(data, path.name)
    if file.sign_in is None:
        raise UsageError(f"Users cannot sign in at this gateway: {path} contains no [sign-in] table.")
    provider = file.sign_in.provider
    is_external = provider is not None
    if provider is not None and arguments.action in ("add", "password"):
        raise UsageError(f"Users sign in at {provider.issuer}. Add users or change passwords there.")
    full, state = path.parent.resolve() / path.name, file.arguments.state
    # AT-40: a database of another host learns the passwords of the environment.
    if "://" in (state or "") and not trust_gateway(full, data, file, ask_trust if is_terminal() else None):
        return DENIED
    os.chdir(path.resolve().parent)
    with closing(open_people(find_people_place(state))) as people:
        if arguments.action == "list":
            rules = RulesByCaller({name: one.build_rules() for name, one in file.callers.items()})
            return _list(people, rules, is_external=is_external, as_json=arguments.json)
        if arguments.action == "add":
            return _add(people, arguments.name, as_json=arguments.json)
        person = people.find_by_name(arguments.name)
        if person is None or is_external is not (person in people.list_all(has_password=False)):
            raise UsageError(f"Unknown user {arguments.name!r}. `toolwire users list` lists all users.")
        return _change(
            people, person, arguments.action, file.arguments, is_external=is_external, as_json=arguments.json
        )


def _list(people: Accounts, rules: RulesByCaller, *, is_external: bool, as_json: bool) -> int:
    rows: list[dict[str, Any]] = []
    for person in people.list_all(has_password=not is_external):
        scopes = rules.find(person.id).scopes
        rows.append({"name": person.name, "caller": person.id, "scopes": None if scopes is None else sorted(scopes)})
    cells = [
        [
            escaped(one["name"]),
            escaped(one["caller"]),
            "all" if one["scopes"] is None else escaped(" ".join(one["scopes"])) or "none",
        ]
        for one in rows
    ]
    nothing = "No user has signed in yet." if is_external else "No users yet. Add one: `toolwire users add NAME`."
    print_list(rows, ("name", "caller", "scopes"), cells, nothing, as_json=as_json)
    return OK


def _add(people: Accounts, name: str, *, as_json: bool) -> int:
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            "A user name has up to 40 ASCII letters, digits and . _ @ + -, and starts with a letter or a digit."
        )
    if people.find_by_name(name) is not None:
        raise UsageError(f"{name} already has an account. `toolwire users password {name}` changes the password.")
    try:
        person = people.add(name, _ask_password(name), make_user_id(name))
    except ValueError as error:
        raise UsageError(str(error)) from error
    if person is None:
        print_error(f"Another process has just added {name}.")
        return FAILED
    if as_json:
        print(json_text({"name": person.name, "caller": person.id}, indent=2))
    else:
        print(f"{person.name} can now sign in. Calls, limits and the audit log use the name {person.id}.")
    return OK


def _change(
    people: Accounts,
    person: StoredAccount,
    action: str,
    server: argparse.Namespace,
    *,
    is_external: bool,
    as_json: bool,
) -> int:
    """Do ``action`` with ``person``; ``server`` has the options of the gateway."""
    report: dict[str, Any] = {"name": person.name, "caller": person.id}
    if action == "password":
        try:
            people.change_password(person, _ask_password(person.name))
        except ValueError as error:
            raise UsageError(str(error)) from error
        sentence = f"Password changed for {person.name}. All sessions and apps of {person.name} were ended."
    elif action == "sign-out":
        report["apps"] = people.end_access(person)
        sentence = f"Ended all sessions of {person.name}, and revoked {report['apps']} apps."
    else:
        report["apps"] = people.remove(person)
        # Only who was made for a gateway has credentials at its upstreams under this name.
        report["credentials"] = forget_caller(person.id, server.state) if person.id.startswith(USER_PREFIX) else 0
        report["calls"] = _cancel_calls(person.id, server)
        barred = "is deleted here, and may sign in again" if is_external else "may no longer sign in"
        sentence = (
            f"{person.name} {barred}. {report['apps']} apps and {report['calls']} long calls were ended, "
            f"and {report['credentials']} upstream credentials were deleted."
        )
    print(json_text(report, indent=2) if as_json else sentence)
    return OK


def _cancel_calls(principal: str, server: argparse.Namespace) -> int:
    """Cancel the long calls of a caller that wait or run, and return how many there are.

    Raises:
        UsageError: they cannot be changed.
    """
    # D-38: they would go on with the credentials of the gateway.
    ledger = server.ledger or find_state_places(server.state).ledger
    try:
        return CallOverview(ledger).ask_cancel_all(principal) if ledger else 0
    except OSError as error:
        raise UsageError(f"{principal} can no longer sign in, but the long calls continue: {error}.") from error


def _ask_password(name: str) -> str:
    """Return the password that the operator types twice, or the first line where there is no terminal."""
    if not sys.stdin.isatty():
        return sys.stdin.readline(2_048).rstrip("\r\n")
    password = getpass(f"Password for {name}: ")
    if not compare_digest(getpass("Again: ").encode(), password.encode()):
        raise UsageError("The passwords do not match. Try again.")
    return password
