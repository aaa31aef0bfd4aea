"""Send a call, and send it again with the user's confirmation if the server asks for one.

Rules:
- Only the user confirms. Without an approver, the call ends with the server's answer.
- A server asks once. If it asks again for the same call, that is its answer.
- A server that only asks for consent, as a gateway does, is answered by an approval of exactly this call.
- A server that wants a receipt gets one that the client signed after the user's answer, or the call ends.
- A word confirms one run. If the confirmed call fails and is refused when it is repeated, the failure is the result.
"""

# XL-056: a server can ask for confirmation, and only the user gives it.

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from toolwire.core.check import Question, ReceiptTerms
from toolwire.core.codec import Codec, Flow, Peer, ask, change_requests
from toolwire.core.http import Request
from toolwire.core.model import Approval, Call, Json, Kind, Problem, Result
from toolwire.framing import text_cleaning
from toolwire.framing.jsontext import get_object

from .retry import RetryLimits, retry_call, send_with_retries

# The word is sent in a header field, so it has only characters that are safe there.
_WORD = re.compile(r"[A-Za-z0-9_-]{1,128}")
_MAX_QUESTION = 300
_MAX_NAME = 400
_DIGEST = re.compile(r"[0-9a-f]{64}")


class ConfirmationChallenge(NamedTuple):
    """What a server asks before it runs a call, and the word that confirms it.

    ``consent_reasons`` is not None if the server only asks whether the user consents, for these reasons. ``receipt`` is
    what it wants signed, or None.
    """

    question: str
    word: str
    consent_reasons: tuple[str, ...] | None = None
    receipt: ReceiptTerms | None = None


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
    question = Question(call, peer.site, "", Approval.PER_CALL, reasons=reasons)
    question = replace(question, consent_reasons=challenge.consent_reasons, receipt=challenge.receipt)
    answer = yield from ask(question)
    if answer.allowed is not True:
        return answer.problem or result

    def confirm(request: Request) -> Request:
        return codec.confirm(request, challenge.word, answer.receipt)

    return (yield from change_requests(send_with_retries(codec, peer, call, limits, is_confirmed=True), confirm))


def read_challenge(result: Result) -> ConfirmationChallenge | None:
    """Return the challenge in ``result``, or None if there is none that can be answered."""
    if not isinstance(result, Problem) or result.kind is not Kind.UNCONFIRMED:
        return None
    details = get_object(result.details, "confirmation")
    question, word = details.get("question"), details.get("word")
    if not isinstance(question, str) or not isinstance(word, str) or _WORD.fullmatch(word) is None:
        return None
    text = text_cleaning.cap_text(text_cleaning.clean(question).text, _MAX_QUESTION)
    receipt = _read_terms(get_object(details, "receipt"), word) if "receipt" in details else None
    return ConfirmationChallenge(text, word, _read_reasons(details.get("reasons")), receipt)


def _read_terms(data: Mapping[str, Json], word: str) -> ReceiptTerms:
    """Return what a server wants signed; what cannot be read is empty, and then nothing is signed."""
    # CC-06
    principal, tool, definition, end = (data.get(name) for name in ("principal", "tool", "definition", "expires_at"))
    is_named = all(isinstance(one, str) and 0 < len(one) <= _MAX_NAME for one in (principal, tool))
    is_known = isinstance(definition, str) and _DIGEST.fullmatch(definition) is not None
    if not is_named or not is_known or not isinstance(end, int | float) or isinstance(end, bool):
        return ReceiptTerms("", "", "", word, 0.0)
    return ReceiptTerms(str(principal), str(tool), str(definition), word, end)


def _read_reasons(value: Json) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    reasons = tuple(one for one in value if isinstance(one, str))
    return reasons if len(reasons) == len(value) else None
