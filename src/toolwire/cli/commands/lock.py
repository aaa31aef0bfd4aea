"""``toolwire lock``: pin the definitions of tools, so that a change is noticed before a changed tool is called."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from toolwire.cli.exits import OK
from toolwire.cli.parser import read_remote
from toolwire.cli.targets.open_target import OpenedTarget, open_target, open_url
from toolwire.cli.terminal.screen import escaped
from toolwire.cli.terminal.terminal_approver import build_terminal_approver
from toolwire.client import Session, SyncRemote
from toolwire.consent import DefinitionLock, read_lock, write_lock
from toolwire.consent.definition_lock import Difference
from toolwire.consent.origin_display import name_programs
from toolwire.core.errors import DefinitionError, UsageError
from toolwire.core.model import Json
from toolwire.core.url_display import show_url
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.hosting.targets.url_options import UrlOptions, read_url_options


def run(arguments: argparse.Namespace) -> int:
    """Write the definitions of every URL into the lock. Other URLs in it stay as they are."""
    for target in map(read_target, arguments.targets):
        if not isinstance(target, UrlTarget):
            raise UsageError("lock takes URLs: what is in a file changes with you alone.")
    options = read_url_options(read_remote(arguments), arguments.targets, discovery_s=arguments.timeout)
    file = Path(arguments.file)
    lock = read_lock_file(file) if file.exists() else DefinitionLock()
    lines = []
    for url in arguments.targets:
        found = fetch_definitions(url, options)
        lock = lock.with_connection(found.url, found.definitions)
        count = "1 tool" if len(found.definitions) == 1 else f"{len(found.definitions)} tools"
        lines.append(f"{escaped(name_programs(show_url(found.url)))}: {count} pinned in {file}")
    write_private(file, write_lock(lock))
    print("\n".join(lines))
    return OK


def write_private(file: Path, text: str) -> None:
    """Write ``text`` into a new file that takes the place of ``file``; only its owner can read and write it.

    Raises:
        UsageError: it cannot be written.
    """
    # A link in its place is replaced, not followed: a folder from elsewhere may hold one that leads anywhere.
    new = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
            opened.write(text)
        new.replace(file)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise UsageError(f"The lock cannot be written to {file}: {error.strerror}.") from error


class FetchedDefinitions(NamedTuple):
    """The URL of a connection, and the definition of each of its tools."""

    url: str
    definitions: list[dict[str, Json]]


def fetch_definitions(url: str, options: UrlOptions) -> FetchedDefinitions:
    """Return the present definitions of the selected tools at ``url``."""
    with open_url(url, options, build_terminal_approver("ask"), Session()) as remote:
        return FetchedDefinitions(remote.url, remote.definitions())


@contextmanager
def open_tools(arguments: argparse.Namespace) -> Generator[tuple[OpenedTarget, tuple[Difference, ...]], None, None]:
    """Open the target of ``arguments`` to read its tools, and give how they differ from the lock with ``--locked``."""
    locked = read_lock_file(Path(arguments.file)) if arguments.locked else None
    options = read_url_options(
        read_remote(arguments), [arguments.target], discovery_s=arguments.timeout, offline=arguments.offline
    )
    with open_target(arguments.target, replace(options, locked=locked), build_terminal_approver("ask")) as source:
        yield source, () if locked is None else find_differences(locked, source)


def read_lock_file(file: Path) -> DefinitionLock:
    """Return the lock in ``file``.

    Raises:
        UsageError: it cannot be read, or is no lock.
    """
    try:
        return read_lock(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"The lock cannot be read from {file}: {why}. `toolwire lock URL` makes one.") from error
    except DefinitionError as error:
        raise UsageError(f"{file}: {error}") from error


def find_differences(lock: DefinitionLock, source: object) -> tuple[Difference, ...]:
    """Return how a connection differs from ``lock``. Where the lock does not hold it, every tool is new."""
    return lock.find_differences(source.url, source.definitions()) if isinstance(source, SyncRemote) else ()


def list_differences(found: tuple[Difference, ...]) -> list[str]:
    """Return differences as escaped lines."""
    lines: list[str] = []
    for one in found:
        lines.append(f"{escaped(one.tool)}: {one.what}, {one.direction}")
        lines += [f"  {change.sentence}" for change in one.changes]
    return lines
