"""``toolwire install``: let a host of MCP, such as Claude Desktop, start ``toolwire serve TARGET --stdio``."""
# MC-04

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from toolwire import __version__
from toolwire.cli.exits import DENIED, OK
from toolwire.cli.parser import list_commands, read_remote
from toolwire.cli.targets.open_target import open_target
from toolwire.cli.terminal.prompt import confirm_command
from toolwire.cli.terminal.screen import escaped, print_error, print_instruction, print_warning, write_count
from toolwire.cli.terminal.terminal_approver import build_terminal_approver
from toolwire.client.connection.connection import find_unused_document
from toolwire.client.discovery.local_files import file_url
from toolwire.client.transport.server_command import PREFIX, list_references, read_server_command
from toolwire.core.codec import ConnectError
from toolwire.core.errors import ToolwireError, UsageError
from toolwire.core.model import Json
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import complete_url, get_host
from toolwire.hosting.mcp_hosts.host_files import HOSTS, Host, HostFile, build_entry, read_host_file
from toolwire.hosting.open_upstreams import open_toolbox
from toolwire.hosting.secret_detection import choose_program_name, find_secret_word
from toolwire.hosting.targets.target import FileTarget, ModuleTarget, UrlTarget, read_target
from toolwire.hosting.targets.url_options import read_url_options
from toolwire.hosting.toml_file import SECRET_FIELD
from toolwire.protocols.mcp.host_profiles import HOST_PROFILES, HostProfile
from toolwire.stores.consent.agreed_digests import open_agreed_commands
from toolwire.stores.paths import STATE_VARIABLE, WAKE_VARIABLE, find_state_folder

_PATHS: Final = ("document", "overlay", "ca_file")
_MEMORY: Final = "memory"
_PLACES: Final = {"state": STATE_VARIABLE, "wake": WAKE_VARIABLE}
"""The options that may be URLs with a password, and the variables that can have them instead."""
_NOT_PASSED: Final = frozenset(("targets", "help", "debug", "stdio", "host", "key", *_PATHS))
_MAX_NAMED: Final = 5
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def run(arguments: argparse.Namespace) -> int:
    """Add, replace or remove one entry of the file of the host."""
    host = HOSTS[arguments.host]
    file = read_host_file(host, _find_file(arguments, host))
    is_named = arguments.remove and len(arguments.targets) == 1 and arguments.targets[0] in file.servers()
    name = arguments.name or (arguments.targets[0] if is_named else _choose_name(arguments.targets, arguments.account))
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} is not a valid server name: use 1 to 64 letters, digits, '.', '_' and '-'.")
    if arguments.remove:
        return _remove(file, name)
    variables = _list_variables(arguments)
    entry = build_entry(host, _build_command(arguments), variables)
    tool_names = _list_offered(arguments)
    if arguments.print:
        print(f"{escaped(str(file.path))}:")
        print(host.write_example(name, entry))
        return OK
    if not all(map(_agree_to_command, arguments.targets)):
        print_error("Nothing was written.")
        return DENIED
    tool_names += _list_offered_elsewhere(arguments)
    code = _add(file, name, entry, variables, tool_names, replace=arguments.replace)
    print(_describe_asking(HOST_PROFILES[arguments.host], _choose_consent(arguments)))
    return code


_OTHERWISE: Final = {
    "inbox": "you decide with `toolwire approvals`",
    "refuse": "the call is refused",
    "hints": "it asks you by its own rules",
}


def _describe_asking(profile: HostProfile, consent: str) -> str:
    """Return how the user of a host is asked about a call that needs consent, as a sentence."""
    otherwise = _OTHERWISE[consent or "hints"]
    if profile.forms is None:
        return f"If a call needs your consent, {profile.title} shows a form. If it cannot show forms, {otherwise}."
    if profile.shows_forms:
        return f"If a call needs your consent, {profile.title} shows a form."
    return f"{profile.title} does not show forms. If a call needs your consent, {otherwise}."


def _list_variables(arguments: argparse.Namespace) -> list[str]:
    """Return the variables of the environment that the options and the commands of programs name."""
    named = [text.partition("=")[2] for text in arguments.header_env]
    named += [name for text in arguments.targets for name in list_references(text)]
    return [arguments.key_env, *named] if arguments.key_env else named


def _agree_to_command(text: str) -> bool:
    """Ask about the command of a program now, because the host has no terminal. Return False if it is denied."""
    # MC-02
    command, agreed = read_server_command(text), open_agreed_commands(find_state_folder())
    if command is None or agreed.has(command.digest):
        return True
    if not confirm_command(command):
        return False
    agreed.add(command.digest, command.summary)
    return True


def _list_offered(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the tools of the code and the documents on this machine, which must load.

    Raises:
        UsageError: one of them cannot be served.
    """
    # FU-54
    names: list[str] = []
    for text in arguments.targets:
        target = read_target(text)
        if isinstance(target, FileTarget):
            document = None if arguments.document is None else Path(arguments.document)
            names += open_toolbox(target, document).catalog().names
        elif isinstance(target, UrlTarget) and file_url(text) and read_server_command(text) is None:
            names += _connect(text, arguments)
        elif (command := read_server_command(text)) is not None and not command.program:
            raise UsageError(f"The program {command.words[0]!r} was not found. Install it, or give its path.")
    return names


def _list_offered_elsewhere(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the tools of other servers. One that does not answer now may do so when the host starts.

    Raises:
        UsageError: the document of one is not used as it is chosen, which no later start changes.
    """
    names: list[str] = []
    for text in arguments.targets:
        if isinstance(read_target(text), UrlTarget) and not (file_url(text) and read_server_command(text) is None):
            try:
                names += _connect(text, arguments)
            except ToolwireError as error:
                if isinstance(error, ConnectError) and find_unused_document(complete_url(text), error.probes):
                    raise UsageError(f"{str(error).rstrip('.')}. Nothing was added.") from error
                print_warning(f"The tools cannot be listed now: {error}")
    return names


def _connect(text: str, arguments: argparse.Namespace) -> list[str]:
    options = read_url_options(read_remote(arguments), [text], offline=arguments.offline)
    with open_target(text, options, build_terminal_approver("ask")) as source:
        return list(source.catalog().names)


def _describe_offered(names: Sequence[str]) -> str:
    shown = ", ".join(map(escaped, names[:_MAX_NAMED]))
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    return f" It offers {write_count(len(names), 'tool')}: {shown}{more}." if names else ""


def _add(
    file: HostFile,
    name: str,
    entry: dict[str, Json],
    variables: Sequence[str],
    tool_names: Sequence[str],
    *,
    replace: bool,
) -> int:
    known = file.servers().get(name)
    if known == entry:
        print(f"{file.host.title} already has {name}.")
        return OK
    if known is not None and not replace:
        raise UsageError(
            f"{file.host.title} already has a different server named {name!r}. Use --name NAME or --replace."
        )
    backup = file.write_entry(name, entry)
    backup_note = "" if backup is None else f" The previous file was saved as {escaped(backup.name)}."
    by = f"{escaped(str(file.path))}.{_describe_offered(tool_names)}{backup_note}"
    print(f"Added {name} to {file.host.title}, in {by} Restart {file.host.title} to use it.")
    if variables and file.host.refer is None:
        named = " and ".join(variables)
        print_instruction(
            f"{file.host.title} does not read environment variables from this file. Start it from an "
            f"environment in which {named} is set."
        )
    return OK


def _remove(file: HostFile, name: str) -> int:
    if name not in file.servers():
        names = ", ".join(map(escaped, file.servers()))
        raise UsageError(f"{file.host.title} has no server {name!r}. Its servers: {names or 'none'}.")
    file.write_entry(name, None)
    print(f"{file.host.title} no longer starts {name}. Restart {file.host.title}.")
    return OK


def _find_file(arguments: argparse.Namespace, host: Host) -> Path:
    if arguments.file is not None:
        return Path(arguments.file)
    if not arguments.project:
        return host.user_file()
    if not host.project:
        raise UsageError(f"{host.title} has no project file. Leave out --project.")
    here = Path.cwd().resolve()
    file = (here / host.project).resolve()
    if not file.is_relative_to(here):
        # AT-54: a cloned folder can have a link that leads to a file of the user.
        raise UsageError(f"{host.project} is a link to {file}, which is outside this folder. Use --file FILE.")
    return file


def _choose_name(targets: list[str], account: str) -> str:
    """Return a name for the server made from the first target and the account there."""
    if not targets:
        raise UsageError("install needs a TARGET, or --remove with --name NAME.")
    target = read_target(targets[0])
    if isinstance(target, FileTarget):
        text = target.name or target.path.stem
    elif isinstance(target, ModuleTarget):
        text = target.name or target.module
    elif (command := read_server_command(targets[0])) is not None:
        is_typed = targets[0].startswith(PREFIX)
        text = choose_program_name(command.words) if is_typed else targets[0].rpartition(":")[2]
    elif file_url(target.text):
        text = Path(target.text).stem
    else:
        text = get_host(complete_url(target.text))
    text = f"{text}-{account}" if account else text
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:64] or "toolwire"


def _build_command(arguments: argparse.Namespace) -> list[str]:
    """Return the command line of the server, in which no path depends on the folder that the host starts it in."""
    if not arguments.targets:
        raise UsageError("install needs a TARGET.")
    _refuse_secrets(arguments)
    # AT-32: without -P, a file of the folder that the host opens could take the place of a module.
    command = [sys.executable, "-P", "-m", "toolwire", "serve", *map(_make_absolute, arguments.targets)]
    for action in list_commands(__version__)["serve"]._actions:
        if not action.option_strings or action.dest not in arguments:
            continue
        value, option = getattr(arguments, action.dest), action.option_strings[-1]
        if action.dest in _PATHS and value is not None:
            command += [option, str(Path(value).resolve())]
        elif action.dest in _PLACES and value:
            command += [option, _write_place(option, value, _PLACES[action.dest])]
        elif action.dest in _NOT_PASSED or value == action.default:
            continue
        elif value is True:
            command.append(option)
        else:
            for one in value if isinstance(value, list) else [value]:
                command += [option, str(one)]
    consent = [] if arguments.consent == _choose_consent(arguments) else ["--consent", _choose_consent(arguments)]
    return [*command, *consent, "--stdio"]


def _choose_consent(arguments: argparse.Namespace) -> str:
    """Return what becomes of a call that needs consent if the host shows no forms, as the user chose, or the default.

    Tools of other servers are then decided in the inbox; a host asks about own tools by their hints.
    """
    # QF-07
    is_own = all(isinstance(read_target(text), FileTarget) for text in arguments.targets)
    return arguments.consent or ("" if is_own else "inbox")


def _refuse_secrets(arguments: argparse.Namespace) -> None:
    if arguments.key is not None:
        raise UsageError("API keys are not written to files that other programs read. Use --key-env NAME.")
    for field in arguments.header:
        name = field.partition(":")[0]
        if SECRET_FIELD.search(name):
            raise UsageError(
                f"The header {name[:40]} might contain a secret. Name an environment variable with --header-env."
            )


def _write_place(option: str, text: str, variable: str) -> str:
    """Return where something is kept, for a program that starts in any folder."""
    if show_url(text) != text:
        # D-26: the file of a host is read by other programs, and often shared.
        raise UsageError(
            f"The URL in {option} might contain a secret, and secrets are not written to the file. Set "
            f"{variable} in the MCP host's environment."
        )
    return text if text == _MEMORY or "://" in text else str(Path(text).resolve())


def _make_absolute(text: str) -> str:
    target = read_target(text)
    if isinstance(target, FileTarget):
        name = "" if target.name is None else f":{target.name}"
        return f"{target.path.resolve()}{name}"
    if isinstance(target, ModuleTarget):
        raise UsageError(f"{shlex.quote(text)} works only in the current folder. Give the path of the file instead.")
    if (command := read_server_command(text)) is not None and text.startswith(PREFIX):
        if secret := find_secret_word(command.words[1:]):
            raise UsageError(
                f"{secret} might be a secret, and secrets are not written to files that other programs "
                "read. Pass it in an environment variable: stdio:API_KEY=$API_KEY COMMAND."
            )
        # AT-45: a host has another folder and another PATH, so both are written.
        return f"{PREFIX}{command}"
    if command is not None:  # an entry of a file
        file, _, name = text.rpartition(":")
        return f"{Path(file).resolve()}:{name}"
    if file_url(text):
        return str(Path(text).resolve())
    url = complete_url(target.text)
    if show_url(url) != url:
        # D-26: the file of a host is read by other programs, and often shared.
        raise UsageError(
            f"{show_url(url)} might contain a secret, and secrets are not written to the file. Use --key-env NAME."
        )
    return url
