"""``toolwire gateway``: serve the upstreams of a file, check and list them, and add or remove one."""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import chdir
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolwire.cli.commands.serve import serve_arguments
from toolwire.cli.exits import DENIED, NOT_FOUND, OK
from toolwire.cli.terminal.prompt import ask_trust, confirm_command, is_terminal
from toolwire.cli.terminal.screen import escaped, json_text, print_warning, write_count
from toolwire.cli.terminal.slow_work import announce_if_slow
from toolwire.cli.terminal.table import print_table
from toolwire.cli.terminal.terminal_user import CHANNEL, find_user_name
from toolwire.client.transport.server_command import read_server_command
from toolwire.core.codec import ConnectError
from toolwire.core.errors import ToolwireError, UsageError
from toolwire.core.model import Kind
from toolwire.core.toolbox import Toolbox
from toolwire.core.url_display import show_url
from toolwire.hosting.build_settings import build_gateway_settings, read_tls
from toolwire.hosting.deployment_faults import list_deployment_faults
from toolwire.hosting.gateway_changes import (
    ChangedBy,
    add_upstream,
    check_upstream,
    explain_unknown_upstream,
    remove_upstream,
    replace_table_member,
    write_member,
    write_table,
)
from toolwire.hosting.gateway_file import (
    AGREED_COMMAND,
    NO_FILE,
    OWN_OPTIONS,
    GatewayFile,
    parse_gateway_file,
    read_gateway_file,
)
from toolwire.hosting.gateway_sign_in import list_issuer_faults
from toolwire.hosting.gateway_trust import trust_gateway
from toolwire.hosting.open_upstreams import add_callers, count_asking_tools, open_upstream, refuse_nameless_callers
from toolwire.hosting.operators import list_idle_rules
from toolwire.hosting.running_gateway import Reloads, RunningGateway
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings, UpstreamSettings
from toolwire.hosting.targets.target import UrlTarget, move_target, read_target
from toolwire.hosting.toml_file import SECRET_FIELD, read_bytes
from toolwire.server.asking.host_consent import count_own_asking_tools
from toolwire.server.limit_options import read_deadlines

_UNTIL_RESTART = ("host", "port", "workers", "tls_cert", "tls_key", "root_path", "trusted_proxies", "access_log")


def run(arguments: argparse.Namespace) -> int:
    """Do what the action says, in the folder of the file, so that its relative paths mean what they say."""
    path = Path(arguments.file)
    if arguments.action in ("add", "remove"):
        return _add(path, arguments) if arguments.action == "add" else _remove(path, arguments.target)
    if arguments.target and arguments.action not in ("check", "agree"):
        raise UsageError(
            f"`gateway {arguments.action}` does not accept a URL, because the file lists the upstreams. Name "
            "the file with --file."
        )
    data = read_bytes(path, NO_FILE)
    file = parse_gateway_file(data, path.name)
    folder, name = path.resolve().parent, Path(path.name)
    # AT-40: `run` is the order to run what is in the file, also of a program that nobody can ask; `check` is none.
    must_ask = arguments.action in ("check", "agree") or (arguments.action == "run" and is_terminal())
    full = path.parent.resolve() / name
    if must_ask and not trust_gateway(full, data, file, ask_trust if is_terminal() else None):
        return DENIED
    os.chdir(folder)
    match arguments.action:
        case "run":
            running = RunningGateway(full)
            return serve_arguments(
                file.arguments,
                renew=lambda: _read_again(parse_gateway_file(running.read(), path.name), file),
                running=running,
            )
        case "agree":
            return _agree(name, _find_upstream(file, arguments.target))
        case "check":
            return _check(file, arguments.target, as_json=arguments.json)
        case _:
            return _list(file, as_json=arguments.json)


def _read_again(file: GatewayFile, before: GatewayFile) -> ServeSettings:
    """Return the settings of ``file``, and say which keys the gateway, begun with ``before``, does not take anew."""
    settings = build_gateway_settings(file)
    now, then = vars(file.arguments), vars(before.arguments)
    changed = [name.replace("_", "-") for name in _UNTIL_RESTART if now[name] != then[name]]
    if read_deadlines(now["limits"]) != read_deadlines(then["limits"]):
        changed.append("limit")
    if changed:
        print_warning(f"Restart the gateway to apply changes of {', '.join(changed)}: a reload does not.")
    return settings


def _check(file: GatewayFile, only: str, *, as_json: bool) -> int:
    """Connect to each upstream, or to the one called ``only``, and print what it offers; none hides another's fault."""
    if only:
        _find_upstream(file, only)
    settings = build_gateway_settings(file)
    refuse_nameless_callers(settings)
    opened: dict[int, Toolbox] = {}
    rows: list[dict[str, Any]] = []
    for number, upstream in enumerate(file.upstreams):
        if only not in ("", upstream.name):
            continue
        row: dict[str, Any] = {"name": upstream.name, "target": _show_target(upstream), "ok": True, "fault": ""}
        try:
            with announce_if_slow(f"Connecting to {upstream.name}"):
                box = open_upstream(upstream, settings, confirm_command)
            opened[number] = box
            asking = count_asking_tools([box]) + count_own_asking_tools([box])
            row |= {"tools": len(box.catalog().tools), "asking": asking}
        except ToolwireError as error:
            row |= {"ok": False, "tools": 0, "asking": 0, "fault": str(error)}
        rows.append(row)
    # What keeps `gateway run` from beginning is said here, also while an upstream cannot be reached.
    some = replace(settings, upstreams=[file.upstreams[number] for number in opened])
    read_tls(file.arguments)
    build_app(some, add_callers(some, list(opened.values())))
    if as_json:
        print(json_text(rows, indent=2))
    else:
        cells = [
            [one["name"], escaped(one["target"]), str(one["tools"]), str(one["asking"]), escaped(one["fault"]) or "ok"]
            for one in rows
        ]
        print_table(("upstream", "target", "tools", "need consent", "state"), cells, sys.stdout)
    for fault in (
        *list_idle_rules(some.upstreams, opened.values()),
        *list_deployment_faults(file.arguments, settings),
        *list_issuer_faults(settings.sign_in, settings.server.state),
    ):
        print_warning(fault)
    return OK if len(opened) == len(rows) else NOT_FOUND


def _find_upstream(file: GatewayFile, name: str) -> UpstreamSettings:
    names = [one.name for one in file.upstreams]
    if name not in names:
        raise UsageError(explain_unknown_upstream(name, names))
    return file.upstreams[names.index(name)]


def _agree(path: Path, upstream: UpstreamSettings) -> int:
    """Write into the file that the program of ``upstream`` may run, so that no terminal is needed where it does."""
    # PL-06
    command = read_server_command(upstream.target)
    if command is None:
        raise UsageError(f"{upstream.name} is not a program: its target is {_show_target(upstream)}.")
    # Without a terminal, the file is trusted (TOOLWIRE_SETTINGS=trust), and to name the upstream is the yes.
    if is_terminal() and not confirm_command(command):
        return DENIED
    replace_table_member(path, upstream.name, AGREED_COMMAND, command.digest)
    print(f"{escaped(str(path))}: {upstream.name} may run {escaped(command.name)}, in {escaped(command.folder)}.")
    return OK


def _list(file: GatewayFile, *, as_json: bool) -> int:
    rows = [
        {
            "name": upstream.name,
            "target": _show_target(upstream),
            "scopes": None if upstream.scopes is None else list(upstream.scopes),
            "credentials": upstream.account,
            "sign_in": None if file.sign_in is None else file.sign_in.issuer,
        }
        for upstream in file.upstreams
    ]
    if as_json:
        print(json_text(rows, indent=2))
        return OK
    cells = [
        [one.name, escaped(_show_target(one)), escaped(" ".join(one.scopes or ())) or "every caller"]
        for one in file.upstreams
    ]
    print_table(("upstream", "target", "for callers with"), cells, sys.stdout)
    if file.sign_in is not None:
        provider = file.sign_in.provider
        where = f", with their accounts at {escaped(provider.issuer)}" if provider is not None else ""
        print(f"Users sign in at {file.sign_in.issuer}{where}. `toolwire users list` lists them.")
    return OK


def _add(path: Path, arguments: argparse.Namespace) -> int:
    """Write a table for the upstream to the end of the file; all that is there stays as it is."""
    if not arguments.target:
        raise UsageError("`gateway add` needs the upstream's URL.")
    if arguments.key:
        raise UsageError(
            "API keys are not stored in the file. Name the environment variable with the key: --key-env NAME."
        )
    _refuse_secrets(arguments)
    name = arguments.name or _make_name(arguments.target)
    move = partial(_move, folder=path.parent)
    lines = [write_member("target", move_target(arguments.target, move))]
    for option in OWN_OPTIONS.values():
        value = getattr(arguments, option.field)
        if value != option.default:
            lines.append(write_member(option.name, move(value) if option.is_path else value))
    write_table(name, lines)
    _refuse_second(path, name)
    found = ""
    if not arguments.no_check:
        with chdir(path.parent), announce_if_slow(f"Connecting to {name}"):
            try:
                count = check_upstream(name, lines, confirm_command)
            except ConnectError as error:
                if error.kind is Kind.DENIED:
                    raise
                text = f"{error} The upstream was not added. Use --no-check to add it without checking."
                raise ConnectError(text, error.probes, error.kind) from error
        found = f" with {write_count(count, 'tool')}"
    reloads = add_upstream(path, name, lines, ChangedBy(name=find_user_name(), channel=CHANNEL))
    print(f"{escaped(str(path))}: added {name}{found}. {_describe_reloads(reloads)}")
    return OK


def _remove(path: Path, name: str) -> int:
    """Remove the table of the upstream called ``name``; all else in the file stays as it is."""
    if not name:
        raise UsageError("`gateway remove` needs the upstream's name. `toolwire gateway list` prints the names.")
    reloads = remove_upstream(path, name, ChangedBy(name=find_user_name(), channel=CHANNEL))
    print(f"{escaped(str(path))}: removed {escaped(name)}. {_describe_reloads(reloads)}")
    return OK


def _describe_reloads(reloads: Reloads) -> str:
    if reloads.silent:
        return (
            "The running gateway was notified, and has not answered yet. Its log shows whether it accepts the change."
        )
    if reloads.taken:
        return "The running gateway is loading the change."
    return "No gateway runs as this user. Start one with `toolwire gateway run`, or send SIGHUP to another user's."


def _move(path: str, *, folder: Path) -> str:
    """Return ``path``, which means a file of the working folder, as a gateway's file in ``folder`` names it."""
    if os.path.isabs(path) or folder.resolve() == Path.cwd():
        return path
    return os.path.relpath(path, folder)


def _refuse_second(path: Path, name: str) -> None:
    if not path.exists():
        return
    file = read_gateway_file(path)
    if taken := next((one for one in file.upstreams if one.name.casefold() == name.casefold()), None):
        raise UsageError(f"{path} already contains an upstream {taken.name}. Choose another name with --name.")


def _refuse_secrets(arguments: argparse.Namespace) -> None:
    # D-26: the file is read by other programs, and often shared.
    shown = show_url(arguments.target)
    if shown != arguments.target:
        raise UsageError(
            f"{shown} might contain a secret, and secrets are not written to the file. Use --key-env NAME."
        )
    for field in arguments.header:
        name = field.partition(":")[0]
        if SECRET_FIELD.search(name):
            raise UsageError(
                f"The header {name[:40]} might contain a secret. Name an environment variable with --header-env."
            )


def _show_target(upstream: UpstreamSettings) -> str:
    return show_url(upstream.target) if isinstance(read_target(upstream.target), UrlTarget) else upstream.target


def _make_name(target: str) -> str:
    """Return a name for the upstream: its host with dashes, or the first letters of the target."""
    try:
        host = urlsplit(target).hostname or target
    except ValueError:  # brackets that hold no address
        host = target
    return re.sub(r"[^A-Za-z0-9]+", "-", re.sub(r"^[^A-Za-z]+", "", host))[:32].strip("-") or "upstream"
