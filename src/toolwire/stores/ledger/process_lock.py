"""Mark running calls as held by a process: a file lock, which the operating system releases when it ends.

Rules:
- An owner has a file of its own beside the ledger, which is locked as long as its process lives. There is no lease to
  renew and no clock to trust: a process that stalls stays the owner, and a killed one stops being it at once.
- A file gets its name only after it is locked, and no name is used twice. So the owner of an unlocked file is dead, and
  the file is removed.
- A process that is taken for dead by mistake loses at most an answer: no other process runs a call that must not run
  twice.
"""
# R2, R3, R14

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path


class ProcessLock:
    """This process as an owner of calls in the ledger at ``path``. No other process ever has its ``number``."""

    def __init__(self, path: Path) -> None:
        self.number: int = secrets.randbits(62)
        self._file = _owner_file(path, self.number)
        # Locked under another name and renamed then: under its own name, another process could find it unlocked and
        # remove it.
        new = self._file.with_name(f"{self._file.name}.new")
        self._descriptor = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        new.rename(self._file)

    def release(self) -> None:
        """Stop being an owner."""
        with suppress(FileNotFoundError):
            self._file.unlink()
        os.close(self._descriptor)


def is_alive(path: Path, number: int) -> bool:
    """Return whether the process of owner ``number`` still lives. If not, its file is removed."""
    file = _owner_file(path, number)
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # A shared lock: two processes that check at the same time do not take each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    with suppress(FileNotFoundError):
        file.unlink()
    return False


def find_owners(path: Path) -> set[int]:
    """Return the numbers of all owners that live. The files of the others are removed."""
    prefix = _owner_file(path, 0).name.removesuffix("0")
    ends = [file.name.removeprefix(prefix) for file in path.parent.iterdir() if file.name.startswith(prefix)]
    return {int(end) for end in ends if end.isdigit() and is_alive(path, int(end))}


def _owner_file(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}-owner-{number}")
