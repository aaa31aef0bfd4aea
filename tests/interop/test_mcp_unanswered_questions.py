"""A host that claims to show forms and shows none: its user decides in the inbox, and nothing runs without them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.programs import find_free_port
from tests.support.mcp_sessions import (
    ALLOW,
    PATIENCE_S,
    Desk,
    Session,
    build_call,
    next_message,
    open_session,
    read_events,
)
from tests.support.proxies import NGINX, NGINX_FOLDERS, run_program
from toolwire import App, asgi
from toolwire.core.check import Answer
from toolwire.server import ServerLimits
from toolwire.stores.consent.approvals import Approvals
from toolwire.testing import background

pytestmark = pytest.mark.requirement("QF-07")

SHORT = ServerLimits(answer_s=0.1)
DECLINE = {"action": "decline"}
UNKNOWN = {"code": -32601, "message": "Method not found"}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "toolwire"


def run(app: App, story: Callable[[httpx2.AsyncClient], Coroutine[Any, Any, None]]) -> None:
    async def tell(url: str) -> None:
        async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            with anyio.fail_after(PATIENCE_S):
                await story(client)

    with background(app) as url:
        anyio.run(tell, url)


async def call(session: Session, *replies: dict[str, Any], name: str = "old") -> tuple[int, str]:
    """Call delete, and return how many questions came and what the answer says. ``replies`` are what the host says."""
    waiting, asked = list(replies), 0
    message = {"jsonrpc": "2.0", **build_call("delete", None, {"name": name})}
    async with session.client.stream("POST", "/mcp", json=message, headers=session.headers()) as response:
        if response.headers["content-type"] == "application/json":
            answer = json.loads(await response.aread())
            return asked, str(answer["result"]["content"][0]["text"])
        events = read_events(response)
        while True:
            notice = (await next_message(events)).message
            if notice.get("method") == "elicitation/create":
                asked += 1
                if waiting:
                    await session.post({"id": notice["id"], **waiting.pop(0)})
            elif "result" in notice:
                return asked, str(notice["result"]["content"][0]["text"])


@pytest.mark.parametrize("replies", [(), ({"error": UNKNOWN},)], ids=["silence", "unknown"])
def test_user_of_a_host_without_an_answer_decides_in_the_inbox(state: Path, replies: Any) -> None:
    desk = Desk()

    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        asked, first = await call(session, *replies)
        [question] = Approvals(state).list_pending()
        assert asked == 1
        assert f"toolwire approvals allow {question.id}" in first
        assert await call(session) == (0, first), "it is asked once"
        assert desk.deleted == []
        assert Approvals(state).answer(question.id, Answer(allowed=True))
        assert await call(session) == (0, "deleted")
        assert "toolwire approvals allow" in (await call(session))[1]

    run(asgi(desk.kit, consent="inbox", limits=SHORT), story)
    assert desk.deleted == ["old"]


@pytest.mark.parametrize("consent", ["hints", "refuse"])
def test_host_without_an_answer_is_trusted_no_more_than_before(consent: Any) -> None:
    desk = Desk()

    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        for questions in (1, 0):
            asked, text = await call(session)
            assert asked == questions
            assert text == (
                "delete did not run: it needs its user's consent, and this client did not answer the "
                "question. If the client cannot show forms, start the server with --consent inbox, so "
                "that users decide in the inbox."
            )

    run(asgi(desk.kit, consent=consent, limits=SHORT), story)
    assert desk.deleted == []


def test_host_that_answers_is_asked_again_whenever_its_answer_comes() -> None:
    desk = Desk()

    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        assert (await call(session, {"result": DECLINE}))[0] == 1
        assert (await call(session, {"error": UNKNOWN}))[0] == 1
        assert await call(session, {"result": ALLOW}) == (1, "deleted"), "it has shown a question before"
        late = await open_session(client)
        assert (await call(late, {"error": UNKNOWN}))[0] == 1
        assert (await call(late))[0] == 0
        await late.post({"id": "toolwire-1", "result": ALLOW})
        assert await call(late, {"result": ALLOW}, name="new") == (1, "deleted")

    run(asgi(desk.kit, consent="inbox"), story)
    assert desk.deleted == ["old", "new"]


NGINX_FILE = """
events {{}}
http {{
{folders}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass {url};
      proxy_http_version 1.1;
      proxy_ignore_headers X-Accel-Buffering;
    }}
  }}
}}
"""


@pytest.mark.requirement("I-32")
def test_user_behind_a_proxy_that_keeps_streams_decides_in_the_inbox_without_a_long_wait(
    state: Path, tmp_path: Path
) -> None:
    if (nginx := shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")) is None:
        pytest.skip("there is no nginx")
    desk, port = Desk(), find_free_port()

    async def tell() -> None:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
            session = await open_session(client)
            asked, text = await call(session)  # the question comes with the answer
            [question] = Approvals(state).list_pending()
            assert f"toolwire approvals allow {question.id}" in text
            assert asked == 1
            assert await call(session) == (0, text)

    # A question without a proxy waits longer than this test may take.
    with background(asgi(desk.kit, consent="inbox", limits=ServerLimits(answer_s=60))) as url:
        file = tmp_path / "nginx.conf"
        file.write_text(NGINX_FILE.format(folders=NGINX_FOLDERS.format(folder=tmp_path), port=port, url=url))
        with run_program([nginx, "-p", str(tmp_path), "-c", str(file), "-g", NGINX], port, tmp_path):
            asyncio.run(asyncio.wait_for(tell(), PATIENCE_S))
    assert desk.deleted == []


@pytest.mark.requirement("I-32")
def test_host_that_answers_a_ping_has_the_whole_time_for_the_question() -> None:
    desk = Desk()

    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        async with session.stream("delete", name="old") as events:
            messages = (event.message async for event in events if event.message)
            ping, question = await anext(messages), await anext(messages)
            assert (ping["method"], question["method"]) == ("ping", "elicitation/create")
            await session.reply(ping, {})
            following = asyncio.ensure_future(anext(messages))
            assert await asyncio.wait([following], timeout=1) == (set(), {following})  # a ping may take a third of it
            await session.reply(question, ALLOW)
            assert (await following)["result"]["isError"] is False
        async with session.stream("delete", name="new") as events:
            question = await anext(event.message async for event in events if event.message)
            assert question["method"] == "elicitation/create", "it has answered before"
            await session.reply(question, ALLOW)

    run(asgi(desk.kit, consent="refuse", limits=ServerLimits(answer_s=9)), story)


DESK = '''
from toolwire import Toolkit

kit = Toolkit("Desk")


@kit.tool(destructive=True)
def delete(name: str) -> str:
    """Delete something."""
    return name
'''


def test_host_that_gives_a_call_up_instead_of_asking_is_led_to_the_inbox(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(DESK)
    words = [sys.executable, "-m", "toolwire", "serve", str(tmp_path / "desk.py"), "--stdio", "--consent", "inbox"]
    variables = {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(tmp_path / "state")}
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(words, stdin=-1, stdout=-1, stderr=errors, env=variables, text=True) as program,
    ):
        assert program.stdin is not None
        assert program.stdout is not None

        def send(**message: Any) -> None:
            program.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            program.stdin.flush()

        def receive() -> Any:
            return json.loads(program.stdout.readline())

        about = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "x"}}
        send(id=0, method="initialize", params=about)
        assert receive()["id"] == 0
        params = {"name": "delete", "arguments": {"name": "old"}}
        send(id=1, method="tools/call", params=params)
        assert receive()["method"] == "elicitation/create"
        send(method="notifications/cancelled", params={"requestId": 1, "reason": "Timed out"})
        send(id=2, method="tools/call", params=params)
        answer = receive()
        program.stdin.close()
    assert answer["id"] == 2
    assert "toolwire approvals allow" in answer["result"]["content"][0]["text"]
