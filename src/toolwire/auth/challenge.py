"""Read and write ``WWW-Authenticate``, in which a server asks for credentials (RFC 9110, RFC 6750, RFC 9728)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|\Z))")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_GAP = re.compile(r"[ \t,]*")
_SPACE = re.compile(r"[ \t]*")
_PARAMETER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*=(?=[ \t]*[^ \t,=])")
_MAX_CHARACTERS = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """One challenge: its lower-case scheme, and its parameters by lower-case name (the first counts)."""

    scheme: str
    parameters: Mapping[str, str]


def write_challenge(scheme: str, parameters: Mapping[str, str]) -> str:
    """Return the text of a challenge."""
    written = ", ".join(f'{name}="{_escape(value)}"' for name, value in parameters.items())
    return f"{scheme} {written}" if written else scheme


def read_challenges(values: Iterable[str]) -> tuple[Challenge, ...]:
    """Return the challenges of all ``WWW-Authenticate`` fields. A field is read up to its first error."""
    # AC-01
    return tuple(challenge for value in values for challenge in _read_field(value[:_MAX_CHARACTERS]))


def find_bearer(values: Iterable[str]) -> Challenge | None:
    """Return the first challenge for a bearer token, if there is one."""
    return next((each for each in read_challenges(values) if each.scheme == "bearer"), None)


def _read_field(text: str) -> Iterable[Challenge]:
    place = 0
    while True:
        place = _skip(_GAP, text, place)
        scheme = _TOKEN.match(text, place)
        if scheme is None:
            return
        place = _skip(_SPACE, text, scheme.end())
        token = _TOKEN68.match(text, place) if not _PARAMETER.match(text, place) else None
        if token is not None and place > scheme.end():
            place = token.end()
            yield Challenge(scheme=scheme[0].lower(), parameters={})
            continue
        parameters, place = _read_parameters(text, place)
        yield Challenge(scheme=scheme[0].lower(), parameters=parameters)


def _read_parameters(text: str, place: int) -> tuple[Mapping[str, str], int]:
    found: dict[str, str] = {}
    while True:
        start = _skip(_GAP, text, place)
        named = _PARAMETER.match(text, start)
        if named is None:
            return found, place
        value_at = _skip(_SPACE, text, named.end())
        quoted = _QUOTED.match(text, value_at)
        plain = _TOKEN.match(text, value_at) if quoted is None else None
        value = quoted or plain
        if value is None:
            return found, len(text)
        unescaped = re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL) if quoted is not None else value[0]
        found.setdefault(named[0].rstrip("= \t").lower(), unescaped)
        place = value.end()


def _skip(pattern: re.Pattern[str], text: str, place: int) -> int:
    match = pattern.match(text, place)
    return match.end() if match is not None else place


def _escape(value: str) -> str:
    plain = "".join(character if " " <= character <= "~" else "?" for character in value)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
