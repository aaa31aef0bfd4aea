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
_MOST = 10_000

Demand: TypeAlias = Callable[[Call], str]
"""Gives what to ask a person before a call runs, as one sentence; ``""`` where nothing needs to be asked."""


class _Asked(NamedTuple):
    call: bytes
    until: float


def destructive(call: Call) -> str:
    """Ask about every call of a tool that destroys."""
    return f"{call.tool.name} cannot be undone. Do it?" if call.tool.destructive else ""


def confirmation_check(demand: Demand, *, clock: Callable[[], float] = time.monotonic) -> Check:
    """Return a check that refuses a call for which ``demand`` has a question until it comes with the question's word.

    At most 10,000 questions are open at once; of more, the oldest are forgotten.
    """
    asked: OrderedDict[str, _Asked] = OrderedDict()

    def check(call: Call) -> Verdict:
        question = demand(call)
        if not question:
            return ALLOW
        word, same = call.context.confirmation, _digest(call)
        known = asked.pop(word, None) if word else None
        if known is not None and known.call == same and clock() < known.until:
            return ALLOW
        word = secrets.token_urlsafe(18)
        asked[word] = _Asked(same, clock() + VALID_S)
        if len(asked) > _MOST:
            asked.popitem(last=False)
        return Deny(_challenge(call, question, word))

    return check


def _challenge(call: Call, question: str, word: str) -> Problem:
    field = CONFIRMATION.decode()
    text = f"{call.tool.name} did not run: it must be confirmed. Send the same call again with the header {field}."
    challenge = {"question": question, "word": word, "header": field, "valid_s": int(VALID_S)}
    return Problem(kind=Kind.UNCONFIRMED, message=text, details={"confirmation": challenge})


def _digest(call: Call) -> bytes:
    return sha256(jsontext.canonical([call.context.principal, call.tool.id, call.arguments])).digest()
