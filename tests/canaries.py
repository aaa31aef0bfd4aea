"""Watch over every test: no secret that it made may stand in what it printed, logged or stored.

Each ``Secret`` that is made while a test runs is a canary, and so is one planted in the environment of all processes.
After the test they are searched for in captured output, in logs, in what its processes printed, and in the SQLite
files of its folder. A test that writes its secrets on purpose carries the mark ``reveals_secrets``.
"""
# R20

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolwire.core.model import Secret

PLANTED = f"planted-{secrets.token_hex(12)}"
SHORTEST = 8
"""A shorter secret is found in texts that do not mean it."""
MAX_BYTES = 64 << 20
_STATE = re.compile(rb'"state": "[^"]*"')
"""An authorization server stores the state of an app, to send it back once."""

_canaries: set[str] = set()
_printed: list[str] = []


def plant() -> None:
    """Put a canary into the environment, and begin to notice every Secret and all output of processes."""
    os.environ["TOOLWIRE_TEST_SECRET_TOKEN"] = PLANTED
    make, read, communicate = Secret.__init__, pytest.CaptureFixture.readouterr, subprocess.Popen.communicate

    def note_secret(self: Secret, text: str) -> None:
        make(self, text)
        if isinstance(text, str) and len(text) >= SHORTEST:
            _canaries.add(text)

    def note_captured(self: pytest.CaptureFixture[Any]) -> Any:
        found = read(self)
        _note(found)
        return found

    def note_output(self: subprocess.Popen[Any], *args: Any, **options: Any) -> Any:
        found = communicate(self, *args, **options)
        _note(found)
        return found

    Secret.__init__ = note_secret  # type: ignore[method-assign]  # it only looks
    pytest.CaptureFixture.readouterr = note_captured  # type: ignore[method-assign]  # likewise
    subprocess.Popen.communicate = note_output  # type: ignore[method-assign]  # likewise


def _note(texts: Iterable[str | bytes | None]) -> None:
    _printed.extend(text if isinstance(text, str) else text.decode("utf-8", "replace") for text in texts if text)


def forget() -> None:
    """Forget what was made and printed before."""
    _canaries.clear()
    _printed.clear()


def find_leaks(sections: Iterable[tuple[str, str]], folder: Path | None) -> list[str]:
    """Return where a canary stands: in a section of captured text, in output, or in a database below ``folder``."""
    canaries = [PLANTED, *_canaries]
    places = [*sections, *(("the output that the test read", text) for text in _printed)]
    found = {place for place, text in places for canary in canaries if canary in text}
    if folder is not None and folder.is_dir():
        wanted = [canary.encode() for canary in canaries]
        for file in list_databases(folder):
            content = _STATE.sub(b"", file.read_bytes())
            found |= {str(file) for canary in wanted if canary in content}
    return sorted(found)


def list_databases(folder: Path) -> Iterator[Path]:
    """Yield the SQLite files below ``folder``, with their logs."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and 0 < path.stat().st_size < MAX_BYTES:
            if path.name.endswith(("-wal", "-journal")):
                yield path
            else:
                with path.open("rb") as file:
                    if file.read(15) == b"SQLite format 3":
                        yield path


def check_text(place: str, text: str) -> None:
    """Fail where a canary of this test stands in ``text``, such as the dump of a store."""
    assert not any(canary in text for canary in (PLANTED, *_canaries)), f"a secret stands in {place}"
