"""Change a file of this user: writers take turns, and readers see the old file or the new one, never half of one."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from toolwire.core.errors import DefinitionError


@contextmanager
def lock_private_file(file: Path) -> Generator[None, None, None]:
    """Hold the lock of ``file`` until the block ends; its folder is made if it is not there.

    Raises:
        DefinitionError: the file cannot be written.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The lock is a file of its own: the file itself is replaced by each change.
        lock = os.open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
    except OSError as error:
        raise DefinitionError(f"{file} cannot be written: {error.strerror or error}.") from error


def write_private_file(file: Path, text: str) -> None:
    """Replace ``file`` by one with ``text``, which only this user can read."""
    new = file.with_suffix(f".{secrets.token_hex(8)}")
    # O_EXCL: a file or link that already has this name is never written to.
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        # Before the rename, so that a power failure leaves the old file or the new one.
        os.fsync(opened.fileno())
    new.replace(file)
