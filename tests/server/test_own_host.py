"""What a request says in Host is an address of the server only if something else says so too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.receipts import Desk, Wire, write_keys
from toolwire.auth.receipt import ReceiptKey
from toolwire.console.caller_inbox import build_announcer
from toolwire.core.model import ANONYMOUS, Call
from toolwire.server.access.host_guard import HostGuard
from toolwire.server.asking.inbox import PAGE_URL, Inbox, QuestionNotice
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

HERE = ("127.0.0.1", 9627)


@pytest.mark.requirement("AT-34", "D-24")
@pytest.mark.parametrize(
    ("server", "host", "found"),
    [
        (HERE, "127.0.0.1:9627", True),
        (HERE, "LOCALHOST:9627", True),
        (HERE, "[::1]:9627", True),
        (HERE, "127.0.0.1:6666", False),
        (HERE, "127.0.0.1", False),
        (HERE, "evil.example:9627", False),
        (("::1", 9627), "[::1]:9627", True),
        (("10.0.0.5", 8000), "10.0.0.5:8000", True),
        (("10.0.0.5", 8000), "localhost:8000", False),
        (("testserver", 80), "testserver", True),
        (("testserver", 443), "testserver", True),
        (("testserver", 8000), "testserver", False),
        (("/run/toolwire.sock", None), "127.0.0.1:9627", False),
        (None, "127.0.0.1:9627", False),
        (None, "", False),
        (None, "tools.example", True),
        (None, "Tools.example", True),
        (None, "tools.example:6666", False),
        (None, "api.example:8443", True),
        (None, "api.example", False),
    ],
)
def test_host_is_an_address_of_the_server_only_if_operator_or_socket_say_so(
    server: object, host: str, found: bool
) -> None:
    guard = HostGuard(hosts=["Tools.example", "api.example:8443"])
    assert guard.find_own_host(server, host) == (host.lower() if found else "")


@pytest.mark.requirement("AT-34", "CC-06")
def test_receipt_for_the_server_of_somebody_else_counts_nowhere(tmp_path: Path) -> None:
    desk, key = Desk(), ReceiptKey()
    with background(desk.serve(write_keys(tmp_path / "keys.json", key))) as url:
        wire = Wire(url, key)
        # A server in between passes its own name on as Host, and the receipt that a user signed for it.
        host = "127.0.0.1:6666"
        status, answer = wire.post({"name": "x"}, {**wire.sign(audience=host), "host": host})
        assert (status, desk.done) == (428, [])
        assert "does not know the address at which it was called" in answer["detail"]
        assert wire.post({"name": "x"}, wire.sign())[0] == 200


@pytest.mark.requirement("AT-34", "GW-04")
def test_link_to_the_inbox_and_webhook_name_no_address_of_a_request(tmp_path: Path) -> None:
    texts: list[QuestionNotice] = []
    desk = Desk()
    (tool, *_) = FunctionToolbox(desk.kit).catalog().tools
    call = Call(tool, {"name": "x"}, "1", ANONYMOUS)

    def announce(public_url: str, host: str) -> str:
        scope: Any = {"scheme": "http", "headers": [(b"host", host.encode())], "server": HERE}
        build_announcer(public_url, ["tools.example"])(scope)
        return PAGE_URL.get()

    assert announce("", "evil.example") == ""
    assert announce("", "127.0.0.1:6666") == ""
    assert announce("", "tools.example") == "http://tools.example/inbox"
    assert announce("https://a.example/", "evil.example") == "https://a.example/inbox"
    assert announce("", "127.0.0.1:9627") == "http://127.0.0.1:9627/inbox"
    Inbox(tmp_path, is_default=False, on_question=texts.append).find_refusal(call, b"1", [])
    Inbox(tmp_path, is_default=False, page_url="https://a.example/inbox", on_question=texts.append).find_refusal(
        call, b"2", []
    )
    assert [one.url for one in texts] == ["", "https://a.example/inbox"]
    PAGE_URL.set("")
