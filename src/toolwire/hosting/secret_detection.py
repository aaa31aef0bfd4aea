"""Find secrets among the words of a command, which are about to be written into a file that other programs read."""
# AT-54, D-26

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from toolwire.core.url_display import is_secret_parameter, show_urls

from .toml_file import SECRET_FIELD

_OPTION: Final = re.compile(r"--?(?P<name>[A-Za-z][A-Za-z0-9_.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.DOTALL)
_FIELD: Final = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9-]*):\s*(?P<value>\S.*)", re.DOTALL)
_SECRET: Final = re.compile(
    r"key$|token$|secret|passw|^pw$|^pwd$|^pass$|passphrase|credential|bearer|cookie|jwt$|^pat$"
)
_PERHAPS: Final = re.compile(r"auth|header|user$")
"""What often has no secret: `--auth none`. Its value decides."""
_OTHER: Final = re.compile(r"(?:file|path|dir|folder|name|env|url|uri|id|type|scheme|method|tokens)$")
_PARTS: Final = re.compile(r"(?<![@/])(?<!sha256:)\b[A-Za-z0-9_+~]{16,}\b")
_WORDS: Final = frozenset(("true", "false", "none", "null", "basic", "bearer", "oauth", "env", "stdin", "prompt"))
_LAUNCHER: Final = re.compile(r"npx|uvx|bunx|node|bun|deno|uv|pipx|docker|podman|env|python[0-9.]*")
_ACTIONS: Final = frozenset(("run", "exec", "tool", "x", "dlx"))
_FLAGS: Final = frozenset(("-y", "-m", "-q", "-u", "-i", "--yes", "--rm"))
"""Options of launchers that are followed by no value, or by the name of what they start."""
_MAX_WORD_LENGTH: Final = 3


def find_secret_word(words: Sequence[str]) -> str:
    """Return what may be a secret among the words after a program, by the name of its place; ``""`` if nothing is."""
    for number, word in enumerate(words):
        before = _OPTION.fullmatch(words[number - 1]) if number else None
        named = _OPTION.fullmatch(word) or _ASSIGNMENT.fullmatch(word)
        if named is not None and named["value"] is not None:
            if _is_secret(named["name"], named["value"]):
                return f"the value of {word.partition('=')[0]}"
            continue
        if named is not None:
            continue
        if before is not None and before["value"] is None and _is_secret(before["name"], word):
            return f"the word after {words[number - 1]}"
        if _looks_secret(word):
            return f"word {number + 1} after the program"
    return ""


def choose_program_name(words: Sequence[str]) -> str:
    """Return a name for what a command starts. No value of an option is used, as it may be a secret."""
    for number, word in enumerate(words):
        is_value = number > 0 and words[number - 1].startswith("-") and words[number - 1] not in _FLAGS
        name = os.path.basename(word.rstrip("/"))
        is_launcher = name in _ACTIONS or _LAUNCHER.fullmatch(name) is not None
        if not (is_value or is_launcher or word.startswith("-") or _ASSIGNMENT.fullmatch(word) or "$" in word):
            return name
    return os.path.basename(words[0])


def _is_secret(name: str, value: str) -> bool:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    if value.startswith("$") or value.lower() in _WORDS or os.path.exists(value):
        return False
    if _looks_secret(value):
        return True
    if _OTHER.search(plain):
        return False
    if _SECRET.search(plain):
        return len(value) > _MAX_WORD_LENGTH
    return _PERHAPS.search(plain) is not None and (" " in value or ":" in value) and "://" not in value


def _looks_secret(word: str) -> bool:
    """Return whether a word by itself may be a secret: a key, a URL with one, or a header field."""
    if show_urls(word) != word:
        return True
    field = _FIELD.fullmatch(word)
    if field is not None and "://" not in word and SECRET_FIELD.search(field["name"]):
        return True
    return not os.path.exists(word) and any(is_secret_parameter("", part) for part in _PARTS.findall(word))
