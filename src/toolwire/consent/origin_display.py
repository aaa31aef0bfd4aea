"""The origin of a URL as a person must see it: in letters that cannot pass for others. [D-03]"""

from __future__ import annotations

from unicodedata import name
from urllib.parse import urlsplit

from toolwire.framing.visible_text import visible

_MIXED_IN_JAPANESE = frozenset({"CJK", "HIRAGANA", "KATAKANA"})


def origin(url: str) -> str:
    """Return scheme, host and port of ``url``, the host in ASCII (``xn--``) whatever its script."""
    parts = _split(url)
    if parts is None:
        return visible(url)
    scheme, host, port = parts
    return f"{scheme}://{_ascii(host)}{port}"


def warning(url: str) -> str:
    """Return one sentence where the host of ``url`` is in letters that could pass for others, else nothing."""
    parts = _split(url)
    host = "" if parts is None else _unicode(parts[1])
    if host.isascii():
        return ""
    scripts = {script for label in host.split(".") for script in [_scripts(label)] if len(script) > 1}
    shown = visible(host)
    if scripts:
        mixed = " and ".join(sorted({one.capitalize() for script in scripts for one in script}))
        return f"Careful: this address reads {shown!r}, and mixes {mixed} letters."
    return f"This address reads {shown!r} in its own script."


def _split(url: str) -> tuple[str, str, str] | None:
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return None
    host = parts.hostname or ""
    return parts.scheme, f"[{host}]" if ":" in host else host, port


def _ascii(host: str) -> str:
    if host.isascii():
        return visible(host)
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return ".".join(map(_punycode, host.split(".")))


def _punycode(label: str) -> str:
    return label if label.isascii() else "xn--" + label.encode("punycode", "replace").decode()


def _unicode(host: str) -> str:
    try:
        return ".".join(
            label[4:].encode("ascii").decode("punycode") if label.startswith("xn--") else label
            for label in host.split(".")
        )
    except UnicodeError:
        return host


def _scripts(label: str) -> frozenset[str]:
    found = frozenset(name(character, "?").partition(" ")[0] for character in label if character.isalpha())
    return frozenset() if found <= _MIXED_IN_JAPANESE else found
