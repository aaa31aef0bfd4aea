"""Show URLs without passwords, keys and tokens, in output, logs, errors and files.

Rules:
- The origin, the path and the names of the query stay, so that a reader still knows which site is meant.
- User name, password and fragment are left out.
- A value of the query is ``***`` where its name says that it is secret, or where it looks like a key: long and random.
"""
# D-26

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise
from urllib.parse import unquote_plus

MASK = "***"

# One slash is what a path makes of a URL: ``Path("https://u:p@a")`` is ``https:/u:p@a``.
# D-15: a scheme is short, so a long run of letters takes no time of its length squared.
_URL = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]{1,63}+:[/\\]{1,2}[^\s"'<>`]+""")
_START = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*:)?(?P<slashes>[/\\]*)(?P<authority>[^/\\?#]*)")
_BAD_PORT = re.compile(r"[^\[\]]*:[0-9]*[^0-9\]]")
_MAX_NESTED = 5
"""How many URLs may stand inside each other, as values of queries; what is deeper is masked."""
_ENDS_SENTENCE = ".,;:!?)]}"
# Compared without case and punctuation: ``X-Amz-Signature`` is ``xamzsignature``.
_SECRET_NAME = re.compile(
    r"key$|^key|apikey|token|secret|passw|^pw$|^pwd$|^pass$|passphrase|auth|signature|^sig|sig$|hmac|jwt|bearer"
    r"|credential|session|^sid$|cookie|^code$|assertion|ticket|otp$|^pin$|nonce|^state$|verifier|sas$|policy$"
)
_PLAIN = re.compile(r"[^a-z0-9]")
_MIN_RANDOM_LENGTH = 16
_RANDOM = re.compile(r"[A-Za-z0-9_.~+/=:|-]+")
_MAX_WORD_LENGTH = 12
_WORDS = re.compile(r"[A-Za-z]+|[0-9]+")
_TIME = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9:]+)?")
_HEX = re.compile(r"[0-9A-Fa-f-]+")


def show_url(url: str) -> str:
    """Return ``url`` without user name, password and fragment, and with ``***`` for secrets in its query.

    A text that is no valid URL is treated the same way as far as it can be read, and never refused.
    """
    return _show_url(url, 0)


def _show_url(url: str, depth: int) -> str:
    whole, _, _ = url.partition("#")
    start = _START.match(whole)
    if start is None or not (start["slashes"] or start["scheme"]):
        address, mark, query = whole.partition("?")
        return address + mark + _mask_query(query, depth)
    authority, rest = start["authority"], whole[start.end() :]
    if "@" not in authority and "@" in url[start.end() :] and _BAD_PORT.match(authority):
        # A password with an unescaped "/", "?" or "#" in it: what looks like the port is its beginning.
        rest = url[start.end() :].rpartition("@")[2].partition("#")[0]
        host_end = re.search(r"[/\\?#]|$", rest)
        end = len(rest) if host_end is None else host_end.start()
        authority, rest = rest[:end], rest[end:]
    path, mark, query = rest.partition("?")
    site = f"{start['scheme'] or ''}{start['slashes']}{authority.rpartition('@')[2]}"
    return f"{site}{path}{mark}{_mask_query(query, depth)}"


def show_urls(text: str) -> str:
    """Return ``text`` with every URL in it as ``show_url`` shows it."""
    return _show_urls(text, 0)


def _show_urls(text: str, depth: int) -> str:
    return _URL.sub(partial(_show_match, depth), text) if ":/" in text or ":\\" in text else text


def name_server(text: str, origin: str, name: str) -> str:
    """Return ``text`` with ``name`` in place of each URL at ``origin``: a path can hold a secret too."""
    # PL-04
    if not origin or origin not in text:
        return text
    named = re.sub(
        rf"{re.escape(origin)}(?![A-Za-z0-9-]|\.[A-Za-z0-9])[^\s,;)]*?(?=[.:!?]?(?:[\s,;)]|$))", lambda _: name, text
    )
    return named[:1].upper() + named[1:]


def is_secret_parameter(name: str, value: str) -> bool:
    """Return whether ``value``, found under ``name``, is masked: because of its name, or because it looks random."""
    return _SECRET_NAME.search(_PLAIN.sub("", name.lower())) is not None or _is_random(value)


def _show_match(depth: int, match: re.Match[str]) -> str:
    url = match[0].rstrip(_ENDS_SENTENCE)
    return _show_url(url, depth) + match[0][len(url) :]


def _mask_query(query: str, depth: int) -> str:
    return "".join(part if part in ("&", ";") else _mask_pair(part, depth) for part in re.split("([&;])", query))


def _mask_pair(pair: str, depth: int) -> str:
    name, mark, value = pair.partition("=")
    if not mark:
        return MASK if _is_random(unquote_plus(name)) else name
    if value and is_secret_parameter(unquote_plus(name), unquote_plus(value)):
        value = MASK
    shown = _show_urls(value, depth + 1) if depth < _MAX_NESTED else MASK
    return f"{MASK if _is_random(unquote_plus(name)) else name}={shown}"


def _is_random(value: str) -> bool:
    """Return whether ``value`` looks like a key: at least 16 characters, no text of words, no number or date."""
    if len(value) < _MIN_RANDOM_LENGTH or "://" in value or _RANDOM.fullmatch(value) is None or _TIME.fullmatch(value):
        return False
    runs = _WORDS.findall(value)
    letters = [run for run in runs if run.isalpha()]
    if not letters:
        return sum(map(len, runs)) >= 2 * _MIN_RANDOM_LENGTH
    has_digits = any(run.isdigit() for run in runs)
    if _HEX.fullmatch(value) and has_digits:
        return True
    if not has_digits:
        return any(len(run) > _MAX_WORD_LENGTH and not (run.islower() or run.istitle()) for run in letters) or any(
            len(run) >= 2 * _MIN_RANDOM_LENGTH for run in letters
        )
    changes = sum(_classify_character(one) != _classify_character(two) for one, two in pairwise(value))
    return changes * 4 >= len(value) or max(map(len, re.split(r"[-_./:|~+=]", value))) >= _MIN_RANDOM_LENGTH


def _classify_character(letter: str) -> int:
    return 0 if letter.isdigit() else 1 if letter.isupper() else 2 if letter.islower() else 3
