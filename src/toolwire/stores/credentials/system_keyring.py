"""Store secrets in the keyring of the system, if there is one. No other module imports ``keyring``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .files import Vault

_SERVICE = "toolwire"


class SystemVault:
    """Stores secrets in a backend of ``keyring``."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def get(self, name: str) -> str | None:
        """Return the secrets under ``name``, or None."""
        found: str | None = self._backend.get_password(_SERVICE, name)
        return found

    def put(self, name: str, text: str) -> None:
        """Store secrets under ``name``."""
        self._backend.set_password(_SERVICE, name, text)

    def delete(self, name: str) -> None:
        """Delete the secrets under ``name``."""
        if self.get(name) is not None:
            self._backend.delete_password(_SERVICE, name)


def find_system_vault() -> Vault | None:
    """Return the system's keyring, or None if ``keyring`` is not installed or has no safe backend."""
    try:
        keyring = import_module("keyring")  # an extra, and slow to load
    except ModuleNotFoundError:
        return None
    # keyring gives a priority below 1 to a backend that does not protect secrets (docs/decisions/0036).
    backend = keyring.get_keyring()
    return SystemVault(backend) if backend.priority >= 1 else None
