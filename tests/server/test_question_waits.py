"""Calls wait for the answers to their questions, and for nothing else."""

from __future__ import annotations

import asyncio
import threading
from hashlib import sha256
from pathlib import Path

import pytest

from toolwire.core.check import Answer
from toolwire.core.model import Call, Context, Problem, Tool
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


def ask_for_long_call(inbox: Inbox, name: str, call_id: str) -> Problem | None:
    context = Context(principal="key:ann", needs_inbox=True, inbox_call_id=call_id)
    subject = sha256(name.encode()).digest()
    return inbox.find_refusal(Call(TOOL, {"name": name}, "", context), subject, ["It may change something."])


@pytest.mark.requirement("GW-04")
def test_long_call_waits_for_its_question_until_it_takes_the_answer(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, is_default=False)
    for call_id in ("one", "two"):  # the same call twice has one question
        assert ask_for_long_call(inbox, "shirt", call_id) is not None
    (asked,) = Approvals(tmp_path).list_pending()
    assert [wait.question for wait in inbox.list_waits("one")] == [asked.id]
    assert inbox.list_over_calls(10) == []
    assert Approvals(tmp_path).answer(asked.id, Answer(allowed=True))
    assert ask_for_long_call(inbox, "shirt", "one") is None, "it runs"
    assert inbox.list_waits("one") == []
    assert [(wait.call, is_answered) for wait, is_answered in inbox.list_over_calls(10)] == [("two", True)]
    assert ask_for_long_call(inbox, "shirt", "two") is not None, "the yes was for one call"


@pytest.mark.requirement("GW-04")
def test_answered_question_is_found_beside_any_number_that_wait(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, is_default=False)
    for number in range(90):
        context = Context(principal=f"key:{number % 9}", needs_inbox=True, inbox_call_id=f"call-{number}")
        inbox.find_refusal(Call(TOOL, {"n": number}, "", context), sha256(b"%d" % number).digest(), ["It may change."])
    waiting = Approvals(tmp_path).list_pending()
    assert len(waiting) == 90
    last = max(one.id for one in waiting)
    assert Approvals(tmp_path).answer(last, Answer(allowed=True))
    assert [wait.question for wait, _ in inbox.list_over_calls(64)] == [last]
