"""Keep documents in files of this user, so that the next command need not fetch them again.

Rules:
- The folder and each file must belong to this user, and no other user can write to them. Links are not followed.
- A file is written under a new name and then renamed, so that programs which run at the same time see whole files.
- The oldest files are deleted where there are too many, or where they are too large together.
- A document is not kept where that fails: what is stored here is never the only copy.
"""
# SE-07

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

MAX_FILES: Final = 512
MAX_BYTES: Final = 128 * 1024 * 1024
MAX_FILE_BYTES: Final = 32 * 1024 * 1024

_KEY: Final = re.compile(r"[0-9a-f]{64}")
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking, because what has the name of a file may be a pipe.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class DocumentFiles:
    """The files in one folder, by keys of 64 hexadecimal digits. The folder is made when the first one is written."""

    __slots__ = ("_folder",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: str) -> bytes | None:
        """Return what is stored under ``key``, or None if nothing is, or if another user may have written it."""
        try:
            with self._open_folder() as folder, os.fdopen(os.open(_check(key), _READ, dir_fd=folder), "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode) or not _is_own(found) or found.st_size > MAX_FILE_BYTES:
                    return None
                return file.read(MAX_FILE_BYTES + 1)
        except OSError:
            return None

    def write(self, key: str, data: bytes) -> None:
        """Store ``data`` under ``key``, if it can be stored and is not too large; what was there is gone."""
        if len(data) > MAX_FILE_BYTES:
            self.remove(key)
            return
        new = f".{secrets.token_hex(8)}"
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._open_folder() as folder:
                try:
                    with os.fdopen(os.open(new, _CREATE, 0o600, dir_fd=folder), "wb") as file:
                        file.write(data)
                    os.replace(new, _check(key), src_dir_fd=folder, dst_dir_fd=folder)
                except OSError:
                    with suppress(OSError):
                        os.unlink(new, dir_fd=folder)
                    # The former document must not stay in place of one that is newer.
                    os.unlink(key, dir_fd=folder)
                _delete_oldest(folder)

    def remove(self, key: str) -> None:
        """Delete what is stored under ``key``, if anything is."""
        with suppress(OSError), self._open_folder() as folder:
            os.unlink(_check(key), dir_fd=folder)

    @contextmanager
    def _open_folder(self) -> Generator[int, None, None]:
        """Give a descriptor of the folder, which cannot be exchanged for another folder meanwhile.

        Raises:
            OSError: it cannot be opened, or another user can write there.
        """
        folder = os.open(self._folder, _FOLDER)
        try:
            if not _is_own(os.fstat(folder)):
                raise PermissionError
            yield folder
        finally:
            os.close(folder)


def _check(key: str) -> str:
    if _KEY.fullmatch(key) is None:
        raise ValueError("a key must have 64 hexadecimal digits")
    return key


def _is_own(found: os.stat_result) -> bool:
    return found.st_uid == os.getuid() and not found.st_mode & _OTHERS_WRITE


def _delete_oldest(folder: int) -> None:
    """Delete the oldest files, also those that a program left unfinished, until the rest is within the limits."""
    files: list[tuple[float, int, str]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another program has deleted it
                found = entry.stat(follow_symlinks=False)
                files.append((found.st_mtime, found.st_size, entry.name))
    files.sort()
    size = sum(one[1] for one in files)
    for index, (_, bytes_, name) in enumerate(files):
        if len(files) - index <= MAX_FILES and size <= MAX_BYTES:
            return
        size -= bytes_
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
