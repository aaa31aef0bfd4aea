"""Show the origin of a URL in letters that cannot be mistaken for other letters."""
# D-03

from __future__ import annotations

from unicodedata import name
from urllib.parse import urlsplit

from toolwire.framing.visible_text import make_visible

_MIXED_IN_JAPANESE = frozenset({"CJK", "HIRAGANA", "KATAKANA"})


def display_origin(url: str) -> str:
    """Return the scheme, host and port of ``url``. The host is in ASCII (``xn--``)."""
    parts = _split_origin(url)
    if parts is None:
        return make_visible(url)
    scheme, host, port = parts
    return f"{scheme}://{_to_ascii_host(host)}{port}"


def find_lookalike_warning(url: str) -> str:
    """Return one sentence if the host of ``url`` has letters outside ASCII, else an empty text."""
    parts = _split_origin(url)
    host = "" if parts is None else _to_unicode_host(parts[1])
    if host.isascii():
        return ""
    scripts = {script for label in host.split(".") for script in [_find_scripts(label)] if len(script) > 1}
    shown = make_visible(host)
    if scripts:
        mixed = " and ".join(sorted({one.capitalize() for script in scripts for one in script}))
        return f"Careful: this address reads {shown!r}, and mixes {mixed} letters."
    return f"This address reads {shown!r} in its own script."


def _split_origin(url: str) -> tuple[str, str, str] | None:
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return None
    host = parts.hostname or ""
    return parts.scheme, f"[{host}]" if ":" in host else host, port


def _to_ascii_host(host: str) -> str:
    if host.isascii():
        return make_visible(host)
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        # Python's IDNA is the one of 2003; it refuses some hosts that exist. Those are shown in plain Punycode.
        return ".".join(map(_encode_label, host.split(".")))


def _encode_label(label: str) -> str:
    return label if label.isascii() else "xn--" + label.encode("punycode", "replace").decode()


def _to_unicode_host(host: str) -> str:
    try:
        return ".".join(
            label[4:].encode("ascii").decode("punycode") if label.startswith("xn--") else label
            for label in host.split(".")
        )
    except UnicodeError:
        return host


def _find_scripts(label: str) -> frozenset[str]:
    found = frozenset(name(character, "?").partition(" ")[0] for character in label if character.isalpha())
    return frozenset() if found <= _MIXED_IN_JAPANESE else found
