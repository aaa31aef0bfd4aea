"""The keyring of the system, where there is one. The only importer of ``keyring``."""

from __future__ import annotations

from typing import Any

from .files import Vault

_SERVICE = "toolwire"


class SystemVault:
    """Secrets in the keyring that ``backend`` is."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def get(self, name: str) -> str | None:
        """Return the secrets kept under ``name``."""
        found: str | None = self._backend.get_password(_SERVICE, name)
        return found

    def put(self, name: str, text: str) -> None:
        """Keep secrets under ``name``."""
        self._backend.set_password(_SERVICE, name, text)

    def delete(self, name: str) -> None:
        """Forget what is kept under ``name``."""
        if self.get(name) is not None:
            self._backend.delete_password(_SERVICE, name)


def find_system_vault() -> Vault | None:
    """Return the system's keyring, None where there is none that keeps secrets, or ``keyring`` is not installed."""
    try:
        import keyring  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError:
        return None
    backend = keyring.get_keyring()
    return SystemVault(backend) if backend.priority >= 1 else None
