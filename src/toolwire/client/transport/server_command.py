"""Read the command of an MCP server on standard input and output: ``stdio:COMMAND ARGS``, or an entry of an mcp.json.

Rules:
- Only the user writes such a target. No document, redirect or other text of a site leads to a command.
- No shell reads the command. Its digest covers the program that is found, the file that this leads to, the arguments,
  the folder, and its variables as they are written: the text of a literal, the name of a reference.
- The program starts in that folder: for an entry that of its project, for ``stdio:`` the current one or ``PWD=FOLDER``.
- The program gets a few harmless variables of this process, and those that the target names; no other.
"""
# MC-02, AT-33, AT-45

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Final

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
HIDDEN: Final = "***"
_FOLDER_VARIABLE: Final = "PWD"
_PROJECT_FOLDERS: Final = frozenset((".cursor", ".vscode", ".zed"))
"""Folders in which a host keeps the file of a project; its servers start beside them."""
_MIN_EXPANDED: Final = 8
_CODE_VARIABLES: Final = frozenset(
    (
        *(
            "PATH",
            "SHELL",
            "HOME",
            "IFS",
            "ENV",
            "BASH_ENV",
            "BASHOPTS",
            "SHELLOPTS",
            "PS4",
            "PROMPT_COMMAND",
            "ZDOTDIR",
        ),
        *("GCONV_PATH", "LOCPATH", "OPENSSL_CONF", "OPENSSL_MODULES", "GIO_EXTRA_MODULES", "TCLLIBPATH"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONBREAKPOINT", "PYTHONWARNINGS"),
        *("PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX", "PYTHONEXECUTABLE", "PYTHONCASEOK", "VIRTUAL_ENV"),
        *("NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "BUN_OPTIONS", "DENO_DIR"),
        *("PERL5OPT", "PERL5LIB", "PERLLIB", "PERL5DB", "RUBYOPT", "RUBYLIB", "BUNDLE_GEMFILE", "GEM_HOME", "GEM_PATH"),
        *("CLASSPATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_HOME", "MAVEN_OPTS"),
        *("DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_ROOT", "CORECLR_PROFILER", "CORECLR_PROFILER_PATH"),
        *("LUA_INIT", "LUA_PATH", "LUA_CPATH", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE", "R_PROFILE_USER", "R_HOME"),
        *(
            "JULIA_LOAD_PATH",
            "JULIA_DEPOT_PATH",
            "GOFLAGS",
            "GOPATH",
            "GOROOT",
            "GOPROXY",
            "RUSTC_WRAPPER",
            "RUSTFLAGS",
        ),
        *("EDITOR", "VISUAL", "PAGER", "BROWSER", "MANPAGER", "LESSOPEN", "SSH_ASKPASS", "SUDO_ASKPASS", "DOCKER_HOST"),
    )
)
_CODE_PREFIXES: Final = (
    *("LD_", "DYLD_", "GIT_", "NPM_CONFIG_", "YARN_", "PNPM_", "PIP_", "UV_", "CARGO_", "BASH_FUNC_", "XDG_CONFIG_"),
    *("XDG_DATA_", "QT_", "GTK_", "LUA_"),
)
"""Such variables name code, folders of code, or files of settings that do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommand:
    """A program that speaks MCP on its standard input and output: ``words`` are its command and arguments.

    ``variables`` are the variables that it gets in addition to the harmless ones, and ``written`` are these as the
    target writes them: with references in place of values. ``folder`` is where it starts. ``program`` is the file that
    the first word leads to, or ``""`` if there is none, and ``program_file`` the same after all links are followed.
    ``str(command)`` is a target without ``stdio:`` that means the same from everywhere.
    """

    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    written: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: str = ""
    program: str = ""
    program_file: str = ""

    @property
    def digest(self) -> str:
        """The SHA-256 of all that decides what runs."""
        # AT-33, AT-45. The value of a reference is left out: a new key is no new program.
        program = [self.program, self.program_file] if self.program else [self.words[0]]
        variables: list[Json] = [[name, self.written[name]] for name in sorted(self.written)]
        parts: list[Json] = [*program, list(self.words[1:]), variables, self.folder]
        return hashlib.sha256(jsontext.write(parts)).hexdigest()

    @property
    def url(self) -> str:
        """The URL that stands for this program: its origin is its own, and resolves nowhere."""
        # 128 bits of the digest: a grant for one command holds for no other.
        name = re.sub(r"[^a-z0-9]+", "-", PurePath(self.words[0]).name.lower())[:_LABEL_LENGTH].strip("-") or "program"
        return f"https://{name}-{self.digest[:32]}.{_PROGRAM_DOMAIN}/mcp"

    @property
    def name(self) -> str:
        """The command as it is written, without its variables."""
        return shlex.join(self.words)

    @property
    def code_variables(self) -> tuple[str, ...]:
        """The variables of the target that can decide which code runs."""
        return tuple(name for name in sorted(self.written) if _can_load_code(name))

    @property
    def summary(self) -> str:
        """The command for a list: like ``str(command)``, but a literal that may be a secret is ``***``."""
        # D-26: the list is stored.
        return self._join({name: self._hide_literal(name) for name in self.written})

    def build_environment(self) -> dict[str, str]:
        """Return the whole environment of the program."""
        return _add_inherited(self.variables)

    def find_change(self) -> str:
        """Return in one sentence why this is not the program that was agreed to any more; ``""`` if it is."""
        if self.folder and os.path.realpath(self.folder) != self.folder:
            return f"{self.folder} leads to another folder now"
        if self.folder and not Path(self.folder).is_dir():
            return f"there is no folder {self.folder}"
        if not self.program:
            return "there is no such program"
        if os.path.realpath(self.program) != self.program_file:
            return f"{self.program} leads to another file than {self.program_file} now"
        return ""

    def __str__(self) -> str:
        """Show all that decides what runs: the folder, the variables as they are written, the program."""
        return self._join(dict(self.written))

    def _join(self, variables: Mapping[str, str]) -> str:
        folder = {_FOLDER_VARIABLE: self.folder} if self.folder else {}
        assigned = (*folder.items(), *sorted(variables.items()))
        before = [f"{name}={_quote(text)}" for name, text in assigned]
        return " ".join([*before, shlex.join((self.program or self.words[0], *self.words[1:]))])

    def _hide_literal(self, name: str) -> str:
        text = self.written[name]
        return text if _REFERENCE.fullmatch(text) or _can_load_code(name) else HIDDEN


def read_server_command(text: str) -> ServerCommand | None:
    """Return the command that the target ``text`` means, or None if it means no command.

    Raises:
        DefinitionError: it is a command that cannot be used; the sentence says why.
    """
    if text.startswith(PREFIX):
        return _read_words(text.removeprefix(PREFIX))
    entry = read_host_entry(text)
    if entry is None or "command" not in entry:
        return None
    return _read_entry(entry, text, _find_project_folder(Path(text.rpartition(":")[0])))


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
        if match["name"] == _FOLDER_VARIABLE:
            continue
        found = [one["braced"] or one["plain"] for one in _REFERENCE.finditer(match["value"])]
        if not found:
            name = match["name"]
            raise DefinitionError(f"The value of {name} would be written to a file. Write {name}=${name} instead.")
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
        raise DefinitionError(f"{text} contains neither a command nor a url.")
    if entry.get("headers"):
        raise DefinitionError(f"{text} declares headers. Use its URL as the target, and pass the key with --key-env.")
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
            raise DefinitionError(f"{path} is not a list of MCP servers: it is larger than {MAX_FILE_BYTES:,} bytes.")
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
        raise DefinitionError(f"{path} contains no server {match['name']!r}. Its servers: {names}.")
    return entry


def _read_words(text: str) -> ServerCommand:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise DefinitionError(f"Cannot read the command after stdio: {str(error).lower()}.") from error
    written: dict[str, str] = {}
    while words and (match := _ASSIGNMENT.fullmatch(words[0])):
        written[match["name"]] = match["value"]
        del words[0]
    folder = written.pop(_FOLDER_VARIABLE, "")
    written = {name: _restore_reference(name, value) for name, value in written.items()}
    return _build_command(words, written, Path.cwd() / folder, "The target stdio:")


def _read_entry(entry: Mapping[str, Json], where: str, base: Path) -> ServerCommand:
    command, arguments, folder = entry.get("command"), entry.get("args", []), entry.get("cwd", "")
    if isinstance(command, dict):  # an older form of Zed
        return _read_entry({**command, "command": command.get("path")}, where, base)
    variables = entry.get("env") or {}
    if not isinstance(command, str) or not isinstance(folder, str) or not isinstance(arguments, list):
        raise DefinitionError(f"{where}: command and cwd must be strings, and args must be an array.")
    if not all(isinstance(one, str) for one in arguments) or not isinstance(variables, dict):
        raise DefinitionError(f"{where}: args must be an array of strings, and env must be an object.")
    written = {}
    for name, value in variables.items():
        if _VARIABLE.fullmatch(name) is None or not isinstance(value, str):
            raise DefinitionError(f"{where}: env must map each variable name to a string.")
        written[name] = value
    return _build_command([command, *map(str, arguments)], written, base / folder, where)


def _find_project_folder(file: Path) -> Path:
    """Return the folder in which the servers of ``file`` start: its own, or that of its project."""
    folder = Path.cwd() / file.parent
    return folder.parent if folder.name in _PROJECT_FOLDERS else folder


def _build_command(words: list[str], written: dict[str, str], folder: Path, where: str) -> ServerCommand:
    if not words or not words[0]:
        raise DefinitionError(f"{where}: the command is missing. Write stdio:COMMAND ARGS.")
    if any("\0" in word for word in (*words, *written.values(), str(folder))):
        raise DefinitionError(f"{where}: a command cannot contain a null character.")
    variables = {name: _resolve_references(value, name) for name, value in written.items()}
    place = os.path.realpath(folder)
    program = _find_program(words[0], Path(place), _add_inherited(variables).get("PATH", os.defpath))
    return ServerCommand(
        words=tuple(words),
        variables=variables,
        written=written,
        folder=place,
        program=program,
        program_file=os.path.realpath(program) if program else "",
    )


def _find_program(word: str, folder: Path, search_path: str) -> str:
    """Return the absolute path of the program that ``word`` names for a process in ``folder``, or ``""``."""
    if os.path.dirname(word):
        path = folder / word
        return str(path) if path.is_file() else ""
    places = (str(folder / one) for one in search_path.split(os.pathsep))
    return shutil.which(word, path=os.pathsep.join(places)) or ""


def _add_inherited(variables: Mapping[str, str]) -> dict[str, str]:
    given = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**given, **variables}


def _quote(text: str) -> str:
    return text if text == HIDDEN or _REFERENCE.fullmatch(text) else shlex.quote(text)


def _can_load_code(name: str) -> bool:
    upper = name.upper()
    return upper in _CODE_VARIABLES or upper.startswith(_CODE_PREFIXES)


def _restore_reference(name: str, value: str) -> str:
    """Return ``value``, or the reference to the variable of this process that has it, which a shell has filled in."""
    # D-26: "stdio:TOKEN=$TOKEN server" in double quotes is a reference to its author, and its value may be a secret.
    if len(value) < _MIN_EXPANDED or _REFERENCE.search(value) or _can_load_code(name):
        return value
    same = sorted(key for key, text in os.environ.items() if text == value and _VARIABLE.fullmatch(key))
    return f"${name if name in same else same[0]}" if same else value


def _resolve_references(value: str, name: str) -> str:
    """Return the value of the variable ``name`` with each ``$NAME``, ``${NAME}`` and ``${env:NAME}`` filled in."""
    foreign = _FOREIGN.search(value)
    if foreign is not None and foreign["kind"] != "env":
        text = f"{name} refers to ${{{foreign['kind']}:...}}, which only its MCP host can resolve. Write ${{env:NAME}}."
        raise DefinitionError(text)

    def find(match: re.Match[str]) -> str:
        wanted = match["braced"] or match["plain"]
        found = os.environ.get(wanted)
        if found is None:
            raise DefinitionError(f"The environment variable {wanted}, which {name} needs, is not set.")
        return found

    return _REFERENCE.sub(find, value)
