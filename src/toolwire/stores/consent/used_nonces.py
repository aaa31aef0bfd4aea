"""Remember which confirmation words were used, in this process or for all processes of one machine.

Rules:
- Each word is claimed at most once: of several processes that claim it at the same moment, one gets it.
- A word is remembered until it has expired. If it cannot be remembered, it is not accepted.
"""
# XL-056

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

from toolwire.core.errors import DefinitionError
from toolwire.stores.clock import read_boot_id
from toolwire.stores.outage_log import OutageLog

_KEY_BYTES = 32
_PERIOD_S = 300.0
_MAX_REMEMBERED = 100_000
_PERIOD_FOLDER = re.compile(r"spent-(\d{1,18})")

_log = logging.getLogger("toolwire")


class MemoryUsedNonces:
    """The words that were used in this process. At most 100,000 are remembered; beyond that, none is accepted."""

    clock_id = b""
    is_remote = False

    def __init__(self) -> None:
        self.key: bytes = secrets.token_bytes(_KEY_BYTES)
        # One set for each period in which words expire: all words of a period are dropped in one step.
        self._periods: dict[int, set[str]] = {}

    def now(self) -> float:
        """Return seconds of a clock that never goes back."""
        return time.monotonic()

    def claim(self, name: str, until: float, now: float) -> bool:
        """Return whether ``name`` was not claimed before."""
        for period in [one for one in self._periods if one < now // _PERIOD_S]:
            del self._periods[period]
        names = self._periods.setdefault(int(until // _PERIOD_S), set())
        if name in names or sum(map(len, self._periods.values())) >= _MAX_REMEMBERED:
            return False
        names.add(name)
        return True


class SharedUsedNonces:
    """The words that were used in any process, as empty files in ``folder``, which holds the key as well.

    To create a file fails if it exists, so no process waits for another.
    """

    is_remote = False

    def __init__(self, folder: Path) -> None:
        """Create ``folder`` (mode 0700) and its key if they do not exist.

        Raises:
            DefinitionError: the folder cannot be used, or another user could change it.
        """
        self._folder = folder
        # RE-01: the clock begins again when the machine starts. A word that was used before could then be used again.
        self.clock_id: bytes = read_boot_id().encode()
        self._outages = OutageLog(_log, f"Confirmations can be stored in {folder} again.")
        self._swept = -1
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # lstat, because a link could lead to a folder of another user.
            found = os.lstat(folder)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
                raise DefinitionError(
                    f"Confirmations cannot be stored in {folder}. It must be a folder that only you can "
                    "open (mode 0700)."
                )
            self.key: bytes = _read_key(folder)
        except OSError as error:
            raise DefinitionError(f"Confirmations cannot be stored in {folder}: {error.strerror or error}.") from error

    def now(self) -> float:
        """Return seconds of the machine's clock that never goes back."""
        return time.monotonic()

    def claim(self, name: str, until: float, now: float) -> bool:
        """Return whether ``name`` was not claimed before by any process."""
        self._sweep(int(now // _PERIOD_S))
        # One folder for each period in which words expire, so that a sweep reads only the names of folders.
        period = self._folder / f"spent-{int(until // _PERIOD_S)}"
        try:
            period.mkdir(mode=0o700, exist_ok=True)
            os.close(os.open(period / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        except OSError as error:  # a full disk: what cannot be remembered could be used twice
            text = "A confirmation was refused: it cannot be written to %s (%s)."
            self._outages.record_failure(text, self._folder, error.strerror)
            return False
        self._outages.record_success()
        return True

    def _sweep(self, current: int) -> None:
        """Delete the expired words, once for each period."""
        if current == self._swept:
            return
        self._swept = current
        # In a thread: there may be very many files. Periods far ahead are from before the machine was started again.
        threading.Thread(target=_delete_expired, args=(self._folder, current), daemon=True).start()


def _delete_expired(folder: Path, current: int) -> None:
    with suppress(OSError):
        for found in folder.iterdir():
            period = _PERIOD_FOLDER.fullmatch(found.name)
            # A word is valid for one period at most, so it expires in the current one or in the next.
            if period is not None and not current <= int(period[1]) <= current + 1:
                rmtree(found, ignore_errors=True)


def _read_key(folder: Path) -> bytes:
    """Return the key in ``folder``; the first process creates it."""
    file = folder / "key"
    if not file.exists():
        new = folder / f"key.{secrets.token_hex(8)}"
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as written:
            written.write(secrets.token_bytes(_KEY_BYTES))
        with suppress(FileExistsError):  # another process was first, and its key counts
            os.link(new, file)  # never incomplete, unlike a file that is still written
        new.unlink()
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as opened:
        key = opened.read(_KEY_BYTES + 1)
    if len(key) != _KEY_BYTES:
        raise DefinitionError(f"{file} is not a key for confirmations. Delete it to create a new one.")
    return key
