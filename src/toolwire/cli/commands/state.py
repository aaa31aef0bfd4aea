"""``toolwire state``: back up what a server stores, restore it, or check a state or a backup."""
# PL-07

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from toolwire.cli.exits import OK
from toolwire.cli.terminal.screen import escaped, json_text, print_warning, show_time
from toolwire.core.errors import UsageError
from toolwire.framing.call_document import write_time
from toolwire.hosting.state_backup.archive import BackupHead, read_archive, warn_if_readable
from toolwire.hosting.state_backup.folder_state import (
    KIND,
    back_up_folder,
    check_folder_head,
    check_folder_state,
    restore_folder,
)
from toolwire.stores.paths import STATE_VARIABLE, is_postgres_url


def run(arguments: argparse.Namespace) -> int:
    """Do what the action says, and print what came of it."""
    file = Path(arguments.backup) if arguments.backup else None
    if arguments.action != "check" and file is None:
        raise UsageError(f"`state {arguments.action}` needs a backup file: toolwire state {arguments.action} FILE.")
    if file is not None and arguments.action != "backup" and (warning := warn_if_readable(file)):
        print_warning(warning)
    report: dict[str, Any]
    if file is None:
        names = _check_state(_find_place(arguments.state))
        report = {"state": names}
        sentence = f"The state is readable: all {len(names)} of its files or tables."
    else:
        head = _do(arguments, file)
        report = {
            "kind": head.kind,
            "made_at": write_time(head.made_at),
            "toolwire": head.toolwire,
            "contents": sorted(head.files),
        }
        sentence = _describe(arguments, file, head)
    print(json_text(report, indent=2) if arguments.json else sentence)
    return OK


def _do(arguments: argparse.Namespace, file: Path) -> BackupHead:
    if arguments.action == "check":
        return read_archive(file, lambda head: _check_head(head, file))
    place = _find_place(arguments.state)
    is_current = arguments.keep_permissions
    if not is_postgres_url(place):
        folder = Path(place)
        return (
            back_up_folder(folder, file)
            if arguments.action == "backup"
            else restore_folder(file, folder, is_current=is_current)
        )
    from toolwire.hosting.state_backup.postgres_state import back_up_database, restore_database  # an extra

    if arguments.action == "backup":
        return back_up_database(place, file)
    return restore_database(file, place, is_current=is_current)


def _describe(arguments: argparse.Namespace, file: Path, head: BackupHead) -> str:
    name, when = escaped(str(file)), show_time(head.made_at)
    if arguments.action == "backup":
        return f"The state was saved to {name}. It contains secrets, so only you can read it."
    if arguments.action == "check":
        return f"{name} is a complete backup of {when}, made by toolwire {escaped(head.toolwire)}."
    if arguments.keep_permissions:
        return f"The state of {when} was restored, with its answers, permissions and sign-ins."
    return (
        f"The state of {when} was restored. Earlier answers, permissions, sign-ins and one-time tokens "
        "are void. For a day, calls with an idempotency key to tools that write need consent, because "
        "they might already have run."
    )


def _check_state(place: str) -> list[str]:
    if not is_postgres_url(place):
        return check_folder_state(Path(place))
    from toolwire.hosting.state_backup.postgres_state import check_database  # only the extra brings its driver

    return check_database(place)


def _check_head(head: BackupHead, file: Path) -> None:
    if head.kind == KIND:
        return check_folder_head(head, file)
    from toolwire.hosting.state_backup.postgres_state import check_database_head  # only the extra brings its driver

    return check_database_head(head, file)


def _find_place(named: str) -> str:
    """Return the folder or the URL of the state."""
    place = named or os.environ.get(STATE_VARIABLE, "")
    if place in ("", "memory"):
        raise UsageError(
            f"Set the state with --state FOLDER or {STATE_VARIABLE}: a folder, or postgresql://HOST/DATABASE."
        )
    return place
