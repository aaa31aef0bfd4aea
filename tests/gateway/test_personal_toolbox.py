"""The tools of an upstream that each caller calls with their own credentials.

Events decide what happens between two steps: where a call looks at what is stored, and where it acts on that.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from toolwire import ApiKey, Context, Kind, Problem, Secret, Session, Toolkit, Value, asgi
from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.credential import Credential
from toolwire.client.connection.connect import PendingConnection, connect_for_caller
from toolwire.client.connection.options import ConnectOptions
from toolwire.core.catalog import Catalog
from toolwire.core.http import Request, Response
from toolwire.core.model import ANONYMOUS, Call, Tool
from toolwire.gateway import personal_toolbox
from toolwire.gateway.personal_toolbox import CALLER_TOKEN, CallerPlace, PersonalToolbox
from toolwire.gateway.sign_in_notice import SignInNotices
from toolwire.gateway.token_exchange import TokenExchange
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.stores.credentials.caller_vault import CallerVault
from toolwire.stores.credentials.files import CredentialFolder, CredentialStore
from toolwire.testing import background

ANN, BOB = "key:ann", "key:bob"
ACCOUNTS = ("old", "new", "bobs")
WAIT_S = 20


class Mail:
    """A site with accounts, each known by a key, whose calls wait until they may go on."""

    def __init__(self) -> None:
        self.began: dict[str, threading.Event] = {}
        self.may_end: dict[str, threading.Event] = {}
        self.kit = kit = Toolkit("Mail")

        @kit.tool(safe=True, approval="auto")
        def tell(context: Context) -> str:
            """Tell whose account this is."""
            return context.principal

        @kit.tool(safe=True, approval="auto")
        def hold(name: str, context: Context) -> str:
            """Wait until the test lets it end."""
            self.began[name].set()
            assert self.may_end[name].wait(WAIT_S)
            return context.principal

        @kit.tool(safe=True, approval="auto")
        def refuse() -> str:
            """Be refused: this call gets a 401."""
            return "never"

    def add(self, name: str) -> None:
        """Let calls of ``hold`` with this name wait."""
        self.began[name], self.may_end[name] = threading.Event(), threading.Event()

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools by name, as the gateway sees them."""
        return {tool.name: tool for tool in FunctionToolbox(self.kit).catalog().tools}

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serve it, and give its URL."""
        keys = [ApiKey(key=Secret(f"key-of-{name}"), name=name) for name in ACCOUNTS]
        app = asgi(self.kit, api_keys=keys)

        async def refusing(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["path"] == "/api/refuse":
                head = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
                await send({"type": "http.response.start", "status": 401, "headers": head})
                await send({"type": "http.response.body", "body": b"{}"})
                return
            await app(scope, receive, send)

        with background(refusing) as url:
            yield url


@dataclass
class Gate:
    """A place where a test may stop what passes, and see that it has come."""

    came: asyncio.Event = field(default_factory=asyncio.Event)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> None:
        self.came.set()
        await asyncio.wait_for(self.open.wait(), WAIT_S)


class Watched:
    """A connection that is opened when ``gate`` lets it, and says when it is closed."""

    def __init__(self, pending: PendingConnection, gate: Gate | None) -> None:
        self._pending, self._gate = pending, gate
        self.closed = asyncio.Event()

    async def __aenter__(self) -> Any:
        if self._gate is not None:
            await self._gate()
        return await self._pending.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._pending.__aexit__(None, None, None)
        self.closed.set()


class Place(CredentialFolder):
    """A folder that runs something before its n-th reading, which another process might do just then."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.before: dict[int, Callable[[], None]] = {}
        self.readings = 0

    def read(self, name: str) -> str | None:
        self.readings += 1
        act = self.before.pop(self.readings, None)
        if act is not None:
            act()
        return super().read(name)


class Desk:
    """One worker of a gateway with the callers' connections to ``url``."""

    def __init__(self, url: str, place: Place, *, exchange: TokenExchange | None = None, tokens: Any = None) -> None:
        self.url, self.vault = url, CallerVault(place, [Secret("k" * 40)])
        self.connections: list[Watched] = []
        self.stores: list[Any] = []
        self.gates: list[Gate] = []
        self.mail = Mail()
        self.tools = self.mail.tools
        shared = FunctionToolbox(self.mail.kit)
        self.box = PersonalToolbox(
            "mail",
            url,
            shared,
            connect=self._connect,
            vault=self.vault,
            notices=SignInNotices("https://tools.example"),
            exchange=exchange,
            transport=tokens,
        )

    def _connect(self, principal: str, access: CredentialStore | Secret, _place: CallerPlace) -> Any:
        options = ConnectOptions(self.url, approve=lambda _: True, protocol="openapi", retries=0, timeout_s=30.0)
        pending = connect_for_caller(options, Session(principal=principal), access)
        self.stores.append(access)
        self.connections.append(Watched(pending, self.gates.pop(0) if self.gates else None))
        return self.connections[-1]

    def put(self, account: str, who: str = ANN) -> None:
        """Store the key of an account for a caller, as a page in any process does."""
        self.vault.open_store(who).put(Credential(kind="key", resource=self.url, access=Secret(f"key-of-{account}")))

    def call(self, tool: str = "tell", who: str = ANN, **arguments: Any) -> Any:
        """Return the call, not begun."""
        call = Call(self.tools[tool], arguments, "1", Context(principal=who))
        return asyncio.wait_for(self.box.run(call), WAIT_S)


async def check_that_connection_is_free(desk: Desk) -> None:
    """Check that the connection of ``ANN`` closes once another sign-in is stored, and end the desk."""
    assert desk.box._open[ANN].running == 0
    desk.put("new")
    assert await desk.call() == Value("key:new")
    await asyncio.wait_for(desk.connections[0].closed.wait(), WAIT_S)
    await desk.box.end()


@pytest.fixture
def mail() -> Mail:
    return Mail()


@pytest.fixture
def desk(mail: Mail, tmp_path: Path) -> Iterator[Desk]:
    with mail.serve() as url:
        yield Desk(url, Place(tmp_path / "vault"))


def is_refused(result: Any) -> bool:
    return isinstance(result, Problem) and result.kind is Kind.MISSING_REQUIREMENTS


@pytest.mark.requirement("GW-02")
def test_caller_without_a_name_opens_no_connection_and_reads_no_credential() -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("nothing is opened and nothing is read")

    kit = Toolkit("Mail")

    @kit.tool
    def send(to: str) -> str:
        """Send a letter."""
        return to

    shared = FunctionToolbox(kit)
    toolbox = PersonalToolbox(
        "mail",
        "https://mail.example",
        shared,
        connect=refuse,
        vault=refuse,
        notices=SignInNotices("https://tools.example"),  # type: ignore[arg-type]  # no vault may be read
    )
    (tool,) = shared.catalog().tools
    refused = asyncio.run(toolbox.run(Call(tool, {"to": "ada"}, "1", ANONYMOUS)))
    assert isinstance(refused, Problem)
    assert refused.kind is Kind.UNAUTHORIZED
    assert "the caller's credentials" in refused.message


@pytest.mark.requirement("AT-55", "TE-02")
def test_next_call_in_each_worker_uses_the_sign_in_that_is_stored_now(desk: Desk, tmp_path: Path) -> None:
    async def main() -> None:
        other = Desk(desk.url, Place(tmp_path / "vault"))
        desk.put("old")
        assert [await one.call() for one in (desk, other)] == [Value("key:old")] * 2
        desk.put("new")
        await desk.box.forget(ANN)  # the page does so in its own process alone
        assert [await one.call() for one in (desk, other)] == [Value("key:new")] * 2
        assert [len(one.connections) for one in (desk, other)] == [2, 2]
        await asyncio.wait_for(other.connections[0].closed.wait(), WAIT_S)
        desk.vault.forget(ANN)
        assert is_refused(await other.call())
        assert not await other.box.has_credential(ANN)
        await desk.box.end()
        await other.box.end()

    asyncio.run(main())


@pytest.mark.requirement("AT-55", "TE-02")
def test_tokens_that_a_connection_renews_itself_are_no_change(desk: Desk) -> None:
    async def main() -> None:
        desk.put("old")
        assert await desk.call() == Value("key:old")
        desk.stores[0].put(Credential(kind="key", resource=desk.url, access=Secret("renewed")))
        assert await desk.call() == Value("key:old")
        assert len(desk.connections) == 1
        await desk.box.end()

    asyncio.run(main())


@pytest.mark.requirement("AT-56", "TE-02")
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("stored", ["new", ""])
def test_change_while_a_connection_opens_is_used_at_once(desk: Desk, stored: str, told: bool) -> None:
    async def main() -> None:
        desk.put("old")
        gate = Gate()
        desk.gates.append(gate)
        waiting = asyncio.create_task(desk.call())
        await asyncio.wait_for(gate.came.wait(), WAIT_S)
        if stored:
            desk.put(stored)
        else:
            desk.vault.forget(ANN)
        if told:
            await desk.box.forget(ANN)
        gate.open.set()
        for result in (await waiting, await desk.call()):
            assert result == Value("key:new") if stored else is_refused(result)
        await asyncio.wait_for(desk.connections[0].closed.wait(), WAIT_S)
        await desk.box.end()

    asyncio.run(main())


@pytest.mark.requirement("AT-56", "TE-02")
@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("stored", ["new", ""])
def test_change_before_any_reading_of_the_store_leaves_no_call_with_the_old_account(
    mail: Mail, tmp_path: Path, stored: str, is_open: bool
) -> None:
    async def try_reading(url: str, number: int) -> bool:
        """Change the credential before this reading of a call, and return whether the call came to it."""
        place = Place(tmp_path / f"{number}")
        desk = Desk(url, place)
        desk.put("old")
        if is_open:
            await desk.call()
        change = (lambda: desk.put(stored)) if stored else (lambda: desk.vault.forget(ANN) and None)
        place.before[place.readings + number] = change
        during = await desk.call()
        received = not place.before
        place.before.clear()
        if received:
            after = await desk.call()
            assert after == Value("key:new") if stored else is_refused(after), number
            # A call whose last look came before the change may have used what was stored then.
            assert during in (Value("key:old"), after) or (is_refused(during) and not stored), number
        await desk.box.end()
        assert all(one.closed.is_set() for one in desk.connections)
        return received

    async def main(url: str) -> int:
        number = 1
        while await try_reading(url, number):
            number += 1
        return number - 1

    with mail.serve() as url:
        assert asyncio.run(main(url)) >= (1 if is_open else 3)


class Tokens:
    """A token endpoint that answers with a token for each that it gets."""

    def __init__(self, lives_s: float) -> None:
        self.lives_s = lives_s
        self.forms: list[str] = []
        self.by_token: dict[str, str] = {}

    async def send(self, request: Request) -> Response:
        form = request.body.decode()
        self.forms.append(form)
        account = next(name for token, name in self.by_token.items() if f"subject_token={token}" in form)
        body = {"access_token": f"key-of-{account}", "token_type": "Bearer", "expires_in": self.lives_s}
        return Response(200, ((b"content-type", b"application/json"),), json.dumps(body).encode())

    async def aclose(self) -> None:
        """Close nothing."""


EXCHANGE = TokenExchange(token_url="https://login.example/token", identity=ClientIdentity(client_id="gateway"))


@pytest.mark.requirement("AT-57", "TE-02")
@pytest.mark.parametrize("why", ["token ends", "refused"])
def test_running_call_is_not_cut_by_the_next_call_of_its_caller(mail: Mail, tmp_path: Path, why: str) -> None:
    async def main(url: str) -> None:
        mail.add("slow")
        tokens = Tokens(30.0 if why == "token ends" else 3_600.0)
        tokens.by_token["t-ann"] = "old"
        desk = Desk(url, Place(tmp_path / "vault"), exchange=EXCHANGE, tokens=tokens)
        CALLER_TOKEN.set(Secret("t-ann"))
        who = "jwt:ann"
        slow = asyncio.create_task(desk.call("hold", who, name="slow"))
        await asyncio.to_thread(mail.began["slow"].wait, WAIT_S)
        if why == "refused":
            refused = await desk.call("refuse", who)
            assert isinstance(refused, Problem)
            assert refused.kind is Kind.FORBIDDEN
        assert await desk.call(who=who) == Value("key:old")
        assert len(desk.connections) == 2
        assert not desk.connections[0].closed.is_set()
        mail.may_end["slow"].set()
        assert await slow == Value("key:old")
        await asyncio.wait_for(desk.connections[0].closed.wait(), WAIT_S)
        await desk.box.end()

    with mail.serve() as url:
        asyncio.run(main(url))


@pytest.mark.requirement("TE-03", "GW-02")
def test_two_tokens_of_one_caller_have_a_connection_each(mail: Mail, tmp_path: Path) -> None:
    async def main(url: str) -> None:
        tokens = Tokens(3_600.0)
        tokens.by_token = {"t-narrow": "old", "t-wide": "new"}
        desk = Desk(url, Place(tmp_path / "vault"), exchange=EXCHANGE, tokens=tokens)
        for token, account in (("t-narrow", "old"), ("t-wide", "new"), ("t-narrow", "old")):
            CALLER_TOKEN.set(Secret(token))
            assert await desk.call(who="jwt:ann") == Value(f"key:{account}")
        assert (len(desk.connections), len(tokens.forms)) == (2, 2)
        await desk.box.end()

    with mail.serve() as url:
        asyncio.run(main(url))


@pytest.mark.requirement("TE-03", "GW-02")
def test_caller_who_leaves_does_not_end_the_opening_for_others(desk: Desk) -> None:
    async def main() -> None:
        desk.put("old")
        gate = Gate()
        desk.gates.append(gate)
        first, second = asyncio.create_task(desk.call()), asyncio.create_task(desk.call())
        await asyncio.wait_for(gate.came.wait(), WAIT_S)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        gate.open.set()
        assert await second == Value("key:old")
        assert len(desk.connections) == 1
        await desk.box.end()

    asyncio.run(main())


@pytest.mark.requirement("TE-02", "AT-56")
def test_opening_that_nobody_waits_for_any_more_is_closed_if_the_sign_in_has_changed(desk: Desk) -> None:
    async def main() -> None:
        desk.put("old")
        gate = Gate()
        desk.gates.append(gate)
        only = asyncio.create_task(desk.call())
        await asyncio.wait_for(gate.came.wait(), WAIT_S)
        only.cancel()
        with suppress(asyncio.CancelledError):
            await only
        desk.put("new")
        await desk.box.forget(ANN)
        gate.open.set()
        await asyncio.wait_for(desk.connections[0].closed.wait(), WAIT_S)
        assert await desk.call() == Value("key:new")
        await desk.box.end()

    asyncio.run(main())


@pytest.mark.requirement("TE-03", "GW-02")
def test_busy_connection_is_not_closed_as_idle(desk: Desk, mail: Mail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(personal_toolbox, "MAX_OPEN", 1)

    async def main() -> None:
        mail.add("slow")
        desk.put("old")
        desk.put("bobs", BOB)
        slow = asyncio.create_task(desk.call("hold", name="slow"))
        await asyncio.to_thread(mail.began["slow"].wait, WAIT_S)
        assert await desk.call(who=BOB) == Value("key:bobs")
        assert await desk.call() == Value("key:old")
        assert len(desk.connections) == 2  # the busy one goes on taking calls
        assert not desk.connections[0].closed.is_set()
        mail.may_end["slow"].set()
        assert await slow == Value("key:old")
        desk.put("new", "key:eve")
        assert await desk.call(who="key:eve") == Value("key:new")
        await asyncio.gather(*(asyncio.wait_for(one.closed.wait(), WAIT_S) for one in desk.connections[:2]))
        assert not desk.connections[2].closed.is_set()
        await desk.box.end()
        assert desk.connections[2].closed.is_set()

    asyncio.run(main())


@pytest.mark.requirement("TE-02", "GW-02")
def test_end_closes_what_is_open_retired_and_opening(desk: Desk, mail: Mail) -> None:
    async def main() -> None:
        mail.add("slow")
        desk.put("old")
        slow = asyncio.create_task(desk.call("hold", name="slow"))
        await asyncio.to_thread(mail.began["slow"].wait, WAIT_S)
        desk.put("new")
        assert await desk.call() == Value("key:new")
        desk.put("bobs", BOB)
        gate = Gate()
        desk.gates.append(gate)
        waiting = asyncio.create_task(desk.call(who=BOB))
        await asyncio.wait_for(gate.came.wait(), WAIT_S)
        await desk.box.end()
        assert [one.closed.is_set() for one in desk.connections] == [True, True, False]
        mail.may_end["slow"].set()
        for task in (slow, waiting):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(main())


class Shared(FunctionToolbox):
    """What the gateway sees, which says when it begins and ends."""

    def __init__(self, kit: Toolkit) -> None:
        super().__init__(kit)
        self.steps: list[str] = []

    async def begin(self) -> None:
        self.steps.append("begin")

    async def end(self) -> None:
        self.steps.append("end")


@pytest.mark.requirement("GW-02")
def test_shared_connection_begins_and_ends_with_the_gateway(desk: Desk) -> None:
    desk.box.shared = shared = Shared(desk.mail.kit)

    async def main() -> None:
        await desk.box.begin()
        assert shared.steps == ["begin"]
        await desk.box.end()

    asyncio.run(main())
    assert shared.steps == ["begin", "end"]


@pytest.mark.requirement("TE-02", "GW-02")
def test_question_about_a_call_leaves_its_connection_free(desk: Desk) -> None:
    async def main() -> None:
        def ask(who: str) -> Any:
            return desk.box.find_missing_consent(Call(desk.tools["tell"], {}, "1", Context(principal=who)))

        assert await ask(ANONYMOUS.principal) is None
        assert await ask(ANN) is None, "a call says itself where to sign in"
        desk.put("old")
        assert await ask(ANN) is None
        await check_that_connection_is_free(desk)

    asyncio.run(main())


@pytest.mark.requirement("TE-02", "GW-02")
def test_refusal_of_an_old_sign_in_leaves_the_new_connection_alone(desk: Desk) -> None:
    async def main() -> None:
        desk.put("old")
        gate = Gate()
        assert await desk.call() == Value("key:old")
        old = desk.box._open[ANN]
        desk.put("new")
        assert await desk.call() == Value("key:new")
        call = Call(desk.tools["tell"], {}, "1", Context(principal=ANN))
        await desk.box._explain(call, Problem(kind=Kind.UNAUTHORIZED, message="no"), old)
        assert await desk.call() == Value("key:new")
        assert (len(desk.connections), gate.came.is_set()) == (2, False)
        await desk.box.end()

    asyncio.run(main())


def test_catalog_is_the_one_that_the_gateway_sees(desk: Desk) -> None:
    catalog = desk.box.catalog()
    assert isinstance(catalog, Catalog)
    assert [tool.name for tool in catalog.tools] == sorted(desk.tools)


@pytest.mark.requirement("TE-02", "GW-02")
def test_caller_who_leaves_as_the_connection_opens_keeps_nothing_open(desk: Desk) -> None:
    async def main() -> None:
        desk.put("old")
        gate = Gate()
        desk.gates.append(gate)
        only = asyncio.create_task(desk.box.run(Call(desk.tools["tell"], {}, "1", Context(principal=ANN))))
        await asyncio.wait_for(gate.came.wait(), WAIT_S)
        opening = desk.box._opening[ANN]
        assert opening.task is not None
        # In the step in which the connection is there, before the call has its turn.
        opening.task.add_done_callback(lambda _: only.cancel())
        gate.open.set()
        with suppress(asyncio.CancelledError):
            await only
        await check_that_connection_is_free(desk)

    asyncio.run(main())
