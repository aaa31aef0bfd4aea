"""Find the files in which MCP hosts list their servers, and change one entry of such a file.

Rules:
- Only the entry changes. Comments, order and spaces stay. A file in another format is never written.
- A file is replaced atomically, and the previous text is saved next to it.
- Secrets are never written, only references to the environment variables that contain them.
"""
# MC-04

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from toolwire.core.errors import UsageError
from toolwire.core.model import Json
from toolwire.stores.paths import find_home

from .json_edit import read_commented_json, remove_member, set_member
from .toml_edit import read_toml, remove_table, set_table, write_table

BACKUP_SUFFIX: Final = ".bak"
_MAX_BYTES: Final = 16 * 1024 * 1024
_BYTE_ORDER_MARK: Final = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """An MCP host: where it lists its servers, and the form of an entry.

    ``section`` is the member with the servers. ``members`` are in every entry. ``refer`` writes a reference to an
    environment variable, or is None if the host does not support that. ``project`` is a project's own file, relative to
    its folder, or "". With ``is_toml``, the file is TOML, and an entry lists the variables that the host passes on.
    """

    title: str
    section: str
    user_file: Callable[[], Path]
    project: str = ""
    members: Mapping[str, str]
    refer: Callable[[str], str] | None = None
    is_toml: bool = False

    @property
    def format_name(self) -> str:
        """The required format of the file's content."""
        return "a TOML file" if self.is_toml else "a JSON object"

    def write_example(self, name: str, entry: Mapping[str, Json]) -> str:
        """Return a file with only this entry."""
        if self.is_toml:
            return write_table(self.section, name, entry).rstrip("\n")
        return json.dumps({self.section: {name: entry}}, indent=2, ensure_ascii=False)


def _find_settings(*parts: str) -> Path:
    """Return a file below this user's settings folder, which depends on the operating system."""
    if sys.platform == "darwin":
        return find_home().joinpath("Library", "Application Support", *parts)
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or find_home() / "AppData" / "Roaming").joinpath(*parts)
    given = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(given) if given.startswith("/") else find_home() / ".config").joinpath(*parts)


def _find_zed_settings() -> Path:
    if sys.platform == "darwin":
        return find_home() / ".config" / "zed" / "settings.json"
    return _find_settings("Zed" if sys.platform == "win32" else "zed", "settings.json")


def _refer_to_env(name: str) -> str:
    return f"${{env:{name}}}"


HOSTS: Final[Mapping[str, Host]] = {
    "claude-desktop": Host(
        title="Claude Desktop",
        section="mcpServers",
        user_file=lambda: _find_settings("Claude", "claude_desktop_config.json"),
        members={},
    ),
    "claude-code": Host(
        title="Claude Code",
        section="mcpServers",
        user_file=lambda: find_home() / ".claude.json",
        project=".mcp.json",
        members={"type": "stdio"},
        refer=lambda name: f"${{{name}}}",
    ),
    "cursor": Host(
        title="Cursor",
        section="mcpServers",
        user_file=lambda: find_home() / ".cursor" / "mcp.json",
        project=".cursor/mcp.json",
        members={},
        refer=_refer_to_env,
    ),
    "vscode": Host(
        title="VS Code",
        section="servers",
        user_file=lambda: _find_settings("Code", "User", "mcp.json"),
        project=".vscode/mcp.json",
        members={"type": "stdio"},
        refer=_refer_to_env,
    ),
    "windsurf": Host(
        title="Windsurf",
        section="mcpServers",
        user_file=lambda: find_home() / ".codeium" / "windsurf" / "mcp_config.json",
        members={},
        refer=_refer_to_env,
    ),
    "zed": Host(
        title="Zed",
        section="context_servers",
        user_file=_find_zed_settings,
        project=".zed/settings.json",
        members={"source": "custom"},
    ),
    "codex": Host(
        title="Codex",
        section="mcp_servers",
        user_file=lambda: Path(os.environ.get("CODEX_HOME") or find_home() / ".codex") / "config.toml",
        project=".codex/config.toml",
        members={},
        refer=str,
        is_toml=True,
    ),
    "gemini-cli": Host(
        title="Gemini CLI",
        section="mcpServers",
        user_file=lambda: find_home() / ".gemini" / "settings.json",
        project=".gemini/settings.json",
        members={},
        refer=lambda name: f"${{{name}}}",
    ),
}
"""The hosts by their names on the command line."""


def build_entry(host: Host, command: Sequence[str], variables: Sequence[str]) -> dict[str, Json]:
    """Return the entry with which ``host`` starts ``command``. It refers to ``variables`` if the host supports that."""
    entry: dict[str, Json] = {**host.members, "command": command[0], "args": list(command[1:])}
    if variables and host.is_toml:
        entry["env_vars"] = list(variables)
    elif variables and host.refer is not None:
        entry["env"] = {name: host.refer(name) for name in variables}
    return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFile:
    """The current file of a host: its text (None if there is no file) and its data."""

    host: Host
    path: Path
    text: str | None
    data: dict[str, Json]

    def servers(self) -> Mapping[str, Any]:
        """Return the entries of the file, by name."""
        found: Mapping[str, Any] = self.data.get(self.host.section, {})
        return found

    def write_entry(self, name: str, entry: Mapping[str, Json] | None) -> Path | None:
        """Set the entry ``name``, or remove it with None. Return the copy of the previous file.

        Raises:
            UsageError: the file cannot be written. It was not changed.
        """
        mark = _BYTE_ORDER_MARK if self.text is not None and self.text.startswith(_BYTE_ORDER_MARK) else ""
        before = (self.text or "").removeprefix(mark)
        try:
            text = self._edit(before, name, entry)
        except ValueError as error:
            raise UsageError(f"{self.path} is left alone: {error}.") from error
        backup = None if self.text is None else self.path.with_name(self.path.name + BACKUP_SUFFIX)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            mode = self.path.stat().st_mode & 0o777 if self.text is not None else 0o600
            if backup is not None and self.text is not None:
                _replace_file(backup, self.text, mode)
            _replace_file(self.path, mark + text, mode)
        except OSError as error:
            raise UsageError(f"Cannot write {self.path}: {error.strerror or error}. Nothing was changed.") from error
        return backup

    def _edit(self, text: str, name: str, entry: Mapping[str, Json] | None) -> str:
        section, is_toml = self.host.section, self.host.is_toml
        if entry is None:
            return (remove_table if is_toml else remove_member)(text, section, name)
        return (set_table if is_toml else set_member)(text, section, name, entry)


def read_host_file(host: Host, path: Path) -> HostFile:
    """Return the file at ``path``. It need not exist.

    Raises:
        UsageError: the file does not have the host's format. The message says where and why.
    """
    path = path.resolve()  # a link leads to the file that is meant
    try:
        raw = path.read_bytes() if path.exists() else None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    if raw is None or not raw.strip():
        return HostFile(host=host, path=path, text=None if raw is None else "", data={})
    try:
        text = raw.decode("utf-8")
    except UnicodeError as error:
        raise UsageError(f"{path} is not {host.format_name}, so it was not changed.") from error
    read = read_toml if host.is_toml else read_commented_json
    data = read(text.removeprefix(_BYTE_ORDER_MARK)) if len(raw) <= _MAX_BYTES else None
    if not isinstance(data, dict):
        raise UsageError(f"{path} is not {host.format_name}, so it was not changed.")
    if not isinstance(data.get(host.section, {}), dict):
        raise UsageError(f'"{host.section}" in {path} is not an object, so the file was not changed.')
    return HostFile(host=host, path=path, text=text, data=data)


def _replace_file(path: Path, text: str, mode: int) -> None:
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
