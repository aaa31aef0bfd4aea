"""Encrypt the secrets of credentials, with a passphrase or with keys from a file or the keyring.

Rules:
- The name of a credential is part of its seal, so that one sealed text cannot take the place of another. In a database
  the seal also covers what is not secret, such as the site that a token is for.
- The first key seals; all keys open, so that a key can be replaced while old texts are still there.
"""
# ST-01, AC-10

from __future__ import annotations

import os
import secrets
import stat
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from toolwire.core.errors import ToolwireError
from toolwire.core.model import Secret

KEYRING_NAME = "state-key"
"""The name of the key in the system's keyring, of the service ``toolwire``."""
NO_KEY = (
    "Credentials in a database are always encrypted. Set TOOLWIRE_KEY_FILE to a key file that only you "
    "can read, such as `openssl rand -hex 32` prints, or set TOOLWIRE_PASSPHRASE, or store the key with "
    f"`keyring set toolwire {KEYRING_NAME}`."
)
_MIN_KEY = 32
# A guess of the passphrase costs 32 MiB of memory (128 * n * r) (docs/decisions/0036).
_SCRYPT = {"length": 32, "n": 2**15, "r": 8, "p": 1}
_NONCE_BYTES = 12


class CredentialError(ToolwireError):
    """Stored credentials are not safe or cannot be read. The text says what to do."""


class SealingKey:
    """A key of at least 32 characters, which nobody can guess."""

    def __init__(self, text: Secret) -> None:
        self._text = text

    @cached_property
    def _key(self) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256  # an extra
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # an extra

        return HKDF(SHA256(), 32, salt=None, info=b"toolwire credentials").derive(self._text.reveal().encode())

    def seal(self, text: str, name: str) -> str:
        """Return ``text`` encrypted for ``name``."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # an extra

        nonce = secrets.token_bytes(_NONCE_BYTES)
        return b64encode(nonce + AESGCM(self._key).encrypt(nonce, text.encode(), name.encode())).decode()

    def unseal(self, sealed: str, name: str) -> str | None:
        """Return what ``seal`` encrypted, or None if this key does not open it."""
        from cryptography.exceptions import InvalidTag  # an extra
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # an extra

        try:
            data = b64decode(sealed)
            opened = AESGCM(self._key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], name.encode())
        except (ValueError, InvalidTag):
            return None
        return opened.decode()


def unseal_with_keys(sealed: str, keys: Sequence[SealingKey], name: str) -> str:
    """Return what one of ``keys`` encrypted.

    Raises:
        CredentialError: none of them opens it.
    """
    for key in keys:
        opened = key.unseal(sealed, name)
        if opened is not None:
            return opened
    raise CredentialError("None of the keys decrypts the stored credentials.")


def read_key_file(path: Path) -> tuple[Secret, ...]:
    """Return the keys in a private file, one on each line; the first one seals.

    Raises:
        CredentialError: it cannot be read, other users can read it, or a key is too short.
    """
    try:
        text = read_private_text(path)
    except OSError as error:
        raise CredentialError(f"Cannot read the key file {path}: {error.strerror or error}.") from error
    return read_key_lines(text, f"the key file {path}")


def read_key_lines(text: str, what: str) -> tuple[Secret, ...]:
    """Return the keys in ``text``, one on each line. ``what`` names it in errors.

    Raises:
        CredentialError: there is none, or one is too short.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or any(len(line) < _MIN_KEY for line in lines):
        raise CredentialError(
            f"Each line of {what} must contain a key of at least {_MIN_KEY} characters, such as `openssl "
            "rand -hex 32` prints."
        )
    return tuple(map(Secret, lines))


def read_private_text(path: Path) -> str:
    """Return the text of a file that only this user can read; at most a mebibyte of it.

    Raises:
        CredentialError: other users can read it.
        OSError: it cannot be opened, or is a link.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
        # The status of the open file, not of the path: another file could take the path between check and reading.
        refuse_if_shared(path, os.fstat(file.fileno()))
        return file.read(1 << 20)


def refuse_if_shared(path: Path, found: os.stat_result) -> None:
    """Raise CredentialError if other users can read or write ``path``, by its status ``found``."""
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise CredentialError(f"Other users can read {path}, so it was not used. Delete it, or run chmod go= {path}.")


def seal_with_passphrase(text: str, passphrase: Secret, name: str) -> str:
    """Return ``text`` encrypted for the credential ``name``."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # an extra

    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(_NONCE_BYTES)
    sealed = AESGCM(_derive_key(passphrase, salt)).encrypt(nonce, text.encode(), name.encode())
    return b64encode(salt + nonce + sealed).decode()


def unseal_with_passphrase(text: str, passphrase: Secret, name: str) -> str:
    """Return what ``seal_with_passphrase`` encrypted.

    Raises:
        CredentialError: it was another passphrase, or the text is damaged.
    """
    from cryptography.exceptions import InvalidTag  # an extra
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # an extra

    try:
        data = b64decode(text)
        opened = AESGCM(_derive_key(passphrase, data[:16])).decrypt(data[16:28], data[28:], name.encode())
    except (ValueError, InvalidTag) as error:
        raise CredentialError("The passphrase does not decrypt the stored credentials.") from error
    return opened.decode()


def _derive_key(passphrase: Secret, salt: bytes) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt  # an extra

    return Scrypt(salt=salt, **_SCRYPT).derive(passphrase.reveal().encode())
