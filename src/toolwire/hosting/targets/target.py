"""Read a target of the command line: a URL, an OpenAPI document, a Python file, or a name in a module."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final, TypeAlias

from toolwire.client.discovery.local_files import DOCUMENT_SUFFIXES, file_url, names_document_file
from toolwire.client.transport.server_command import PREFIX, read_server_command, resolve_target
from toolwire.core.errors import UsageError
from toolwire.core.suggestion import find_nearest

_NAME: Final = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_MODULE: Final = re.compile(rf"(?P<module>{_NAME}):(?P<name>{_NAME})")
_DOTTED: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")
_COMMON_ENDINGS: Final = frozenset(
    (
        "app",
        "biz",
        "cloud",
        "com",
        "dev",
        "edu",
        "gov",
        "info",
        "int",
        "mil",
        "net",
        "online",
        "org",
        "shop",
        "site",
        "xyz",
    )
)
_FILE: Final = re.compile(rf"(?P<path>.*\.py)(?::(?P<name>{_NAME}))?", re.DOTALL)
_HOST: Final = re.compile(
    r"(?:localhost|\[[0-9A-Fa-f:.]+\]|[\w-]+(?:\.[\w-]+)+|[\w-]+(?=:\d))(?::\d{1,5})?(?:[/?#].*)?", re.DOTALL
)
_FORMS: Final = "a URL, file.py, openapi.json, package.module:name or stdio:COMMAND"
_SCHEMES: Final = ("http", "https", "file")
_USER: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?[^/?#]*@")


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """A server, as the user wrote it: its URL, the path of its OpenAPI document, or the command that runs it."""

    text: str


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A Python file, and the name in it; without a name, the one Toolkit it has."""

    path: Path
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ModuleTarget:
    """A module that can be imported, and the name in it; without a name, the one Toolkit it has."""

    module: str
    name: str | None = None


Target: TypeAlias = UrlTarget | FileTarget | ModuleTarget


def read_target(text: str) -> Target:
    """Return the target that ``text`` means. A name with a dot is a host, unless there is such a file or module.

    Raises:
        UsageError: it is none of them.
    """
    # XL-006, MC-02
    if not text.strip():
        raise UsageError(f"The target is empty. Write {_FORMS}.")
    if "://" in text or text.startswith(PREFIX) or ".json:" in text:
        return _read_url(text)
    if match := _FILE.fullmatch(text):
        return FileTarget(Path(match["path"]), match["name"])
    if match := _MODULE.fullmatch(text):
        return ModuleTarget(match["module"], match["name"])
    if file_url(text):
        return UrlTarget(text)
    if _exists(text):
        raise UsageError(f"{text} is neither a Python file nor a document. A target can be {_FORMS}.")
    if names_document_file(text):
        raise UsageError(describe_missing_file(text))
    if _DOTTED.fullmatch(text) and (file := _find_module_file(text)):
        return _read_module(text, file)
    return _read_host(text)


def _read_host(text: str) -> UrlTarget:
    if _DOTTED.fullmatch(text) and _find_near_file(text, is_host=_names_host(text)):
        raise UsageError(f"{describe_missing_file(text)} For the host, write https://{text}.")
    if _HOST.fullmatch(text) or _USER.match(text):
        return _read_url(text)
    near = f"{text}.py" if _exists(f"{text}.py") else ""
    if not near and _find_near_file(text):
        raise UsageError(describe_missing_file(text))
    raise UsageError(f"{text!r} is not a target. Write {f'{near}, or ' if near else ''}{_FORMS}.")


def describe_missing_file(path: str) -> str:
    """Return the sentence for a file that does not exist, with the target in its folder that was probably meant."""
    near = _find_near_file(path)
    return f"File not found: {path}.{f' Did you mean {near}?' if near else ''}"


def _find_near_file(text: str, *, is_host: bool = False) -> str:
    # With ``is_host``, a name that only differs in case: another one can be a site.
    path = Path(text)
    endings = (".py", *DOCUMENT_SUFFIXES)
    try:
        names = [name for name in os.listdir(path.parent) if name.lower().endswith(endings)]
    except OSError:  # there is no such folder
        return ""
    if is_host:
        names = [name for name in names if name.lower() == path.name.lower()]
    near = next((name for name in names if Path(name).stem == path.stem), "") or find_nearest(path.name, names)
    return str(path.with_name(near)) if near else ""


def _names_host(text: str) -> bool:
    last = text.rpartition(".")[2].lower()
    return len(last) == 2 or last in _COMMON_ENDINGS


def move_target(text: str, move: Callable[[str], str]) -> str:
    """Return the target ``text`` with each path in it as ``move`` returns it."""
    target = read_target(text)
    match target:
        case FileTarget(path, name):
            return move(str(path)) + (f":{name}" if name else "")
        case UrlTarget() if file_url(text) and "://" not in text:
            return move(text)
        case UrlTarget() if "://" not in text and ".json:" in text:
            file, _, name = text.rpartition(":")
            return f"{move(file)}:{name}"
        case _:
            return text


def _read_program(text: str) -> UrlTarget:
    resolved = resolve_target(text)
    if resolved == text and read_server_command(text) is None:
        raise UsageError(f"File not found: {text.rpartition(':')[0]}. For a server in a file, write FILE.json:NAME.")
    return UrlTarget(resolved)


def _read_module(text: str, file: str) -> ModuleTarget:
    # In a folder of another person, the name of a well-known site must not become code that runs here.
    if _names_host(text):
        raise UsageError(
            f"{text} is the module {file} here, but looks like a host name. Write https://{text}, or the file."
        )
    return ModuleTarget(text)


def _find_module_file(name: str) -> str:
    """Return the file of the module ``name`` here or where Python looks, or ``""``. Nothing is imported."""
    folders: Sequence[str] | None = [str(Path.cwd()), *sys.path]
    spec = None
    for part in name.split("."):
        if folders is None:
            return ""
        # The finder wants the name of the module in its folder, so that no package has to be imported before.
        spec = PathFinder.find_spec(part, list(folders))
        if spec is None:
            return ""
        folders = spec.submodule_search_locations
    return spec.origin if spec is not None and spec.has_location and spec.origin else ""


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # longer than any name of a file
        return False


def _read_url(text: str) -> UrlTarget:
    if text.startswith(PREFIX) or ("://" not in text and ".json:" in text):
        return _read_program(text)
    if _USER.match(text):
        # The URL is not repeated: it may hold a password.
        raise UsageError("This URL contains a user name or password. Remove it, and pass a key with --key-env.")
    scheme, mark, _ = text.partition("://")
    if mark and scheme.isalnum() and scheme.lower() not in _SCHEMES:
        raise UsageError(f"{scheme[:40]}:// is not supported. Write http:// or https://.")
    return UrlTarget(text)
