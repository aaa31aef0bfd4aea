"""Hold the public keys that verify receipts, from the operator's file or from the URL where clients publish them.

Rules:
- A call never waits for keys. Keys in a file are read again when the file changes, and a thread fetches keys from a
  URL.
- If keys cannot be read, the previous keys stay valid. Keys from a URL expire after an hour without a new response.
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
"""Fetches a published JWK Set, blocking. Returns a Problem if that fails."""

FRESH_S: Final = 300.0
"""After how many seconds published keys are fetched again, when a receipt is checked."""
BETWEEN_S: Final = 30.0
"""The minimum time between two fetches, such as for a receipt with an unknown key, in seconds."""
STALE_S: Final = 3_600.0
"""For how many seconds published keys count while they cannot be fetched again."""

_MAX_BYTES: Final = 1_048_576
_log = logging.getLogger("toolwire")


class KeySource(Protocol):
    """A source of receipt keys."""

    def get_keys(self) -> ReceiptKeys:
        """Return the keys that count now."""
        ...

    def renew(self) -> None:
        """Look for new keys soon: a receipt was refused, and perhaps its key is new."""
        ...


class KeyFile:
    """The keys in the operator's JWK Set file.

    Raises:
        DefinitionError: the file cannot be read, or contains no key that can sign receipts.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = Lock()
        self._stamp: tuple[int, int, int] = (0, 0, 0)
        self._keys = self._read()

    def get_keys(self) -> ReceiptKeys:
        """Return the file's current keys, or the previous keys while it cannot be read."""
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
    """The keys at a URL, which ``fetch`` fetches. ``clock`` returns seconds and never goes back.

    Raises:
        DefinitionError: the keys cannot be fetched now, or none of them can sign receipts.
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
        """Return the keys that were fetched last, or no keys if that was more than an hour ago."""
        age_s = self._clock() - self._fetched_at
        if age_s >= FRESH_S:
            self.renew()
        if age_s < STALE_S:
            return self._keys
        # A revoked key must not stay valid for ever because its owner's server cannot be reached.
        from toolwire.auth.receipt import ReceiptKeys  # an extra, as above

        return ReceiptKeys({}, {})

    def renew(self) -> None:
        """Fetch the keys again in a thread, unless that was tried within 30 seconds."""
        with self._lock:
            if self._clock() - self._tried_at < BETWEEN_S:
                return
            # Set before the attempt, so that a failing URL is not fetched for each call.
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
    """Return the keys in a file, or the keys that a function fetches.

    Raises:
        DefinitionError: there are none, or they cannot be read.
    """
    if callable(keys):
        return PublishedKeys(keys)
    if not str(keys):
        raise DefinitionError("Receipts need the signers' public keys: receipt_keys=FILE, a JWK Set.")
    if ":/" in str(keys):  # one slash, because a Path made from a URL has lost the second one
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
