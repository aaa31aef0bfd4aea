"""``toolwire gateway``: serve the upstreams of a file, check and list them, and add one."""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolwire.cli.commands.serve import serve_arguments
from toolwire.cli.exits import DENIED, NOT_FOUND, OK
from toolwire.cli.terminal.command_prompt import confirm_command
from toolwire.cli.terminal.screen import escaped, json_text, print_warning
from toolwire.cli.terminal.slow_work import announce_if_slow
from toolwire.cli.terminal.table import print_table
from toolwire.cli.terminal.trust_prompt import ask_trust, is_terminal
from toolwire.client.transport.server_command import read_server_command
from toolwire.core.errors import ToolwireError, UsageError
from toolwire.core.suggestion import find_nearest
from toolwire.core.toolbox import Toolbox
from toolwire.core.url_display import show_url
from toolwire.framing import jsontext
from toolwire.hosting.build_settings import build_gateway_settings, read_tls
from toolwire.hosting.deployment_faults import list_deployment_faults
from toolwire.hosting.gateway_file import (
    AGREED_COMMAND,
    NO_FILE,
    OWN_OPTIONS,
    UPSTREAM_NAME,
    GatewayFile,
    parse_gateway_file,
    read_gateway_file,
)
from toolwire.hosting.gateway_sign_in import list_issuer_faults
from toolwire.hosting.gateway_trust import keep_trust, trust_gateway
from toolwire.hosting.open_upstreams import add_callers, count_asking_tools, open_upstream, refuse_nameless_callers
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import UpstreamSettings
from toolwire.hosting.settings import find_user_file
from toolwire.hosting.targets.target import UrlTarget, move_target, read_target
from toolwire.hosting.toml_file import SECRET_FIELD, read_bytes
from toolwire.server.asking.host_consent import count_own_asking_tools

_HEAD = """\
# The file of a gateway: `toolwire gateway run` serves its upstreams. Options stand here as in `toolwire serve`.
"""


def run(arguments: argparse.Namespace) -> int:
    """Do what the action says, in the folder of the file, so that its relative paths mean what they say."""
    path = Path(arguments.file)
    if arguments.action == "add":
        return _add(path, arguments)
    if arguments.target and arguments.action not in ("check", "agree"):
        raise UsageError(f"gateway {arguments.action} takes no URL: the file lists them; --file names the file.")
    data = read_bytes(path, NO_FILE)
    file = parse_gateway_file(data, path.name)
    folder, name = path.resolve().parent, Path(path.name)
    # AT-40: `run` is the order to run what is in the file, also of a program that nobody can ask; `check` is none.
    must_ask = arguments.action in ("check", "agree") or (arguments.action == "run" and is_terminal())
    full = path.parent.resolve() / name
    if must_ask and not trust_gateway(
        full, data, file, is_own=full == find_user_file(), ask=ask_trust if is_terminal() else None
    ):
        return DENIED
    os.chdir(folder)
    match arguments.action:
        case "run":
            return serve_arguments(file.arguments, renew=lambda: build_gateway_settings(read_gateway_file(name)))
        case "agree":
            return _agree(name, data, _find_upstream(file, arguments.target))
        case "check":
            return _check(file, arguments.target, as_json=arguments.json)
        case _:
            return _list(file, as_json=arguments.json)


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
        *list_deployment_faults(file.arguments, settings),
        *list_issuer_faults(settings.sign_in, settings.server.state),
    ):
        print_warning(fault)
    return OK if len(opened) == len(rows) else NOT_FOUND


def _find_upstream(file: GatewayFile, name: str) -> UpstreamSettings:
    names = [one.name for one in file.upstreams]
    if name not in names:
        near = find_nearest(name, names)
        hint = f" Did you mean {near}?" if near else " `toolwire gateway list` prints them."
        raise UsageError(f"There is no upstream {name[:40]!r} in the file.{hint}")
    return file.upstreams[names.index(name)]


def _agree(path: Path, data: bytes, upstream: UpstreamSettings) -> int:
    """Write into the file that the program of ``upstream`` may run, so that no terminal is needed where it does."""
    # PL-06
    command = read_server_command(upstream.target)
    if command is None:
        raise UsageError(f"{upstream.name} runs no program: its target is {_show_target(upstream)}.")
    # Without a terminal, the file is trusted (TOOLWIRE_SETTINGS=trust), and to name the upstream is the yes.
    if is_terminal() and not confirm_command(command):
        return DENIED
    text = _set_member(data.decode(), upstream.name, f'{AGREED_COMMAND} = "{command.digest}"')
    expected = replace(upstream, agreed_command=command.digest)
    try:
        is_written = expected in parse_gateway_file(text.encode(), path.name).upstreams
    except UsageError:
        is_written = False
    if not is_written:
        text = f'write {AGREED_COMMAND} = "{command.digest}" there yourself'
        raise UsageError(f"The table of {upstream.name} was not found in {path}: {text}.")
    _replace_file(path, text)
    keep_trust(path.resolve(), data, text.encode())
    print(f"{escaped(str(path))}: {upstream.name} may run {escaped(command.name)}, in {escaped(command.folder)}.")
    return OK


def _set_member(text: str, upstream: str, line: str) -> str:
    """Return the text of a file with ``line`` in the table of ``upstream``, in place of the member of that name."""
    header = re.compile(rf"\s*\[\s*upstreams\s*\.\s*([\"']?){re.escape(upstream)}\1\s*\]\s*(#.*)?")
    lines: list[str] = []
    is_inside = False
    for one in text.splitlines():
        if one.lstrip().startswith("["):
            is_inside = False
        if is_inside and re.match(rf"\s*{AGREED_COMMAND}\s*=", one):
            continue
        lines.append(one)
        if header.fullmatch(one):
            lines.append(line)
            is_inside = True
    return "\n".join(lines) + "\n"


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
        print(f"People sign in at {file.sign_in.issuer}{where}. `toolwire users list` prints them.")
    return OK


def _add(path: Path, arguments: argparse.Namespace) -> int:
    """Write a table for the upstream to the end of the file; all that is there stays as it is."""
    if not arguments.target:
        raise UsageError("gateway add needs the URL of the upstream.")
    if arguments.key:
        raise UsageError(
            "A key does not belong into a file: name the environment variable that has it, --key-env NAME."
        )
    _refuse_secrets(arguments)
    name = arguments.name or _make_name(arguments.target)
    if UPSTREAM_NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} is no name of an upstream: a letter, then up to 31 letters, digits, - and _.")
    _refuse_second(path, name)
    move = partial(_move, folder=path.parent)
    lines = [f"[upstreams.{name}]", f"target = {_write_text(move_target(arguments.target, move))}"]
    for option in OWN_OPTIONS.values():
        value = getattr(arguments, option.field)
        if value != option.default:
            lines.append(f"{option.name} = {_write_value(move(value) if option.is_path else value)}")
    old = ""
    try:
        before = old = path.read_bytes().decode()
    except FileNotFoundError:
        before = _HEAD
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}.") from error
    text = f"{before.rstrip()}\n\n" + "\n".join(lines) + "\n"
    parse_gateway_file(text.encode(), path.name)  # nothing is written that could not be read
    _replace_file(path, text)
    keep_trust(path.parent.resolve() / path.name, old.encode(), text.encode())
    print(f"{escaped(str(path))}: added {name}. `toolwire gateway check` connects to it.")
    return OK


def _replace_file(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        if path.exists():
            part.chmod(path.stat().st_mode & 0o777)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error


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
        raise UsageError(f"{path} has an upstream {taken.name} already: choose another name with --name.")


def _refuse_secrets(arguments: argparse.Namespace) -> None:
    # D-26: the file is read by other programs, and often shared.
    shown = show_url(arguments.target)
    if shown != arguments.target:
        raise UsageError(f"{shown} may hold a secret, which is not written into a file: use --key-env NAME.")
    for field in arguments.header:
        name = field.partition(":")[0]
        if SECRET_FIELD.search(name):
            raise UsageError(
                f"The header field {name[:40]} may hold a secret: name the variable with it, --header-env."
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


def _write_text(text: str) -> str:
    return jsontext.write(text).decode()  # a string of JSON is one of TOML


def _write_value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case [*several]:
            return f"[{', '.join(map(_write_text, several))}]"
        case int():
            return str(value)
        case _:
            return _write_text(value)
