"""Keep which model a user talks to: its protocol, its URL and its name in a file, its key among the credentials.

The key is a credential of its own principal, so that it is never sent to a site whose tools are called.
"""
# CO-03, AC-10

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from toolwire.auth.credential import Credential
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Secret
from toolwire.stores.credentials.files import CredentialStore
from toolwire.stores.private_file import check_folder, lock_private_file, write_private_file

MODEL_FILE: Final = "chat-model.json"
_PRINCIPAL: Final = "chat-model"
_DEFAULT_URLS: Final = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The model of a chat. ``api`` is the protocol of its provider; an empty ``base_url`` is the provider's own."""

    api: str = "openai"
    base_url: str = ""
    model: str = ""

    @property
    def resource(self) -> str:
        """The URL that the key is for."""
        return self.base_url or _DEFAULT_URLS[self.api]


class ModelStore:
    """The settings in ``folder``, and the key in ``credentials``."""

    def __init__(self, folder: Path, credentials: CredentialStore) -> None:
        """Use ``folder``.

        Raises:
            DefinitionError: another user of the machine can write there.
        """
        check_folder(folder, MODEL_FILE)
        self._file, self._credentials = folder / MODEL_FILE, credentials

    def read(self) -> ModelSettings:
        """Return the settings; those without a model if none are kept.

        Raises:
            DefinitionError: the file cannot be read.
        """
        try:
            data: Any = json.loads(self._file.read_text(encoding="utf-8"))
            found = ModelSettings(**{name: str(data[name]) for name in ("api", "base_url", "model")})
        except FileNotFoundError:
            return ModelSettings()
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            text = f"Cannot read {self._file}, which contains the chat's model settings. Correct or delete the file."
            raise DefinitionError(text) from error
        if found.api not in _DEFAULT_URLS:
            raise DefinitionError(f"{self._file} names the API {found.api[:40]!r}. It must be openai or anthropic.")
        return found

    def write(self, settings: ModelSettings) -> None:
        """Keep ``settings``.

        Raises:
            DefinitionError: the file cannot be written.
        """
        with lock_private_file(self._file):
            write_private_file(self._file, json.dumps(asdict(settings), indent=1) + "\n")

    def find_key(self, settings: ModelSettings) -> Secret | None:
        """Return the key for the URL of ``settings``, or None."""
        found = self._credentials.get(_build_credential(settings, Secret("")).storage_name)
        return None if found is None else found.access

    def store_key(self, settings: ModelSettings, key: Secret) -> None:
        """Keep ``key`` for the URL of ``settings``, and for no other."""
        self._credentials.put(_build_credential(settings, key))

    def forget_key(self, settings: ModelSettings) -> None:
        """Delete the key for the URL of ``settings``."""
        self._credentials.delete(_build_credential(settings, Secret("")).storage_name)


def _build_credential(settings: ModelSettings, key: Secret) -> Credential:
    return Credential(kind="key", resource=settings.resource, access=key, principal=_PRINCIPAL)
