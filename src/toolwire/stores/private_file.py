"""Change a file of this user: writers take turns, and readers see the old file or the new one, never half of one.

Nothing is kept where another user of the machine could change it: a decision that another user can write is not the
user's own.
"""
# D-19, D-20

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
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
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            # Before the rename, so that a power failure leaves the old file or the new one.
            os.fsync(opened.fileno())
        new.replace(file)
    # What is not renamed may hold secrets, and no later step would delete it.
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise


_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# Root can change every file anyway, so a folder that root made is no further risk.
_ROOT = 0


def check_folder(folder: Path, *files: str) -> None:
    """Check ``folder`` and those of its ``files`` that exist. Links are followed.

    Raises:
        DefinitionError: one of them belongs to another user, or another user can write to it.
    """
    for path in (folder, *(folder / name for name in files)):
        try:
            # The status of the file that a link leads to: that file is the one that is read and written.
            found = os.stat(path)
        except OSError:  # it does not exist yet, or opening it later gives the reason
            continue
        check_owner(path, found)


def check_owner(path: Path, found: os.stat_result) -> None:
    """Check that only this user can write to ``path``, by its status ``found``.

    Raises:
        DefinitionError: it belongs to another user, or another user can write to it.
    """
    if found.st_uid not in (os.getuid(), _ROOT):
        raise DefinitionError(f"{path} belongs to another user, so no decisions are stored there. Name another folder.")
    if found.st_mode & _OTHERS_WRITE:
        raise DefinitionError(
            f"Other users can write to {path}, so no decisions are stored there. Run chmod go-w {path}, or delete it."
        )
