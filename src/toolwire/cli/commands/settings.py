"""``toolwire settings``: print the settings and where each one stands, check the files, or trust those of a project."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

from toolwire import __version__
from toolwire.cli.exits import DENIED, FAILED, OK
from toolwire.cli.parser import list_settable_options
from toolwire.cli.terminal.prompt import ask_trust, is_terminal
from toolwire.cli.terminal.screen import escaped, json_text, print_warning
from toolwire.cli.terminal.table import print_list
from toolwire.core.errors import UsageError
from toolwire.hosting.gateway_file import parse_gateway_file
from toolwire.hosting.gateway_trust import describe_gateway
from toolwire.hosting.project_trust import digest_file
from toolwire.hosting.settings import Settings, find_project_file, find_user_file, read_settings, resolve
from toolwire.hosting.settings_file import Layer, Setting, SettingsFile, read_settings_file
from toolwire.hosting.toml_file import SETTINGS_FILE, SETTINGS_TABLES, TomlFile, read_bytes
from toolwire.stores.consent.agreed_digests import open_trusted_settings
from toolwire.stores.paths import find_state_folder


class _Checked(TypedDict):
    path: str
    layer: Layer
    faults: list[str]


def run(arguments: argparse.Namespace) -> int:
    """Print, check, trust or forget, as the action says."""
    if arguments.action != "show" and arguments.of:
        raise UsageError(f"`settings {arguments.action}` does not accept a command.")
    match arguments.action:
        case "check":
            return _check(as_json=arguments.json)
        case "trust":
            return _trust()
        case "forget":
            return _forget()
        case _ if arguments.of:
            return _show_command(arguments.of, arguments.target, as_json=arguments.json)
        case _:
            return _show_all(as_json=arguments.json)


def _show_all(*, as_json: bool) -> int:
    """Print each setting, whether it is used, and where it stands."""
    settings = _read_valid_settings()
    waiting = _list_waiting(settings)
    rows = [_describe(one, state="needs trust" if one in waiting else "used") for one in settings.list_all()]
    columns = ("option", "value", "for", "state", "source")
    cells = [
        [one["option"], _write_value(one["value"]), escaped(_name_scope(one)), one["state"], escaped(one["source"])]
        for one in rows
    ]
    place = f"$XDG_CONFIG_HOME/toolwire/{SETTINGS_FILE} (~/.config without it)"
    print_list(
        rows, columns, cells, f"No settings found. Write {SETTINGS_FILE} in this folder, or {place}.", as_json=as_json
    )
    return OK


def _show_command(command: str, target: str, *, as_json: bool) -> int:
    """Print each option of one command that can be set, its value, and where that stands."""
    options = list_settable_options(__version__)[command]
    # Without a target, what holds for any URL is shown.
    found = resolve(_read_valid_settings(), command, [target or "https://any.invalid"], options)
    rows: list[dict[str, Any]] = [
        _describe(found.used[name], state="used")
        if name in found.used
        else {"option": name, "value": option.default, "command": "", "target": "", "source": "default"}
        for name, option in options.items()
    ]
    cells = [[one["option"], _write_value(one["value"]), escaped(one["source"])] for one in rows]
    print_list(rows, ("option", "value", "source"), cells, "", as_json=as_json)
    return OK


def _check(*, as_json: bool) -> int:
    """Print every fault of the files, those of a gateway's tables included."""
    own, project = find_user_file(), find_project_file()
    found: list[tuple[Path | None, Layer]] = [(None if project == own else project, "project"), (own, "user")]
    rows: list[_Checked] = [
        {"path": str(path), "layer": layer, "faults": list(_list_faults(path, layer))}
        for path, layer in found
        if path is not None
    ]
    if as_json:
        print(json_text(rows, indent=2))
    for row in () if as_json else rows:
        print("\n".join(map(escaped, row["faults"])) or f"{escaped(str(row['path']))}: no faults")
    if not rows and not as_json:
        print(f"No settings to check: neither a {SETTINGS_FILE} here nor your own settings file exists.")
    return FAILED if any(row["faults"] for row in rows) else OK


def _list_faults(path: Path, layer: Layer) -> Iterator[str]:
    try:
        yield from read_settings_file(path, layer, list_settable_options(__version__)).faults
        data = read_bytes(path, "")
        if set(TomlFile(data, str(path)).content) - SETTINGS_TABLES:
            parse_gateway_file(data, str(path))
    except UsageError as error:
        yield str(error)


def _trust() -> int:
    """Ask the user once whether all settings of this project's file may be used, until it changes."""
    settings = _read_valid_settings()
    file = _find_project(settings)
    waiting, gateway = _list_waiting(settings), [] if settings.is_trusted else _describe_gateway_of(file)
    if not waiting and not gateway:
        print(f"{escaped(str(file.path))}: all of its settings are already in use.")
        return OK
    if not is_terminal():
        raise UsageError("Only you can trust these settings, and there is no terminal on which to ask you.")
    lines = [f"{one.option} = {_write_value(one.value)}  (for {_name_scope(_describe(one))})" for one in waiting]
    warning = (
        "Such settings can run code, send secrets to a server, reach other hosts and files, or reduce the "
        "questions you are asked."
    )
    if not ask_trust(file.path, lines + gateway, warning):
        return DENIED
    open_trusted_settings(find_state_folder()).add(file.digest, str(file.path))
    return OK


def _describe_gateway_of(file: SettingsFile) -> list[str]:
    """Return what the tables of a gateway in this file run, open or send to."""
    # AT-40
    data = read_bytes(file.path, "")
    if digest_file(file.path, data) != file.digest:
        raise UsageError(f"{file.path} has just changed. Run the command again.")
    if set(TomlFile(data, str(file.path)).content) <= SETTINGS_TABLES:
        return []
    return list(describe_gateway(parse_gateway_file(data, str(file.path))))


def _forget() -> int:
    """Take the user's trust back: the file of this project counts as one from anybody again."""
    settings = read_settings(list_settable_options(__version__))
    file = _find_project(settings)
    trusted = open_trusted_settings(find_state_folder())
    # Earlier versions of the same file are forgotten too.
    digests = {digest for digest, text in trusted.list_all().items() if text == str(file.path)}
    for digest in digests:
        trusted.remove(digest)
    print(f"{escaped(str(file.path))}: {'no longer trusted' if digests else 'it was not trusted'}.")
    return OK


def _read_valid_settings() -> Settings:
    settings = read_settings(list_settable_options(__version__))
    for sentence in settings.ignored:
        print_warning(sentence)
    if fault := next((fault for file in settings.files for fault in file.faults), None):
        raise UsageError(fault)
    return settings


def _find_project(settings: Settings) -> SettingsFile:
    if settings.project is None:
        raise UsageError(f"No {SETTINGS_FILE} in this folder or its parents, up to the repository root.")
    return settings.project


def _list_waiting(settings: Settings) -> tuple[Setting, ...]:
    """Return what the project sets and is not used without the user's trust."""
    if settings.project is None or settings.is_trusted:
        return ()
    own = {one.option for file in settings.files if file.layer == "user" for one in file.settings}
    return tuple(one for one in settings.project.settings if one.needs_trust or one.option in own)


def _describe(one: Setting, *, state: str = "used") -> dict[str, Any]:
    return {
        "option": one.option,
        "value": one.value,
        "command": one.command,
        "target": one.target,
        "source": one.source,
        "state": state,
    }


def _name_scope(row: dict[str, Any]) -> str:
    return row["target"] or (f"toolwire {row['command']}" if row["command"] else "every command")


def _write_value(value: Any) -> str:
    match value:
        case None | "" | []:
            return "-"
        case [*several]:
            return escaped(", ".join(map(str, several)))
        case bool():
            return "true" if value else "false"
        case _:
            return escaped(str(value))
