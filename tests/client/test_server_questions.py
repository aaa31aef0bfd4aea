"""Hostile servers that ask the user while a call runs: nothing misleads the user, and nothing goes on without end."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.server_questions import FORM, TOOLS, Server, form, page
from toolwire import InputRequest, InputResponse, Problem, Result, Session, Value, connect_sync
from toolwire.core.user_input import InputAction
from toolwire.testing.loopback import background


class Person:
    """The user, who enters ``reply``, and what they were shown."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.shown: list[InputRequest] = []

    def __call__(self, asked: InputRequest) -> Any:
        self.shown.append(asked)
        return self.reply


def call(server: Server, person: Person | None, session: Session | None = None, name: str = "go") -> Result:
    with (
        background(server) as url,
        connect_sync(f"{url}/mcp", approve=lambda _: True, provide_input=person, session=session) as remote,
    ):
        return remote.call(name)


@pytest.mark.requirement("MC-09")
@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"type": "string"},
        {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
        {"type": "object", "properties": {"a": {"type": "string", "enum": []}}},
        {"type": "object", "properties": {"a": {"type": "string", "enum": ["x" * 5_000]}}},
        {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(21)}},
        {"type": "object", "properties": {"a": {"type": "string", "enum": [str(n) for n in range(300)]}}},
        {"type": "object", "properties": {"pass\u202eword": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]},
    ],
)
def test_nested_or_large_input_form_is_not_shown(schema: Any) -> None:
    server, person = Server({"a": form(schema)}), Person({})
    result = call(server, person)
    assert isinstance(result, Problem)
    assert "asks for input that cannot be provided" in result.message
    assert (person.shown, len(server.calls)) == ([], 1)


@pytest.mark.requirement("MC-09")
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "https://user:word@bank.example/",
        "https://bank.example\u202e/",
        "https://bank.example/\r\nx",
        "https://bank\\.example/",
        f"https://bank.example/{'x' * 3_000}",
        "",
    ],
)
def test_misleading_page_url_is_not_shown(url: str) -> None:
    server, person = Server({"a": page(url)}), Person(True)
    result = call(server, person)
    assert isinstance(result, Problem)
    assert (person.shown, len(server.calls)) == ([], 1)


@pytest.mark.requirement("MC-09")
def test_unencrypted_page_is_declined_without_showing_it() -> None:
    server, person = Server({"a": page("http://bank.example/")}), Person(True)
    assert call(server, person) == Value('{"a": {"action": "decline"}}')
    assert person.shown == []
    local, allowed = Server({"a": page("http://127.0.0.1:9/x")}), Person(True)
    assert call(local, allowed) == Value('{"a": {"action": "accept"}}')
    assert allowed.shown[0].host == "127.0.0.1:9"


@pytest.mark.requirement("MC-09")
def test_server_texts_in_a_form_are_cleaned_and_cut() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "title": "x\u202ey", "description": "d" * 9_000, "default": "\u200bz"}},
    }
    person = Person({})
    call(Server({"a": form(schema, "Hello\u202e \U000e0041" + "m" * 9_000)}), person)
    (asked,) = person.shown
    (one,) = asked.fields
    assert (one.title, one.default) == ("xy", None)
    assert len(one.description) <= 500
    assert len(asked.message) <= 4_000
    assert "\u202e" not in asked.message
    assert "\U000e0041" not in asked.message


@pytest.mark.requirement("MC-09")
@pytest.mark.parametrize(
    "asked",
    [
        {"a": {"method": "sampling/createMessage", "params": {}}},
        {"a": {"method": "roots/list"}},
        {"a": 7},
        {str(number): form() for number in range(6)},
    ],
)
def test_undeclared_input_request_is_not_answered(asked: dict[str, Any]) -> None:
    server, person = Server(asked), Person({"size": 1})
    assert isinstance(call(server, person), Problem)
    assert (person.shown, len(server.calls)) == ([], 1)


@pytest.mark.requirement("MC-09")
def test_server_that_keeps_asking_is_abandoned_after_ten_requests() -> None:
    for asked in ({"a": form()}, {}):
        server, person = Server(asked, endless=True), Person({"size": 1})
        result = call(server, person)
        assert isinstance(result, Problem)
        assert "asked 10 times" in result.message
        assert len(server.calls) == 11
        assert len(person.shown) <= 10


@pytest.mark.requirement("MC-09")
def test_tool_declined_three_times_asks_no_more_in_the_session() -> None:
    session, person = Session(), Person(None)
    server = Server(*[{"a": form()}, None] * 5)
    with (
        background(server) as url,
        connect_sync(f"{url}/mcp", approve=lambda _: True, provide_input=person, session=session) as remote,
    ):
        for _ in range(5):
            assert remote.call("go") == Value('{"a": {"action": "decline"}}')
    assert len(person.shown) == 3
    records = [entry.record for entry in session.audit.entries()]
    words = [record.decision for record in records if record.channel == "input"]
    assert words == ["declined"] * 3


@pytest.mark.requirement("MC-09")
def test_request_state_is_returned_unchanged_only_to_its_call() -> None:
    state = "\u202e\x00 kept " + "x" * 1_000
    server, person = Server({"a": form()}, state=state), Person({"size": 1})
    with background(server) as url, connect_sync(f"{url}/mcp", approve=lambda _: True, provide_input=person) as remote:
        assert remote.call("go") == Value('{"a": {"action": "accept", "content": {"size": 1}}}')
        remote.call("other")
    states = [params.get("requestState") for params in server.calls]
    assert states == [None, state, None]
    for too_much in ("x" * 300_000, 7):
        assert isinstance(call(Server({"a": form()}, state=too_much), person), Problem)


@pytest.mark.requirement("MC-09")
def test_late_input_answer_is_sent_as_cancel() -> None:
    now = [0.0]

    def answer(_: InputRequest) -> dict[str, int]:
        now[0] += 301
        return {"size": 1}

    session = Session(clock=lambda: now[0])
    person: Any = answer
    assert call(Server({"a": form()}), person, session) == Value('{"a": {"action": "cancel"}}')


@pytest.mark.requirement("MC-09")
def test_each_input_response_is_sent_in_protocol_form() -> None:
    for reply, output in [
        ({"size": 2}, {"action": "accept", "content": {"size": 2}}),
        (InputResponse(InputAction.CANCEL), {"action": "cancel"}),
        (InputResponse(InputAction.ACCEPT, {"size": 2}), {"action": "accept", "content": {"size": 2}}),
        (None, {"action": "decline"}),
        (False, {"action": "decline"}),
        ("yes", {"action": "decline"}),
        ({"size": 2, "token": "secret"}, {"action": "cancel"}),
    ]:
        result = call(Server({"a": form()}), Person(reply))
        assert isinstance(result, Value)
        assert json.loads(str(result.value)) == {"a": output}


@pytest.mark.requirement("MC-09")
def test_client_without_a_user_declares_no_elicitation() -> None:
    key = "io.modelcontextprotocol/clientCapabilities"
    for person, declared in ((None, {}), (Person({}), {"elicitation": {"form": {}, "url": {}}})):
        server = Server({"a": form()})
        call(server, person)
        assert server.calls[0]["_meta"][key] == declared


PROGRAM = """
import json, sys

def write(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()

opened = {}
for line in sys.stdin:
    said = json.loads(line)
    method, id_ = said.get("method"), said.get("id")
    if method == "initialize":
        opened.update(said["params"])
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "Box"}}
        write({"id": id_, "result": result})
    elif method == "tools/list":
        write({"id": id_, "result": {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        call = id_
        if ASKED == "page" and not opened.get("refused"):
            opened["refused"] = True
            page = {"mode": "url", "message": "Sign in.", "url": "https://a.example/", "elicitationId": "1"}
            write({"id": id_, "error": {"code": -32042, "message": "Visit.", "data": {"elicitations": [page]}}})
        elif ASKED == "page":
            write({"id": call, "result": {"content": [{"type": "text", "text": "visited"}]}})
        else:
            for number in range(TIMES):
                write({"id": f"q{number}", "method": "elicitation/create", "params": ASKED})
            answers = []
    elif "method" not in said:
        answers.append(said.get("result") or said["error"]["code"])
        if len(answers) == TIMES:
            text = json.dumps([opened["capabilities"], answers])
            write({"id": call, "result": {"content": [{"type": "text", "text": text}]}})
    elif id_ is not None:
        write({"id": id_, "error": {"code": -32601, "message": "unknown"}})
"""


@contextmanager
def program(folder: Path, asked: Any, times: int = 1) -> Generator[str]:
    """Give the target of a program of 2025-11-25 that asks ``asked`` in each call."""
    file = folder / "box.py"
    file.write_text(f"ASKED, TIMES = {asked!r}, {times}\n{PROGRAM}")
    yield f"stdio:{shlex.join([sys.executable, str(file)])}"


def call_program(folder: Path, asked: Any, provide: Callable[[InputRequest], Any] | None, times: int = 1) -> Result:
    with (
        program(folder, asked, times) as target,
        connect_sync(target, approve=lambda _: True, provide_input=provide, approve_command=lambda _: True) as remote,
    ):
        return remote.call("go")


@pytest.mark.requirement("MC-09")
def test_program_of_revision_2025_can_ask_for_input(tmp_path: Path) -> None:
    asked = {"message": "How large?", "requestedSchema": FORM}
    result = call_program(tmp_path, asked, Person({"size": 5}))
    declared = {"elicitation": {"form": {}, "url": {}}}
    assert isinstance(result, Value)
    assert json.loads(str(result.value)) == [declared, [{"action": "accept", "content": {"size": 5}}]]
    refused = call_program(tmp_path, asked, None)
    assert isinstance(refused, Value)
    assert json.loads(str(refused.value)) == [{}, [-32601]]


@pytest.mark.requirement("MC-09")
def test_program_is_declined_after_ten_input_requests(tmp_path: Path) -> None:
    person = Person({"size": 5})
    result = call_program(tmp_path, {"message": "Again?", "requestedSchema": FORM}, person, times=20)
    assert isinstance(result, Value)
    _, answers = json.loads(str(result.value))
    assert [one["action"] for one in answers].count("accept") == len(person.shown) <= 10
    assert answers[-1] == {"action": "decline"}


@pytest.mark.requirement("MC-09")
def test_program_with_a_nested_form_gets_invalid_params(tmp_path: Path) -> None:
    nested = {"type": "object", "properties": {"a": {"type": "object"}}}
    person = Person({})
    result = call_program(tmp_path, {"message": "x", "requestedSchema": nested}, person)
    assert isinstance(result, Value)
    assert json.loads(str(result.value))[1] == [-32602]
    assert person.shown == []


@pytest.mark.requirement("MC-09")
def test_required_page_is_shown_and_the_call_sent_again(tmp_path: Path) -> None:
    person = Person(True)
    assert call_program(tmp_path, "page", person) == Value("visited")
    assert person.shown[0].url == "https://a.example/"
    refused = call_program(tmp_path, "page", Person(False))
    assert isinstance(refused, Problem)
    assert refused.details == {"denied": True}


class SharedServer:
    """A server of 2025-11-25 without sessions, in which the question of one request is known to all others."""

    def __init__(self) -> None:
        self.answer = asyncio.Event()
        self.given: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        message = json.loads((await receive()).get("body") or b"{}")
        method, id_ = message.get("method"), message.get("id")
        if method == "tools/call":
            await self.start(send, 200, b"text/event-stream")
            question = {"jsonrpc": "2.0", "id": 1, **form()}
            await send({"type": "http.response.body", "body": build_event(question), "more_body": True})
            await self.answer.wait()
            result = {"content": [{"type": "text", "text": json.dumps(self.given)}]}
            await send(
                {"type": "http.response.body", "body": build_event({"jsonrpc": "2.0", "id": id_, "result": result})}
            )
            return
        if "result" in message:
            self.given = message["result"]
            self.answer.set()
        known = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x"}},
            "tools/list": {"tools": TOOLS},
        }
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": id_}
        reply |= {"result": known[method]} if method in known else {"error": {"code": -32601, "message": "Unknown."}}
        status = 200 if method in known else 202 if id_ is None or "result" in message else 404
        await self.start(send, status, b"application/json")
        await send({"type": "http.response.body", "body": json.dumps(reply).encode() if status != 202 else b""})

    async def start(self, send: Any, status: int, media_type: bytes) -> None:
        headers = [(b"content-type", media_type)]
        await send({"type": "http.response.start", "status": status, "headers": headers})


def build_event(message: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(message)}\n\n".encode()


@pytest.mark.requirement("I-32")
def test_server_without_sessions_gets_its_answer_where_an_answer_can_reach_it() -> None:
    person = Person({"size": 3})
    with (
        background(SharedServer()) as url,
        connect_sync(f"{url}/mcp", approve=lambda _: True, provide_input=person) as remote,
    ):
        assert remote.call("go") == Value('{"action": "accept", "content": {"size": 3}}')
    assert [one.message for one in person.shown] == ["How large?"]
