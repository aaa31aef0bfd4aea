"""Show the origin of a URL in letters that cannot be mistaken for other letters, and find words that mix scripts."""
# D-03

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import name

from toolwire.core.url_display import show_url
from toolwire.core.url_origin import get_host, get_origin
from toolwire.framing.visible_text import make_visible

_PROGRAM = re.compile(
    r"(?:https://)?([a-z0-9][a-z0-9-]{0,23})-([0-9a-f]{8})[0-9a-f]{24}\.stdio\.invalid(?::443)?(?:/mcp)?(?![\w.:-])"
)
"""The address of a program, as ``ServerCommand.url`` writes it."""
_ALIKE = frozenset(
    {"ARMENIAN", "CHEROKEE", "COPTIC", "CYRILLIC", "FULLWIDTH", "GREEK", "LATIN", "LISU", "MATHEMATICAL"}
)
CAREFUL = "careful: "
"""Begins the part of a note that warns about lookalike text in an argument."""
_UNITS = frozenset("\u0394\u03a9\u03bc\u03c0")
"""Greek letters in units and formulas, such as in 5μm: none of them looks like a Latin letter."""
MAX_COMPARED = 20_000
"""The characters of one argument whose words are compared: more would hold up the question."""
_WORD = re.compile(r"\w+")
_JSON_ESCAPE = re.compile(r"\\.")
_MIXED_IN_JAPANESE = frozenset({"CJK", "HIRAGANA", "KATAKANA"})


def display_origin(url: str) -> str:
    """Return the scheme, host and port of ``url``, or the name of a program. The host is in ASCII (``xn--``)."""
    return name_programs(get_origin(url) or make_visible(show_url(url)))


def show_site(site: str) -> str:
    """Return the site of a question as users see it: an origin, a program, or the name of a server."""
    return display_origin(site) if "://" in site else make_visible(site)


def name_programs(text: str) -> str:
    """Return ``text`` with the name of a program in place of each address that stands for one.

    Such an address resolves nowhere, and means nothing to a user. The first digits of its digest stay, since two
    programs may have one name.
    """
    # FU-58
    return _PROGRAM.sub(r"program \1 (\2)", text)


def find_lookalike_warning(url: str) -> str:
    """Return one sentence if the host of ``url`` has letters outside ASCII, else an empty text."""
    host = _to_unicode_host(get_host(url))
    if host.isascii():
        return ""
    scripts = {script for label in host.split(".") for script in [_find_scripts(label)] if len(script) > 1}
    shown = make_visible(host)
    if scripts:
        mixed = " and ".join(sorted({one.capitalize() for script in scripts for one in script}))
        return f"Careful: this address reads {shown!r}, and mixes {mixed} letters."
    return f"This address reads {shown!r} in its own script."


def describe_mixed_word(text: str) -> str:
    """Return what one word of ``text``, which may be JSON, mixes: letters of alphabets that look alike, or digits.

    Only words that begin in the first ``MAX_COMPARED`` characters are compared; the return value says so if later ones
    could mix them. It is empty if no word does.
    """
    if text.isascii():
        return ""
    for match in _WORD.finditer(_JSON_ESCAPE.sub("  ", text)):
        if match.start() >= MAX_COMPARED:
            # The rest is shown in full as well, so the user must know that it was not compared.
            is_plain = text[match.start() :].isascii()
            return "" if is_plain else f"letters compared in the first {MAX_COMPARED:,} characters only"
        if not match[0].isascii():
            characters = set(match[0])
            scripts = _find_scripts(characters) & _ALIKE
            if len(scripts) > 1 and _find_scripts(characters - _UNITS) & (_ALIKE - {"LATIN"}):
                return f"{CAREFUL}one word mixes {' and '.join(sorted(map(str.capitalize, scripts)))} letters"
            if len({name(one).partition(" ")[0] for one in characters if one.isdecimal()}) > 1:
                return f"{CAREFUL}one number mixes digits of two scripts"
    return ""


def _to_unicode_host(host: str) -> str:
    try:
        return ".".join(
            label[4:].encode("ascii").decode("punycode") if label.startswith("xn--") else label
            for label in host.split(".")
        )
    except UnicodeError:
        return host


def _find_scripts(label: Iterable[str]) -> frozenset[str]:
    found = frozenset(name(character, "?").partition(" ")[0] for character in label if character.isalpha())
    return frozenset() if found <= _MIXED_IN_JAPANESE else found
