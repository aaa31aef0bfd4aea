"""Asking through a store: the question waits there until somebody answers it from any process, or it is too late."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import anyio

from toolwire.core.check import Answer, Question
from toolwire.stores.consent.approvals import Approvals

_EVERY_S = 0.2


def store_approver(
    approvals: Approvals, *, sleep: Callable[[float], object] = time.sleep
) -> Callable[[Question], Answer]:
    """Return an approver for blocking connections that leaves its questions in ``approvals``.

    A question that nobody answers in its time is denied with the reason "timeout". Somebody who asks the very same
    again, after a restart, finds the answer that was given meanwhile. [XL-050]
    """

    def approve(question: Question) -> Answer:
        id_ = approvals.ask(question)
        while (answer := approvals.take(id_, question.binding)) is None:
            sleep(_EVERY_S)
        return answer

    return approve


def astore_approver(
    approvals: Approvals, *, sleep: Callable[[float], Awaitable[None]] = anyio.sleep
) -> Callable[[Question], Awaitable[Answer]]:
    """Return what ``store_approver`` does for asynchronous connections."""

    async def approve(question: Question) -> Answer:
        id_ = approvals.ask(question)
        while (answer := approvals.take(id_, question.binding)) is None:
            await sleep(_EVERY_S)
        return answer

    return approve
