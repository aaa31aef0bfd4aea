"""Ask through a store: the question waits there until any process answers it, or its time ends."""

# XL-050: a question survives a restart, bound to the same request.

from __future__ import annotations

import time
from collections.abc import Callable

from toolwire.core.check import Answer, Question
from toolwire.stores.consent.approvals import Approvals

_EVERY_S = 0.2


def store_approver(
    approvals: Approvals, *, sleep: Callable[[float], object] = time.sleep
) -> Callable[[Question], Answer]:
    """Return an approver for blocking connections that puts its questions into ``approvals``.

    A question that is not answered in time is denied with the reason "timeout". If the same question is asked again
    after a restart, it gets the answer that was given meanwhile.
    """

    def approve(question: Question) -> Answer:
        id_ = approvals.ask(question)
        while (answer := approvals.take(id_, question.binding)) is None:
            sleep(_EVERY_S)
        return answer

    return approve
