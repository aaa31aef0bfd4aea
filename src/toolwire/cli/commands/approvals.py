"""``toolwire approvals``: answer waiting questions, list grants, and show the decisions so far."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from toolwire.cli.exits import FAILED, OK, UsageError
from toolwire.cli.terminal.screen import escaped, print_error
from toolwire.cli.terminal.table import print_table
from toolwire.cli.terminal.terminal_approver import list_question
from toolwire.consent.decision_record import find_chain_fault
from toolwire.core.check import Answer
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.consent.audit import AUDIT_FILE, StoredAudit
from toolwire.stores.consent.grants import StoredGrants
from toolwire.stores.paths import find_state_folder

ACTIONS = ("list", "allow", "deny", "revoke", "log")
_COLUMNS = ("time", "decision", "who", "connection", "tool", "shown", "where", "digest")


def run(arguments: argparse.Namespace) -> int:
    """List, answer, revoke or verify, in the folder where decisions are stored."""
    folder = Path(arguments.path) if arguments.path else find_state_folder()
    if arguments.action in ("allow", "deny", "revoke") and not arguments.id:
        raise UsageError(f"Say which: toolwire approvals {arguments.action} ID; `toolwire approvals list` shows them.")
    match arguments.action:
        case "allow" | "deny":
            return _answer(folder, arguments)
        case "revoke":
            return _revoke(folder, arguments.id)
        case "log":
            return _verify(folder) if arguments.verify else _log(folder)
        case _:
            return _list(folder)


def _list(folder: Path) -> int:
    approvals, grants = Approvals(folder), StoredGrants(folder)
    waiting, granted = approvals.list_pending(), grants.list_grants()
    for one in waiting:
        print(f"{one.id}  waits until {_format_time(one.expires_at)}")
        for line in list_question(one.rows):
            print(f"  {line}")
    if granted:
        rows = [
            (one.id, escaped(one.key.tool), escaped(one.key.connection), one.key.origin, _format_time(one.expires_at))
            for one in granted
        ]
        print_table(("grant", "tool", "connection", "site", "until"), rows, sys.stdout)
    if not waiting and not granted:
        print("Nothing waits for an answer, and nothing is allowed for good.")
    return OK


def _answer(folder: Path, arguments: argparse.Namespace) -> int:
    allowed = arguments.action == "allow"
    answer = Answer(allowed=allowed, always=allowed and arguments.always, reason="" if allowed else arguments.reason)
    if Approvals(folder).answer(arguments.id, answer):
        return OK
    print_error(f"No question {arguments.id} waits for an answer.")
    return FAILED


def _revoke(folder: Path, id_: str) -> int:
    if StoredGrants(folder).revoke(id_):
        return OK
    print_error(f"There is no grant {id_}.")
    return FAILED


def _log(folder: Path) -> int:
    rows = [
        (
            _format_time(entry.record.at),
            entry.record.decision + (", always" if entry.record.always else ""),
            escaped(entry.record.principal),
            escaped(entry.record.connection),
            escaped(entry.record.tool),
            f"{entry.record.shown_ms / 1_000:.1f} s",
            escaped(entry.record.channel),
            entry.record.binding[:12],
        )
        for entry in StoredAudit(folder).entries()
    ]
    if rows:
        print_table(_COLUMNS, rows, sys.stdout)
    else:
        print("Nothing was decided yet.")
    return OK


def _verify(folder: Path) -> int:
    if not (folder / AUDIT_FILE).is_file():
        print_error(f"There is no record of decisions in {folder}: is it the right folder?")
        return FAILED
    entries = StoredAudit(folder).entries()
    wrong = find_chain_fault(entries)
    if wrong:
        print_error(wrong)
        return FAILED
    last = entries[-1].digest if entries else "none"
    print(f"{len(entries)} records, each as it was written. The last digest: {last}")
    return OK


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
