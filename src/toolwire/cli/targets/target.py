"""Read a target of the command line: a URL, an OpenAPI document, a Python file, or a name in a module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from toolwire.cli.exits import UsageError
from toolwire.client.discovery.local_files import file_url

_NAME: Final = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_MODULE: Final = re.compile(rf"(?P<module>{_NAME}):(?P<name>{_NAME})")
_FILE: Final = re.compile(rf"(?P<path>.*\.py)(?::(?P<name>{_NAME}))?", re.DOTALL)
_HOST: Final = re.compile(
    r"(?:localhost|\[[0-9A-Fa-f:.]+\]|[\w-]+(?:\.[\w-]+)+|[\w-]+(?=:\d))(?::\d{1,5})?(?:[/?#].*)?", re.DOTALL
)
_USER: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?[^/?#]*@")


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """A server, as the user wrote it: its URL, or the path of its OpenAPI document on this machine."""

    text: str


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A Python file, and the name in it; without a name, the one Toolkit it has."""

    path: Path
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ModuleTarget:
    """A name in a module that can be imported."""

    module: str
    name: str


Target: TypeAlias = UrlTarget | FileTarget | ModuleTarget


def read_target(text: str) -> Target:
    """Return the target that ``text`` means. A name with a dot is a host, unless there is such a file.

    Raises:
        UsageError: it is none of them.
    """
    # XL-006
    if "://" in text:
        return _read_url(text)
    if match := _FILE.fullmatch(text):
        return FileTarget(Path(match["path"]), match["name"])
    if match := _MODULE.fullmatch(text):
        return ModuleTarget(match["module"], match["name"])
    if file_url(text):
        return UrlTarget(text)
    if _exists(text):
        raise UsageError(f"{text} is no Python file: a target is a URL, file.py, file.py:name or package.module:name.")
    if _HOST.fullmatch(text) or _USER.match(text):
        return _read_url(text)
    raise UsageError(f"{text!r} is no target: write a URL, file.py, file.py:name or package.module:name.")


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # longer than any name of a file
        return False


def _read_url(text: str) -> UrlTarget:
    if _USER.match(text):
        # The URL is not repeated: it may hold a password.
        raise UsageError("This URL has a user name or password in it: take it out, and give a key with --key-env.")
    return UrlTarget(text)
