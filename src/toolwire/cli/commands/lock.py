"""``toolwire lock``: pin the definitions of tools, so that a change is noticed before a changed tool is called."""

from __future__ import annotations

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from toolwire.cli.exits import OK
from toolwire.cli.parser import read_remote
from toolwire.cli.targets.open_target import OpenedTarget, open_target, open_url, read_reach
from toolwire.cli.terminal.screen import escaped, write_count
from toolwire.cli.terminal.terminal_approver import build_terminal_approver
from toolwire.client import Session, SyncRemote
from toolwire.consent import DefinitionLock, write_lock
from toolwire.consent.definition_lock import Difference
from toolwire.consent.origin_display import name_programs
from toolwire.core.errors import UsageError
from toolwire.core.model import Json
from toolwire.core.url_display import show_url
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.hosting.targets.url_options import UrlOptions, read_lock_file, read_url_options
from toolwire.stores.private_file import write_private_file


def run(arguments: argparse.Namespace) -> int:
    """Write the definitions of every URL into the lock. Other URLs in it stay as they are."""
    for target in map(read_target, arguments.targets):
        if not isinstance(target, UrlTarget):
            raise UsageError("lock needs URLs. Local files change only when you edit them.")
    options = read_url_options(read_remote(arguments), arguments.targets, discovery_s=arguments.timeout)
    file = Path(arguments.file)
    lock = read_lock_file(file, optional=True)
    lines = []
    for url in arguments.targets:
        found = fetch_definitions(url, options)
        lock = lock.with_connection(found.url, found.definitions)
        site, count = escaped(name_programs(show_url(found.url))), write_count(len(found.definitions), "tool")
        lines.append(f"{site}: {count} pinned in {file}")
    try:
        write_private_file(file, write_lock(lock))
    except OSError as error:
        raise UsageError(f"Cannot write the lock file {file}: {error.strerror}.") from error
    print("\n".join(lines))
    return OK


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
    reach = read_reach(arguments, locked=locked)
    with open_target(arguments.target, reach, build_terminal_approver("ask")) as source:
        yield source, () if locked is None else find_differences(locked, source)


def find_differences(lock: DefinitionLock, source: object) -> tuple[Difference, ...]:
    """Return how a connection differs from ``lock``. Where the lock does not hold it, every tool is new."""
    return lock.find_differences(source.url, source.definitions()) if isinstance(source, SyncRemote) else ()


def list_differences(found: tuple[Difference, ...]) -> list[str]:
    """Return differences as escaped lines."""
    return [escaped(line) for one in found for line in one.list_lines()]
