"""Looking at a URL without saying who looks."""

import pytest

from toolwire.client.discovery.auth_on_challenge import authenticate_on_challenge
from toolwire.client.transport.drivers import SyncPieceHandler, run
from toolwire.core.codec import Listen, fetch, listen
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem

LOOK = Request("GET", "https://a.example/tools")
ANSWERS = [
    (Response(200), False),
    (Response(404), False),
    (Response(500), False),
    (Problem(kind=Kind.UNREACHABLE, message="No."), False),
    (Response(401), True),
    (Response(403), True),
]


class Server:
    """Answers a request without credentials with ``answer``, and one that may get them with 202."""

    def __init__(self, answer: Response | Problem) -> None:
        self.answer = answer
        self.signed: list[bool] = []

    def send(self, request: Request) -> Response | Problem:
        may_get_credentials = not request.signed  # the network adds none to a request that is signed already
        assert request._replace(signed=False) == LOOK
        self.signed.append(may_get_credentials)
        return Response(202) if may_get_credentials else self.answer

    def listen(self, request: Request, hear: SyncPieceHandler, **_: bool) -> Response | Problem:
        hear(b"a piece")
        return self.send(request)

    def close(self) -> None: ...


@pytest.mark.requirement("XL-014", "C-8", "D-08")
@pytest.mark.parametrize(("answer", "signs"), ANSWERS)
def test_credentials_are_sent_only_after_a_challenge(answer: Response | Problem, signs: bool) -> None:
    server = Server(answer)
    found = run(authenticate_on_challenge(fetch(LOOK)), server)
    assert server.signed == ([False, True] if signs else [False])
    assert found == (Response(202) if signs else answer)


@pytest.mark.requirement("XL-014", "C-8")
@pytest.mark.parametrize(("answer", "signs"), ANSWERS)
def test_stream_request_is_signed_only_after_a_challenge(answer: Response | Problem, signs: bool) -> None:
    server = Server(answer)
    found = run(authenticate_on_challenge(listen(LOOK, lambda _: ())), server)
    assert server.signed == ([False, True] if signs else [False])
    assert found == (Response(202) if signs else answer)


@pytest.mark.requirement("XL-014", "C-8")
def test_request_sent_during_an_unsigned_stream_carries_no_credentials() -> None:
    step = next(authenticate_on_challenge(listen(LOOK, lambda _: (LOOK,))))
    assert isinstance(step, Listen)
    assert [item.signed for item in step.read_chunk(b"") if isinstance(item, Request)] == [True]
