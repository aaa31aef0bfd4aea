"""Read from the command line what tools may require besides arguments: tokens, secrets and a user id.

Rules:
- A value never stands on the command line, which other programs and the history of the shell can read: it comes from
  the environment, from a file, or from the terminal without echo.
"""
# OTC-014..016, C-10, D-26

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from getpass import getpass
from pathlib import Path

from toolwire.core.errors import UsageError
from toolwire.core.model import ANONYMOUS, Context, Secret

_MAX_BYTES = 64 * 1024


def read_context(arguments: Namespace, targets: Sequence[str] = ()) -> Context:
    """Return the tokens, secrets and user id of the options. They are for one of ``targets``.

    Raises:
        UsageError: a value is nowhere, or stands on the command line, or there are several targets.
    """
    if not (arguments.token or arguments.secret or arguments.user_id):
        return ANONYMOUS
    if len(targets) > 1:
        raise UsageError("--token, --secret and --user-id apply to one server. Several are given.")
    return Context(
        tokens=_read_values("--token", arguments.token),
        secrets=_read_values("--secret", arguments.secret),
        user_id=arguments.user_id,
    )


def _read_values(option: str, given: Sequence[str]) -> Mapping[str, Secret]:
    return dict(_read_value(option, text) for text in given)


def _read_value(option: str, text: str) -> tuple[str, Secret]:
    """Return the name and the value of ``NAME`` or ``NAME=@FILE``."""
    name, mark, where = text.partition("=")
    if not name or (mark and not where.startswith("@")):
        raise UsageError(f"Write {option} as NAME or NAME=@FILE. Other programs can read values on the command line.")
    found = _read_file(option, where[1:]) if mark else os.environ.get(_name_variable(option, name))
    if found is None:
        found = _ask(option, name)
    if not found.strip():
        raise UsageError(f"{option} {name} is empty.")
    return name, Secret(found.strip())


def _name_variable(option: str, name: str) -> str:
    """Return the environment variable: NAME itself for a secret, and ``GOOGLE_TOKEN`` for the token of google."""
    if option == "--secret":
        return name
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") + "_TOKEN"


def _read_file(option: str, path: str) -> str:
    try:
        data = Path(path).read_bytes()[: _MAX_BYTES + 1]
        if len(data) > _MAX_BYTES:
            raise UsageError(f"{option}: {path} is larger than {_MAX_BYTES:,} bytes.")
        return data.decode("utf-8")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{option}: cannot read {path}: {why}.") from error


def _ask(option: str, name: str) -> str:
    if not sys.stdin.isatty():
        variable = _name_variable(option, name)
        raise UsageError(
            f"{option} {name} has no value. Set the environment variable {variable}, or write {name}=@FILE."
        )
    return getpass(f"{'Secret' if option == '--secret' else 'Token for'} {name}: ")
