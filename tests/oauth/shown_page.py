"""The page that a program at a terminal wants opened."""

from __future__ import annotations

import re

from tests.cli.conftest import Terminal


def page_shown(terminal: Terminal) -> str:
    """The page that the program wants opened."""
    terminal.wait_for(b"Open this page in a browser on this machine: ")
    terminal.wait_for(b"state=")
    while (found := re.search(rb"this machine: (\S+)\s*\n", terminal.shown)) is None:
        terminal.wait_for(b"\n")
        assert terminal._read()
    return found[1].decode()
