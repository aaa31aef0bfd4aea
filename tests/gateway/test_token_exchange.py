"""What a hostile authorization server answers to the exchange of a caller's token."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.credential import Credential
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem, Secret
from toolwire.gateway.token_exchange import TokenExchange

LOGIN = "https://login.example/token"
TASKS = "https://tasks.example/mcp"
GIVEN = {"access_token": "theirs", "token_type": "Bearer", "expires_in": 60}


class Login:
    """An authorization server that answers each request alike."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self.sent: list[Request] = []

    async def send(self, request: Request, **_: Any) -> Response:
        self.sent.append(request)
        return self._response

    async def aclose(self) -> None:
        pass


def exchange(answer: Any, status: int = 200) -> tuple[Credential | Problem, list[Request]]:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    transport: Any = Login(Response(status, (), body))
    given = TokenExchange(token_url=LOGIN, identity=ClientIdentity(client_id="gateway"), audience="tasks")
    return asyncio.run(given.exchange(Secret("of-the-caller"), TASKS, transport)), transport.sent


@pytest.mark.requirement("GW-02", "D-08")
@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({**GIVEN, "token_type": "N_A"}, 200),
        ({**GIVEN, "token_type": "dpop"}, 200),
        ({**GIVEN, "access_token": "a\r\nHost: evil.example"}, 200),
        ({**GIVEN, "access_token": "x" * 20_000}, 200),
        ({**GIVEN, "access_token": ["theirs"]}, 200),
        ({"access_token": "theirs"}, 200),
        ([GIVEN], 200),
        (b"[" * 100_000, 200),
        (GIVEN, 302),
        (GIVEN, 401),
        ({"error": "invalid_grant\u202e of-the-caller"}, 400),
        ({"error": "invalid_target", "error_description": "of-the-caller"}, 400),
    ],
)
def test_answer_that_is_no_token_gives_none_and_does_not_show_that_of_the_caller(answer: Any, status: int) -> None:
    found, sent = exchange(answer, status)
    assert isinstance(found, Problem)
    assert found.kind is not Kind.UNAUTHORIZED, "the caller's own sign-in is good, so its client must not begin another"
    assert "of-the-caller" not in repr(found)
    assert [request.url for request in sent] == [LOGIN]


@pytest.mark.requirement("GW-02", "D-08")
@pytest.mark.parametrize("lasts", [10**400, 1e308, -1, 0, True, "60", None])
def test_token_is_for_its_upstream_alone_however_long_it_is_said_to_last(lasts: Any) -> None:
    more = {
        "expires_in": lasts,
        "resource": "https://evil.example",
        "issued_token_type": "urn:evil",
        "base": "https://",
    }
    found, sent = exchange({**GIVEN, **more})
    assert isinstance(found, Credential)
    assert (found.resource, found.base, found.access.reveal()) == ("https://tasks.example", "", "theirs")
    form = parse_qs(sent[0].body.decode())
    assert form["subject_token"] == ["of-the-caller"]
    assert "actor_token" not in form
