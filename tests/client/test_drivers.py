"""The two drivers do the same with the same conversation."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.client.transport.drivers import NO_APPROVER, PieceHandler, SyncPieceHandler, arun, run
from toolwire.core.check import Answer, Question
from toolwire.core.codec import Flow, Listen, ask, fetch
from toolwire.core.http import Request, Response
from toolwire.core.model import Approval, Call, Kind, Problem, Progress, Tool

QUESTION = Question(Call(Tool(name="x"), {}), "https://a.example", "POST https://a.example/x", Approval.PER_CALL)
GONE = Problem(kind=Kind.UNREACHABLE, message="Nobody is there.")

Drive = Callable[..., Any]


class Here:
    """A transport, both kinds in one record of what was sent."""

    def __init__(self, answer: Response | Problem = GONE) -> None:
        self.answer = answer
        self.sent: list[Request] = []
        self.pieces: list[bytes] = []


class FakeTransport:
    def __init__(self, here: Here) -> None:
        self._here = here

    async def send(self, request: Request) -> Response | Problem:
        self._here.sent.append(request)
        return self._here.answer

    async def listen(self, request: Request, hear: PieceHandler, *, brief: bool = False) -> Response | Problem:
        self._here.sent.append(request)
        for piece in self._here.pieces:
            problem = await hear(piece)
            if problem is not None:
                return problem
        return self._here.answer

    async def aclose(self) -> None:
        """Do nothing."""


class SyncDoor:
    def __init__(self, here: Here) -> None:
        self._here = here

    def send(self, request: Request) -> Response | Problem:
        self._here.sent.append(request)
        return self._here.answer

    def listen(self, request: Request, hear: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        self._here.sent.append(request)
        for piece in self._here.pieces:
            problem = hear(piece)
            if problem is not None:
                return problem
        return self._here.answer

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture(params=["async", "sync"])
def drive(request: pytest.FixtureRequest) -> Drive:
    def blocking(flow: Flow[Any], here: Here, approve: Any = None, heard: list[Progress] | None = None) -> Any:
        return run(flow, SyncDoor(here), approve, None if heard is None else heard.append)

    def asynchronous(flow: Flow[Any], here: Here, approve: Any = None, heard: list[Progress] | None = None) -> Any:
        async def notify(progress: Progress) -> None:
            if heard is not None:
                heard.append(progress)

        return asyncio.run(arun(flow, FakeTransport(here), approve, notify))

    return blocking if request.param == "sync" else asynchronous


def build_ask_flow() -> Flow[Answer]:
    return (yield from ask(QUESTION))


def test_driver_sends_requests_through_the_transport_and_returns_the_value(drive: Drive) -> None:
    here = Here(Response(204))
    requests = [Request("GET", f"https://a.example/{number}") for number in range(3)]

    def flow() -> Flow[list[Any]]:
        answers = []
        for request in requests:
            answers.append((yield from fetch(request)))  # noqa: PERF401 - a yield cannot stand in a comprehension
        return answers

    assert drive(flow(), here) == [Response(204)] * 3
    assert here.sent == requests


def test_unreachable_server_is_returned_as_a_value(drive: Drive) -> None:
    assert drive(fetch(Request("GET", "https://a.example")), Here()) is GONE


def build_listen_flow() -> Flow[Any]:
    def hear(piece: bytes) -> list[Progress]:
        if not piece:
            raise ValueError("an empty piece")
        return [Progress(piece.decode())] * 2

    return (yield Listen(Request("POST", "https://a.example/x"), hear))


def test_stream_chunks_become_progress_in_order(drive: Drive) -> None:
    here, received = Here(Response(200)), list[Progress]()
    here.pieces = [b"one", b"two"]
    assert drive(build_listen_flow(), here, None, received) == Response(200)
    assert [progress.value for progress in received] == ["one", "one", "two", "two"]
    assert drive(build_listen_flow(), here) == Response(200)


def test_unreadable_stream_ends_the_flow_with_a_bad_answer(drive: Drive) -> None:
    here, received = Here(Response(200)), list[Progress]()
    here.pieces = [b"one", b"", b"two"]
    problem = drive(build_listen_flow(), here, None, received)
    assert problem.kind is Kind.BAD_ANSWER
    assert problem.message == "Cannot read the server's stream: an empty piece."
    assert len(received) == 2


@pytest.mark.requirement("XL-053")
def test_question_without_an_approver_is_answered_with_no(drive: Drive) -> None:
    answer = drive(build_ask_flow(), Here())
    assert answer is NO_APPROVER
    assert answer.allowed is False


@pytest.mark.parametrize(
    ("said", "allowed"),
    [(True, True), (False, False), (None, False), (1, False), ("yes", False), ([True], False)],
)
def test_only_true_is_an_approval(drive: Drive, said: Any, allowed: bool) -> None:
    assert drive(build_ask_flow(), Here(), lambda _: said) == Answer(allowed=allowed)


def test_answer_object_is_passed_on_unchanged(drive: Drive) -> None:
    answer = Answer(allowed=False, reason="too dear")
    received: list[Question] = []

    def approve(question: Question) -> Answer:
        received.append(question)
        return answer

    assert drive(build_ask_flow(), Here(), approve) is answer
    assert received == [QUESTION]


def test_asynchronous_approver_is_refused_by_a_blocking_connection() -> None:
    async def approve(question: Question) -> bool:
        return True

    assert asyncio.run(arun(build_ask_flow(), FakeTransport(Here()), approve)) == Answer(allowed=True)
    with pytest.raises(TypeError, match="plain function"):
        run(build_ask_flow(), SyncDoor(Here()), approve)


def test_blocking_connection_refuses_an_awaitable_answer() -> None:
    class Later:
        def __await__(self) -> Any:
            yield

    with pytest.raises(TypeError, match="plain function"):
        run(build_ask_flow(), SyncDoor(Here()), lambda _: Later())  # type: ignore[arg-type, return-value]  # that is the point


def test_flow_is_closed_if_approver_or_transport_raises(drive: Drive) -> None:
    ended: list[str] = []

    def flow() -> Flow[Answer]:
        try:
            return (yield from ask(QUESTION))
        finally:
            ended.append("closed")

    def approve(question: Question) -> bool:
        raise LookupError("nobody home")

    with pytest.raises(LookupError, match="nobody home"):
        drive(flow(), Here(), approve)
    assert ended == ["closed"]
