"""Ask for a confirmation on the server before a call runs, even if the client has asked the user.

Rules:
- The first call gets a challenge and does not run. The same call with the word of the challenge runs.
- A word is valid once, for five minutes, and only for the same caller, tool and arguments.
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
"""The header field of the word, on every protocol."""

VALID_S = 300.0
_MAX_WORDS = 10_000

ConfirmationQuestion: TypeAlias = Callable[[Call], str]
"""Returns the question to ask the user before a call runs, as one sentence; ``""`` if none is needed."""


class _IssuedWord(NamedTuple):
    call: bytes
    until: float


def ask_about_destructive(call: Call) -> str:
    """Return a question for each call of a destructive tool."""
    return f"{call.tool.name} cannot be undone. Do it?" if call.tool.destructive else ""


class ConfirmationWords:
    """The issued words. Each is valid for one subject, once, until it expires.

    At most 10,000 words are kept; beyond that, the oldest are dropped. ``clock`` gives seconds and never goes back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without words."""
        self._clock = clock
        self._issued: OrderedDict[str, _IssuedWord] = OrderedDict()

    def issue(self, subject: bytes) -> str:
        """Return a new word for ``subject``, a digest of what the word confirms."""
        word = secrets.token_urlsafe(18)
        self._issued[word] = _IssuedWord(subject, self._clock() + VALID_S)
        if len(self._issued) > _MAX_WORDS:
            self._issued.popitem(last=False)
        return word

    def redeem(self, word: str, subject: bytes) -> bool:
        """Return whether ``word`` is valid for ``subject``; afterwards it is not."""
        # A word that is tried for another subject is lost as well: it could only be guessed or stolen.
        issued = self._issued.pop(word, None) if word else None
        return issued is not None and issued.call == subject and self._clock() < issued.until


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
    """Return the Problem that asks ``question`` and says how to send ``call`` again with ``word``."""
    field = CONFIRMATION.decode()
    text = f"{call.tool.name} did not run: it must be confirmed. Send the same call again with the header {field}."
    details = {"question": question, "word": word, "header": field, "valid_s": int(VALID_S)}
    return Problem(kind=Kind.UNCONFIRMED, message=text, details={"confirmation": details})


def _digest_call(call: Call) -> bytes:
    return sha256(jsontext.write_canonical([call.context.principal, call.tool.id, call.arguments])).digest()
