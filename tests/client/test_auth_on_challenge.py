"""Looking at a URL without saying who looks."""

import asyncio

import pytest

from toolwire.client.discovery.auth_on_challenge import AuthOnChallenge, SyncAuthOnChallenge
from toolwire.client.transport.drivers import PieceHandler, SyncPieceHandler
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem

LOOK = Request("GET", "https://a.example/tools")


class FakeTransport:
    """A transport of both kinds that remembers what it did."""

    def __init__(self, name: str, answer: Response | Problem, record: list[str]) -> None:
        self._name = name
        self._answer = answer
        self._record = record

    async def send(self, request: Request) -> Response | Problem:
        self._record.append(f"{self._name} sent")
        return self._answer

    async def listen(self, request: Request, hear: PieceHandler, *, brief: bool = False) -> Response | Problem:
        self._record.append(f"{self._name} listened")
        return self._answer

    async def aclose(self) -> None:
        self._record.append(f"{self._name} closed")


class SyncDoor:
    def __init__(self, transport: FakeTransport) -> None:
        self._door = transport

    def send(self, request: Request) -> Response | Problem:
        return asyncio.run(self._door.send(request))

    def listen(self, request: Request, hear: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        async def unheard(piece: bytes) -> None:
            return None

        return asyncio.run(self._door.listen(request, unheard))

    def close(self) -> None:
        asyncio.run(self._door.aclose())


@pytest.mark.requirement("XL-014", "C-8", "D-08")
@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize(
    ("answer", "signs"),
    [
        (Response(200), False),
        (Response(404), False),
        (Response(500), False),
        (Problem(kind=Kind.UNREACHABLE, message="No."), False),
        (Response(401), True),
        (Response(403), True),
    ],
)
def test_credentials_go_out_only_where_they_are_asked_for(
    blocking: bool, answer: Response | Problem, signs: bool
) -> None:
    record: list[str] = []
    unsigned, signed = FakeTransport("unsigned", answer, record), FakeTransport("signed", Response(202), record)
    if blocking:
        found = SyncAuthOnChallenge(SyncDoor(unsigned), SyncDoor(signed)).send(LOOK)
    else:
        found = asyncio.run(AuthOnChallenge(unsigned, signed).send(LOOK))
    assert record == (["unsigned sent", "signed sent"] if signs else ["unsigned sent"])
    assert found == (Response(202) if signs else answer)


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize(("answer", "signs"), [(Response(200), False), (Response(401), True)])
def test_a_stream_is_signed_where_that_is_asked_for_and_both_doors_are_closed(
    blocking: bool, answer: Response, signs: bool
) -> None:
    record: list[str] = []
    unsigned, signed = FakeTransport("unsigned", answer, record), FakeTransport("signed", Response(202), record)
    if blocking:
        quiet = SyncAuthOnChallenge(SyncDoor(unsigned), SyncDoor(signed))
        found = quiet.listen(LOOK, lambda _: None)
        quiet.close()
    else:

        async def visit() -> Response | Problem:
            async def unheard(piece: bytes) -> None:
                return None

            discreet = AuthOnChallenge(unsigned, signed)
            came = await discreet.listen(LOOK, unheard)
            await discreet.aclose()
            return came

        found = asyncio.run(visit())
    assert found == (Response(202) if signs else answer)
    again = ["signed listened"] if signs else []
    assert record == ["unsigned listened", *again, "unsigned closed", "signed closed"]
