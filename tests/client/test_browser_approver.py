"""The page that asks: only its own page answers it, and nothing but a clear yes is one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.client.page_visitor import Visitor
from toolwire.client.approvers.browser_approver import is_other_user, page_approver
from toolwire.core.check import Answer, Question
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import Approval, Call, Condition, Tool

QUESTION = Question(
    Call(Tool(name="note", blanket_allowed=True), {"text": "tea"}),
    "https://a.example",
    "POST /note",
    Approval.PER_CALL,
    always_allowed=True,
)
SHRED = Question(Call(Tool(name="shred", destructive=True), {}), "https://a.example", "POST /shred", Approval.PER_CALL)


def ask_on_page(question: Question, visit: Callable[[Visitor], None], within_s: float = 30.0) -> Answer:
    visits: list[threading.Thread] = []

    def show(url: str) -> None:
        visits.append(threading.Thread(target=visit, args=(Visitor(url),)))
        visits[0].start()

    answer = page_approver(show, within_s=within_s)(question)
    visits[0].join(10)
    return answer


def test_user_can_allow_a_call_on_the_page() -> None:
    answer = ask_on_page(QUESTION, lambda one: _assert_ok(one.post(token=one.token(), answer="allow", always="yes")))
    assert answer == Answer(allowed=True, always=True, channel="page")


def _assert_ok(answer: tuple[int, dict[str, str], str]) -> None:
    assert answer[0] == 200


def test_user_can_deny_a_call_on_the_page_with_a_reason() -> None:
    answer = ask_on_page(
        QUESTION, lambda one: _assert_ok(one.post(token=one.token(), answer="deny", reason="too late"))
    )
    assert answer == Answer(allowed=False, reason="too late", channel="page")


PAY = replace(
    QUESTION, call=Call(Tool(name="pay"), {"to": "Ada", "amount": 20, "pin": "1234"}), secrets=frozenset({"pin"})
)
BOUNDED = {"answer": "allow", "always": "bounds", "bound uses": "2"}


@pytest.mark.requirement("CC-03")
def test_user_can_set_grant_bounds_on_the_page() -> None:
    texts: list[str] = []

    def visit(one: Visitor) -> None:
        token, page = one.token(), one.get()[2]
        assert "<script" not in page
        assert "1234" not in page
        assert page.count("<select name=") == 2
        status, _, again = one.post(token=token, **BOUNDED, **{"bound 1": "<=", "value 1": "<cheap>"})
        assert (status, "&lt;cheap&gt;" in again, "<details open>" in again) == (400, True, True)
        for wrong in ({"bound uses": "0"}, {"bound until": "2020-01-01"}, {"bound 0": "in", "value 0": ""}):
            assert one.post(token=token, **{**BOUNDED, **wrong})[0] == 400
        fields = {"bound 0": "in", "value 0": "Ada, Bob", "bound 1": "<=", "value 1": "50"}
        texts.append(one.post(token=token, **BOUNDED, **fields)[2])

    answer = ask_on_page(PAY, visit)
    conditions = (Condition("/to", "in", ["Ada", "Bob"]), Condition("/amount", "le", 50))
    assert answer == Answer(
        allowed=True, always=True, channel="page", bounds=GrantBounds(conditions=conditions, uses=2)
    )
    assert "/amount is at most 50; 2 more calls" in texts[0]


@pytest.mark.requirement("CC-03", "D-19")
@pytest.mark.parametrize(
    ("fields", "conditions", "uses"),
    [
        ({}, (Condition("/to", "eq", "Ada"), Condition("/amount", "eq", 20)), 10),
        ({"bound 0": "any"}, (Condition("/amount", "eq", 20),), 10),
        ({"bound 0": "any", "bound 1": "any"}, None, 10),
        ({"bound 2": "any", "bound 3": "any", "bound 1": ">=", "value 1": "5"},
         (Condition("/to", "eq", "Ada"), Condition("/amount", "ge", 5)), 10),
    ],
)  # fmt: skip
def test_untouched_bounds_keep_their_displayed_values(fields: Any, conditions: Any, uses: int) -> None:
    form = {**BOUNDED, "bound uses": "10", **fields}
    answer = ask_on_page(PAY, lambda one: _assert_ok(one.post(token=one.token(), **form)))
    assert answer.bounds == GrantBounds(conditions=conditions, uses=uses)


@pytest.mark.requirement("AT-49")
def test_page_offers_a_lower_bound_and_asks_whether_unseen_arguments_count() -> None:
    schema = {"type": "object", "properties": {"to": {}, "amount": {}, "pin": {}, "bcc": {}}}
    question = replace(PAY, call=PAY.call._replace(tool=Tool(name="pay", input_schema=schema)))
    fields = {"bound 0": "any", "bound 1": "<=", "value 1": "50", "least 1": "0"}
    seen: list[str] = []

    def visit(one: Visitor) -> None:
        seen.append(one.get()[2])
        assert one.post(token=one.token(), **BOUNDED, **{**fields, "least 1": "few"})[0] == 400
        _assert_ok(one.post(token=one.token(), **BOUNDED, **fields))

    answer = ask_on_page(question, visit)
    conditions = (Condition("/amount", "le", 50), Condition("/amount", "ge", 0))
    assert answer.bounds == GrantBounds(conditions=conditions, uses=2)
    assert 'name="least 1" value="0"' in seen[0]
    assert "Also calls with arguments that this one does not have <small>bcc</small>" in seen[0]
    wide = fields | {"bound unseen": "yes"}
    answer = ask_on_page(question, lambda one: _assert_ok(one.post(token=one.token(), **BOUNDED, **wide)))
    assert answer.bounds == GrantBounds(conditions=conditions, uses=2, unseen=True)


@pytest.mark.requirement("QF-03")
def test_page_offers_a_limit_on_the_sum_of_all_later_calls() -> None:
    fields = {"bound 0": "any", "bound 1": "<=", "value 1": "50", "least 1": "0", "sum 1": "200"}

    def visit(one: Visitor) -> None:
        status, _, again = one.post(token=one.token(), **BOUNDED, **{**fields, "sum 1": "<much>"})
        assert (status, 'name="sum 1" value="&lt;much&gt;"' in again) == (400, True)
        _assert_ok(one.post(token=one.token(), **BOUNDED, **fields))

    conditions = (Condition("/amount", "le", 50), Condition("/amount", "ge", 0), Condition("/amount", "sum", 200))
    assert ask_on_page(PAY, visit).bounds == GrantBounds(conditions=conditions, uses=2)


@pytest.mark.requirement("QF-03")
def test_page_offers_bounds_alone_where_the_server_says_nothing() -> None:
    silent, wrong = replace(PAY, always_allowed=None), "needs a condition that limits an argument, or a sum."

    def visit(one: Visitor) -> None:
        page = one.get()[2]
        assert "Do not ask again within the bounds below" in page
        assert "Do not ask again for <code>pay</code>" not in page
        for fields in ({"answer": "allow", "always": "yes"}, {**BOUNDED, "bound 0": "any", "bound 1": "any"}):
            status, _, again = one.post(token=one.token(), **fields)
            assert (status, again.count(wrong)) == (400, 1)
        _assert_ok(one.post(token=one.token(), **BOUNDED))

    conditions = (Condition("/to", "eq", "Ada"), Condition("/amount", "eq", 20))
    assert ask_on_page(silent, visit).bounds == GrantBounds(conditions=conditions, uses=2)


@pytest.mark.requirement("CC-03")
def test_bounds_without_allow_always_grant_no_later_call() -> None:
    form = {"answer": "allow", "bound 0": "any", "bound 1": "any", "bound uses": "*"}
    for always in ("", "no"):
        answer = ask_on_page(PAY, lambda one, it=always: _assert_ok(one.post(token=one.token(), **form, always=it)))
        assert (answer.allowed, answer.always, answer.bounds) == (True, False, None)


@pytest.mark.requirement("XL-051")
def test_user_can_change_arguments_on_the_page() -> None:
    def visit(one: Visitor) -> None:
        token = one.token()
        for wrong in ("{", "[1]"):
            assert one.post(token=token, answer="allow", arguments=wrong)[0] == 400
        one.post(token=token, answer="allow", arguments='{"text": "coffee"}')

    assert ask_on_page(QUESTION, visit).arguments == {"text": "coffee"}
    same = ask_on_page(
        QUESTION, lambda one: _assert_ok(one.post(token=one.token(), answer="allow", arguments='{"text":"tea"}'))
    )
    assert same.arguments is None


@pytest.mark.requirement("D-19")
def test_only_the_page_itself_can_answer() -> None:
    seen: list[int] = []

    def visit(one: Visitor) -> None:
        token = one.token()
        seen.append(one.post(token="other", answer="allow")[0])
        seen.append(one.post(answer="allow")[0])
        seen.append(one.post_as({"Origin": "https://evil.example"}, token=token, answer="allow")[0])
        seen.append(one.post_as({"Sec-Fetch-Site": "cross-site"}, token=token, answer="allow")[0])
        seen.append(one.post_as({"Host": "evil.example"}, token=token, answer="allow")[0])
        seen.append(one.get("/")[0])
        seen.append(one.get(Host=f"localhost:{one.port}")[0])
        _, headers, _ = one.get()
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        one.post(token=token, answer="")

    assert ask_on_page(QUESTION, visit) == Answer(allowed=False, channel="page")
    assert seen == [400, 400, 403, 403, 403, 404, 403]


@pytest.mark.requirement("D-19")
def test_destructive_call_is_allowed_only_by_typing_its_name_and_yes() -> None:
    def visit(one: Visitor) -> None:
        token = one.token()
        status, _, page = one.post(token=token, answer="allow", confirm="yes")
        assert status == 400
        assert "type: shred yes" in page
        one.post(token=token, answer="allow", confirm="shred yes")

    assert ask_on_page(SHRED, visit).allowed


ANOTHER_USER = 12_345
_AS_ANOTHER_USER = """
import os, socket, sys, urllib.parse
import encodings.idna
os.setuid(int(sys.argv[5]))
port, path, token = int(sys.argv[1]), sys.argv[2], sys.argv[3]
form = urllib.parse.urlencode({"token": token, "answer": "allow"}).encode()
head = f"POST {path} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nContent-Length: {len(form)}\\r\\n\\r\\n".encode()
with socket.create_connection(("127.0.0.1", port)) as connection:
    connection.sendall(head + form)
    if sys.argv[4] == "waits":
        print(connection.makefile("rb").readline().decode().split()[1])
"""


@pytest.mark.requirement("D-19")
@pytest.mark.skipif(
    os.getuid() != 0 or not sys.platform.startswith("linux"), reason="only root can act as another user"
)
@pytest.mark.parametrize("how", ["waits", "leaves"])
def test_program_of_another_user_cannot_answer_the_page(how: str) -> None:
    replies: list[str] = []

    def visit(one: Visitor) -> None:
        words = [sys.executable, "-c", _AS_ANOTHER_USER, str(one.port), one.path, one.token(), how, str(ANOTHER_USER)]
        replies.append(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        _assert_ok(one.post(token=one.token(), answer="deny"))

    assert ask_on_page(QUESTION, visit) == Answer(allowed=False, channel="page")
    assert replies == [{"waits": "403\n", "leaves": ""}[how]]


@pytest.mark.requirement("D-19")
def test_page_connection_is_attributed_to_the_user_in_the_system_table(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    own, root, other = os.getuid(), 0, ANOTHER_USER
    listens = "0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 5 1"

    def write(*rows: str) -> None:
        table.write_text("\n".join(["sl local rem st", *rows, ""]))

    for uid, socket_number, expected in ((own, 7, False), (root, 7, False), (other, 7, True), (own, 0, True)):
        write(listens, f"1: 0100007F:C000 0100007F:1F90 01 0:0 0:0 0 {uid} 0 {socket_number} 1")
        assert is_other_user(0xC000, 0x1F90, table) is expected
    write(listens)
    assert is_other_user(0xC000, 0x1F90, table) is True
    write()
    assert is_other_user(0xC000, 0x1F90, table) is False
    assert is_other_user(0xC000, 0x1F90, tmp_path / "nowhere") is False


def test_unanswered_page_is_a_denial() -> None:
    answer = ask_on_page(QUESTION, lambda one: None, within_s=0.01)
    assert answer == Answer(allowed=False, reason="timeout", channel="page")
