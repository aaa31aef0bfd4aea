"""Fill in the options that the command line leaves open: from the environment, the project, or the user's own file."""
# FU-40

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Final

from toolwire import __version__
from toolwire.core.command_option import CommandOption
from toolwire.core.errors import UsageError
from toolwire.hosting.settings import read_settings, resolve
from toolwire.hosting.toml_file import SETTINGS_FILE

from .parser import list_commands, list_given, list_settable_options
from .terminal.screen import print_warning

_MAX_NAMED: Final = 5


def apply_settings(arguments: Namespace, argv: Sequence[str]) -> None:
    """Fill in the options that ``argv`` leaves open.

    Raises:
        UsageError: a file or a variable is not valid, or the targets have different settings.
    """
    settings = read_settings(list_settable_options(__version__))
    for sentence in settings.ignored:
        print_warning(sentence)
    if fault := next((fault for file in settings.files for fault in file.faults), None):
        raise UsageError(fault)
    if arguments.command == "serve" and settings.project is not None and settings.project.caller_tables:
        tables = " and ".join(f"[{name}]" for name in settings.project.caller_tables)
        print_warning(  # CR-01: who reads the file would think that they hold here
            f"This project's {SETTINGS_FILE} contains {tables}, for `toolwire gateway run` only. This "
            "server does not apply them when it admits callers."
        )
    if not settings.files and not settings.variables:
        return
    parser = list_commands(__version__)[arguments.command]
    options = list_settable_options(__version__)[arguments.command]
    resolution = resolve(
        settings, arguments.command, list_targets(arguments), options, list_closed(parser, options, argv)
    )
    for name, one in resolution.used.items():
        setattr(arguments, options[name].field or name.replace("-", "_"), one.value)
    if resolution.untrusted:
        names = sorted({one.option for one in resolution.untrusted})
        shown = ", ".join(names[:_MAX_NAMED]) + (" and more" if len(names) > _MAX_NAMED else "")
        print_warning(
            f"This project's {SETTINGS_FILE} also sets {shown}. `toolwire settings trust` shows these "
            "settings and lets you accept them."
        )


def list_targets(arguments: Namespace) -> tuple[str, ...]:
    """Return the targets of a command line."""
    several = getattr(arguments, "targets", None)
    if several is not None:
        return tuple(several)
    found = (getattr(arguments, name, None) for name in ("target", "url", "source"))
    return tuple(one for one in found if one)


def list_closed(parser: ArgumentParser, options: Mapping[str, CommandOption], argv: Sequence[str]) -> frozenset[str]:
    """Return the names of the options that a command line decides, with those that do not go with them."""
    given = list_given(argv, __version__)
    for group in parser._mutually_exclusive_groups:
        dests = {action.dest for action in group._group_actions}
        if dests & given:
            given |= dests
    return frozenset(name for name, option in options.items() if (option.field or name.replace("-", "_")) in given)
