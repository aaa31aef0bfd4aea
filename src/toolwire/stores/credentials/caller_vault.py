"""Keep the credentials of the callers of a gateway, always encrypted, and the sign-ins that they began.

Rules:
- Each caller has names of its own, so that no caller reaches the credentials of another. What is sealed is for one
  caller, so that a row that somebody copies to the name of another caller does not open.
- What is stored is sealed with a key that is not beside it, in a folder too.
- A sign-in that began is taken once, and only while its time lasts.
"""
# GW-02

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path

from toolwire.core.model import Secret
from toolwire.stores.clock import ConfirmedTime

from .files import CredentialFolder, CredentialPlace, CredentialStore
from .sealing import SealingKey, unseal_with_keys

_STARTED = "started."
_MAX_STARTED = 1_000


class CallerVault:
    """The credentials of all callers in ``place``, sealed with the first of ``keys``."""

    def __init__(self, place: Path | CredentialPlace, keys: Sequence[Secret]) -> None:
        self._place: CredentialPlace = CredentialFolder(place) if isinstance(place, Path) else place
        self._keys = tuple(keys)
        self._seals = tuple(map(SealingKey, keys))
        self._passed = ConfirmedTime()

    def open_store(self, principal: str) -> CredentialStore:
        """Return the credentials of one caller."""
        return CredentialStore(_CallerPlace(self._place, principal), keys=self._keys, owner=_digest(principal))

    def forget(self, principal: str) -> int:
        """Delete all credentials of one caller, and return how many there were. It needs no key.

        Raises:
            CredentialError: they cannot be deleted.
        """
        place = _CallerPlace(self._place, principal)
        names = place.list_names()
        for name in names:
            place.delete(name)
        return len(names)

    def store_started(self, state: str, text: str, until: float, now: float) -> bool:
        """Keep ``text`` about a sign-in until ``until``; return False if too many wait.

        Raises:
            CredentialError: it cannot be stored.
        """
        started = self._place.list_names(_STARTED)
        passed = self._passed.find(now)
        for name in started:
            if _read_end(name) <= passed:  # RE-01: none is deleted because the clock is wrong for a moment
                self._place.delete(name)
        if sum(_read_end(name) > now for name in started) >= _MAX_STARTED:
            return False
        name = f"{_STARTED}{int(until)}.{_digest(state)}"
        self._place.write(name, self._seals[0].seal(text, name))
        return True

    def take_started(self, state: str, now: float) -> str | None:
        """Return the text about the sign-in with this state, or None; afterwards there is none.

        Raises:
            CredentialError: it cannot be read.
        """
        end = f".{_digest(state)}"
        name = next((one for one in self._place.list_names(_STARTED) if one.endswith(end)), None)
        if name is None:
            return None
        with self._place.lock(name):
            sealed = self._place.read(name)
            self._place.delete(name)
        if sealed is None or _read_end(name) <= now:
            return None
        return unseal_with_keys(sealed, self._seals, name)


class _CallerPlace:
    """The texts of one caller in ``place``: their names begin with the digest of the caller."""

    # What is sealed covers what is not secret too: a folder of a server is less private than that of a user.
    is_shared = True

    def __init__(self, place: CredentialPlace, principal: str) -> None:
        self._place, self._prefix = place, f"{_digest(principal)}."

    def list_names(self, prefix: str = "") -> list[str]:
        """Return the names of the caller's texts that begin with ``prefix``."""
        start = len(self._prefix)
        return [name[start:] for name in self._place.list_names(self._prefix + prefix)]

    def read(self, name: str) -> str | None:
        """Return the text under ``name``, or None."""
        return self._place.read(self._prefix + name)

    def write(self, name: str, text: str) -> None:
        """Store ``text`` under ``name``."""
        self._place.write(self._prefix + name, text)

    def delete(self, name: str) -> None:
        """Delete the text under ``name``."""
        self._place.delete(self._prefix + name)

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Hold the lock of ``name``."""
        return self._place.lock(self._prefix + name)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _read_end(name: str) -> float:
    end = name.removeprefix(_STARTED).partition(".")[0]
    return float(end) if end.isascii() and end.isdigit() else 0.0
