"""Find the settings of ``toolwire.toml`` and the environment, and choose those that hold for a command.

Precedence: the command line, then the environment, then the file of the project, then the file of the user.

Rules:
- The folder of a project may come from anybody. What its file sets is used without a word of the user only if it
  names no other host, file or secret, asks for no less consent, and replaces nothing that the user's own file sets.
  The rest is used after `toolwire settings trust`, until the file changes.
- A file that another user of the machine can write is not read.
"""
# FU-40

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from toolwire.core.command_option import CommandOption
from toolwire.core.errors import UsageError
from toolwire.core.url_origin import complete_url, get_origin
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.hosting.toml_file import SETTINGS_FILE
from toolwire.stores.paths import NoHomeError, find_home

from .project_trust import SETTINGS_VARIABLE, is_trusted
from .settings_file import (
    CommandOptions,
    Layer,
    Setting,
    SettingsFile,
    read_settings_file,
    read_variable,
)

_PREFIX: Final = "TOOLWIRE_"
_ROOT: Final = 0
_LAYERS: Final[tuple[Layer, ...]] = ("environment", "project", "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, whether they are used or not.

    ``is_trusted`` is whether the user trusts the project's file, and ``ignored`` says which files are not read and why.
    """

    files: tuple[SettingsFile, ...] = ()
    variables: tuple[Setting, ...] = ()
    is_trusted: bool = False
    ignored: tuple[str, ...] = ()

    @property
    def project(self) -> SettingsFile | None:
        """The file of the project."""
        return next((file for file in self.files if file.layer == "project"), None)

    def list_all(self) -> Iterator[Setting]:
        """Yield each setting, the strongest first."""
        yield from self.variables
        for file in self.files:
            yield from file.settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What settings mean for one command: those that are used, by option, and those that wait for trust."""

    used: Mapping[str, Setting]
    untrusted: tuple[Setting, ...]


def read_settings(commands: CommandOptions) -> Settings:
    """Return the settings of ``commands`` from the environment, the project around this folder, and the user.

    Raises:
        UsageError: a file cannot be read or is no TOML, or a variable is not valid.
    """
    ignored: list[str] = []
    files: list[SettingsFile] = []
    if os.environ.get(SETTINGS_VARIABLE, "") != "off":
        own, project = find_user_file(), find_project_file()
        found: list[tuple[Path | None, Layer]] = [(None if project == own else project, "project"), (own, "user")]
        for path, layer in found:
            if path is None:
                continue
            if why := _refuse_owner(path):
                ignored.append(why)
            else:
                files.append(read_settings_file(path, layer, commands))
    in_project = next((file for file in files if file.layer == "project"), None)
    return Settings(
        files=tuple(files),
        variables=tuple(_read_variables(commands)),
        is_trusted=in_project is not None and is_trusted(in_project.digest),
        ignored=tuple(ignored),
    )


def find_user_file() -> Path | None:
    """Return the file of the user, in the folder ``toolwire`` below XDG_CONFIG_HOME or ~/.config, if there is one."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        # The XDG Base Directory Specification says to ignore a path that is not absolute.
        folder = Path(given) if given.startswith("/") else Path.home() / ".config"
    except RuntimeError:  # this user has no home
        return None
    return _find_file(folder / "toolwire")


def find_project_file() -> Path | None:
    """Return the first file in the working folder or above it, up to the root of a repository or the user's home."""
    try:
        here = Path.cwd()
    except OSError:  # the working folder was deleted
        return None
    home: Path | None = None
    with suppress(NoHomeError):
        home = find_home()
    for folder in (here, *here.parents):
        if found := _find_file(folder):
            return found
        if folder == home or (folder / ".git").exists():
            break
    return None


def _find_file(folder: Path) -> Path | None:
    file = folder / SETTINGS_FILE
    try:
        return file if file.exists() else None
    except OSError:  # a folder that this user may not look into
        return None


def _refuse_owner(path: Path) -> str:
    """Return why a file is not read that another user of the machine could have written, or ``""``."""
    found = path.stat()
    # A link is looked at too: the paths in a file are beside the link, where another user could put what they name.
    if not {found.st_uid, path.lstat().st_uid} <= {os.getuid(), _ROOT}:
        return f"{path} belongs to another user, so it was not read."
    if found.st_mode & stat.S_IWOTH:
        return f"Every user of this machine can write {path}, so it was not read. Run chmod o-w {path}."
    return ""


def _read_variables(commands: CommandOptions) -> Iterator[Setting]:
    if not any(name.startswith(_PREFIX) for name in os.environ):
        return
    known = {name: option for options in commands.values() for name, option in options.items()}
    for name, option in known.items():
        variable = f"{_PREFIX}{name.upper().replace('-', '_')}"
        text = os.environ.get(variable)
        if text is not None and name == "port" and "://" in text:
            continue  # Kubernetes sets TOOLWIRE_PORT=tcp://... for a service of this name
        # Credentials and what changes one document are for one site; a variable would be for all.
        if text is None or option.settings == "target" or not (text or option.is_list):
            continue
        value = read_variable(variable, option, text)
        yield Setting(option=name, value=value, source=variable, layer="environment")


def resolve(
    settings: Settings,
    command: str,
    targets: Sequence[str],
    options: Mapping[str, CommandOption],
    closed: Collection[str] = (),
) -> Resolution:
    """Return what the settings mean for the ``options`` of ``command`` with ``targets``, but for those in ``closed``.

    Raises:
        UsageError: the targets have different settings.
    """
    used: dict[str, Setting] = {}
    untrusted: list[Setting] = []
    by_option: dict[tuple[Layer, str], list[Setting]] = {}
    for one in settings.list_all():
        by_option.setdefault((one.layer, one.option), []).append(one)
    for name, option in options.items():
        if name in closed or (option.settings != "program" and not any(_is_remote(text, command) for text in targets)):
            continue
        by_layer = {layer: _choose(by_option.get((layer, name), ()), command, targets) for layer in _LAYERS}
        project = by_layer["project"]
        if project is not None and not settings.is_trusted and (project.needs_trust or by_layer["user"] is not None):
            del by_layer["project"]
            untrusted.append(project)
        if chosen := next((one for one in by_layer.values() if one is not None), None):
            used[name] = chosen
    return Resolution(used=used, untrusted=tuple(untrusted))


def _choose(candidates: Sequence[Setting], command: str, targets: Sequence[str]) -> Setting | None:
    """Return the one of several settings for all targets: that of the target, else of the command, else of all."""
    if not candidates:
        return None
    fitting = [_find_best(candidates, command, target) for target in targets] or [_find_best(candidates, command, "")]
    first = fitting[0]
    for other in fitting[1:]:
        if (other and other.value) != (first and first.value):
            at = next(one.source for one in (first, other) if one is not None)
            raise UsageError(
                f"{at}: {candidates[0].option} is for one target, but there are several. Name one, or "
                "give each its own table in a gateway file (`toolwire gateway run`)."
            )
    return first


def _find_best(candidates: Sequence[Setting], command: str, target: str) -> Setting | None:
    ranked: list[tuple[int, Setting]] = []
    for one in candidates:
        if one.target:
            length = _measure_match(one.target, target)
            if length:
                ranked.append((1 + length, one))
        elif one.command in ("", command):
            ranked.append((1 if one.command else 0, one))
    return max(ranked, key=lambda pair: pair[0])[1] if ranked else None


def _measure_match(written: str, target: str) -> int:
    """Return how closely the target of a table fits that of the command line: 0 not at all, else its length.

    A URL fits all below its path on the same origin; any other target fits itself alone.
    """
    if written == target:
        return 1 + len(written)
    if not target or not (_is_url(written) and _is_url(target)):
        return 0
    try:
        first, second = urlsplit(complete_url(written)), urlsplit(complete_url(target))
        if get_origin(first.geturl()) != get_origin(second.geturl()):
            return 0
    except ValueError:  # a port that is none
        return 0
    path = first.path.rstrip("/")
    return 1 + len(path) if f"{second.path.rstrip('/')}/".startswith(f"{path}/") else 0


def _is_url(text: str) -> bool:
    try:
        target = read_target(text)
    except UsageError:
        return False
    return isinstance(target, UrlTarget) and not text.startswith("stdio:") and not Path(text).exists()


def _is_remote(text: str, command: str) -> bool:
    """Return whether the options about URLs go with the target: it is no code, and no document to convert."""
    if command == "convert":
        return "://" in text
    try:
        return isinstance(read_target(text), UrlTarget)
    except UsageError:  # the command says what is wrong with it
        return False
