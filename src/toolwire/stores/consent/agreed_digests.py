"""Store the commands of MCP servers that the user agreed to run, in one file that every process reads.

Rules:
- A command is known by its digest: other arguments, another folder or another variable make it another command.
- The file is written under a new name and then renamed, so that it is never incomplete. Writers take turns.
"""
# MC-02, FU-40

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from toolwire.core.errors import DefinitionError
from toolwire.stores.private_file import check_folder, lock_private_file, write_private_file

_DIGEST = re.compile(r"[0-9a-f]{64}")


class AgreedDigests:
    """What the user agreed to, of one kind: the text of each, by its digest."""

    def __init__(self, folder: Path, kind: str) -> None:
        """Use the file for ``kind``, ``commands``, ``apis`` or ``settings``, in ``folder``, which need not exist.

        Raises:
            DefinitionError: another user of the machine can write there.
        """
        check_folder(folder, f"{kind}.json")
        self._kind, self._file = kind, folder / f"{kind}.json"

    def list_all(self) -> dict[str, str]:
        """Return the text of each one, by its digest.

        Raises:
            DefinitionError: the file cannot be read.
        """
        try:
            data: Any = json.loads(self._file.read_text(encoding="utf-8"))
            if data["version"] != 1:
                raise ValueError(data["version"])
            found = {str(digest): str(text) for digest, text in data[self._kind].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            text = (
                f"{self._file} contains the {self._kind} that you trust, but cannot be read. Correct or "
                "delete the file."
            )
            raise DefinitionError(text) from error
        if not all(map(_DIGEST.fullmatch, found)):
            raise DefinitionError(f"{self._file} contains {self._kind} without a digest. Correct or delete the file.")
        return found

    def has(self, digest: str) -> bool:
        """Return whether the user agreed to what has ``digest``.

        Raises:
            DefinitionError: the file cannot be read.
        """
        return digest in self.list_all()

    def add(self, digest: str, text: str) -> None:
        """Store that the user agreed to ``text``, which has ``digest``.

        Raises:
            DefinitionError: the file cannot be read or written.
        """
        self._change({digest: text}, "")

    def remove(self, digest: str) -> bool:
        """Forget what has ``digest``, and return whether it was there.

        Raises:
            DefinitionError: the file cannot be read or written.
        """
        return self._change({}, digest)

    def _change(self, added: dict[str, str], removed: str) -> bool:
        with lock_private_file(self._file):
            # Read under the lock: another process may have changed the file since it was last read.
            known = self.list_all()
            had = known.pop(removed, None) is not None
            known.update(added)
            write_private_file(
                self._file, json.dumps({"version": 1, self._kind: known}, indent=1, sort_keys=True) + "\n"
            )
        return had


def open_agreed_commands(folder: Path) -> AgreedDigests:
    """Return the commands that the user agreed to run.

    Raises:
        DefinitionError: another user of the machine can write in ``folder``.
    """
    return AgreedDigests(folder, "commands")


def open_agreed_apis(folder: Path) -> AgreedDigests:
    """Return the APIs at other origins than their documents that the user agreed to call, each by both origins.

    Raises:
        DefinitionError: another user of the machine can write in ``folder``.
    """
    return AgreedDigests(folder, "apis")


def open_trusted_settings(folder: Path) -> AgreedDigests:
    """Return the settings files of projects that the user trusts.

    Raises:
        DefinitionError: another user of the machine can write in ``folder``.
    """
    return AgreedDigests(folder, "settings")
