"""Change the upstreams in a gateway's file, and apply the change to the gateways that run it.

Rules:
- A new upstream is opened first. If that fails, or if the file would become unreadable, nothing changes.
- Everything outside the upstream's table stays exactly the same. Writers take turns, and readers see either the old
  file or the new one.
- A running gateway connects to its upstreams before it applies a change. If a gateway does not apply it, the file's old
  text is restored.
- Each change is recorded in the decision log: who made it, what it was, and when.
"""
# PL-08

from __future__ import annotations

import fcntl
import os
import re
import secrets
import time
import tomllib
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from toolwire.client.connection.options import ApproveCommand
from toolwire.consent.decision_record import Decision
from toolwire.core.codec import ConnectError
from toolwire.core.errors import UsageError
from toolwire.core.model import Kind
from toolwire.core.suggestion import find_nearest
from toolwire.core.url_origin import get_origin
from toolwire.framing import jsontext
from toolwire.stores.consent.open import Place, open_decisions
from toolwire.stores.paths import find_decisions_place, find_state_places, is_postgres_url

from .build_settings import build_settings
from .gateway_file import NO_FILE, UPSTREAM_NAME, GatewayFile, parse_gateway_file
from .gateway_trust import record_trust
from .open_upstreams import open_upstream
from .project_trust import digest_file, is_trusted
from .running_gateway import Reloads, find_gateways, reload_gateways
from .toml_file import read_bytes

_HEAD: Final = """\
# A gateway's file: `toolwire gateway run` serves its upstreams. Write options of `toolwire serve` above them.
"""
_ADDED: Final = "upstream added"
_REMOVED: Final = "upstream removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedBy:
    """Who changes a file, and where: in the ``terminal`` or in the ``console``.

    ``records`` are further gateways to which the change applies, besides those in the user's state folder.
    """

    name: str
    channel: str
    records: Sequence[Path] = ()


def check_upstream(name: str, lines: Sequence[str], approve_command: ApproveCommand | None = None) -> int:
    """Open the upstream described by ``lines`` of a file, and return the number of its tools. No tool is called.

    ``approve_command`` says whether a program that the user has not approved before may run. The rest of the file is
    ignored, so that an untrusted file opens nothing.

    Raises:
        ToolwireError: the upstream is not valid or cannot be opened. One sentence says why.
    """
    file = parse_gateway_file("\n".join(write_table(name, lines)).encode(), "The new table")
    (upstream,) = file.upstreams
    try:
        box = open_upstream(upstream, build_settings(file.arguments, file.upstreams), approve_command)
    except ConnectError as error:
        if upstream.account != "gateway" and error.kind is Kind.UNAUTHORIZED:  # each caller has a list of their own
            return 0
        raise
    return len(box.catalog().tools)


def write_table(name: str, lines: Sequence[str]) -> list[str]:
    """Return the lines of the upstream's table.

    Raises:
        UsageError: ``name`` is not a valid name.
    """
    if UPSTREAM_NAME.fullmatch(name) is None:
        raise UsageError(f"Invalid upstream name {name[:40]!r}. Use a letter, then up to 31 letters, digits, - and _.")
    return [f"[upstreams.{name}]", *lines]


def write_member(name: str, value: Any) -> str:
    """Return the line of a member of a table."""
    return f"{name} = {_write_value(value)}"


def add_upstream(path: Path, name: str, lines: Sequence[str], by: ChangedBy) -> Reloads:
    """Append an upstream's table to the file at ``path``, and return the gateways that applied it.

    Raises:
        ToolwireError: nothing was changed. The message says why.
    """
    table = "\n".join(write_table(name, lines))

    def add(text: str) -> str:
        names = _read_content(text).get("upstreams", {})
        if taken := next((one for one in names if one.casefold() == name.casefold()), None):
            raise UsageError(f"{path} already contains an upstream {taken}. Choose another name.")
        return f"{text.rstrip() or _HEAD.rstrip()}\n\n{table}\n"

    return _change(path, name, add, by, _ADDED)


def remove_upstream(path: Path, name: str, by: ChangedBy) -> Reloads:
    """Remove the upstream ``name`` from the file at ``path``. Return the gateways that applied the change.

    Raises:
        ToolwireError: nothing was changed. The message says why.
    """

    def remove(text: str) -> str:
        if not text:
            raise UsageError(f"There is no {path}: {NO_FILE}")
        names = [one.name for one in parse_gateway_file(text.encode(), path.name).upstreams]
        if name not in names:
            raise UsageError(explain_unknown_upstream(name, names))
        if len(names) == 1:
            raise UsageError(
                f"{name} is the only upstream in {path}, and a gateway needs at least one. Add another one first."
            )
        return _cut_table(text, name)

    return _change(path, name, remove, by, _REMOVED)


def explain_unknown_upstream(name: str, names: Sequence[str]) -> str:
    """Return a sentence that says that the file contains no upstream ``name``."""
    near = find_nearest(name, names)
    hint = f" Did you mean {near}?" if near else " `toolwire gateway list` prints them."
    return f"There is no upstream {name[:40]!r} in the file.{hint}"


def replace_table_member(path: Path, upstream: str, member: str, value: str) -> None:
    """Set ``member`` in the table of ``upstream`` in the file at ``path``.

    Raises:
        UsageError: the table was not found, or the file cannot be written. Nothing was changed.
    """
    with _lock_folder(path):
        old = _read_text(path)
        new = _set_member(old, upstream, member, write_member(member, value))
        found = _read_content(new).get("upstreams", {}).get(upstream, {})
        if found.get(member) != value or not _is_same_beside(old, new, upstream):
            text = f"write {write_member(member, value)} there yourself"
            raise UsageError(f"Cannot find the table of {upstream} in {path}: {text}.")
        _replace_file(path, old, new)


def _change(path: Path, name: str, edit: Callable[[str], str], by: ChangedBy, words: str) -> Reloads:
    full = path.parent.resolve() / path.name
    with _lock_folder(path):
        old = _read_text(path)
        new = edit(old)
        is_there = name in _read_content(new).get("upstreams", {})
        if is_there is not (words == _ADDED) or not _is_same_beside(old, new, name):
            raise UsageError(f"{name} has no table of its own in {path}. Edit its lines there yourself.")
        try:
            file = parse_gateway_file(new.encode(), path.name)
        except UsageError as error:
            raise UsageError(f"{path} was not changed. With this change: {error}") from error
        records = list(dict.fromkeys([*find_gateways(full), *by.records]))
        is_trusted_file = not old or bool(records) or is_trusted(digest_file(full, old.encode()))
        place = _find_place(file, full.parent) if is_trusted_file else find_decisions_place()
        target = str(_read_content(new if is_there else old)["upstreams"][name].get("target", ""))
        record = Decision(
            at=time.time(),
            principal=by.name,
            connection=by.channel,
            tool=name,
            binding="",
            decision=words,
            channel=by.channel,
            site=get_origin(target),
        )
        # Opened before anything changes, because no change may go unrecorded.
        with closing(open_decisions(place)) as log:
            _replace_file(path, old, new)
            taken = 0
            try:
                reloads = reload_gateways(records, new.encode())
                taken = reloads.taken
                if reloads.faults:
                    raise UsageError(
                        f"{path} was not changed, because the running gateway cannot load it. {reloads.faults[0]}"
                    )
                log.append(record)
            except BaseException:
                _replace_file(path, new, old)
                if taken:
                    reload_gateways(records, old.encode())
                raise
    return reloads


def _find_place(file: GatewayFile, folder: Path) -> Place:
    """Return where the gateway of ``file`` stores its decision log."""
    state = file.arguments.state
    if state and state != "memory" and not is_postgres_url(state):
        state = str(folder / state)
    place = find_state_places(state).inbox
    return find_decisions_place() if not place else place if is_postgres_url(place) else Path(place)


@contextmanager
def _lock_folder(path: Path) -> Generator[None, None, None]:
    """Let one writer at a time change the file at ``path``. The folder is locked, and no lock file is left."""
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path.parent} cannot be read: {error.strerror}.") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _read_text(path: Path) -> str:
    if not path.exists():
        return ""
    try:
        return read_bytes(path, "").decode()
    except UnicodeError as error:
        raise UsageError(f"Cannot read {path}: it is not UTF-8.") from error


def _replace_file(path: Path, old: str, new: str) -> None:
    """Replace the text of the file at ``path`` and keep its permissions. Without a text, remove the file."""
    file = path.resolve()  # a link stays one
    part = file.with_name(f"{file.name}.{secrets.token_hex(8)}.part")
    try:
        if not new:
            file.unlink()
            return
        with part.open("x", encoding="utf-8", newline="") as opened:
            opened.write(new)
            opened.flush()
            os.fsync(opened.fileno())
        if old:
            part.chmod(file.stat().st_mode & 0o777)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error
    record_trust(path.parent.resolve() / path.name, old.encode(), new.encode())


def _read_content(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _is_same_beside(old: str, new: str, name: str) -> bool:
    """Return whether two texts differ only in the upstream ``name``."""

    def leave_out(text: str) -> dict[str, Any]:
        content = _read_content(text)
        upstreams = content.pop("upstreams", {})
        return {**content, "upstreams": {key: one for key, one in upstreams.items() if key != name}}

    return leave_out(old) == leave_out(new)


def _find_header(name: str) -> re.Pattern[str]:
    """Return a pattern for the headers of an upstream's table and of its sub-tables."""
    return re.compile(rf"\s*\[\s*upstreams\s*\.\s*([\"']?){re.escape(name)}\1\s*(?P<inner>\.[^\]]*)?\]\s*(#.*)?")


def _cut_table(text: str, name: str) -> str:
    """Return ``text`` without an upstream's tables. Comments before the next table stay."""
    header, lines = _find_header(name), text.split("\n")
    lines_left: list[str] = []
    cut: list[str] = []
    is_inside = False
    for line in lines:
        # A line of an array can also begin with a bracket. The text before a header is complete.
        if line.lstrip().startswith("[") and (not is_inside or _read_content("\n".join([*cut, ""]))):
            if is_inside:
                lines_left += _list_last_comments(cut, lines_left)
            is_inside, cut = header.fullmatch(line.rstrip("\r")) is not None, []
        (cut if is_inside else lines_left).append(line)
    rest = "\n".join(lines_left + (_list_last_comments(cut, lines_left) if is_inside else []))
    return f"{rest.rstrip()}\n"


def _list_last_comments(lines: Sequence[str], before: Sequence[str]) -> list[str]:
    """Return the lines at the end of a table that belong to the next one. ``before`` are the lines that stay."""
    end = len(lines)
    while end > 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    while end < len(lines) and not lines[end].strip() and before and not before[-1].strip():
        end += 1  # one empty line is enough
    return list(lines[end:])


def _set_member(text: str, upstream: str, member: str, line: str) -> str:
    """Return ``text`` with ``line`` in the table of ``upstream``, replacing the member with the same name."""
    header = _find_header(upstream)
    lines: list[str] = []
    is_inside = False
    for one in text.split("\n"):
        if one.lstrip().startswith("["):
            is_inside = False
        if is_inside and re.match(rf"\s*{member}\s*=", one):
            continue
        lines.append(one)
        found = header.fullmatch(one.rstrip("\r"))
        if found is not None and found["inner"] is None:
            lines.append(line)
            is_inside = True
    return "\n".join(lines)


def _write_value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case [*several]:
            return f"[{', '.join(map(_write_value, several))}]"
        case int():
            return str(value)
        case _:
            return jsontext.write(str(value)).decode()  # a JSON string is a valid TOML string
