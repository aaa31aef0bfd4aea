"""Store the credentials of a user, with the secrets in the system's keyring, in a private file, or encrypted.

Rules:
- A file is written under a new name (mode 0600, in a folder 0700) and then renamed, so that it is never incomplete.
- A file that other users can read is not used.
"""
# AC-10

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from toolwire.auth.credential import Credential, name_account, read_credential, write_credential
from toolwire.auth.resource_indicators import is_covered_by
from toolwire.core.model import Secret
from toolwire.stores.private_file import write_private_file

from .sealing import (
    KEYRING_NAME,
    NO_KEY,
    CredentialError,
    SealingKey,
    read_key_lines,
    read_private_text,
    refuse_if_shared,
    seal_with_passphrase,
    unseal_with_keys,
    unseal_with_passphrase,
)

_END = ".json"


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


class CredentialPlace(Protocol):
    """Where the texts of credentials are: a folder of this user, or a database that machines share."""

    @property
    def is_shared(self) -> bool:
        """Whether others than this user can read the texts, so that secrets in them must be encrypted."""
        ...

    def list_names(self, prefix: str = "", /) -> list[str]:
        """Return the names of all texts whose names begin with ``prefix``."""
        ...

    def read(self, name: str, /) -> str | None:
        """Return the text under ``name``, or None."""
        ...

    def write(self, name: str, text: str, /) -> None:
        """Store ``text`` under ``name``, in place of an older one."""
        ...

    def delete(self, name: str, /) -> None:
        """Delete the text under ``name``."""
        ...

    def lock(self, name: str, /) -> AbstractContextManager[None]:
        """Hold the lock of ``name`` against all who share the place."""
        ...


class CredentialStore:
    """The credentials in ``place``, a folder or a CredentialPlace.

    Secrets are encrypted with the first of ``keys``; without keys, they are in ``vault``, or encrypted with
    ``passphrase``, or in private files. ``find_vault`` returns a vault. It is called when secrets are first read or
    written, since keyrings load slowly. A place that is shared always has encrypted secrets, and a vault holds its key.
    What is sealed with ``keys`` is for ``owner`` alone, where several owners share the keys.
    """

    def __init__(
        self,
        place: Path | CredentialPlace,
        *,
        vault: Vault | None = None,
        find_vault: Callable[[], Vault | None] | None = None,
        passphrase: Secret | None = None,
        keys: Sequence[Secret] = (),
        owner: str = "",
    ) -> None:
        self._owner = owner
        self._place: CredentialPlace = CredentialFolder(place) if isinstance(place, Path) else place
        self._given_vault = vault
        self._find_vault = find_vault
        self._passphrase = passphrase
        self._given_keys = keys
        self.on_put: Callable[[Credential], object] | None = None
        """Gets each credential that is about to be stored here."""

    @cached_property
    def _vault(self) -> Vault | None:
        return self._find_vault() if self._given_vault is None and self._find_vault is not None else self._given_vault

    @cached_property
    def _keys(self) -> tuple[SealingKey, ...]:
        texts = self._given_keys
        if not texts and self._place.is_shared and self._passphrase is None and self._vault is not None:
            stored = self._vault.get(KEYRING_NAME)
            texts = read_key_lines(stored, "the key in the keyring") if stored else ()
        return tuple(map(SealingKey, texts))

    def list_all(self) -> list[Credential]:
        """Return all credentials that can be read."""
        return [found for found in map(self.get, self._place.list_names()) if found is not None]

    def find_covering(self, url: str, account: str = "") -> Credential | None:
        """Return the credential of ``account`` for ``url`` with the longest resource, or None."""
        principal = name_account(account)
        fit = [each for each in self.list_all() if each.principal == principal and _is_related(each.resource, url)]
        return max(fit, key=lambda each: len(each.resource), default=None)

    def get(self, name: str) -> Credential | None:
        """Return the credential with this name, or None if there is none or it is damaged.

        Raises:
            CredentialError: other users can read the file, the key or passphrase is missing or wrong, or the database
                does not answer.
        """
        text = self._place.read(name)
        data = None if text is None else _read_object(text)
        if data is None:
            return None
        inside = self._read_secrets(name, data)
        return None if inside is None else read_credential(_read_object(data.get("plain")) or {}, inside)

    def put(self, credential: Credential) -> None:
        """Store ``credential``, in place of an older one with the same name.

        Raises:
            CredentialError: it cannot be stored safely.
        """
        plain, inside = write_credential(credential)
        name = credential.storage_name
        data: dict[str, Any] = {"plain": plain}
        if self._keys:
            data["keyed"] = self._keys[0].seal(json.dumps(inside), self._bind(name, plain))
        elif self._passphrase is not None and (self._place.is_shared or self._vault is None):
            data["sealed"] = seal_with_passphrase(json.dumps(inside), self._passphrase, self._bind(name, plain))
        elif self._place.is_shared:
            raise CredentialError(NO_KEY)
        elif self._vault is not None:
            self._vault.put(name, json.dumps(inside))
        else:
            data["secrets"] = inside
        if self.on_put is not None:
            self.on_put(credential)
        self._place.write(name, json.dumps(data))

    def delete(self, name: str) -> None:
        """Delete the credential with this name."""
        if not self._place.is_shared and self._vault is not None:
            self._vault.delete(name)
        self._place.delete(name)

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Hold a lock on the credential with this name, against all processes that share the place."""
        # AC-09: two processes that refresh at once would look like a stolen refresh token to the server.
        return self._place.lock(name)

    def _bind(self, name: str, plain: object) -> str:
        """Return what the seal of a credential covers besides its secrets."""
        # D-08: whoever can write to a database must not be able to say where a token is sent. A folder is the user's.
        if not self._place.is_shared:
            return name
        # D-08: nor under whose name, where callers share the keys of a gateway.
        return json.dumps([name, plain, self._owner] if self._owner else [name, plain], sort_keys=True)

    def _unseal(self, name: str, data: Mapping[str, Any]) -> dict[str, Any] | None:
        sealed, plain = str(data["keyed"]), data.get("plain")
        try:
            return _read_object(unseal_with_keys(sealed, self._keys, self._bind(name, plain)))
        except CredentialError:
            # 1.0.0rc1 sealed for no owner: nothing says whose this is, so it is nobody's, and its owner signs in again.
            of_nobody = json.dumps([name, plain], sort_keys=True)
            if self._owner and any(key.unseal(sealed, of_nobody) is not None for key in self._keys):
                return None
            raise

    def _read_secrets(self, name: str, data: dict[str, Any]) -> dict[str, Any] | None:
        if "keyed" in data:
            if not self._keys:
                raise CredentialError(NO_KEY)
            return self._unseal(name, data)
        if "sealed" in data:
            if self._passphrase is None:
                raise CredentialError(
                    "The stored credentials are encrypted. Set TOOLWIRE_PASSPHRASE to their passphrase."
                )
            bound = self._bind(name, data.get("plain"))
            return _read_object(unseal_with_passphrase(str(data["sealed"]), self._passphrase, bound))
        # What others could have written is not taken without the seal that only a key can make.
        if self._place.is_shared:
            return None
        if "secrets" in data:
            return _read_object(data["secrets"])
        stored = self._vault.get(name) if self._vault is not None else None
        return None if stored is None else _read_object(stored)


class CredentialFolder:
    """The texts of credentials in private files of one folder."""

    is_shared = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def list_names(self, prefix: str = "") -> list[str]:
        """Return the names of all files whose names begin with ``prefix``."""
        try:
            files = os.listdir(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(file[: -len(_END)] for file in files if file.endswith(_END) and file.startswith(prefix))

    def read(self, name: str) -> str | None:
        """Return the text of a file, or None if there is none.

        Raises:
            CredentialError: other users can read it.
        """
        try:
            return read_private_text(self._folder / f"{name}{_END}")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        """Replace a file as a whole."""
        self._make_folder()
        write_private_file(self._folder / f"{name}{_END}", text)

    def delete(self, name: str) -> None:
        """Delete a file."""
        (self._folder / f"{name}{_END}").unlink(missing_ok=True)

    @contextmanager
    def lock(self, name: str) -> Generator[None, None, None]:
        """Hold a lock against all processes of this user."""
        self._make_folder()
        # The lock is a file of its own: the file of the credential is replaced by each change.
        handle = os.open(self._folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_if_shared(self._folder, self._folder.stat())


def _is_related(resource: str, url: str) -> bool:
    """Return whether ``resource`` covers ``url``, or ``url`` covers ``resource``."""
    return is_covered_by(resource, url) or is_covered_by(url.partition("?")[0], resource)


def _read_object(text: object) -> dict[str, Any] | None:
    try:
        data = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    return data if isinstance(data, dict) else None
