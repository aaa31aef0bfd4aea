"""A form of an MCP host, and the inbox of a server's own tools, offer a permission for later calls."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestParams, ElicitResult

from tests.support.refusing_server import RefusingServer
from toolwire import Toolkit, asgi
from toolwire.core.check import Answer
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import Secret
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.options import ServerOptions
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.consent.open import open_grants
from toolwire.testing import background

pytestmark = pytest.mark.requirement("QF-03")
OWNERS = {"ann": "ann-key-000000000000000000000000", "bob": "bob-key-000000000000000000000000"}
KEYS = [ApiKey(key=Secret(key), name=name) for name, key in OWNERS.items()]
ASK = "ask me each time"
SAME = "do not ask about the same call again for 30 days"
EVERY = "do not ask about note again for 30 days"
notes = Toolkit("Notes")


@notes.tool(approval="per-call", blanket_allowed=True)
def note(text: str) -> str:
    """Note something."""
    return f"noted {text}"


@notes.tool(approval="per-call", blanket_allowed=True)
def remind(text: str) -> str:
    """Remind of something."""
    return f"will remind of {text}"


@notes.tool(approval="per-call")
def publish(text: str) -> str:
    """Publish something."""
    return f"published {text}"


class Person:
    """Answers forms: each call is allowed, and ``later`` chosen for later ones."""

    def __init__(self, later: str, *, allows: bool = True) -> None:
        self.later, self.allows = later, allows
        self.schemas: list[dict[str, Any]] = []

    async def __call__(self, _: Any, params: ElicitRequestParams) -> ElicitResult:
        self.schemas.append(params.requested_schema)  # type: ignore[union-attr]
        return ElicitResult(action="accept", content={"allow": self.allows, "later": self.later})


def call(url: str, person: Person | None, tool: str, text: Any, name: str = "ann") -> bool:
    """Return whether a call of the owner of a key ran."""

    async def story() -> bool:
        async with httpx2.AsyncClient(headers={"x-api-key": OWNERS[name]} if name else {}) as web:
            transport = streamable_http_client(f"{url}/mcp", http_client=web)
            async with Client(transport, elicitation_callback=person) as client:
                arguments = text if isinstance(text, dict) else {"text": text}
                return not (await client.call_tool(tool, arguments)).is_error

    return anyio.run(story)


@pytest.fixture(params=["server", "gateway"])
def front(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Give the URL of a server of the notes, or of a gateway to it."""
    if request.param == "server":
        with background(asgi(notes, api_keys=KEYS, state=tmp_path)) as url:
            yield url
        return
    with background(asgi(notes)) as site:
        owners = [f"{key} {name}" for name, key in OWNERS.items()]
        settings = ServeSettings(targets=[site], api_keys=owners, server=ServerOptions(state=str(tmp_path)))
        with background(build_app(settings, open_toolboxes(settings))) as url:
            yield url


def test_form_offers_later_calls_as_a_plain_choice_and_each_choice_covers_what_it_says(
    front: str, tmp_path: Path
) -> None:
    same, every = Person(SAME), Person(EVERY)
    assert call(front, same, "note", "a")
    offered = same.schemas[0]["properties"]["later"]
    assert (offered["type"], offered["enum"], offered["default"]) == ("string", [ASK, SAME, EVERY], ASK)
    assert call(front, same, "note", "a")
    assert len(same.schemas) == 1
    assert call(front, every, "note", "b")
    assert call(front, every, "note", "c")
    assert len(every.schemas) == 1, "the first call was another one"
    stored = open_grants(tmp_path).list_grants()
    assert [one.covered for one in stored] == [1, 1]
    other = Person(ASK)
    assert call(front, other, "note", "a", "bob")
    assert call(front, other, "note", "a", "bob")
    assert len(other.schemas) == 2, "it is a permission of one caller"


def test_form_of_a_tool_that_must_ask_each_time_offers_nothing_and_what_a_client_invents_covers_nothing(
    front: str, tmp_path: Path
) -> None:
    person = Person("do not ask about publish again for 30 days")
    assert call(front, person, "publish", "a")
    assert call(front, person, "publish", "a")
    assert [set(one["properties"]) for one in person.schemas] == [{"allow"}] * 2
    refusing = Person(EVERY, allows=False)
    assert not call(front, refusing, "note", "a")
    assert open_grants(tmp_path).list_grants() == []


def test_callers_whom_nobody_can_tell_apart_are_offered_nothing() -> None:
    with background(asgi(notes)) as url:
        person = Person(EVERY)
        assert call(url, person, "note", "a", "")
    assert set(person.schemas[0]["properties"]) == {"allow"}


def test_user_of_a_host_that_starts_the_server_allows_later_calls_until_it_stops(tmp_path: Path) -> None:
    (tmp_path / "kit.py").write_text(
        "from toolwire import Toolkit\nkit = Toolkit('Notes')\n"
        "@kit.tool(approval='per-call', blanket_allowed=True)\ndef note(text: str) -> str:\n    return text\n"
    )
    person = Person("do not ask about note again until this server stops")

    async def story() -> None:
        words = ["-m", "toolwire", "serve", str(tmp_path / "kit.py"), "--stdio"]
        transport = stdio_client(StdioServerParameters(command=sys.executable, args=words))
        async with Client(transport, elicitation_callback=person) as client:
            for text in "abc":
                assert not (await client.call_tool("note", {"text": text})).is_error

    anyio.run(story)
    assert len(person.schemas) == 1


def test_inbox_lists_the_kinds_of_own_tools_that_the_caller_may_call(tmp_path: Path) -> None:
    scoped = Toolkit("Notes")
    for function in (note, remind):
        scoped.tool(approval="per-call", blanket_allowed=True)(function)
    scoped.tool(approval="per-call", blanket_allowed=True, scopes=["boss"])(publish)
    scoped.tool(approval="per-call", name="erase")(publish)
    keys = [ApiKey(key=Secret(OWNERS["ann"]), name="ann", scopes=frozenset(("clerk",)))]
    with background(asgi(scoped, api_keys=keys, state=tmp_path, consent="inbox")) as url:
        assert not call(url, None, "note", "a")
        [asked] = Approvals(tmp_path).list_pending()
        assert [one.name for one in asked.similar] == ["remind"]
        bounds = GrantBounds(uses=2, tools=[asked.similar[0].definition])
        assert Approvals(tmp_path).answer(asked.id, Answer(allowed=True, always=True, bounds=bounds))
        assert [call(url, None, "note", "a"), call(url, None, "remind", "b")] == [True, True]


@pytest.mark.parametrize("way", ["server", "gateway"])
def test_sum_of_payments_is_bounded_in_the_inbox_whatever_the_server_says_of_them(tmp_path: Path, way: str) -> None:
    bank, paid = Toolkit("Bank"), list[float]()

    @bank.tool(approval="per-call", blanket_allowed=True)
    def pay(to: str, amount: float) -> str:
        """Pay somebody."""
        paid.append(amount)
        return "paid"

    owners = [f"{key} {name}" for name, key in OWNERS.items()]
    far = RefusingServer(asgi(bank))
    with ExitStack() as stack:
        if way == "server":
            app = asgi(bank, api_keys=KEYS, state=tmp_path, consent="inbox")
        else:
            site = stack.enter_context(background(far))
            options = ServerOptions(state=str(tmp_path))
            settings = ServeSettings(targets=[site], api_keys=owners, server=options, consent="inbox")
            app = build_app(settings, open_toolboxes(settings))
        url = stack.enter_context(background(app))

        def send(amount: float) -> bool:
            return call(url, None, "pay", {"to": "Ada", "amount": amount})

        assert not send(70)
        [asked] = Approvals(tmp_path).list_pending()
        bounds = GrantBounds(conditions=[("/to", "eq", "Ada"), ("/amount", "sum", 100)])
        assert Approvals(tmp_path).answer(asked.id, Answer(allowed=True, always=True, bounds=bounds))
        assert [send(70), send(60), send(50), send(30)] == [True, True, False, True]
        far.status = 403
        assert [send(10), send(1)] == [way == "server", False]
        (stored,) = open_grants(tmp_path).list_grants()
        assert (stored.covered, stored.total, paid) == (3, 100, [70, 60, 30, 10])
