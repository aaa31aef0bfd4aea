"""The words of a conversation: each step yields what it wants, and gives back what it is sent."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from toolwire.core.codec import Listen, Pause, fetch, listen, pause
from toolwire.core.http import Request, Response

GET = Request("GET", "https://a.example")


def run_one_step(flow: Generator[Any, Any, Any], answer: Any) -> tuple[Any, Any]:
    """Return what ``flow`` asks for first, and what it gives once it is sent ``answer``."""
    asked = next(flow)
    try:
        flow.send(answer)
    except StopIteration as end:
        return asked, end.value
    raise AssertionError("a flow of one step asked twice")


def test_each_flow_step_yields_once_and_returns_what_it_receives() -> None:
    assert run_one_step(fetch(GET), Response(204)) == (GET, Response(204))
    assert run_one_step(listen(GET, lambda _: ()), Response(200))[1] == Response(200)
    assert run_one_step(pause(1.5), None) == (Pause(1.5), None)


def test_listen_passes_its_callback_on() -> None:
    def hear(_: bytes) -> tuple[()]:
        return ()

    assert run_one_step(listen(GET, hear), Response(200))[0] == Listen(GET, hear)
