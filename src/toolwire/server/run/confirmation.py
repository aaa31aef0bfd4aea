"""A server that wants a person's word before a call runs, whatever its client says it has asked. [XL-056]

Rules:
- The first call is answered with a challenge and does not run; the same call with the challenge's word runs.
- A word is good once, for five minutes, and for this caller, tool and arguments alone.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from toolwire.core.check import ALLOW, Check, Deny, Verdict
from toolwire.core.model import Call, Kind, Problem
from toolwire.framing import jsontext

CONFIRMATION = b"toolwire-confirmation"
"""The header field that the word comes in, on every protocol."""

VALID_S = 300.0
_MAX_WORDS = 10_000

ConfirmationQuestion: TypeAlias = Callable[[Call], str]
"""Gives what to ask a person before a call runs, as one sentence; ``""`` where nothing needs to be asked."""


class _IssuedWord(NamedTuple):
    call: bytes
    until: float


def ask_about_destructive(call: Call) -> str:
    """Ask about every call of a tool that destroys."""
    return f"{call.tool.name} cannot be undone. Do it?" if call.tool.destructive else ""


class ConfirmationWords:
    """The words that are out: each was given for one thing, and is taken for that alone, once, while it is valid.

    At most 10,000 are out at once; of more, the oldest are forgotten. ``clock`` gives seconds and never goes back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._issued: OrderedDict[str, _IssuedWord] = OrderedDict()

    def issue(self, subject: bytes) -> str:
        """Return a new word for ``subject``, the digest of what it confirms."""
        word = secrets.token_urlsafe(18)
        self._issued[word] = _IssuedWord(subject, self._clock() + VALID_S)
        if len(self._issued) > _MAX_WORDS:
            self._issued.popitem(last=False)
        return word

    def redeem(self, word: str, subject: bytes) -> bool:
        """Return whether ``word`` was given for ``subject``; it is good no more."""
        known = self._issued.pop(word, None) if word else None
        return known is not None and known.call == subject and self._clock() < known.until


def build_confirmation_check(ask: ConfirmationQuestion, *, clock: Callable[[], float] = time.monotonic) -> Check:
    """Return a check that refuses a call for which ``demand`` has a question until it comes with the question's word.

    At most 10,000 questions are open at once; of more, the oldest are forgotten.
    """
    words = ConfirmationWords(clock)

    def check(call: Call) -> Verdict:
        question = ask(call)
        if not question:
            return ALLOW
        subject = _digest_call(call)
        if words.redeem(call.context.confirmation, subject):
            return ALLOW
        return Deny(build_challenge(call, question, words.issue(subject)))

    return check


def build_challenge(call: Call, question: str, word: str) -> Problem:
    """Return the answer to ``call`` that asks ``question``, and says that the same call with ``word`` runs."""
    field = CONFIRMATION.decode()
    text = f"{call.tool.name} did not run: it must be confirmed. Send the same call again with the header {field}."
    details = {"question": question, "word": word, "header": field, "valid_s": int(VALID_S)}
    return Problem(kind=Kind.UNCONFIRMED, message=text, details={"confirmation": details})


def _digest_call(call: Call) -> bytes:
    return sha256(jsontext.write_canonical([call.context.principal, call.tool.id, call.arguments])).digest()
