"""Open a page in the user's browser.

Rules:
- Only http and https URLs are opened, each as one argument of a program, without a shell.
"""

# D-29: a URL from a server must not become a command.

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from shutil import which
from typing import TypeAlias

Start: TypeAlias = Callable[[Sequence[str]], object]
# Only printable ASCII of a URL: nothing that a program could read as an option or a second argument.
_PAGE = re.compile(r"https?://[!$%&'()*+,./0-9:;=?@A-Z_a-z~\[\]-]{1,16000}")


def open_page(
    url: str, *, start: Start | None = None, environment: Mapping[str, str] | None = None, system: str = sys.platform
) -> bool:
    """Return whether a browser was started with ``url``: False if there is none, or if it is not the URL of a page."""
    if _PAGE.fullmatch(url) is None:
        return False
    program = _program(os.environ if environment is None else environment, system)
    if program is None:
        return False
    try:
        (_start if start is None else start)([program, url])
    except OSError:
        return False
    return True


def _program(environment: Mapping[str, str], system: str) -> str | None:
    if system == "darwin":
        return "/usr/bin/open"
    if environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"):
        return which("xdg-open", path=environment.get("PATH"))
    return None


def _start(command: Sequence[str]) -> object:
    # A session of its own, so that Ctrl-C in this terminal does not end the browser.
    return subprocess.Popen(  # noqa: S603 - one fixed program, one checked URL, no shell
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
