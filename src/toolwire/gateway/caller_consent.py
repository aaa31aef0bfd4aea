"""Ask the callers of a gateway for consent: a gateway has no user of its own.

Rules:
- A call that the gateway's own client would ask about is answered with a challenge, and does not run. The same call
  with the challenge's word runs, once, within five minutes.
- A word is good for one caller, one tool of one site as it is defined now, and the same arguments alone.
- What a site itself wants confirmed is not asked of the caller: such a call is refused as before.
"""
# XL-053, XL-056

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest

from toolwire.core.check import Answer, Question
from toolwire.framing import jsontext
from toolwire.server.run.confirmation import ConfirmationWords, build_challenge

_CHANNEL = "caller"
_HOST_CHANNEL = "host"


class CallerConsent:
    """Answers for the callers of a gateway: give it to a connection as ``approve``.

    ``host_confirmation`` is the word that ``toolwire.asgi`` has too: a call with it comes from an MCP client that
    cannot be asked, and is left to what that client asks its user.
    """

    def __init__(self, words: ConfirmationWords | None = None, *, host_confirmation: str = "") -> None:
        self._words = ConfirmationWords() if words is None else words
        self._host_confirmation = host_confirmation.encode()

    def __call__(self, question: Question) -> Answer:
        """Allow a call whose caller has confirmed it; else let it end with what the caller is to confirm."""
        call, subject = question.call, _digest(question)
        word = call.context.confirmation.encode()
        if self._host_confirmation and compare_digest(word, self._host_confirmation):
            return Answer(allowed=True, channel=_HOST_CHANNEL)
        if self._words.redeem(call.context.confirmation, subject):
            return Answer(allowed=True, channel=_CHANNEL)
        reasons = " ".join(question.reasons)
        text = f"{call.tool.name} is a tool of {question.site}. {reasons} Do you allow this call?"
        problem = build_challenge(call, text, self._words.issue(subject))
        return Answer(allowed=False, channel=_CHANNEL, problem=problem)


def _digest(question: Question) -> bytes:
    call = question.call
    parts = [
        call.context.principal,
        question.connection,
        question.site,
        question.target,
        call.tool.id,
        call.arguments,
        list(question.reasons),
        list(question.changes),
    ]
    return sha256(jsontext.write_canonical(parts)).digest()
