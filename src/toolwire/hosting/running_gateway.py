"""Know the gateways that run a file, tell them that it has changed, and find out whether they take the change.

Rules:
- While a gateway runs, it has a lock and a record in the state folder of its user: which process it is, and what became
  of the text that it read last. So a process that is gone is never sent a signal.
- Without such a folder, the record is in the gateway's own temporary folder, where only its workers find it.
"""
# PL-08

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from toolwire.core.errors import ToolwireError
from toolwire.stores.ledger.process_lock import ProcessLock, find_owners
from toolwire.stores.paths import find_state_folder
from toolwire.stores.private_file import check_folder, write_private_file

from .gateway_file import NO_FILE
from .toml_file import read_bytes

WAIT_S: Final = 60.0
"""How long a gateway has to say whether it takes a change: it connects to its upstreams first."""
_POLL_INTERVAL_S: Final = 0.05


class GatewayRecord(NamedTuple):
    """What a gateway says of itself: its process, its file, how many times it read that, and what became of it.

    ``digest`` is of the text that it read last, and ``fault`` is why it did not take that, or empty.
    """

    process: int
    file: str
    reads: int
    digest: str
    fault: str


class RunningGateway:
    """The gateway of this process, which serves ``file``. ``record_path`` is where its record is, once it has begun."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._reads = -1
        self._digest = ""
        self._lock: ProcessLock | None = None
        self.record_path: str = ""

    def read(self) -> bytes:
        """Return the text of the file as it is now."""
        data = read_bytes(self._file, NO_FILE)
        self._digest = digest_text(data)
        return data

    def begin(self, temporary: str) -> None:
        """Begin the record; from now on this process takes SIGHUP. ``temporary`` is a folder of this process."""
        try:
            self._begin(_find_places(self._file))
        except (ToolwireError, OSError):  # RE-05
            self._begin(Path(temporary) / "gateway")

    def record(self, fault: str = "") -> None:
        """Say what became of the text that was read last."""
        self._reads += 1
        values = GatewayRecord(os.getpid(), str(self._file), self._reads, self._digest, fault)
        with suppress(OSError):  # a full disk ends no gateway
            write_private_file(Path(self.record_path), json.dumps(values._asdict()))

    def end(self) -> None:
        """Remove the record."""
        if self._lock is not None:
            self._lock.release()
            Path(self.record_path).unlink(missing_ok=True)

    def _begin(self, places: Path) -> None:
        places.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(places.parent)
        alive = {_name_record(places, number) for number in find_owners(places)}
        for old in set(places.parent.glob(f"{places.name}-*.json")) - alive:  # of a gateway that was killed
            old.unlink(missing_ok=True)
        self._lock = ProcessLock(places)
        self.record_path = str(_name_record(places, self._lock.number))
        self.record()


def digest_text(data: bytes) -> str:
    """Return what the text of a file is known by."""
    return sha256(data).hexdigest()


def read_record(path: Path) -> GatewayRecord | None:
    """Return what a gateway says of itself in the record at ``path``, or None if it has none."""
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
        return GatewayRecord(**values)
    except (OSError, ValueError, TypeError):
        return None


def find_gateways(file: Path) -> list[Path]:
    """Return the record of each gateway of this user that runs ``file`` now."""
    try:
        places = _find_places(file)
        check_folder(places.parent)
        return [_name_record(places, number) for number in find_owners(places)]
    except (ToolwireError, OSError):  # there is no such folder
        return []


class Reloads(NamedTuple):
    """How many gateways took a change, how many said nothing in time, and why others did not take it."""

    taken: int
    silent: int
    faults: Sequence[str]


def reload_gateways(records: Sequence[Path], data: bytes) -> Reloads:
    """Let the gateways read their file, whose text is now ``data``, and return what became of that. It waits."""
    waiting = {path: one for path in records if (one := read_record(path)) is not None}
    for one in waiting.values():
        with suppress(ProcessLookupError):
            os.kill(one.process, signal.SIGHUP)
    digest, taken = digest_text(data), 0
    faults: list[str] = []
    until = time.monotonic() + WAIT_S
    while waiting and time.monotonic() < until:
        time.sleep(_POLL_INTERVAL_S)
        for path, before in list(waiting.items()):
            now = read_record(path)
            if now is None:  # it has ended
                del waiting[path]
            elif now.reads > before.reads and now.digest == digest:
                del waiting[path]
                taken += not now.fault
                faults += [now.fault] if now.fault else []
    return Reloads(taken, len(waiting), faults)


def _find_places(file: Path) -> Path:
    return find_state_folder() / "gateways" / sha256(str(file).encode()).hexdigest()[:32]


def _name_record(places: Path, number: int) -> Path:
    return places.with_name(f"{places.name}-{number}.json")
