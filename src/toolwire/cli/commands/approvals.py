"""``toolwire approvals``: answer waiting questions, list grants, set levels of consent, and show the decisions."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from toolwire.cli.exits import OK
from toolwire.cli.receipts import print_keys, verify_receipts
from toolwire.cli.targets.open_target import open_target
from toolwire.cli.terminal.screen import escaped, json_text, print_warning, show_time, write_count
from toolwire.cli.terminal.table import print_table
from toolwire.cli.terminal.terminal_approver import list_question
from toolwire.cli.terminal.terminal_user import CHANNEL, find_user_name
from toolwire.client.transport.drivers import NO_APPROVER
from toolwire.consent.bound_text import build_bounds, parse_named_bound, parse_until, parse_uses
from toolwire.consent.decision_record import ChainedDecision, Decision, find_chain_fault
from toolwire.consent.grant import Permission, group_permissions
from toolwire.consent.origin_display import name_programs
from toolwire.consent.question_groups import QuestionGroup, describe_differences, group_questions, mark_differing
from toolwire.core.check import Answer, SimilarTool
from toolwire.core.condition import ONLY, write_conditions
from toolwire.core.errors import ToolwireError, UsageError
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import Approval, Json, Problem
from toolwire.core.selection import Selection
from toolwire.framing.call_document import write_time
from toolwire.hosting.targets.url_options import UrlOptions, find_site
from toolwire.stores.consent.approvals import PendingQuestion, build_answer_record
from toolwire.stores.consent.audit import list_audit_files
from toolwire.stores.consent.open import (
    Place,
    StoredDecisions,
    StoredLevels,
    is_in_database,
    open_approvals,
    open_decisions,
    open_grants,
    open_levels,
)
from toolwire.stores.consent.preferences import EVERY_TOOL, EVERY_WRITE, STORED_LEVELS, StoredLevel
from toolwire.stores.paths import find_decisions_place, find_state_folder

_NAMES = {EVERY_TOOL: "every tool", EVERY_WRITE: "every tool that changes something"}
_DONE = {Approval.PER_CALL: "is asked about each time", Approval.DENY: "is never called"}
_AGO = re.compile(r"([0-9]{1,6})([dhm])")
_UNITS_S = {"d": 86_400, "h": 3_600, "m": 60}
_OLDER_IN_A_ROW = 1_000
_COLUMNS = ("time", "decision", "who", "connection", "tool", "shown", "where", "digest")


def run(arguments: argparse.Namespace) -> int:
    """List, answer, revoke or verify, where decisions are stored: in a folder or a database."""
    try:
        return _run(arguments.path or find_decisions_place(), arguments)
    except ConnectionError as error:  # the database went away meanwhile, or what reads the output
        if isinstance(error, BrokenPipeError):
            raise
        raise ToolwireError(f"Cannot read or store decisions: {error}.") from error


def _run(place: Place, arguments: argparse.Namespace) -> int:
    if arguments.action in ("set", "unset"):
        return _change_level(place, arguments)
    if arguments.words or arguments.writes or arguments.every:
        raise UsageError(f"`approvals {arguments.action}` does not accept a tool. Tools are for `set` and `unset`.")
    if arguments.action in ("allow", "deny", "revoke") and not arguments.id:
        raise UsageError(
            f"Name the question: toolwire approvals {arguments.action} ID. `toolwire approvals list` shows the IDs."
        )
    match arguments.action:
        case "key" | "verify":
            return _prove(place, arguments)
        case "allow" | "deny":
            return _answer(place, arguments)
        case "revoke":
            return _revoke(place, arguments.id)
        case "log":
            return _verify(place) if arguments.verify else _log(place, arguments)
        case _:
            return _list(place, as_json=arguments.json)


def _prove(place: Place, arguments: argparse.Namespace) -> int:
    """Print the user's keys, or verify the receipts in a file."""
    # CC-06: a private key is on this machine only, also if decisions are in a database.
    folder = find_state_folder() if is_in_database(place) else Path(place)
    if arguments.action == "key":
        return print_keys(folder, rotate=arguments.rotate)
    if not arguments.id:
        raise UsageError(
            "Name a file: toolwire approvals verify FILE. `toolwire approvals log --json` prints receipts."
        )
    return verify_receipts(folder, arguments.id, arguments.keys, as_json=arguments.json)


def _list(place: Place, *, as_json: bool) -> int:
    grants = open_grants(place)
    waiting, granted = open_approvals(place).list_pending(), group_permissions(grants.list_grants())
    known = {(one.key.origin, one.key.tool) for row in granted for one in row.grants}
    pinned = [one for one in grants.list_pinned() if one not in known]
    levels = open_levels(place).list_levels()
    if as_json:
        listed: dict[str, Json] = {
            "waiting": [
                {
                    "id": one.id,
                    "until": write_time(one.expires_at),
                    "task": group.words,
                    "differs": sorted(group.differing.get(one.id, ())),
                    "similar": [each.name for each in one.similar],
                    "rows": [row._asdict() for row in one.rows],
                }
                for group in group_questions(waiting)
                for one in group.questions
            ],
            "grants": [
                {
                    "id": one.id,
                    "tool": one.tool,
                    "connection": one.connections,
                    "site": one.key.origin,
                    "until": write_time(one.expires_at),
                    "covers": one.covers,
                    "conditions": _write_conditions(one),
                    "uses_left": one.grants[0].uses_left,
                    "covered": one.use_count,
                    "covered_sum": one.amounts or None,
                    "last_used": write_time(one.last_used_at) if one.use_count else None,
                }
                for one in granted
            ],
        }
        listed["levels"] = [{"site": one.site, "tool": one.tool, "level": one.level.value} for one in levels]
        listed["definitions"] = [{"site": site, "tool": tool} for site, tool in pinned]
        print(json_text(listed, indent=2))
        return OK
    _print_waiting(group_questions(waiting))
    if granted:
        rows = [
            (
                one.id,
                escaped(one.tool),
                name_programs(escaped(one.connections)),
                name_programs(one.key.origin),
                show_time(one.expires_at),
                one.covers,
                _describe_uses(one),
            )
            for one in granted
        ]
        print_table(("grant", "tool", "connection", "site", "until", "covers", "covered so far"), rows, sys.stdout)
    if levels:
        rule_rows = [
            (name_programs(one.site), escaped(_NAMES.get(one.tool, one.tool)), one.level.value) for one in levels
        ]
        print_table(("site", "your level for", "level"), rule_rows, sys.stdout)
    if not waiting and not granted and not levels:
        print("No questions are pending, and no permissions are stored.")
    if pinned:
        rows_of_pins = [(name_programs(site), escaped(tool)) for site, tool in pinned]
        print_table(("site", "approved once: a changed definition is shown"), rows_of_pins, sys.stdout)
    return OK


def _describe_uses(row: Permission) -> str:
    # QF-03
    if not row.use_count:
        return "nothing yet"
    amounts = f", {row.amounts}" if row.amounts else ""
    return f"{write_count(row.use_count, 'call')}{amounts}, last {show_time(row.last_used_at)}"


def _print_waiting(groups: Sequence[QuestionGroup[PendingQuestion]]) -> None:
    """Print the questions that wait, those of one task together."""
    # QF-05
    for group in groups:
        if len(group.questions) > 1:
            print(f"{len(group.questions)} calls at {group.words}:")
        for one in group.questions:
            print(f"{one.id}  waits until {show_time(one.expires_at)}")
            if (differing := group.differing.get(one.id)) is not None:
                print(f"  {describe_differences(differing)}")
            for line in list_question(mark_differing(one.rows, differing or frozenset())):
                print(f"  {line}")
            if one.similar:  # QF-03
                print(f"  --similar allows too: {escaped(', '.join(each.name for each in one.similar))}")


def _write_conditions(row: Permission) -> Json:
    """Return the conditions of ``row`` as data; without the one that names the arguments of the approved call."""
    conditions = row.grants[0].conditions
    return None if conditions is None else write_conditions(tuple(one for one in conditions if one.op != ONLY))


def _change_level(place: Place, arguments: argparse.Namespace) -> int:
    """Set or delete the level of a tool, of every tool, or of every tool that changes something."""
    # XL-042
    store = open_levels(place)
    is_set, words = arguments.action == "set", list(arguments.words)
    general = EVERY_TOOL if arguments.every else EVERY_WRITE if arguments.writes else ""
    tool = general or (words.pop(0) if words else "")
    level = words.pop(0) if is_set and words else ""
    if not arguments.id or not tool or words or (is_set and level not in STORED_LEVELS):
        how = "TOOL per-call|deny" if is_set else "TOOL"
        raise UsageError(
            f"Write the command as: toolwire approvals {arguments.action} SERVER {how}, with --writes or "
            "--every instead of TOOL."
        )
    site = find_site(arguments.id)
    what = f"{escaped(_NAMES.get(tool, tool))} of {site}"
    if is_set:
        store.set(site, tool, Approval(level))
        _record(place, f"rule: {level}", tool, site=site)
        print(f"From now on, {what} {_DONE[Approval(level)]}.", flush=True)
        if not general:
            _check_tool(store, site, arguments.id, StoredLevel(site, tool, Approval(level)))
        return OK
    if store.unset(site, tool):
        _record(place, "rule: no level", tool, site=site)
        print(f"Your rule for {what} was deleted. The server's own approval level applies now.")
        return OK
    raise ToolwireError(f"You have no rule for {what}.")


def _check_tool(store: StoredLevels, site: str, url: str, rule: StoredLevel) -> None:
    """Warn if the site at ``url`` has no tool of the name that was stored; store the name of a tool for its id."""
    # XL-042: a level for a misspelt name would have no effect, and the user would not notice. The level is stored
    # before the check: a site that does not answer must not prevent a stricter level.
    try:
        with open_target(url, UrlOptions(selection=Selection(include="all")), lambda _: NO_APPROVER) as opened:
            found = opened.find(rule.tool)
    except (ToolwireError, UsageError) as error:
        print_warning(f"The tool was not checked at {site}: {error}")
        return
    if isinstance(found, Problem):
        print_warning(f"{found.message} The rule is stored, and applies once the server offers a tool with this name.")
    elif rule.tool not in (found.name, found.id):
        store.unset(site, rule.tool)
        store.set(site, found.name, rule.level)
        print(f"This tool's full name is {escaped(found.name)}. The rule is stored under it.")


def _answer(place: Place, arguments: argparse.Namespace) -> int:
    allowed = arguments.action == "allow"
    approvals = open_approvals(place)
    asked = next((one for one in approvals.list_pending() if one.id == arguments.id), None)
    bounds = _read_bounds(arguments, () if asked is None else asked.similar)
    if bounds is not None and not allowed:
        raise UsageError("--bound, --times, --until and --similar are for `approvals allow`.")
    always = allowed and (arguments.always or bounds is not None)
    answer = Answer(
        allowed=allowed,
        always=always,
        reason="" if allowed else arguments.reason,
        bounds=bounds,
        channel=CHANNEL,
        decided_by=find_user_name(),
    )
    if asked is not None and approvals.answer(arguments.id, answer):
        # FU-60: a server asked for its caller. A program that asked its own user records the decision itself.
        if asked.principal:
            open_decisions(place).append(build_answer_record(asked, answer, time.time()))
        return OK
    raise ToolwireError(f"No question {arguments.id} is pending. `toolwire approvals list` shows the pending ones.")


def _read_bounds(arguments: argparse.Namespace, similar: Sequence[SimilarTool]) -> GrantBounds | None:
    """Return the bounds that the options set for a tool and those ``similar`` to it, or None.

    Raises:
        DefinitionError: one of them cannot be read.
    """
    # CC-03
    tools = [one.definition for one in similar] if arguments.similar else []
    if not arguments.bound and arguments.times is None and arguments.until is None and not tools:
        return None
    uses = None if arguments.times is None else parse_uses(arguments.times)
    until = None if arguments.until is None else parse_until(datetime.now().astimezone(), arguments.until)
    return build_bounds(map(parse_named_bound, arguments.bound), uses, until, tools=tools)


def _revoke(place: Place, id_: str) -> int:
    """Revoke the grants of one row, or all that is kept for a site."""
    # FU-55
    grants = open_grants(place)
    row = next(
        (one for one in group_permissions(grants.list_grants()) if id_ in [one.id, *(each.id for each in one.grants)]),
        None,
    )
    if row is not None:
        for one in row.grants:
            if grants.revoke(one.id):
                tool = one.key.tool.partition(" ")[0]
                _record(place, "revoked", tool, binding=one.id, caller=one.key.principal, site=one.key.origin)
        return OK
    if not _LIKE_A_SITE.search(id_):
        raise ToolwireError(f"There is no permission {id_}. `toolwire approvals list` shows all permissions.")
    site = find_site(id_)
    count = grants.forget(site)
    if not count:
        raise ToolwireError(f"Nothing is stored for {site}. `toolwire approvals list` shows what is stored.")
    _record(place, "revoked", "", site=site)
    print(f"All permissions for {site} were revoked: {count} entr{'y' if count == 1 else 'ies'} deleted.")
    return OK


_LIKE_A_SITE: Final = re.compile(r"[:./]|localhost")


def _record(place: Place, decision: str, tool: str, *, binding: str = "", caller: str = "", site: str = "") -> None:
    """Add to the log what the user of this terminal has decided."""
    # FU-60
    record = Decision(
        at=time.time(),
        principal=find_user_name(),
        caller=caller,
        connection=CHANNEL,
        tool=tool,
        binding=binding,
        decision=decision,
        channel=CHANNEL,
        site=site,
    )
    open_decisions(place).append(record)


def _log(place: Place, arguments: argparse.Namespace) -> int:
    since = _read_since(arguments.since)
    entries = [
        entry
        for entry in _list_since(open_decisions(place), since)
        if arguments.tool in entry.record.tool
        and (arguments.site in entry.record.site or arguments.site in entry.record.connection)
    ]
    if arguments.json:
        for entry in entries:
            members = {**asdict(entry.record), "at": write_time(entry.record.at)}
            receipt = members.pop("receipt")
            if receipt:
                members["receipt"] = json.loads(receipt)
            print(json_text({"number": entry.number, **members, "digest": entry.digest}))
        return OK
    rows = [
        (
            show_time(entry.record.at),
            entry.record.decision + (", always" if entry.record.always else ""),
            escaped(_describe_decider(entry.record)),
            name_programs(escaped(entry.record.connection)),
            escaped(entry.record.tool),
            f"{entry.record.shown_ms / 1_000:.1f} s",
            escaped(entry.record.channel),
            entry.record.binding[:12],
        )
        for entry in entries
    ]
    if rows:
        print_table(_COLUMNS, rows, sys.stdout)
    else:
        is_chosen = arguments.since is not None or arguments.site or arguments.tool
        print("No decision fits." if is_chosen else "No decisions yet.")
    return OK


def _list_since(audit: StoredDecisions, since: float) -> list[ChainedDecision]:
    """Return the decisions since ``since``, oldest first. The older ones are not read, however many they are."""
    # GR-06
    found: list[ChainedDecision] = []
    older = 0
    for entry in audit.iterate_back():
        # The clocks of two processes differ, so some records in a row must be older before the rest is left out.
        older = older + 1 if entry.record.at < since else 0
        if older > _OLDER_IN_A_ROW:
            break
        if not older:
            found.append(entry)
    return found[::-1]


def _describe_decider(record: Decision) -> str:
    """Return who decided, and for whom if that is another one."""
    # FU-60
    is_own = record.caller in ("", record.principal)
    return record.principal if is_own else f"{record.principal} for {record.caller}"


def _verify(place: Place) -> int:
    if not is_in_database(place) and not list_audit_files(Path(place)):
        raise ToolwireError(f"{place} contains no decision log. Is it the right folder?")
    audit = open_decisions(place)
    entries, start = audit.entries(), audit.start()
    wrong = audit.find_start_fault() or find_chain_fault(entries, start)
    if wrong:
        raise ToolwireError(wrong)
    last = entries[-1].digest if entries else start.digest
    if start.number:
        print_warning(f"The records 1 to {start.number} are not in this folder. The digest before: {start.digest}")
    print(f"{write_count(len(entries), 'record')}, each as it was written. The last digest: {last}")
    return OK


def _read_since(text: str | None) -> float:
    """Return the seconds since 1970 that ``--since`` means.

    Raises:
        UsageError: it is no time.
    """
    if text is None:
        return 0.0
    if ago := _AGO.fullmatch(text):
        return time.time() - int(ago[1]) * _UNITS_S[ago[2]]
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"Invalid time for --since: {text}. Write 2026-11-30, 2026-11-30T08:00, 7d, 12h or 30m."
        ) from error
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
