"""Calls wait for the answers to their questions, and for nothing else."""

from __future__ import annotations

import asyncio
import threading
from hashlib import sha256
from pathlib import Path

import pytest

from toolwire.core.check import Answer
from toolwire.core.model import Call, Context, Tool
from toolwire.server.asking.inbox import Inbox
from toolwire.server.asking.inbox_waiters import InboxWaiters
from toolwire.stores.consent.approvals import Approvals

PATIENCE_S = 20.0
TOOL = Tool(name="publish", toolkit="Shop")


class SlowInbox(Inbox):
    """An inbox whose reader is told each list, and lets the first one wait until others have changed it."""

    def __init__(self, place: Path) -> None:
        super().__init__(place, is_default=False)
        self.lists = threading.Semaphore(0)
        self.may_return = threading.Event()

    def list_open(self) -> frozenset[str]:
        found = super().list_open()
        self.lists.release()
        self.may_return.wait(PATIENCE_S)
        return found


def ask(inbox: Inbox, name: str) -> str:
    """Add a question, and return its id."""
    call = Call(TOOL, {"name": name}, "", Context(principal="key:ann", needs_inbox=True))
    refusal = inbox.find_refusal(call, sha256(name.encode()).digest(), ["It may change something."])
    assert refusal is not None
    return str(refusal.details["inbox"]["id"])


@pytest.mark.requirement("GW-04")
def test_question_that_comes_while_the_inbox_is_read_is_waited_for(tmp_path: Path) -> None:
    inbox = SlowInbox(tmp_path)
    first = ask(Inbox(tmp_path, is_default=False), "first")

    async def story() -> list[bool]:
        waits = InboxWaiters(inbox)
        waiting = [asyncio.create_task(waits.wait(first, "key:ann", PATIENCE_S))]
        await asyncio.to_thread(inbox.lists.acquire, timeout=PATIENCE_S)  # read, and not yet returned
        second = await asyncio.to_thread(ask, Inbox(tmp_path, is_default=False), "second")
        waiting.append(asyncio.create_task(waits.wait(second, "key:ann", PATIENCE_S)))
        await asyncio.sleep(0)
        inbox.may_return.set()
        await asyncio.to_thread(inbox.lists.acquire, timeout=PATIENCE_S)  # what was read first has been used
        for question in (first, second):
            assert Approvals(tmp_path).answer(question, Answer(allowed=True))
        return list(await asyncio.gather(*waiting))

    assert asyncio.run(story()) == [True, True]
