"""Send a call, and send it again with the user's confirmation if the server asks for one.

Rules:
- Only the user confirms. Without an approver, the call ends with the server's answer.
- A server asks once. If it asks again for the same call, that is its answer.
"""

# XL-056: a server can ask for confirmation, and only the user gives it.

from __future__ import annotations

import re
from typing import NamedTuple

from toolwire.core.check import Question
from toolwire.core.codec import Codec, Flow, Listen, Peer, ask, intercept, map_request
from toolwire.core.http import Request
from toolwire.core.model import Approval, Call, Kind, Problem, Result
from toolwire.framing import text_cleaning
from toolwire.framing.jsontext import get_object

from .retry import RetryLimits, retry_call, send_with_retries

FIELD = b"toolwire-confirmation"
_WORD = re.compile(r"[A-Za-z0-9_-]{1,128}")
_MAX_QUESTION = 300


class ConfirmationChallenge(NamedTuple):
    """What a server asks before it runs a call, and the word that confirms it."""

    question: str
    word: str


def send_call(codec: Codec, peer: Peer, call: Call, limits: RetryLimits) -> Flow[Result]:
    """Send ``call`` and return its result; see ``retry_call``. A challenge of the server becomes a Question."""
    result = yield from codec.send(peer, call)
    if not isinstance(result, Problem):
        return result
    result = yield from retry_call(codec, peer, call, limits, result)
    challenge = read_challenge(result)
    if challenge is None:
        return result
    reasons = (f"The server asks before it does this: {challenge.question}",)
    answer = yield from ask(Question(call, peer.site, "", Approval.PER_CALL, reasons=reasons))
    if answer.allowed is not True:
        return result
    field = (FIELD, challenge.word.encode("ascii"))

    def confirm(step: Request | Listen) -> Request | Listen:
        return map_request(step, lambda request: request._replace(headers=(*request.headers, field)))

    return (yield from intercept(send_with_retries(codec, peer, call, limits), on_request=confirm))


def read_challenge(result: Result) -> ConfirmationChallenge | None:
    """Return the challenge in ``result``, or None if there is none that can be answered."""
    if not isinstance(result, Problem) or result.kind is not Kind.UNCONFIRMED:
        return None
    details = get_object(result.details, "confirmation")
    question, word = details.get("question"), details.get("word")
    if not isinstance(question, str) or not isinstance(word, str) or _WORD.fullmatch(word) is None:
        return None
    return ConfirmationChallenge(text_cleaning.cap_text(text_cleaning.clean(question).text, _MAX_QUESTION), word)
