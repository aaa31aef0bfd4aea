"""Define how an option is written on a command line, and by the same name in a file of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

_KEY: Final = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOption:
    """One option: its name without dashes, one line of help, and what values it takes.

    ``default`` is what it is if nobody gives it. A list can be given several times, and False becomes True. ``read``
    makes a value of its text, and raises ValueError with a sentence. ``field`` is the field that it sets.
    """

    name: str
    help: str
    default: Any = ""
    metavar: str | None = None
    choices: Sequence[str] | None = None
    read: Callable[[str], Any] | None = None
    field: str = ""


def define_option(default: Any, option: CommandOption, *, is_secret: bool = False) -> Any:
    """Return a field of a dataclass with this ``default``, which ``option`` sets; a secret is not in its ``repr``."""
    return field(default=default, repr=not is_secret, metadata={_KEY: option})


def list_command_options(record: type) -> Iterator[CommandOption]:
    """Yield the options that set fields of the dataclass ``record``, in its order."""
    for one in fields(record):
        option: CommandOption | None = one.metadata.get(_KEY)
        if option is not None:
            yield replace(option, field=one.name)


def read_whole_number(least: int, most: int, what: str) -> Callable[[str], int]:
    """Return a function that reads the text of a number from ``least`` to ``most``.

    It raises ValueError with a sentence, which says ``what`` the number is, such as ``port``.
    """

    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
            return int(text)
        raise ValueError(f"{text!r} is not a {what} from {least} to {most}")

    return read
