"""Store the keys that sign receipts, in one file of this user. The newest signs; the public halves of all are kept.

The private half of a key is deleted when the next one is made: what it signed can be verified all the same.
"""
# CC-06

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Json
from toolwire.framing import jsontext
from toolwire.stores.private_file import check_folder, lock_private_file, write_private_file

if TYPE_CHECKING:  # an extra, and few users have keys
    from toolwire.auth.receipt import ReceiptKey

KEYS_FILE = "receipt-keys.json"


class StoredReceiptKeys:
    """The keys in one folder. Each use reads the file, so that a process learns of a new key."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / KEYS_FILE

    def find_current(self) -> ReceiptKey | None:
        """Return the key that signs now, or None if there is none.

        Raises:
            DefinitionError: the file cannot be read, or another user could have written it.
        """
        entries = self._read()
        if not entries:
            return None
        from toolwire.auth.receipt import ReceiptKey  # an extra, as above

        try:
            return ReceiptKey(entries[-1])
        except ValueError as error:
            raise DefinitionError(f"{self._file} is damaged: {error}. Delete it, and create a new key.") from error

    def rotate(self) -> ReceiptKey:
        """Make a new key that signs from now on, and return it.

        Raises:
            DefinitionError: the file cannot be read or written.
        """
        from toolwire.auth.receipt import ReceiptKey  # an extra, as above

        key = ReceiptKey()
        with lock_private_file(self._file):
            before = [{name: value for name, value in one.items() if name != "d"} for one in self._read()]
            write_private_file(self._file, json.dumps({"keys": [*before, key.to_private_jwk()]}, indent=1))
        return key

    def list_public(self) -> list[Json]:
        """Return the public halves of all keys as JWKs, oldest first.

        Raises:
            DefinitionError: the file cannot be read.
        """
        return [{name: value for name, value in one.items() if name != "d"} for one in self._read()]

    def _read(self) -> list[dict[str, Json]]:
        check_folder(self._folder, KEYS_FILE)
        try:
            text = self._file.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DefinitionError(f"{self._file} cannot be read: {error.strerror or error}.") from error
        data = jsontext.read(text)
        entries = data.get("keys") if isinstance(data, dict) else None
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise DefinitionError(f"{self._file} is damaged. Delete it, and create a new key.")
        return entries
