"""Remove our credentials from responses: an echo of them would reach a model, a log or a user.

Rules:
- Each key that was sent is removed in its plain form and as JSON, a URL, HTML, hex and base64 spell it.
- In an error response every key is removed. In any other response, only a key that is unlikely to be an ordinary word:
  16 characters or more, or at least 8 that are not all letters.
- In a stream of events, a key that is split between two pieces is not found.
"""

# D-26: a server that repeats a credential must not give it to a model.

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from toolwire.core.http import Headers
from toolwire.core.model import Secret
from toolwire.telemetry.redaction import HIDDEN, find_forms

# Shorter texts than the first occur in ordinary results by chance, so they are never removed.
_MIN_LENGTH, _SHORT, _LONG = 4, 8, 16
_MARK = HIDDEN.encode()


class CredentialEchoes(NamedTuple):
    """The forms of the secrets of one request: ``in_errors`` go from errors, ``anywhere`` from all responses."""

    in_errors: tuple[bytes, ...] = ()
    anywhere: tuple[bytes, ...] = ()

    def join(self, other: CredentialEchoes) -> CredentialEchoes:
        """Return the echoes of both."""
        if not other.in_errors:
            return self
        in_errors, anywhere = {*self.in_errors, *other.in_errors}, {*self.anywhere, *other.anywhere}
        return CredentialEchoes(_sort_forms(in_errors), _sort_forms(anywhere))

    def remove_from(self, body: bytes, status: int) -> bytes:
        """Return ``body`` without the secrets."""
        for form in self.in_errors if status >= 400 else self.anywhere:
            if form in body:
                body = body.replace(form, _MARK)
        return body

    def remove_from_fields(self, fields: Headers) -> Headers:
        """Return ``fields`` without the secrets in their values."""
        if not self.anywhere or not any(form in value for form in self.anywhere for _, value in fields):
            return fields
        return [(name, self.remove_from(value, 200)) for name, value in fields]


NO_ECHOES = CredentialEchoes()


def find_echoes(secrets: Iterable[Secret]) -> CredentialEchoes:
    """Return the echoes of ``secrets``; each is a credential, or the value of a header field that contains one."""
    texts = {part for secret in secrets for part in _find_parts(secret.reveal())}
    if not texts:
        return NO_ECHOES
    # A short key that is a word, such as "demo", would also match member names of ordinary results.
    everywhere = {text for text in texts if len(text) >= _LONG or (len(text) >= _SHORT and not _is_word(text))}
    return CredentialEchoes(_find_all_forms(texts), _find_all_forms(everywhere))


def _find_parts(value: str) -> Iterable[str]:
    """Yield ``value``, and its credential if it is a whole header field such as ``Bearer KEY``."""
    scheme, _, rest = value.partition(" ")
    for text in (value, rest.strip() if scheme.isalpha() else ""):
        if len(text) >= _MIN_LENGTH:
            yield text


def _is_word(text: str) -> bool:
    return text.replace("_", "").replace("-", "").isalpha()


def _find_all_forms(texts: Iterable[str]) -> tuple[bytes, ...]:
    return _sort_forms({form.encode("utf-8", "replace") for text in texts for form in find_forms(text)})


def _sort_forms(forms: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return ``forms``, longest first: a form may contain another one, and its rest would stay."""
    # TE-03
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))
