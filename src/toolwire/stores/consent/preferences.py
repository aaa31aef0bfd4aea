"""Store the levels of consent that the user set for the tools of sites, in one file that every process reads.

Rules:
- A level is per-call or deny: what is stored can only tighten.
- The file is written under a new name and then renamed, so that it is never incomplete. Writers take turns.
- A change is seen at the next call, also by processes that are already running.
"""
# XL-042

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from toolwire.consent.policy import NO_PREFERENCES, Preferences
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval
from toolwire.stores.private_file import check_folder, check_owner, lock_private_file, write_private_file

PREFERENCES_FILE = "preferences.json"
EVERY_TOOL = "*"
"""In place of the name of a tool: every tool of the site."""
EVERY_WRITE = "*writes"
"""In place of the name of a tool: every tool of the site that changes something."""
STORED_LEVELS = (Approval.PER_CALL, Approval.DENY)


class StoredLevel(NamedTuple):
    """The level that the user set for ``tool`` of ``site``, which is an origin."""

    site: str
    tool: str
    level: Approval


class StoredPreferences:
    """The levels that the user set, in ``folder``. A folder without the file has none."""

    def __init__(self, folder: Path) -> None:
        """Read the file.

        Raises:
            DefinitionError: the file cannot be read, or is not what this class writes.
        """
        self._file = folder / PREFERENCES_FILE
        self._path = str(self._file)  # looked at before each call: a text is read faster than a Path
        self._state: tuple[int, ...] = ()
        self._levels: dict[str, dict[str, Approval]] = {}
        self._found: dict[str, Preferences] = {}
        check_folder(folder)
        self._refresh()

    def find(self, site: str) -> Preferences:
        """Return the preferences for ``site``; it is the same object until they change."""
        with suppress(DefinitionError):  # the levels that were read last hold: a damaged file must not loosen anything
            self._refresh()
        found = self._found.get(site)
        if found is None:
            levels = self._levels.get(site)
            found = self._found[site] = build_preferences(levels) if levels else NO_PREFERENCES
        # The same object, so that a caller can compare by identity whether the preferences changed.
        return found

    def list_levels(self) -> list[StoredLevel]:
        """Return each level, by site and tool.

        Raises:
            DefinitionError: the file cannot be read.
        """
        self._refresh()
        rows = ((site, tool, level) for site, tools in self._levels.items() for tool, level in tools.items())
        return [StoredLevel(*row) for row in sorted(rows)]

    def set(self, site: str, tool: str, level: Approval) -> None:
        """Store ``level`` for ``tool`` of ``site``, an origin.

        Raises:
            DefinitionError: the level is auto, which would loosen, or the file cannot be written.
        """
        if level not in STORED_LEVELS:
            raise DefinitionError(f"{level!r} cannot be stored: a rule must be per-call or deny.")
        with self._change() as levels:
            levels.setdefault(site, {})[tool] = Approval(level)

    def unset(self, site: str, tool: str) -> bool:
        """Delete the level for ``tool`` of ``site``, and return whether there was one.

        Raises:
            DefinitionError: the file cannot be written.
        """
        with self._change() as levels:
            was = levels.get(site, {}).pop(tool, None)
            if not levels.get(site, True):
                del levels[site]
        return was is not None

    @contextmanager
    def _change(self) -> Generator[dict[str, dict[str, Approval]], None, None]:
        with lock_private_file(self._file):
            self._refresh()
            levels = {site: dict(tools) for site, tools in self._levels.items()}
            yield levels
            text = json.dumps({"version": 1, "sites": levels}, indent=1, sort_keys=True) + "\n"
            write_private_file(self._file, text)
            self._refresh()

    def _refresh(self) -> None:
        """Read the file again if it is another one than was read last."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            if self._state:
                self._state, self._levels, self._found = (), {}, {}
            return
        except OSError as error:
            raise DefinitionError(f"{self._file} cannot be read: {error.strerror or error}.") from error
        # A renamed file has another inode, so a change is seen even within one tick of the clock.
        check_owner(self._file, there)
        state = (there.st_ino, there.st_mtime_ns, there.st_size)
        if state == self._state:
            return
        self._levels = _read_levels(self._file)
        self._state, self._found = state, {}


def build_preferences(levels: Mapping[str, Approval]) -> Preferences:
    """Return the preferences that say the same as the stored ``levels`` of one site."""
    tools = {name: level for name, level in levels.items() if name not in (EVERY_TOOL, EVERY_WRITE)}
    return Preferences(everything=levels.get(EVERY_TOOL), writes=levels.get(EVERY_WRITE), tools=MappingProxyType(tools))


def _read_levels(file: Path) -> dict[str, dict[str, Approval]]:
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
        if data["version"] != 1:
            raise ValueError(data["version"])
        levels = {
            str(site): {str(tool): Approval(level) for tool, level in tools.items()}
            for site, tools in data["sites"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        text = f"{file} contains your rules, but cannot be read. Correct the file, or delete it to start again."
        raise DefinitionError(text) from error
    # A file that was edited by hand must not loosen what a site declares.
    if any(level not in STORED_LEVELS for tools in levels.values() for level in tools.values()):
        raise DefinitionError(f"{file} contains the rule auto, but a rule must be per-call or deny.")
    return levels
