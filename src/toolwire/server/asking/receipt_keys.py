"""Hold the public keys that receipts are signed with: from a file of the operator, or from where clients publish them.

Rules:
- A call never waits for keys: those of a file are read again when it changes, those of a URL by a thread.
- What cannot be read leaves the keys as they were. Keys of a URL count for an hour without a new answer, then none do.
"""
# CC-06

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Kind, Problem

if TYPE_CHECKING:  # an extra, and few servers require receipts
    from toolwire.auth.receipt import ReceiptKeys

KeyFetcher: TypeAlias = Callable[[], bytes | Problem]
"""Fetches a published JWK Set, blocking; returns a Problem if it cannot be fetched."""

FRESH_S: Final = 300.0
"""After how many seconds published keys are fetched again, when a receipt is checked."""
BETWEEN_S: Final = 30.0
"""How many seconds pass at least between two fetches, such as for a receipt of an unknown key."""
STALE_S: Final = 3_600.0
"""For how many seconds published keys count while they cannot be fetched again."""

_MAX_BYTES: Final = 1_048_576
_log = logging.getLogger("toolwire")


class KeySource(Protocol):
    """Where the keys of receipts come from."""

    def get_keys(self) -> ReceiptKeys:
        """Return the keys that count now."""
        ...

    def renew(self) -> None:
        """Look for new keys soon: a receipt was refused, and perhaps its key is new."""
        ...


class KeyFile:
    """The keys in a JWK Set that the operator keeps in a file.

    Raises:
        DefinitionError: the file cannot be read, or has no key that receipts can be signed with.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = Lock()
        self._stamp: tuple[int, int, int] = (0, 0, 0)
        self._keys = self._read()

    def get_keys(self) -> ReceiptKeys:
        """Return the keys of the file as it is now; while it cannot be read, the keys before count."""
        with self._lock:
            try:
                if _read_stamp(self._file) != self._stamp:
                    self._keys = self._read()
            except (OSError, DefinitionError) as error:
                _log.error("The keys of receipts are still those of before: %s", error)
            return self._keys

    def renew(self) -> None:
        """Do nothing: the file is looked at each time."""

    def _read(self) -> ReceiptKeys:
        try:
            self._stamp = _read_stamp(self._file)
            with self._file.open("rb") as opened:
                text = opened.read(_MAX_BYTES + 1)
        except OSError as error:
            raise DefinitionError(
                f"Cannot read the receipt keys in {self._file}: {error.strerror or error}."
            ) from error
        keys = _parse(text)
        if isinstance(keys, Problem):
            raise DefinitionError(f"Cannot use the receipt keys in {self._file}: {keys.message}")
        return keys


class PublishedKeys:
    """The keys at a URL, by ``fetch``. ``clock`` gives seconds and never goes back.

    Raises:
        DefinitionError: they cannot be fetched now, or none is a key that receipts can be signed with.
    """

    def __init__(self, fetch: KeyFetcher, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = Lock()
        self._tried_at = self._fetched_at = clock()
        keys = self._read()
        if isinstance(keys, Problem):
            raise DefinitionError(f"Cannot fetch the receipt keys: {keys.message}")
        self._keys = keys

    def get_keys(self) -> ReceiptKeys:
        """Return the keys that were fetched last, or none if that is more than an hour ago."""
        age_s = self._clock() - self._fetched_at
        if age_s >= FRESH_S:
            self.renew()
        if age_s < STALE_S:
            return self._keys
        # A key that was withdrawn must not count for ever because its owner's server is kept from saying so.
        from toolwire.auth.receipt import ReceiptKeys  # an extra, as above

        return ReceiptKeys({}, {})

    def renew(self) -> None:
        """Fetch the keys again in a thread, unless that was tried within 30 seconds."""
        with self._lock:
            if self._clock() - self._tried_at < BETWEEN_S:
                return
            # Before the attempt, so that a URL which fails is not asked for each call.
            self._tried_at = self._clock()
        Thread(target=self._refresh, name="receipt keys", daemon=True).start()

    def _refresh(self) -> None:
        now, keys = self._clock(), self._read()
        if isinstance(keys, Problem):
            _log.error("The keys of receipts are still those of before: %s", keys.message)
            return
        self._keys, self._fetched_at = keys, now

    def _read(self) -> ReceiptKeys | Problem:
        data = self._fetch()
        return data if isinstance(data, Problem) else _parse(data)


def open_key_source(keys: Path | str | KeyFetcher) -> KeySource:
    """Return the keys in a file, or those that a function fetches.

    Raises:
        DefinitionError: there are none, or they cannot be read.
    """
    if callable(keys):
        return PublishedKeys(keys)
    if not str(keys):
        raise DefinitionError("Receipts need the signers' public keys: receipt_keys=FILE, a JWK Set.")
    if ":/" in str(keys):  # one slash, because a Path of a URL has lost the second
        raise DefinitionError("Receipt keys at a URL need receipt_keys=build_key_fetcher(URL), from toolwire.")
    return KeyFile(Path(keys))


def _parse(text: bytes) -> ReceiptKeys | Problem:
    from toolwire.auth.receipt import read_receipt_keys  # an extra, as above

    if len(text) > _MAX_BYTES:
        return Problem(kind=Kind.BAD_ANSWER, message=f"They are larger than {_MAX_BYTES:,} bytes.")
    return read_receipt_keys(text)


def _read_stamp(file: Path) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
