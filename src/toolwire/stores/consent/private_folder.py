"""Refuse to keep decisions where another user of the machine could change them.

A decision is an answer to a question, a grant, or a level of consent. One that another user can write is not the
user's own.
"""
# D-19, D-20

from __future__ import annotations

import os
import stat
from pathlib import Path

from toolwire.core.errors import DefinitionError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# Root can change every file anyway, so a folder that root made is no further risk.
_ROOT = 0


def check_folder(folder: Path, *files: str) -> None:
    """Check ``folder`` and those of its ``files`` that exist. Links are followed.

    Raises:
        DefinitionError: one of them belongs to another user, or another user can write to it.
    """
    for path in (folder, *(folder / name for name in files)):
        try:
            # The status of the file that a link leads to: that file is the one that is read and written.
            found = os.stat(path)
        except OSError:  # it does not exist yet, or opening it later gives the reason
            continue
        check_owner(path, found)


def check_owner(path: Path, found: os.stat_result) -> None:
    """Check that only this user can write to ``path``, by its status ``found``.

    Raises:
        DefinitionError: it belongs to another user, or another user can write to it.
    """
    if found.st_uid not in (os.getuid(), _ROOT):
        raise DefinitionError(f"{path} belongs to another user, so no decisions are kept there: name another folder.")
    if found.st_mode & _OTHERS_WRITE:
        raise DefinitionError(
            f"Other users can write to {path}, so no decisions are kept there: run chmod go-w {path}, or delete it."
        )
