"""Read the command of an MCP server on standard input and output: ``stdio:COMMAND ARGS``, or an entry of an mcp.json.

Rules:
- Only the user writes such a target. No document, redirect or other text of a site leads to a command.
- No shell reads the command. Its digest covers the command, its arguments, its folder and the names of its variables.
- The program gets a few harmless variables of this process, and those that the target names; no other.
"""
# MC-02

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path, PurePath
from typing import Final

from toolwire.core.dataclass import dataclass
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext

PREFIX: Final = "stdio:"
MAX_FILE_BYTES: Final = 1024 * 1024
# RFC 6761, 6.4: no name below .invalid ever resolves.
_PROGRAM_DOMAIN: Final = "stdio.invalid"
_ENTRY: Final = re.compile(r"(?P<file>.+\.json):(?P<name>[^/\\:]+)", re.DOTALL)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.DOTALL)
_REFERENCE: Final = re.compile(r"\$\{(?:env:)?(?P<braced>[A-Za-z_][A-Za-z0-9_]*)\}|\$(?P<plain>[A-Za-z_][A-Za-z0-9_]*)")
_FOREIGN: Final = re.compile(r"\$\{(?P<kind>[A-Za-z]+):")
_SECTIONS: Final = ("mcpServers", "servers", "context_servers")
"""The member of a host's file that holds its servers: most hosts, VS Code, Zed."""
# Enough to find programs, files and the language. None of them usually has a secret.
_INHERITED: Final = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
)
_LABEL_LENGTH: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommand:
    """A program that speaks MCP on its standard input and output: ``words`` are its command and arguments.

    ``variables`` are the variables that it gets in addition to the harmless ones. ``folder`` is where it starts, or
    ``""`` for the current folder.
    """

    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: str = ""

    @property
    def digest(self) -> str:
        """The SHA-256 of the command, its arguments, its folder, and the names of its variables."""
        # Values are left out: a new key is no new program, and no digest of a key is kept anywhere.
        parts: list[Json] = [list(self.words), sorted(self.variables), self.folder]
        return hashlib.sha256(jsontext.write(parts)).hexdigest()

    @property
    def url(self) -> str:
        """The URL that stands for this program: its origin is its own, and resolves nowhere."""
        # 128 bits of the digest: a grant for one command holds for no other.
        name = re.sub(r"[^a-z0-9]+", "-", PurePath(self.words[0]).name.lower())[:_LABEL_LENGTH].strip("-") or "program"
        return f"https://{name}-{self.digest[:32]}.{_PROGRAM_DOMAIN}/mcp"

    def build_environment(self) -> dict[str, str]:
        """Return the whole environment of the program."""
        given = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {**given, **self.variables}

    def __str__(self) -> str:
        """Show the command in full, and its variables by their names."""
        # The values may be secrets.
        return " ".join([*(f"{name}=***" for name in sorted(self.variables)), shlex.join(self.words)])


def read_server_command(text: str) -> ServerCommand | None:
    """Return the command that the target ``text`` means, or None if it means no command.

    Raises:
        DefinitionError: it is a command that cannot be used; the sentence says why.
    """
    if text.startswith(PREFIX):
        return _read_words(text.removeprefix(PREFIX))
    entry = read_host_entry(text)
    return _read_entry(entry, text) if entry is not None and "command" in entry else None


def list_references(text: str) -> tuple[str, ...]:
    """Return the variables of this process to which the command after ``stdio:`` refers.

    Raises:
        DefinitionError: it has the value of a variable instead of a reference, so that the value can be read.
    """
    names: list[str] = []
    for word in shlex.split(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else ():
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            break
        found = [one["braced"] or one["plain"] for one in _REFERENCE.finditer(match["value"])]
        if not found:
            name = match["name"]
            raise DefinitionError(f"The value of {name} would be written into a file: write {name}=${name} instead.")
        names += found
    return tuple(dict.fromkeys(names))


def resolve_target(text: str) -> str:
    """Return the URL that ``text`` means if it is an entry of a host's file that names a URL; else ``text``.

    Raises:
        DefinitionError: the file cannot be read, or the entry cannot be used.
    """
    entry = None if text.startswith(PREFIX) else read_host_entry(text)
    if entry is None or "command" in entry:
        return text
    url = entry.get("url", entry.get("serverUrl"))
    if not isinstance(url, str) or "://" not in url:
        raise DefinitionError(f"{text} has neither a command nor a url.")
    if entry.get("headers"):
        raise DefinitionError(f"{text} has headers: use its URL as the target, and give the key with --key-env.")
    return url


def read_host_entry(text: str) -> dict[str, Json] | None:
    """Return the entry of ``FILE.json:NAME``, or None if ``text`` is not of that form or there is no such file.

    Raises:
        DefinitionError: the file cannot be read, or has no such entry.
    """
    match = _ENTRY.fullmatch(text)
    if match is None or "://" in text or not (path := Path(match["file"])).is_file():
        return None
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DefinitionError(f"{path} is no list of MCP servers: it is larger than {MAX_FILE_BYTES:,} bytes.")
        data = jsontext.read(path.read_bytes())
    except OSError as error:
        raise DefinitionError(f"{path} cannot be read: {error.strerror}.") from error
    if isinstance(data, Problem):
        raise DefinitionError(f"{path} cannot be read: {data.message}")
    members = data if isinstance(data, dict) else {}
    servers = next((jsontext.get_object(members, name) for name in _SECTIONS if name in members), {})
    entry = servers.get(match["name"])
    if not isinstance(entry, dict):
        names = ", ".join(sorted(servers)[:20]) or "none"
        raise DefinitionError(f"{path} has no server {match['name']!r}; it has: {names}.")
    return entry


def _read_words(text: str) -> ServerCommand:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise DefinitionError(f"The command after stdio: cannot be read: {str(error).lower()}.") from error
    variables: dict[str, str] = {}
    while words and (match := _ASSIGNMENT.fullmatch(words[0])):
        variables[match["name"]] = _resolve_references(match["value"], match["name"])
        del words[0]
    return _build_command(words, variables, "", "The target stdio:")


def _read_entry(entry: Mapping[str, Json], where: str) -> ServerCommand:
    command, arguments, folder = entry.get("command"), entry.get("args", []), entry.get("cwd", "")
    if isinstance(command, dict):  # an older form of Zed
        return _read_entry({**command, "command": command.get("path")}, where)
    variables = entry.get("env") or {}
    if not isinstance(command, str) or not isinstance(folder, str) or not isinstance(arguments, list):
        raise DefinitionError(f"{where}: its command and cwd must be texts, and its args an array.")
    if not all(isinstance(one, str) for one in arguments) or not isinstance(variables, dict):
        raise DefinitionError(f"{where}: its args must be an array of texts, and its env an object.")
    resolved = {}
    for name, value in variables.items():
        if _VARIABLE.fullmatch(name) is None or not isinstance(value, str):
            raise DefinitionError(f"{where}: env must have names of variables, each with a text.")
        resolved[name] = _resolve_references(value, name)
    return _build_command([command, *map(str, arguments)], resolved, folder, where)


def _build_command(words: list[str], variables: dict[str, str], folder: str, where: str) -> ServerCommand:
    if not words or not words[0]:
        raise DefinitionError(f"{where} names no command: write stdio:COMMAND ARGS.")
    if any("\0" in word for word in (*words, *variables.values(), folder)):
        raise DefinitionError(f"{where}: a command cannot have a null character in it.")
    return ServerCommand(words=tuple(words), variables=variables, folder=folder)


def _resolve_references(value: str, name: str) -> str:
    """Return the value of the variable ``name`` with each ``$NAME``, ``${NAME}`` and ``${env:NAME}`` filled in."""
    foreign = _FOREIGN.search(value)
    if foreign is not None and foreign["kind"] != "env":
        text = f"{name} refers to ${{{foreign['kind']}:...}}, which only its host can fill in: write ${{env:NAME}}."
        raise DefinitionError(text)

    def find(match: re.Match[str]) -> str:
        wanted = match["braced"] or match["plain"]
        found = os.environ.get(wanted)
        if found is None:
            raise DefinitionError(f"The environment has no variable {wanted} to fill in {name}.")
        return found

    return _REFERENCE.sub(find, value)
