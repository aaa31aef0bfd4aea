"""find, describe and call, served on every protocol: a call by name is the call of the tool itself."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from tests.support.wire import HERE, SyncAppTransport
from toolwire import DefinitionError, Problem, Secret, Toolkit, Value, asgi, connect_sync
from toolwire.core.http import Request, Response
from toolwire.protocols import BUILTIN
from toolwire.server import App
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.asking.confirmation import CONFIRMATION, ask_about_destructive
from toolwire.server.options import ServerOptions
from toolwire.testing.loopback import background

PROTOCOLS = [codec.name for codec in BUILTIN]
STATELESS = "2026-07-28"


def build_shop(ran: list[Any]) -> Toolkit:
    kit = Toolkit("Shop")

    @kit.tool(approval="auto", safe=True)
    def list_orders() -> list[str]:
        """List the orders."""
        return ["o1"]

    @kit.tool(approval="per-call", destructive=True)
    def erase_order(order: str) -> dict[str, str]:
        """Erase an order."""
        ran.append(order)
        return {"erased": order}

    @kit.tool(approval="per-call", safe=False, scopes=("money",))
    def refund_order(order: str) -> str:
        """Refund an order."""
        ran.append(order)
        return f"{order} refunded"

    return kit


def post(app: App, path: str, body: Any, *headers: tuple[bytes, bytes]) -> Response:
    transport = SyncAppTransport(app)
    try:
        fields = ((b"host", b"127.0.0.1:9627"), (b"content-type", b"application/json"), *headers)
        return transport.send(Request("POST", HERE + path, fields, json.dumps(body).encode()))
    finally:
        transport.close()


def build_request(protocol: str, tool: str, arguments: dict[str, Any], *, by_name: bool) -> tuple[str, Any]:
    """Return the path and the body of a call of ``tool``, itself or by its name."""
    name, given = ("call", {"name": tool, "arguments": arguments}) if by_name else (tool, arguments)
    if protocol == "openapi":
        return f"/api/{name}", given
    if protocol == "otc":
        return "/tools/call", {"request": {"tool_id": name, "input": given}}
    if protocol == "opentool":
        return "/opentool/call", {"jsonrpc": "2.0", "id": 1, "method": name, "params": given}
    return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": given}}


def read_data(response: Response) -> Any:
    """Return what a response says, without what differs from call to call."""
    text = response.body.decode()
    data = json.loads(text)
    for place in (data, data.get("result")) if isinstance(data, dict) else ():
        if isinstance(place, dict):
            for name in ("duration", "call_id", "requestState"):
                place.pop(name, None)
    return data


@pytest.mark.requirement("FI-01")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_protocol_lists_three_tools_and_the_pinned_ones(protocol: str) -> None:
    ran: list[Any] = []
    with (
        background(asgi(build_shop(ran), find="always", pins=["list_orders"])) as url,
        connect_sync(url, protocol=protocol, approve=lambda _: True) as remote,
    ):
        assert {tool.name for tool in remote.tools} == {"find", "describe", "call", "list_orders"}
        text = remote.call("find", {"words": "erase an order", "limit": 2}).unwrap()
        assert text.splitlines()[0] == "erase_order(order*): Erase an order · asks"
        reply = remote.call("describe", {"names": ["erase_order", "nothing"]}).unwrap()
        assert '"order":{"' in reply
        assert "Unknown tool 'nothing'." in reply
        assert isinstance(remote.call("call", {"name": "erase_order", "arguments": {"order": "o7"}}), Value)
        assert ran == ["o7"]
        wrong = remote.call("call", {"name": "erase_order", "arguments": {"ordr": "o7"}})
        assert isinstance(wrong, Problem)
        assert "ordr" in wrong.message
        assert isinstance(remote.call("call", {"name": "no_such"}), Problem)
        assert ran == ["o7"]


@pytest.mark.requirement("FI-07")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_call_by_name_is_answered_as_the_call_of_the_tool(protocol: str) -> None:
    app = asgi(build_shop([]), find="always")
    direct = post(app, *build_request(protocol, "erase_order", {"order": "o1"}, by_name=False))
    by_name = post(app, *build_request(protocol, "erase_order", {"order": "o1"}, by_name=True))
    assert read_data(by_name) == read_data(direct)
    assert by_name.status == direct.status == 200


@pytest.mark.requirement("FI-07")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_question_and_its_answer_are_those_of_the_tool_itself(protocol: str) -> None:
    ran: list[Any] = []
    app = asgi(build_shop(ran), find="always", require_confirmation=ask_about_destructive)

    def ask(*, by_name: bool, word: str = "", order: str = "o1") -> Response:
        fields = [(CONFIRMATION, word.encode())] if word else []
        return post(app, *build_request(protocol, "erase_order", {"order": order}, by_name=by_name), *fields)

    def read_word(response: Response) -> str:
        found = json.dumps(read_data(response)).partition('"word": "')[2].partition('"')[0]
        assert found
        return found

    direct, by_name = ask(by_name=False), ask(by_name=True)
    words = [read_word(one) for one in (direct, by_name)]
    texts = [one.body.decode().replace(word, "WORD") for one, word in zip((direct, by_name), words, strict=True)]
    first, second = (
        read_data(one._replace(body=text.encode())) for one, text in zip((direct, by_name), texts, strict=True)
    )
    assert first == second
    assert "erase_order cannot be undone. Call it?" in texts[1]
    assert ran == []
    ask(by_name=True, word=words[0])  # a yes to the tool itself is one to the same call by name, and used up by it
    assert ran == ["o1"]
    ask(by_name=False, word=words[0])
    ask(by_name=True, word=words[1], order="o2")  # and to no other call
    assert ran == ["o1"]
    ask(by_name=False, word=read_word(ask(by_name=True)))
    assert ran == ["o1", "o1"]


@pytest.mark.requirement("FI-07")
def test_an_mcp_host_that_shows_forms_shows_the_form_of_the_tool_itself() -> None:
    app = asgi(build_shop([]), find="always")

    def ask(*, by_name: bool) -> Any:
        path, body = build_request("mcp", "erase_order", {"order": "o1"}, by_name=by_name)
        body["params"]["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        }
        fields = ((b"mcp-protocol-version", STATELESS.encode()), (b"mcp-method", b"tools/call"))
        name = b"call" if by_name else b"erase_order"
        return read_data(post(app, path, body, *fields, (b"mcp-name", name)))

    assert ask(by_name=True) == ask(by_name=False)
    assert "erase_order" in json.dumps(ask(by_name=True)["result"]["inputRequests"])


@pytest.mark.requirement("FI-07")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_repeated_call_by_name_runs_once_under_the_id_of_the_tool(protocol: str) -> None:
    ran: list[Any] = []
    app = asgi(build_shop(ran), find="always")
    key = (b"idempotency-key", b"k1")
    for by_name in (True, False, True):
        assert post(app, *build_request(protocol, "erase_order", {"order": "o1"}, by_name=by_name), key).status == 200
    assert ran == ["o1"]


@pytest.mark.requirement("FI-02", "FI-07")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_caller_finds_and_calls_only_what_their_scopes_allow(protocol: str) -> None:
    ran: list[Any] = []
    guest = ApiKey(key=Secret("G"), name="guest", scopes=frozenset())
    app = asgi(build_shop(ran), find="always", pins=["refund_order"], api_keys=[guest, "A"])

    def ask(key: str, tool: str, arguments: dict[str, Any], *, by_name: bool = False) -> Response:
        path, body = build_request(protocol, tool, arguments, by_name=by_name)
        return post(app, path, body, (b"authorization", f"Bearer {key}".encode()))

    # On OpenAPI a tool that only reads is a GET, so it is called by name here.
    for tool, arguments in (
        ("find", {"words": "refund order"}),
        ("describe", {"names": ["refund_order", "Shop.refund_order"]}),
    ):
        hidden = ask("G", tool, arguments, by_name=True).body.decode()
        assert "efund an order" not in hidden
        assert "refund_order(" not in hidden
        assert "efund an order" in ask("A", tool, arguments, by_name=True).body.decode()
    direct, by_name = (ask("G", "refund_order", {"order": "o1"}, by_name=by) for by in (False, True))
    assert read_data(by_name) == read_data(direct)
    assert by_name.status == direct.status
    assert "money" in by_name.body.decode()
    assert ran == []
    assert ask("A", "refund_order", {"order": "o1"}, by_name=True).status == 200
    assert ran == ["o1"]


@pytest.mark.requirement("FI-01")
def test_a_tool_of_the_server_that_is_called_like_one_of_ours_is_still_reached() -> None:
    kit = Toolkit("Phone")

    @kit.tool(approval="auto")
    def call(number: str) -> str:
        """Call a number."""
        return f"ringing {number}"

    app = asgi(kit, find="always")
    answer = post(app, *build_request("mcp", "call", {"number": "112"}, by_name=True))
    assert b"ringing 112" in answer.body


@pytest.mark.requirement("FI-01")
def test_a_mode_that_there_is_not_is_refused() -> None:
    with pytest.raises(DefinitionError, match='find must be "auto", "always" or "never"'):
        ServerOptions(find="sometimes")  # type: ignore[arg-type]  # the test


@pytest.mark.requirement("FI-07")
def test_the_log_names_the_tool_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    kit = Toolkit("Broken")

    @kit.tool(approval="auto")
    def break_it() -> str:
        """Break."""
        raise RuntimeError("broken")

    app = asgi(kit, find="always")
    with caplog.at_level(logging.ERROR, logger="toolwire"):
        post(app, *build_request("mcp", "break_it", {}, by_name=True))
    assert "Broken.break_it@1.0.0" in caplog.text


@pytest.mark.requirement("FI-01")
def test_a_server_that_lists_all_its_tools_imports_nothing_for_it() -> None:
    program = "\n".join(
        (
            "import sys",
            "from toolwire import Toolkit, asgi, connect_sync",
            "asgi(Toolkit('A'))",
            "print(any(name.startswith('toolwire.find') for name in sys.modules))",
        )
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
