"""Two answers of operators to one question, of which the second comes at each await of the first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.console.conftest import TOKEN, build_question
from tests.interleaving import answer_request, interrupt_each_await
from tests.support.wire import HERE
from toolwire.console import Console, ConsoleSource
from toolwire.core.http import Request, Response, get_header

FORM = (b"content-type", b"application/x-www-form-urlencoded")
KEYS = {"key of ann": "ann", "key of bob": "bob"}


class Operator:
    """A browser of one operator, on the event loop of the console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._cookie = b""
        self._token = ""

    async def sign_in(self, key: str) -> None:
        reply = await self.post("/sign-in", key=key, next="/")
        self._cookie = get_header(reply.headers, b"set-cookie").encode().partition(b";")[0]
        page = await self._send("GET", "/inbox", b"")
        self._token = page.body.decode().partition(TOKEN)[2].partition('"')[0]

    async def post(self, path: str, **fields: str) -> Response:
        return await self._send("POST", path, urlencode({"token": self._token, **fields}).encode())

    async def _send(self, method: str, path: str, body: bytes) -> Response:
        headers = (*((FORM,) if body else ()), *(((b"cookie", self._cookie),) if self._cookie else ()))
        return await answer_request(self._console, Request(method, f"{HERE}{path}", headers, body))


def open_console(folder: Path) -> tuple[Console, ConsoleSource]:
    source = ConsoleSource(place=folder, stores_actions=True)
    return Console(source, KEYS.get, find_known=lambda name: name if name in KEYS.values() else None), source


def list_decisions(source: ConsoleSource) -> Sequence[tuple[str, str]]:
    return [(one.record.principal, one.record.decision) for one in source.audit.entries()]


@pytest.mark.requirement("AT-58", "TE-02", "D-22")
def test_question_that_two_operators_answer_at_the_same_time_has_one_answer(folder: Path) -> None:
    console, source = open_console(folder)
    winners: set[tuple[str, str]] = set()

    async def run() -> int:
        ann, bob = Operator(console), Operator(console)
        await ann.sign_in("key of ann")
        await bob.sign_in("key of bob")
        number, before = 0, 0

        def make() -> Any:
            nonlocal number, before
            number, before = number + 1, len(list_decisions(source))
            source.approvals.ask(build_question(binding=f"pay {number}"))
            (asked,) = source.approvals.list_pending()

            async def deny() -> None:
                # A task of its own, by which anyio counts who has a thread.
                await asyncio.create_task(bob.post("/inbox", id=asked.id, answer="deny"))

            return ann.post("/inbox", id=asked.id, answer="allow"), deny

        def check(_: Response) -> None:
            assert not source.approvals.list_pending()
            *_, last = decided = list_decisions(source)
            assert len(decided) == before + 1
            assert last in (("ann", "allowed"), ("bob", "denied"))
            winners.add(last)

        return await interrupt_each_await(make, check)

    assert asyncio.run(run()) > 1
    assert len(winners) == 2
