"""``toolwire approvals``: answer waiting questions, list grants, set levels of consent, and show the decisions."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from toolwire.cli.exits import FAILED, OK, UsageError
from toolwire.cli.targets.open_target import check_url
from toolwire.cli.terminal.screen import escaped, print_error
from toolwire.cli.terminal.table import print_table
from toolwire.cli.terminal.terminal_approver import list_question
from toolwire.client.discovery.discover import complete_url
from toolwire.consent.decision_record import find_chain_fault
from toolwire.core.check import Answer
from toolwire.core.model import Approval
from toolwire.core.url_origin import get_origin
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.consent.audit import AUDIT_FILE, StoredAudit
from toolwire.stores.consent.grants import StoredGrants
from toolwire.stores.consent.preferences import EVERY_TOOL, EVERY_WRITE, KEPT_LEVELS, StoredPreferences
from toolwire.stores.paths import find_state_folder

ACTIONS = ("list", "allow", "deny", "revoke", "set", "unset", "log")
_SAID = {EVERY_TOOL: "every tool", EVERY_WRITE: "every tool that changes something"}
_DONE = {Approval.PER_CALL: "is asked about each time", Approval.DENY: "is never called"}
_COLUMNS = ("time", "decision", "who", "connection", "tool", "shown", "where", "digest")


def run(arguments: argparse.Namespace) -> int:
    """List, answer, revoke or verify, in the folder where decisions are stored."""
    folder = Path(arguments.path) if arguments.path else find_state_folder()
    if arguments.action in ("set", "unset"):
        return _change_level(StoredPreferences(folder), arguments)
    if arguments.words or arguments.writes or arguments.every:
        raise UsageError(f"approvals {arguments.action} takes no tool: that is for `set` and `unset`.")
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
    levels = StoredPreferences(folder).list_levels()
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
    if levels:
        kept = [(one.site, escaped(_SAID.get(one.tool, one.tool)), one.level.value) for one in levels]
        print_table(("site", "your level for", "level"), kept, sys.stdout)
    if not waiting and not granted and not levels:
        print("Nothing waits for an answer, and nothing is allowed for good.")
    return OK


def _change_level(store: StoredPreferences, arguments: argparse.Namespace) -> int:
    """Set or delete the level of a tool, of every tool, or of every tool that changes something."""
    # XL-042
    is_set, words = arguments.action == "set", list(arguments.words)
    general = EVERY_TOOL if arguments.every else EVERY_WRITE if arguments.writes else ""
    tool = general or (words.pop(0) if words else "")
    level = words.pop(0) if is_set and words else ""
    if not arguments.id or not tool or words or (is_set and level not in KEPT_LEVELS):
        how = "TOOL per-call|deny" if is_set else "TOOL"
        raise UsageError(
            f"Say it like: toolwire approvals {arguments.action} SITE {how}, with --writes or --every for TOOL."
        )
    site = get_origin(complete_url(check_url(arguments.id)))
    what = f"{escaped(_SAID.get(tool, tool))} of {site}"
    if is_set:
        store.set(site, tool, Approval(level))
        print(f"From now on, {what} {_DONE[Approval(level)]}.")
        return OK
    if store.unset(site, tool):
        print(f"You have no level for {what} any more: the site's holds.")
        return OK
    print_error(f"You have no level for {what}.")
    return FAILED


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
