"""Read the settings of ``toolwire.toml``: defaults of options, for all commands, for one, or for one target.

Rules:
- A member is an option without its dashes. No member is a secret, and none lowers consent, writes a file or names
  what to open: these stand on the command line alone.
- Credentials and what changes one document belong to a target, so that no other site gets them.
- Each fault is one sentence with the line and the column of the member.
"""
# FU-40

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from toolwire.core.command_option import REMOVED, CommandOption
from toolwire.core.errors import UsageError
from toolwire.core.url_display import show_url
from toolwire.framing.jsontext import describe_type
from toolwire.hosting.toml_file import SECRET_FIELD, SECRETS, TomlFile, read_bytes, read_option_value

from .project_trust import digest_file

Layer: TypeAlias = Literal["environment", "project", "user"]

CommandOptions: TypeAlias = Mapping[str, Mapping[str, CommandOption]]
"""The options that settings may have, by command and name."""

_TABLES: Final = ("defaults", "targets")
_CALLER_TABLES: Final = ("sign-in", "callers")
_MAX_BYTES: Final = 1 << 18
_MAX_TARGETS: Final = 200
_MAX_FAULTS: Final = 100
_ONLY_TYPED: Final = frozenset({"agree", "yes", "force", "output", "token", "secret", "user-id", "stdio"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The value of one option, and where it stands.

    ``command`` or ``target`` says what it is for; with neither, it is for every command that has the option. Where it
    ``needs_trust``, a project may set it only after the user's yes.
    """

    option: str
    value: Any
    source: str
    layer: Layer
    command: str = ""
    target: str = ""
    needs_trust: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """What one file sets, and its faults. ``digest`` changes with its path and with each letter of it.

    ``caller_tables`` are its tables about the callers of a gateway, for which it is the file too.
    """

    path: Path
    layer: Layer
    settings: tuple[Setting, ...]
    faults: tuple[str, ...]
    digest: str
    caller_tables: tuple[str, ...] = ()


def read_settings_file(path: Path, layer: Layer, commands: CommandOptions) -> SettingsFile:
    """Return what the file sets for ``commands``.

    Raises:
        UsageError: it cannot be read, or is no TOML.
    """
    data = read_bytes(path, "write one, or leave it out.", largest=_MAX_BYTES)
    file = TomlFile(data, str(path))
    reader = _Reader(file, path.parent, layer, commands)
    return SettingsFile(
        path=path,
        layer=layer,
        settings=tuple(_read_all(reader)),
        faults=tuple(reader.faults),
        digest=digest_file(path, data),
        caller_tables=tuple(name for name in _CALLER_TABLES if name in file.content),
    )


class _TooManyFaultsError(Exception):
    """A file with as many faults is none of ours: the rest of it is not read."""


def _read_all(reader: _Reader) -> Iterator[Setting]:
    """Yield the settings until there are too many faults."""
    with suppress(_TooManyFaultsError):
        yield from reader.read()


class _Reader:
    def __init__(self, file: TomlFile, folder: Path, layer: Layer, commands: CommandOptions) -> None:
        self.faults: list[str] = []
        self._file, self._folder = file, folder
        self._layer: Layer = layer
        self._commands = commands
        self._all = {name: option for options in commands.values() for name, option in options.items()}

    def read(self) -> Iterator[Setting]:
        defaults, targets = (self._read_table(name) for name in _TABLES)
        for member, value in defaults.items():
            if isinstance(value, dict):
                yield from self._read_command(member, value)
            else:
                yield from self._read_member(("defaults", member), value, self._all)
        if len(targets) > _MAX_TARGETS:
            self._add_fault(("targets",), f"there are more than {_MAX_TARGETS:,} targets")
            return
        for text, table in targets.items():
            place = ("targets", text)
            if why := _find_secret("", [text]):
                self._add_fault(("targets",), why)
                continue
            if not isinstance(table, dict):
                self._add_fault(place, f'a target is a table, not {describe_type(table)}: [targets."URL"]')
                continue
            known = {name: option for name, option in self._all.items() if option.settings != "program"}
            for member, value in table.items():
                yield from self._read_member((*place, member), value, known, target=text)

    def _read_table(self, name: str) -> Mapping[str, Any]:
        table = self._file.content.get(name, {})
        if isinstance(table, dict):
            return table
        self._add_fault((name,), f"{name} is a table, not {describe_type(table)}: [{name}]")
        return {}

    def _read_command(self, command: str, table: Mapping[str, Any]) -> Iterator[Setting]:
        place = ("defaults", command)
        if command not in self._commands:
            self._add_fault(
                place, f'"{command[:40]}" is not a command with settings{_suggest(command, self._commands)}'
            )
            return
        for member, value in table.items():
            yield from self._read_member((*place, member), value, self._commands[command], command=command)

    def _read_member(
        self,
        place: tuple[str, ...],
        value: Any,
        known: Mapping[str, CommandOption],
        *,
        command: str = "",
        target: str = "",
    ) -> Iterator[Setting]:
        option = place[-1]
        try:
            if why := self._refuse(option, known, target=target):
                raise ValueError(why)
            read = read_option_value(known[option], value)
            if why := _find_secret(option, [read] if isinstance(read, str) else read):
                raise ValueError(why)
            if option == "consent" and read == "hints":
                raise ValueError('consent must be "refuse" or "inbox" here: settings can only ask for more consent')
        except ValueError as error:
            self._add_fault(place, str(error))
            return
        yield Setting(
            option=option,
            value=self._resolve(read) if known[option].is_path else read,
            source=self._file.find_source(place),
            layer=self._layer,
            command=command,
            target=target,
            needs_trust=self._layer == "project" and _needs_trust(known[option], read),
        )

    def _refuse(self, option: str, known: Mapping[str, CommandOption], *, target: str) -> str:
        """Return why the file may not set the option there, or ``""``."""
        if option in SECRETS:
            return f"a secret does not belong into this file; {SECRETS[option]}"
        if option in _ONLY_TYPED:
            return f"{option} is typed each time: no file may set it"
        if not target and option in self._all and self._all[option].settings == "target":
            return f'{option} belongs to one target: [targets."URL"]'
        if option in known:
            return ""
        if target and option in self._all:
            return f"{option} is not about a target: [defaults]"
        return f'there is no setting "{option[:40]}" here{_suggest(option, known)}'

    def _resolve(self, value: str) -> str:
        """Return a path of the file as one from anywhere: what is relative is beside the file."""
        return value if "://" in value or value in ("", "memory") else str(self._folder / value)

    def _add_fault(self, place: tuple[str, ...], sentence: str) -> None:
        self.faults.append(self._file.describe_fault(place, sentence))
        if len(self.faults) >= _MAX_FAULTS:
            raise _TooManyFaultsError


def _find_secret(option: str, value: Any) -> str:
    """Return why the value may hold a secret, which does not belong into a file, or ``""``."""
    for text in value if isinstance(value, list) else ():
        if option == "header" and SECRET_FIELD.search(text.partition(":")[0]):
            return "the value of this header field may be a secret: name the variable with it, header-env"
        if "://" in text and show_url(text) != text:
            return "this URL may hold a secret, which does not belong into a file"
    return ""


def _needs_trust(option: CommandOption, value: Any) -> bool:
    return not option.is_harmless and (option.strict is None or value != option.strict)


def _suggest(word: str, known: Mapping[str, Any]) -> str:
    if instead := REMOVED.get(word):
        return f". {instead}"
    near = get_close_matches(word, known, 1)
    return f'; did you mean "{near[0]}"?' if near else ""


def read_variable(name: str, option: CommandOption, text: str) -> Any:
    """Return what the text of an environment variable means for ``option``; commas part several values.

    Raises:
        UsageError: it does not fit; the text names the variable ``name`` and not its value.
    """
    value: Any = text
    if option.is_flag:
        value = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(text.lower())
        if value is None:
            raise UsageError(f"{name} is 1 or 0.")
    elif option.is_list:
        value = [part.strip() for part in text.split(",") if part.strip()]
    elif option.read is not None and text.isascii() and text.isdigit() and len(text) < 19:
        value = int(text)
    try:
        return read_option_value(replace(option, name=name), value)
    except ValueError as error:
        raise UsageError(f"{error}.") from error
