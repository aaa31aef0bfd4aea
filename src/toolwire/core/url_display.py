"""Show URLs without passwords, keys and tokens, in output, logs, errors and files.

Rules:
- The origin, the path and the names of the query stay, so that a reader still knows which site is meant.
- User name, password and fragment are left out.
- A value of the query is ``***`` where its name says that it is secret, or where it looks like a key: long and random.
"""
# D-26

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import unquote_plus

MASK = "***"

# One slash is what a path makes of a URL: ``Path("https://u:p@a")`` is ``https:/u:p@a``.
_URL = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]+:[/\\]{1,2}[^\s"'<>`]+""")
_START = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*:)?(?P<slashes>[/\\]*)(?P<authority>[^/\\?#]*)")
_BAD_PORT = re.compile(r"[^\[\]]*:[0-9]*[^0-9\]]")
_ENDS_SENTENCE = ".,;:!?)]}"
# Compared without case and punctuation: ``X-Amz-Signature`` is ``xamzsignature``.
_SECRET_NAME = re.compile(
    r"key$|^key|apikey|token|secret|passw|^pw$|^pwd$|^pass$|passphrase|auth|signature|^sig|sig$|hmac|jwt|bearer"
    r"|credential|session|^sid$|cookie|^code$|assertion|ticket|otp$|^pin$|nonce|^state$|verifier|sas$|policy$"
)
_PLAIN = re.compile(r"[^a-z0-9]")
_SHORTEST_RANDOM = 16
_RANDOM = re.compile(r"[A-Za-z0-9_.~+/=:|-]+")
_LONGEST_WORD = 12
_WORDS = re.compile(r"[A-Za-z]+|[0-9]+")
_TIME = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9:]+)?")
_HEX = re.compile(r"[0-9A-Fa-f-]+")


def show_url(url: str) -> str:
    """Return ``url`` without user name, password and fragment, and with ``***`` for secrets in its query.

    A text that is no valid URL is treated the same way as far as it can be read, and never refused.
    """
    whole, _, _ = url.partition("#")
    start = _START.match(whole)
    if start is None or not (start["slashes"] or start["scheme"]):
        address, mark, query = whole.partition("?")
        return address + mark + _mask_query(query)
    authority, rest = start["authority"], whole[start.end() :]
    if "@" not in authority and "@" in url[start.end() :] and _BAD_PORT.match(authority):
        # A password with an unescaped "/", "?" or "#" in it: what looks like the port is its beginning.
        rest = url[start.end() :].rpartition("@")[2].partition("#")[0]
        host_end = re.search(r"[/\\?#]|$", rest)
        end = len(rest) if host_end is None else host_end.start()
        authority, rest = rest[:end], rest[end:]
    path, mark, query = rest.partition("?")
    return f"{start['scheme'] or ''}{start['slashes']}{authority.rpartition('@')[2]}{path}{mark}{_mask_query(query)}"


def show_urls(text: str) -> str:
    """Return ``text`` with every URL in it as ``show_url`` shows it."""
    return _URL.sub(_show_match, text) if ":/" in text or ":\\" in text else text


def is_secret_parameter(name: str, value: str) -> bool:
    """Return whether ``value``, found under ``name``, is masked: because of its name, or because it looks random."""
    return _SECRET_NAME.search(_PLAIN.sub("", name.lower())) is not None or _is_random(value)


def _show_match(match: re.Match[str]) -> str:
    url = match[0].rstrip(_ENDS_SENTENCE)
    return show_url(url) + match[0][len(url) :]


def _mask_query(query: str) -> str:
    return "".join(part if part in ("&", ";") else _mask_pair(part) for part in re.split("([&;])", query))


def _mask_pair(pair: str) -> str:
    name, mark, value = pair.partition("=")
    if not mark:
        return MASK if _is_random(unquote_plus(name)) else name
    if value and is_secret_parameter(unquote_plus(name), unquote_plus(value)):
        value = MASK
    return f"{MASK if _is_random(unquote_plus(name)) else name}={show_urls(value)}"


def _is_random(value: str) -> bool:
    """Return whether ``value`` looks like a key: at least 16 characters, no text of words, no number or date."""
    if len(value) < _SHORTEST_RANDOM or "://" in value or _RANDOM.fullmatch(value) is None or _TIME.fullmatch(value):
        return False
    runs = _WORDS.findall(value)
    letters = [run for run in runs if run.isalpha()]
    if not letters:
        return sum(map(len, runs)) >= 2 * _SHORTEST_RANDOM
    has_digits = any(run.isdigit() for run in runs)
    if _HEX.fullmatch(value) and has_digits:
        return True
    if not has_digits:
        return any(len(run) > _LONGEST_WORD and not (run.islower() or run.istitle()) for run in letters) or any(
            len(run) >= 2 * _SHORTEST_RANDOM for run in letters
        )
    changes = sum(_classify_character(one) != _classify_character(two) for one, two in pairwise(value))
    return changes * 4 >= len(value) or max(map(len, re.split(r"[-_./:|~+=]", value))) >= _SHORTEST_RANDOM


def _classify_character(letter: str) -> int:
    return 0 if letter.isdigit() else 1 if letter.isupper() else 2 if letter.islower() else 3
