"""A server that requires receipts: signed proofs that a user decided about exactly this call."""

from __future__ import annotations

import json
import os
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import anyio
import pytest
from mcp import Client
from mcp.types import ElicitResult

from tests.support.receipts import OWNERS, Desk, Wire, write_keys
from toolwire import Answer, ClientRules, Kind, Problem, Question, Session, Toolkit, Value, asgi, connect_sync
from toolwire.auth.receipt import (
    ReceiptBinding,
    ReceiptKey,
    digest_arguments,
    find_receipt_fault,
    read_receipt_keys,
    read_stored_receipt,
)
from toolwire.core.codec import Codec
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Secret
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.asking.receipts import KEYS_PATH
from toolwire.server.options import ServerOptions
from toolwire.stores.consent.audit import StoredAudit
from toolwire.stores.consent.receipt_keys import StoredReceiptKeys
from toolwire.stores.paths import find_state_folder
from toolwire.testing import background

BINDING = ReceiptBinding(
    audience="a.example", principal="ann", tool="Desk.erase@1.0.0", definition="d" * 64, arguments="a" * 64, nonce="n"
)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def key() -> ReceiptKey:
    return ReceiptKey()


@pytest.mark.requirement("CC-06")
def test_a_call_runs_with_the_receipt_of_its_users_decision_on_every_wire(
    desk: Desk, codec: Codec, key: ReceiptKey, tmp_path: Path
) -> None:
    asked: list[Question] = []
    session = Session(receipt_key=lambda: key)
    app = desk.serve(write_keys(tmp_path / "keys.json", key))
    with (
        background(app) as url,
        connect_sync(
            url, protocol=codec.name, session=session, approve=lambda one: asked.append(one) is None
        ) as remote,
    ):
        assert remote.call("erase", {"name": "old"}) == Value("erased")
        assert len(asked) == 1
        assert remote.call("look") == Value("tea")
    assert desk.done == ["old"]
    decided, signed, *_ = [entry.record for entry in session.audit.entries()]
    assert (decided.decision, signed.decision) == ("allowed", "signed")
    assert signed.binding == decided.binding
    stored = read_stored_receipt(json.loads(signed.receipt))
    assert stored is not None
    assert stored.binding.audience == url.removeprefix("http://")
    assert (stored.binding.tool, stored.binding.arguments) == ("Desk.erase@1.0.0", digest_arguments({"name": "old"}))


@pytest.mark.requirement("CC-06")
def test_a_client_without_a_key_asks_nobody_and_one_who_says_no_signs_nothing(
    desk: Desk, codec: Codec, key: ReceiptKey, tmp_path: Path
) -> None:
    keys = write_keys(tmp_path / "keys.json", key)
    session = Session(receipt_key=lambda: key)
    with background(desk.serve(keys)) as url:
        with connect_sync(url, protocol=codec.name, approve=lambda _: True) as remote:
            refused = remote.call("erase", {"name": "old"})
        with connect_sync(url, protocol=codec.name, session=session, approve=lambda _: False) as remote:
            denied = remote.call("erase", {"name": "old"})
    assert isinstance(refused, Problem)
    assert refused.kind is Kind.UNCONFIRMED
    assert "`toolwire approvals key`" in refused.message
    assert isinstance(denied, Problem)
    assert denied.kind is Kind.DENIED
    assert desk.done == []
    assert [entry.record.decision for entry in session.audit.entries()] == ["denied"]


def change_header(receipt: str, **members: Any) -> str:
    protected, _, signature = receipt.partition("..")
    header = json.loads(urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))
    changed = urlsafe_b64encode(json.dumps({**header, **members}).encode()).rstrip(b"=").decode()
    return f"{changed}..{signature}"


def strip(fields: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if name != "toolwire-receipt"}


def edit(fields: dict[str, str], change: Callable[[str], str]) -> dict[str, str]:
    return {**fields, "toolwire-receipt": change(fields["toolwire-receipt"])}


FORGED = ReceiptKey()
BENT: dict[str, Callable[[Wire], dict[str, str]]] = {
    "another principal": lambda wire: wire.sign(principal="bob"),
    "another tool": lambda wire: wire.sign(tool="Desk.write@1.0.0"),
    "another definition": lambda wire: wire.sign(definition="0" * 64),
    "other arguments": lambda wire: wire.sign(arguments=digest_arguments({"name": "y"})),
    "another server": lambda wire: wire.sign(audience="shop.example"),
    "another word": lambda wire: wire.sign(nonce="n"),
    "another decision": lambda wire: wire.sign(decision="denied"),
    "late": lambda wire: wire.sign(expires_at=1_000),
    "valid for too long": lambda wire: wire.sign(expires_at=9_999_999_999),
    "another key under the same id": lambda wire: edit(
        wire.sign(FORGED), lambda receipt: change_header(receipt, kid=wire.key.id)
    ),
    "an unknown key": lambda wire: wire.sign(FORGED),
    "stripped": lambda wire: strip(wire.sign()),
    "the end altered": lambda wire: edit(wire.sign(), lambda receipt: change_header(receipt, iat=1)),
    "none": lambda wire: edit(wire.sign(), lambda receipt: change_header(receipt, alg="none")),
    "no signature": lambda wire: edit(wire.sign(), lambda receipt: receipt.partition("..")[0] + ".."),
    "HS256": lambda wire: edit(wire.sign(), lambda receipt: change_header(receipt, alg="HS256")),
    "the older name": lambda wire: edit(wire.sign(), lambda receipt: change_header(receipt, alg="EdDSA")),
    "a key in it": lambda wire: edit(
        wire.sign(FORGED), lambda receipt: change_header(receipt, jwk=FORGED.to_public_jwk())
    ),
    "critical": lambda wire: edit(wire.sign(), lambda receipt: change_header(receipt, crit=["exp"])),
    "another type": lambda wire: edit(wire.sign(), lambda receipt: change_header(receipt, typ="JWT")),
    "a payload in it": lambda wire: edit(wire.sign(), lambda receipt: receipt.replace("..", ".e30.")),
    "another spelling": lambda wire: edit(wire.sign(), lambda receipt: f"{receipt}="),
    "nothing": lambda wire: edit(wire.sign(), lambda _: "a..b"),
}


@pytest.mark.requirement("CC-06")
@pytest.mark.parametrize("how", BENT)
def test_a_receipt_that_is_bent_runs_nothing(desk: Desk, key: ReceiptKey, tmp_path: Path, how: str) -> None:
    owners = [ApiKey(key=Secret(text), name=name) for name, text in OWNERS.items()]
    app = desk.serve(write_keys(tmp_path / "keys.json", key), api_keys=owners)
    with background(app) as url:
        wire = Wire(url, key)
        status, answer = wire.post({"name": "x"}, BENT[how](wire))
        assert status == 428, how
        assert desk.done == []
        assert answer["detail"].startswith("erase did not run: it needs a receipt of its user's decision")
        assert wire.post({"name": "x"}, wire.sign())[0] == 200
    assert desk.done == ["x"]


@pytest.mark.requirement("CC-06")
def test_a_receipt_is_good_once_for_its_caller_tool_arguments_and_server(
    desk: Desk, key: ReceiptKey, tmp_path: Path
) -> None:
    owners = [ApiKey(key=Secret(text), name=name) for name, text in OWNERS.items()]
    keys = write_keys(tmp_path / "keys.json", key)
    app, other = desk.serve(keys, api_keys=owners), desk.serve(keys, api_keys=owners)
    with background(app) as url, background(other) as elsewhere:
        wire = Wire(url, key)
        for bend in (
            lambda proof: wire.post({"name": "x"}, proof, who="bob"),
            lambda proof: wire.post({"name": "x"}, proof, tool="write"),
            lambda proof: wire.post({"name": "y"}, proof),
            lambda proof: Wire(elsewhere, key).post({"name": "x"}, proof),
        ):
            assert bend(wire.sign())[0] == 428
        assert desk.done == []
        proof = wire.sign()
        assert [wire.post({"name": "x"}, proof)[0] for _ in range(2)] == [200, 428]
    assert desk.done == ["x"]


@pytest.mark.requirement("CC-06")
def test_a_receipt_for_a_proxys_name_needs_the_audience_that_the_operator_names(
    desk: Desk, key: ReceiptKey, tmp_path: Path
) -> None:
    app = desk.serve(write_keys(tmp_path / "keys.json", key), receipt_audience="Shop.example")
    with background(app) as url:
        wire = Wire(url, key)
        assert wire.post({"name": "x"}, wire.sign())[0] == 428
        assert wire.post({"name": "x"}, wire.sign(audience="shop.example"))[0] == 200


@pytest.mark.requirement("CC-06")
def test_the_key_of_one_user_signs_for_no_other(desk: Desk, key: ReceiptKey, tmp_path: Path) -> None:
    owners = [ApiKey(key=Secret(text), name=name) for name, text in OWNERS.items()]
    bobs = ReceiptKey()
    app = desk.serve(write_keys(tmp_path / "keys.json", ann=key, bob=bobs), api_keys=owners)
    with background(app) as url:
        wire = Wire(url, key)
        status, answer = wire.post({"name": "x"}, wire.sign(bobs))
        assert (status, desk.done) == (428, [])
        assert "its key is that of another user" in answer["detail"]
        assert wire.post({"name": "x"}, wire.sign())[0] == 200


@pytest.mark.requirement("CC-06")
def test_keys_rotate_without_a_restart_and_are_published(desk: Desk, key: ReceiptKey, tmp_path: Path) -> None:
    file, newer = write_keys(tmp_path / "keys.json", ann=key), ReceiptKey()
    with background(desk.serve(file, api_keys=[ApiKey(key=Secret(OWNERS["ann"]), name="ann")])) as url:
        wire = Wire(url, key)

        def list_published() -> list[str]:
            with urlopen(f"{url}{KEYS_PATH}") as answer:
                entries = json.load(answer)["keys"]
            assert all(set(one) == {"kty", "crv", "x", "kid", "alg", "use"} for one in entries)
            return [one["kid"] for one in entries]

        assert list_published() == [key.id]
        assert wire.post({"name": "x"}, wire.sign(newer))[0] == 428
        write_keys(file, key, newer)
        assert list_published() == [key.id, newer.id]
        assert [wire.post({"name": "x"}, wire.sign(one))[0] for one in (key, newer)] == [200, 200]
        write_keys(file, newer)
        assert wire.post({"name": "x"}, wire.sign(key))[0] == 428
        file.write_text("{")  # half written: the keys before count
        assert wire.post({"name": "x"}, wire.sign(newer))[0] == 200
        file.unlink()
        assert wire.post({"name": "x"}, wire.sign(newer))[0] == 200


@pytest.mark.requirement("CC-06")
def test_the_server_keeps_each_receipt_and_runs_nothing_that_it_cannot_keep(
    desk: Desk, key: ReceiptKey, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    owners = [ApiKey(key=Secret(OWNERS["ann"]), name="ann")]
    keys = write_keys(tmp_path / "keys.json", key)
    with background(desk.serve(keys, api_keys=owners, state=state)) as url:
        wire = Wire(url, key)
        assert wire.post({"name": "x"}, wire.sign())[0] == 200
        [entry] = StoredAudit(state).entries()
        stored = read_stored_receipt(json.loads(entry.record.receipt))
        public = read_receipt_keys(json.dumps({"keys": [key.to_public_jwk()]}).encode())
        assert stored is not None
        assert not isinstance(public, Problem)
        assert find_receipt_fault(stored.receipt, public, stored.binding, entry.record.at) == ""
        assert (entry.record.principal, entry.record.channel) == ("key:ann", "receipt")
        with StoredAudit(state)._database.transaction() as cursor:
            cursor.execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'full'); END")
        assert wire.post({"name": "x"}, wire.sign())[0] == 503
    assert desk.done == ["x"]


@pytest.mark.requirement("CC-06")
def test_a_form_of_a_host_is_no_receipt(desk: Desk, key: ReceiptKey, tmp_path: Path) -> None:
    shown: list[Any] = []

    async def allow(_: Any, params: Any) -> ElicitResult:
        shown.append(params)
        return ElicitResult(action="accept", content={"allow": True})

    async def call(url: str, callback: Any) -> Any:
        async with Client(f"{url}/mcp", elicitation_callback=callback) as client:
            return await client.call_tool("erase", {"name": "old"})

    with background(desk.serve(write_keys(tmp_path / "keys.json", key))) as url:
        results = [anyio.run(call, url, callback) for callback in (allow, None)]
    for result in results:
        assert result.is_error
        assert result.content[0].text == (
            "erase did not run: it needs a receipt, which a client signs when its user has decided, but "
            "this client does not send receipts. Use a client that signs receipts."
        )
    assert (shown, desk.done) == ([], [])


@pytest.mark.requirement("CC-06")
def test_a_gateway_requires_receipts_for_the_tools_of_other_servers(
    desk: Desk, codec: Codec, key: ReceiptKey, tmp_path: Path
) -> None:
    keys, session, asked = write_keys(tmp_path / "keys.json", key), Session(receipt_key=lambda: key), []
    with background(asgi(desk.kit)) as site:
        settings = ServeSettings(
            targets=[site], server=ServerOptions(receipts="required", receipt_keys=str(keys)), consent="hints"
        )
        with background(build_app(settings, open_toolboxes(settings))) as front:
            with connect_sync(front, protocol=codec.name, approve=lambda _: True) as remote:
                assert not remote.call("erase", {"name": "no"}).ok
            with connect_sync(
                front, protocol=codec.name, session=session, approve=lambda one: asked.append(one) is None
            ) as remote:
                assert remote.call("erase", {"name": "old"}).ok
    assert desk.done == ["old"]
    assert len(asked) == 1


@pytest.mark.requirement("CC-06")
def test_a_program_on_standard_input_requires_receipts_too(key: ReceiptKey, tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(PROGRAM)
    keys = write_keys(tmp_path / "keys.json", key)
    target = (
        f"stdio:{sys.executable} -m toolwire serve {tmp_path / 'desk.py'} --stdio"
        f" --receipts required --receipt-keys {keys}"
    )
    session = Session(receipt_key=lambda: key)
    for provide_input in (None, lambda _: None):
        with connect_sync(
            target,
            session=session,
            approve=lambda _: True,
            approve_command=lambda _: True,
            provide_input=provide_input,
        ) as remote:
            assert remote.call("erase", {"name": "old"}) == Value("erased old")
    with connect_sync(target, approve=lambda _: True, approve_command=lambda _: True) as remote:
        assert not remote.call("erase", {"name": "old"}).ok
    last = [json.loads(one.record.receipt) for one in session.audit.entries() if one.record.receipt][-1]
    assert last["binding"]["audience"] == "stdio"


PROGRAM = '''
from toolwire import Toolkit

kit = Toolkit("Desk")


@kit.tool(approval="per-call")
def erase(name: str) -> str:
    """Erase something."""
    return f"erased {name}"
'''


@pytest.mark.requirement("CC-06", "MC-09")
def test_a_tool_that_asks_its_user_needs_one_receipt(key: ReceiptKey, tmp_path: Path) -> None:
    from pydantic import BaseModel

    from toolwire import Context

    class Size(BaseModel):
        size: int

    kit, done = Toolkit("Desk"), []

    @kit.tool(approval="per-call")
    def order(name: str, context: Context) -> str:
        """Order something."""
        answer = context.ask_sync(Size, "Which size?")
        done.append((name, answer.size if isinstance(answer, Size) else None))
        return "ordered"

    session = Session(receipt_key=lambda: key)
    app = asgi(kit, receipts="required", receipt_keys=write_keys(tmp_path / "keys.json", key))
    with (
        background(app) as url,
        connect_sync(
            url, protocol="mcp", session=session, approve=lambda _: True, provide_input=lambda _: {"size": 3}
        ) as remote,
    ):
        assert remote.call("order", {"name": "shoes"}) == Value("ordered")
    assert done == [("shoes", 3)]


@pytest.mark.requirement("CC-06")
def test_arguments_of_every_kind_are_the_same_on_both_sides(codec: Codec, key: ReceiptKey, tmp_path: Path) -> None:
    kit = Toolkit("Kit")

    def echo(
        a: float | None = 1.0,
        b: list[int] | None = None,
        c: str = "x",
        d: bool = True,
        e: dict[str, Any] | None = None,
    ) -> str:
        """Echo."""
        return repr((a, b, c, d, e))

    kit.tool(approval="per-call", safe=True, name="read")(echo)
    kit.tool(approval="per-call", name="write")(echo)

    @kit.tool(approval="per-call")
    async def count(n: int) -> Any:
        """Count."""
        for number in range(n):
            yield number

    cases: list[dict[str, Any]] = [
        {}, {"a": 2.0}, {"a": 3}, {"a": 2.5e-9}, {"a": 1e22}, {"a": 2**60}, {"a": 10**30}, {"a": None}, {"b": []},
        {"b": [1, 2]}, {"c": ""}, {"c": "ü \u2028 &=+"}, {"d": False}, {"e": {}}, {"e": {"x": [1.0, None, {"y": "z"}]}},
    ]  # fmt: skip
    session = Session(receipt_key=lambda: key, rules=ClientRules(questions_a_minute=1_000))
    app = asgi(kit, receipts="required", receipt_keys=write_keys(tmp_path / "keys.json", key))
    with (
        background(app) as url,
        connect_sync(url, protocol=codec.name, session=session, approve=lambda _: True) as remote,
    ):
        for name in ("read", "write"):
            for arguments in cases:
                assert remote.call(name, arguments).ok, (name, arguments)
        assert remote.call("count", {"n": 3}) == Value([0, 1, 2])


@pytest.mark.requirement("CC-06")
def test_nothing_is_signed_for_another_tool_than_the_user_was_shown(key: ReceiptKey) -> None:
    from toolwire.client.calls.receipt_signing import find_signing_refusal
    from toolwire.core.check import ReceiptTerms
    from toolwire.core.model import Tool

    terms = ReceiptTerms("ann", "Desk.erase_all@1.0.0", "d" * 64, "word", 0.0)
    same = [
        Tool(name="erase_all"),
        Tool(name="erase-all"),
        Tool(name="Desk_erase_all"),
        Tool(name="x", original_name="erase_all"),
    ]
    assert [find_signing_refusal(lambda: key, terms, tool) for tool in same] == [None] * 4
    for tool in (Tool(name="erase"), Tool(name="all_erase_all_now"), Tool(name="look")):
        assert find_signing_refusal(lambda: key, terms, tool) is not None
    assert find_signing_refusal(lambda: key, terms._replace(tool=""), same[0]) is not None


@pytest.mark.requirement("CC-06")
def test_options_that_cannot_be_used_are_refused_at_the_start(desk: Desk, key: ReceiptKey, tmp_path: Path) -> None:
    keys = write_keys(tmp_path / "keys.json", key)
    empty = tmp_path / "empty.json"
    empty.write_text('{"keys": [{"kty": "RSA", "n": "AQ", "e": "AQAB"}]}')
    twice = tmp_path / "twice.json"
    twice.write_text(json.dumps({"keys": [key.to_public_jwk(), ReceiptKey().to_public_jwk() | {"kid": key.id}]}))
    for options in (
        {"receipts": "required"},
        {"receipts": "required", "receipt_keys": tmp_path / "missing.json"},
        {"receipts": "required", "receipt_keys": empty},
        {"receipts": "required", "receipt_keys": twice},
        {"receipts": "some", "receipt_keys": keys},
        {"receipt_keys": keys},
        {"receipt_audience": "shop.example"},
    ):
        with pytest.raises(DefinitionError, match="eceipt"):
            asgi(desk.kit, **options)  # type: ignore[arg-type]  # what is wrong is what is tested


@pytest.mark.requirement("CC-06")
def test_the_log_says_that_receipts_are_required(
    desk: Desk, key: ReceiptKey, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="toolwire")
    with background(desk.serve(write_keys(tmp_path / "keys.json", key))):
        pass
    assert "2 tools need consent. Each call runs only with a receipt of its user's decision." in caplog.messages


@pytest.mark.requirement("CC-06")
def test_a_new_key_of_the_user_signs_and_what_the_old_one_signed_stays_valid(tmp_path: Path) -> None:
    stored = StoredReceiptKeys(tmp_path / "state")
    assert stored.find_current() is None
    first = stored.rotate()
    old = first.sign(BINDING, decided_at=0, expires_at=100)
    second = stored.rotate()
    current = stored.find_current()
    assert current is not None
    assert (current.id, current.id == first.id) == (second.id, False)
    keys = read_receipt_keys(json.dumps({"keys": stored.list_public()}).encode())
    assert not isinstance(keys, Problem)
    assert find_receipt_fault(old, keys, BINDING, 50) == ""
    text = (tmp_path / "state" / "receipt-keys.json").read_text()
    assert [("d" in one) for one in json.loads(text)["keys"]] == [False, True]
    assert os.stat(tmp_path / "state" / "receipt-keys.json").st_mode & 0o077 == 0
    assert all("d" not in one for one in stored.list_public())


@pytest.mark.requirement("CC-06")
def test_whole_numbers_have_one_digest_and_all_else_differs() -> None:
    assert digest_arguments({"a": 1.0, "b": [2.0]}) == digest_arguments({"b": [2], "a": 1})
    different = [{"a": 1}, {"a": "1"}, {"a": True}, {"a": 1.5}, {"a": None}, {}, {"a": [1]}, {"a": 2**53}, {"A": 1}]
    assert len({digest_arguments(one) for one in different}) == len(different)


@pytest.fixture
def gateway_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReceiptKey:
    """The key of the user who runs a gateway."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return StoredReceiptKeys(find_state_folder()).rotate()


@pytest.mark.requirement("CC-06")
def test_a_gateway_signs_for_its_callers_after_their_consent_alone(
    desk: Desk, codec: Codec, gateway_key: ReceiptKey, tmp_path: Path
) -> None:
    state, asked = tmp_path / "state", list[Question]()
    with background(desk.serve(write_keys(tmp_path / "keys.json", gateway_key))) as site:
        settings = ServeSettings(targets=[site], server=ServerOptions(state=str(state)))
        with background(build_app(settings, open_toolboxes(settings))) as front:
            with connect_sync(front, protocol=codec.name, approve=lambda _: False) as remote:
                assert not remote.call("erase", {"name": "no"}).ok
            assert list(StoredAudit(state).entries()) == []
            with connect_sync(
                front, protocol=codec.name, approve=lambda one: asked.append(one) is None
            ) as remote:  # this caller has no key
                assert remote.call("erase", {"name": "old"}).ok
    assert (desk.done, len(asked)) == (["old"], 1)
    [entry] = StoredAudit(state).entries()
    stored = read_stored_receipt(json.loads(entry.record.receipt))
    assert stored is not None
    assert (stored.binding.audience, stored.binding.tool) == (site.removeprefix("http://"), "Desk.erase@1.0.0")
    assert stored.binding.arguments == digest_arguments({"name": "old"})


@pytest.mark.requirement("CC-06")
def test_a_gateway_signs_nothing_on_the_word_of_a_host_that_it_trusts(
    desk: Desk, gateway_key: ReceiptKey, tmp_path: Path
) -> None:
    async def call(url: str) -> Any:
        async with Client(f"{url}/mcp") as client:
            return await client.call_tool("erase", {"name": "old"})

    state = tmp_path / "state"
    with background(desk.serve(write_keys(tmp_path / "keys.json", gateway_key))) as site:
        settings = ServeSettings(targets=[site], server=ServerOptions(state=str(state)), consent="hints")
        with background(build_app(settings, open_toolboxes(settings))) as front:
            result = anyio.run(call, front)
    assert result.is_error
    assert (
        "was not called, because its server requires a receipt of a user's decision and no user was asked"
        in result.content[0].text
    )
    assert (desk.done, list(StoredAudit(state).entries())) == ([], [])


@pytest.mark.requirement("CC-06")
def test_an_approver_that_showed_nothing_signs_nothing(desk: Desk, key: ReceiptKey, tmp_path: Path) -> None:
    session = Session(receipt_key=lambda: key)
    with (
        background(desk.serve(write_keys(tmp_path / "keys.json", key))) as url,
        connect_sync(url, session=session, approve=lambda _: Answer(allowed=True, unseen=True)) as remote,
    ):
        refused = remote.call("erase", {"name": "old"})
    assert isinstance(refused, Problem)
    assert refused.details == {"receipt": "unseen"}
    assert desk.done == []


@pytest.mark.requirement("CC-06", "FU-30")
def test_the_routes_of_an_app_require_receipts_on_the_protocols_in_front_of_it(key: ReceiptKey, tmp_path: Path) -> None:
    from fastapi import FastAPI
    from starlette.applications import Starlette
    from starlette.requests import Request as StarletteRequest
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from toolwire.integrations import asgi as any_framework
    from toolwire.integrations import fastapi, starlette

    dropped: list[int] = []
    operation = {"operationId": "drop", "summary": "Drop an order", "responses": {}}
    number = {"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "paths": {"/orders/{number}": {"delete": {**operation, "parameters": [number]}}},
    }

    async def drop(request: StarletteRequest) -> JSONResponse:
        dropped.append(int(request.path_params["number"]))
        return JSONResponse("dropped")

    def build_routes() -> Starlette:
        return Starlette(routes=[Route("/orders/{number:int}", drop, methods=["DELETE"])])

    wires = fastapi.ServerOptions(receipts="required", receipt_keys=write_keys(tmp_path / "keys.json", key))
    shop = FastAPI(title="Shop")

    @shop.delete("/orders/{number}", operation_id="drop")
    async def drop_order(number: int) -> str:
        """Drop an order."""
        dropped.append(number)
        return "dropped"

    apps = [
        fastapi.publish_tools(shop, include="all", options=wires),
        starlette.publish_tools(build_routes(), document, include="all", options=wires),
        any_framework.publish_tools(build_routes(), document, include="all", options=wires),
    ]
    for app in apps:
        with background(app) as url:
            with urlopen(f"{url}{KEYS_PATH}") as answer:
                assert [one["kid"] for one in json.load(answer)["keys"]] == [key.id]
            for protocol in ("mcp", "opentool", "otc"):
                dropped.clear()
                with connect_sync(url, protocol=protocol, approve=lambda _: True) as remote:
                    assert not remote.call("drop", {"number": 1}).ok
                session = Session(receipt_key=lambda: key)
                with connect_sync(url, protocol=protocol, session=session, approve=lambda _: True) as remote:
                    assert remote.call("drop", {"number": 2}).ok
                assert dropped == [2], protocol
