"""A call that its server wants confirmed: the user is asked, and the call is sent again with its word. [XL-056]

Rules:
- Nobody but the user confirms; without a way to ask the call ends as the server said.
- A server asks once: a second challenge of the same call is its answer.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from toolwire.core.check import Question
from toolwire.core.codec import Codec, Flow, Listen, Peer, ask
from toolwire.core.http import Request
from toolwire.core.model import Approval, Call, Kind, Problem, Result
from toolwire.framing import text_cleaning
from toolwire.framing.jsontext import get_object

from . import retry
from .retry import RetryLimits

FIELD = b"toolwire-confirmation"
_WORD = re.compile(r"[A-Za-z0-9_-]{1,128}")
_LONGEST = 300


class ConfirmationChallenge(NamedTuple):
    """What a server asks before it runs a call, and the word to answer with."""

    question: str
    word: str


def read_challenge(result: Result) -> ConfirmationChallenge | None:
    """Return what ``result`` asks for, or None where it is no challenge that can be answered."""
    if not isinstance(result, Problem) or result.kind is not Kind.UNCONFIRMED:
        return None
    said = get_object(result.details, "confirmation")
    question, word = said.get("question"), said.get("word")
    if not isinstance(question, str) or not isinstance(word, str) or _WORD.fullmatch(word) is None:
        return None
    return ConfirmationChallenge(text_cleaning.cap_text(text_cleaning.clean(question).text, _LONGEST), word)


def send(codec: Codec, peer: Peer, call: Call, retries: RetryLimits) -> Flow[Result]:
    """Return how ``call`` ended; see ``retry.send``. A challenge of the server becomes a Question to the user."""
    result = yield from retry.send(codec, peer, call, retries)
    asked = read_challenge(result)
    if asked is None:
        return result
    reasons = (f"The server asks before it does this: {asked.question}",)
    answer = yield from ask(Question(call, peer.site, "", Approval.PER_CALL, reasons=reasons))
    if answer.allowed is not True:
        return result
    return (yield from _with(retry.send(codec, peer, call, retries), asked.word))


def _with(flow: Flow[Result], word: str) -> Flow[Result]:
    """Return the value of ``flow``, each of whose requests carries ``word``."""
    said = None
    try:
        while True:
            asked = flow.send(said)
            if isinstance(asked, Request):
                asked = _add_word(asked, word)
            elif isinstance(asked, Listen):
                asked = asked._replace(request=_add_word(asked.request, word))
            said = yield asked
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        flow.close()


def _add_word(request: Request, word: str) -> Request:
    return request._replace(headers=(*request.headers, (FIELD, word.encode("ascii"))))
