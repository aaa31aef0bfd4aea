"""Store the credentials of a user, with the secrets in the system's keyring or in a private file.

Rules:
- A file is written under a new name (mode 0600, in a folder 0700) and then renamed, so that it is never incomplete.
- A file that other users can read is not used.
"""
# AC-10

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from toolwire.auth.credential import Credential, read_credential, write_credential
from toolwire.auth.resource_indicators import is_covered_by
from toolwire.core.errors import ToolwireError
from toolwire.core.model import Secret

# A guess of the passphrase costs 32 MiB of memory (128 * n * r) (docs/decisions/0036).
_SCRYPT = {"length": 32, "n": 2**15, "r": 8, "p": 1}


class CredentialError(ToolwireError):
    """Stored credentials are not safe or cannot be read. The text says what to do."""


class Vault(Protocol):
    """Another place for secrets, such as the system's keyring."""

    def get(self, name: str, /) -> str | None:
        """Return the secrets under ``name``, or None."""
        ...

    def put(self, name: str, text: str, /) -> None:
        """Store secrets under ``name``."""
        ...

    def delete(self, name: str, /) -> None:
        """Delete the secrets under ``name``."""
        ...


class CredentialStore:
    """The credentials in ``folder``. Secrets are in ``vault``, or encrypted with ``passphrase``, or in private files.

    ``find_vault`` returns a vault. It is called when secrets are first read or written, since keyrings load slowly.
    """

    def __init__(
        self,
        folder: Path,
        *,
        vault: Vault | None = None,
        find_vault: Callable[[], Vault | None] | None = None,
        passphrase: Secret | None = None,
    ) -> None:
        self._folder = folder
        self._given_vault = vault
        self._find_vault = find_vault
        self._passphrase = passphrase

    @cached_property
    def _vault(self) -> Vault | None:
        return self._find_vault() if self._given_vault is None and self._find_vault is not None else self._given_vault

    def list_all(self) -> list[Credential]:
        """Return all credentials that can be read."""
        names = sorted(path.stem for path in self._folder.glob("*.json")) if self._folder.is_dir() else []
        return [found for found in map(self.get, names) if found is not None]

    def find_covering(self, url: str, principal: str = "") -> Credential | None:
        """Return the credential for ``url`` with the longest resource, or None."""
        fit = [each for each in self.list_all() if each.principal == principal and _is_related(each.resource, url)]
        return max(fit, key=lambda each: len(each.resource), default=None)

    def get(self, name: str) -> Credential | None:
        """Return the credential with this name, or None if there is none or it is damaged.

        Raises:
            CredentialError: other users can read the file, or the passphrase is missing or wrong.
        """
        text = self._read(self._folder / f"{name}.json")
        data = None if text is None else _read_object(text)
        if data is None:
            return None
        inside = self._read_secrets(name, data)
        return None if inside is None else read_credential(_read_object(data.get("plain")) or {}, inside)

    def put(self, credential: Credential) -> None:
        """Store ``credential``, in place of an older one with the same name."""
        plain, inside = write_credential(credential)
        self._make_folder()
        data: dict[str, Any] = {"plain": plain}
        if self._vault is not None:
            self._vault.put(credential.storage_name, json.dumps(inside))
        elif self._passphrase is not None:
            data["sealed"] = _seal(json.dumps(inside), self._passphrase, credential.storage_name)
        else:
            data["secrets"] = inside
        self._write(self._folder / f"{credential.storage_name}.json", json.dumps(data))

    def delete(self, name: str) -> None:
        """Delete the credential with this name."""
        if self._vault is not None:
            self._vault.delete(name)
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    @contextmanager
    def lock(self, name: str) -> Generator[None, None, None]:
        """Hold a lock on the credential with this name, against all processes of this user."""
        # AC-09: two processes that refresh at once would look like a stolen refresh token to the server.
        self._make_folder()
        # The lock is a file of its own: the file of the credential is replaced by each change.
        handle = os.open(self._folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _read_secrets(self, name: str, data: dict[str, Any]) -> dict[str, Any] | None:
        if "secrets" in data:
            return _read_object(data["secrets"])
        if "sealed" not in data:
            kept = self._vault.get(name) if self._vault is not None else None
            return None if kept is None else _read_object(kept)
        if self._passphrase is None:
            raise CredentialError("The stored credentials are encrypted. Set TOOLWIRE_PASSPHRASE to the passphrase.")
        return _read_object(_unseal(str(data["sealed"]), self._passphrase, name))

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_if_shared(self._folder, self._folder.stat())

    def _read(self, path: Path) -> str | None:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
            # The status of the open file, not of the path: another file could take the path between check and reading.
            _refuse_if_shared(path, os.fstat(file.fileno()))
            return file.read(1 << 20)

    def _write(self, path: Path, text: str) -> None:
        new = path.with_name(f".{secrets.token_hex(8)}")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                # Before the rename, so that a loss of power leaves the old file or the new one.
                os.fsync(file.fileno())
            new.replace(path)
        # A new file that is not renamed has secrets, and no later step would delete it.
        except BaseException:
            with suppress(OSError):
                new.unlink()
            raise


def _is_related(resource: str, url: str) -> bool:
    """Return whether ``resource`` covers ``url``, or ``url`` covers ``resource``."""
    return is_covered_by(resource, url) or is_covered_by(url.partition("?")[0], resource)


def _refuse_if_shared(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise CredentialError(f"Other users can read {path}, so it is not used. Delete it, or run chmod go= {path}.")


def _read_object(text: object) -> dict[str, Any] | None:
    try:
        data = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _derive_key(passphrase: Secret, salt: bytes) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt  # an extra

    return Scrypt(salt=salt, **_SCRYPT).derive(passphrase.reveal().encode())


def _seal(text: str, passphrase: Secret, name: str) -> str:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # an extra

    # The name is authenticated with the text, so that one sealed file cannot take the place of another.
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    sealed = AESGCM(_derive_key(passphrase, salt)).encrypt(nonce, text.encode(), name.encode())
    return b64encode(salt + nonce + sealed).decode()


def _unseal(text: str, passphrase: Secret, name: str) -> str:
    from cryptography.exceptions import InvalidTag  # an extra
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # an extra

    try:
        data = b64decode(text)
        opened = AESGCM(_derive_key(passphrase, data[:16])).decrypt(data[16:28], data[28:], name.encode())
    except (ValueError, InvalidTag) as error:
        raise CredentialError("The passphrase does not open the stored credentials.") from error
    return opened.decode()
