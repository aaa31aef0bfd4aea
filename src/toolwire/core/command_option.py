"""Define how an option is written on a command line, and by the same name in a file of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeAlias, TypeVar

_KEY: Final = "command"

Subject: TypeAlias = Literal["program", "urls", "target"]
"""What an option is about: the program, any target that is a URL or a document, or one such target alone."""

_NO_RECIPES: Final = "Recipes were removed in 1.0.0rc2"
REMOVED: Final[Mapping[str, str]] = {
    "connections": "It was removed in 1.0.0rc2: `toolwire gateway add URL` adds a server to toolwire.toml",
    "recipes": f"{_NO_RECIPES}: `next` of a tool names the tools that follow",
    "step": f"{_NO_RECIPES}: call the tools of the steps",
    "workflows": f"{_NO_RECIPES}: write a tool that runs the steps",
}
"""What to do instead, by each option that an earlier version had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOption:
    """One option: its name without dashes, one line of help, and what values it takes.

    ``default`` is what it is if nobody gives it. A list can be given several times, False becomes True, and True
    becomes False. ``read`` makes a value of its text, and raises ValueError with a sentence. ``field`` is the field
    that it sets.

    Where ``settings`` says what the option is about, the file ``toolwire.toml`` may set it for commands: what is about
    one ``target`` is in no default. ``is_path`` says that a relative value means a file beside that file.
    ``is_harmless`` lets the file of a project set it without the user's yes: it names no other host, file or secret,
    and asks no less. For an option with a ``strict`` value, that holds for this value alone.
    """

    name: str
    help: str
    default: Any = None
    metavar: str | None = None
    choices: Sequence[str] | None = None
    read: Callable[[str], Any] | None = None
    field: str = ""
    settings: Subject | None = None
    is_path: bool = False
    is_harmless: bool = False
    strict: Any = None

    @property
    def is_flag(self) -> bool:
        """Whether the option is given without a value."""
        return isinstance(self.default, bool)

    @property
    def is_list(self) -> bool:
        """Whether the option can be given several times."""
        return isinstance(self.default, list)


def define_option(
    default: Any, *, is_secret: bool = False, cli_default: Any = ..., name: str = "", **option: Any
) -> Any:
    """Return a field of a dataclass with this ``default``, which the ``CommandOption`` of the other arguments sets.

    The option has the name of the field, with dashes, if it has no other ``name``, and the default of the field, if a
    command has no other one, ``cli_default``. A secret is not in the ``repr`` of the record.
    """
    typed = list(default) if isinstance(default, tuple) else default
    command = CommandOption(name=name, default=typed if cli_default is ... else cli_default, **option)
    return field(default=default, repr=not is_secret, metadata={_KEY: command})


def list_command_options(record: type) -> Iterator[CommandOption]:
    """Yield the options that set fields of the dataclass ``record``, in its order."""
    for one in fields(record):
        option: CommandOption | None = one.metadata.get(_KEY)
        if option is not None:
            yield replace(option, field=one.name, name=option.name or one.name.replace("_", "-"))


R = TypeVar("R")


def build_record(record: type[R], values: Mapping[str, Any]) -> R:
    """Return a ``record``, a dataclass, with those of ``values`` that its options set, and its defaults elsewhere."""
    names = [option.field for option in list_command_options(record)]
    return record(**{name: values[name] for name in names if name in values})


def read_whole_number(least: int, most: int, what: str) -> Callable[[str], int]:
    """Return a function that reads the text of a number from ``least`` to ``most``.

    It raises ValueError with a sentence, which says ``what`` the number is, such as ``port``.
    """

    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
            return int(text)
        raise ValueError(f"{text!r} must be a {what} from {least} to {most}")

    return read
