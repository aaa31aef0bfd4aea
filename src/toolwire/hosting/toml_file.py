"""Read ``toolwire.toml``: bounded, with the line and the column of each member, and values as options have them.

The tables of a gateway and those of settings stand in one file, so both are read here.
"""
# GW-01, FU-40

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

from toolwire.core.command_option import CommandOption
from toolwire.core.errors import UsageError
from toolwire.framing.jsontext import describe_type

SETTINGS_FILE: Final = "toolwire.toml"
SETTINGS_TABLES: Final = frozenset({"defaults", "targets"})
"""The tables with settings of commands; all others are of the gateway."""
# A file is shared and kept under version control, so what is secret stays out of it.
SECRETS: Final = {
    "key": "name the environment variable that has the key: key-env",
    "api-key": "put keys into a file of their own: api-key-file",
}
"""The options that a file never has, and what to write instead."""
SECRET_FIELD: Final = re.compile("auth|cookie|key|password|secret|token", re.IGNORECASE)
"""Names of header fields whose values are secrets."""

MAX_BYTES: Final = 1 << 20
_MAX_DOTS: Final = 32
_QUOTED: Final = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")
_PART: Final = r"[A-Za-z0-9_-]+|\"[^\"\n]*\"|'[^'\n]*'"
_HEADER: Final = re.compile(rf"\s*\[\s*((?:{_PART})(?:\s*\.\s*(?:{_PART}))*)\s*\]")
_MEMBER: Final = re.compile(rf"\s*((?:{_PART})(?:\s*\.\s*(?:{_PART}))*)\s*=")
_FAULT: Final = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


class TomlFile:
    """The content of a file, and where each member stands."""

    def __init__(self, data: bytes, name: str) -> None:
        """Read the text ``data`` of the file that faults call ``name``.

        Raises:
            UsageError: it is no TOML; the text has the line and the column.
        """
        self.name = name
        try:
            self.text: str = data.decode()
            _refuse_long_keys(self.text, name)
            self.content: Mapping[str, Any] = tomllib.loads(self.text)
        except UnicodeDecodeError as error:
            raise UsageError(f"{name} is not UTF-8.") from error
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            if at := _FAULT.fullmatch(str(error)):
                raise UsageError(f"{name}:{at[2]}:{at[3]}: invalid TOML: {at[1]}.") from error
            raise UsageError(f"{name} is not valid TOML: {error}.") from error
        except ValueError as error:
            raise UsageError(f"{name} is not valid TOML: a number has too many digits.") from error
        if (place := _find_null(self.content)) is not None:
            self.fail(place, "a text has a null character, which no path, name or URL may have")

    def describe_fault(self, place: tuple[str, ...], sentence: str) -> str:
        """Return the sentence of a fault, after the line and the column of the member at ``place``."""
        return f"{self.find_source(place)}: {sentence}{'' if sentence.endswith('?') else '.'}"

    def find_source(self, place: tuple[str, ...]) -> str:
        """Return the name of the file, the line and the column of the member at ``place``, with colons between."""
        found = (self._positions.get(place[:depth]) for depth in range(len(place), 0, -1))
        line, column = next(filter(None, found), (1, 1))
        return f"{self.name}:{line}:{column}"

    @cached_property
    def _positions(self) -> Mapping[tuple[str, ...], tuple[int, int]]:
        """The line and the column, from 1, of each table and each member that begins a line."""
        found: dict[tuple[str, ...], tuple[int, int]] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(self.text.splitlines(), 1):
            if header := _HEADER.match(line):
                here = table = _split(header[1])
                # A fault of all tables [a.x] and [a.y] together is one of the first.
                found.setdefault(here[:1], (number, len(line) - len(line.lstrip()) + 1))
            elif member := _MEMBER.match(line):
                here = (*table, *_split(member[1]))
            else:
                continue
            found.setdefault(here, (number, len(line) - len(line.lstrip()) + 1))
        return found

    def fail(self, place: tuple[str, ...], sentence: str) -> NoReturn:
        """Raise the fault of the member at ``place``.

        Raises:
            UsageError: always.
        """
        raise UsageError(self.describe_fault(place, sentence))


def _find_null(value: Any) -> tuple[str, ...] | None:
    """Return the place of a text or a name in ``value`` with a null character, or None if there is none."""
    match value:
        case str():
            return () if "\0" in value else None
        case Mapping():
            for name, one in value.items():
                if "\0" in name:
                    return (name,)
                if (place := _find_null(one)) is not None:
                    return (name, *place)
        case list():
            return next((place for one in value if (place := _find_null(one)) is not None), None)
        case _:
            pass  # a number, a date or a truth value
    return None


def _refuse_long_keys(text: str, name: str) -> None:
    # tomllib works on a key with very many parts for the square of their number.
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > _MAX_DOTS and _QUOTED.sub("", line).count(".") > _MAX_DOTS:
            raise UsageError(f"{name}:{number}:1: more than {_MAX_DOTS} dots outside quotes.")


def read_bytes(path: Path, missing: str, *, largest: int = MAX_BYTES) -> bytes:
    """Return what is in the file, of at most ``largest`` bytes. ``missing`` says what to do where there is none.

    Raises:
        UsageError: it cannot be read, or is larger.
    """
    try:
        # What is no file, such as a named pipe, could keep the program waiting for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{path} is not a file.")
        with path.open("rb") as file:
            data = file.read(largest + 1)
    except FileNotFoundError as error:
        raise UsageError(f"There is no {path}: {missing}") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    if len(data) > largest:
        raise UsageError(f"{path} is larger than {largest:,} bytes.")
    return data


def read_option_value(option: CommandOption, value: Any) -> Any:
    """Return what a file's ``value`` means for ``option``.

    Raises:
        ValueError: it does not fit; the text says why.
    """
    name = option.name
    if option.is_flag:
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, not {describe_type(value)}")
        return value is not option.default  # an option such as --no-work sets what it names to false
    if option.is_list:
        several = value if isinstance(value, list) else [value]
        if not all(isinstance(one, str) for one in several):
            raise ValueError(f"{name} must be a string or an array of strings")
        return several if option.read is None else [_read(option.name, option.read, one) for one in several]
    if option.read is not None and not isinstance(option.default, str):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} must be an integer, not {describe_type(value)}")
        return _read(name, option.read, str(value))
    if not isinstance(value, str):
        raise ValueError(f"{name} is a string, not {describe_type(value)}")
    if option.choices is not None and value not in option.choices:
        raise ValueError(f"{name} must be one of {', '.join(option.choices)}, not {value[:40]!r}")
    return value if option.read is None else _read(name, option.read, value)


def _read(name: str, read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))
