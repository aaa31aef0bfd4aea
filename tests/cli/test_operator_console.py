"""The console at ``/console`` of a server: for operators, over the calls and upstreams of all its callers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.programs import find_free_port
from tests.support.console_process import start_console
from tests.support.console_reader import Reader
from tests.support.gateway_folder import folder, sites, write_file
from tests.support.gateway_process import run_gateway
from tests.support.serve_process import start_serve, url_in
from tests.support.waiting import wait_until

__all__ = ["folder", "sites"]  # fixtures

SLOW = '''
    import anyio
    from toolwire import Context, Toolkit

    films = Toolkit("Films")

    @films.tool(approval="auto", long=True)
    async def render(context: Context) -> str:
        """Render a film."""
        await context.progress({"progress": 42, "total": 100, "message": "Frame 42"})
        await anyio.sleep(600)
        return "rendered"

    @films.tool(approval="auto", safe=True, rate_limit=(5, "1h"))
    def tell() -> str:
        """Tell."""
        return "told"
'''
KEYS = "key-of-olga olga toolwire:console\nkey-of-ann ann\n"


def send(url: str, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def try_key(url: str, key: str) -> int:
    form = urlencode({"key": key, "next": "/"})
    return send(url, "POST", "/console/sign-in", form)[0]


@pytest.mark.requirement("CO-02", "LC-03")
def test_operator_sees_calls_and_limits_of_all_callers_and_ends_a_call(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    (tmp_path / "keys.txt").write_text(KEYS)
    options = ("--api-key-file", tmp_path / "keys.txt", "--state", tmp_path / "state", "--workers", "2")
    with start_serve(write("films.py", SLOW), *options) as (_, reply):
        url = url_in(reply)
        ann = {"authorization": "Bearer key-of-ann", "content_type": "application/json"}
        status, text = send(url, "GET", "/api/render", **ann)
        assert status == 202, text
        id_ = json.loads(text)["id"]
        assert [try_key(url, key) for key in ("key-of-ann", "guess", "")] == [403] * 3
        assert send(url, "GET", "/console/calls")[0] == 401
        assert send(url, "GET", "/console/calls", authorization="Bearer key-of-olga")[0] == 401
        reader = Reader(url, "key-of-olga", root="/console")
        while "42 %" not in (page := reader.get("/calls")):
            assert "render" in page
        assert "key:ann" in page
        assert "Frame 42" in page
        with start_console("--no-open", "--state", tmp_path / "state", home=tmp_path) as (_, own, key):
            assert "Frame 42" in Reader(own, key).get("/calls")
        assert "being cancelled" in reader.submit("/calls", id=id_)
        wait_until(lambda: json.loads(send(url, "GET", f"/calls/{id_}", **ann)[1])["state"] == "cancelled")
        assert "cancelled" in reader.get("/calls")
        for _ in range(2):
            assert send(url, "GET", "/api/tell", **ann)[0] == 200
        page = reader.get("/limits")
        assert "tell, called by key:ann" in page
        assert 'aria-label="tell, called by key:ann: 2 of 5"' in page
        for _ in range(6):  # whichever worker answers
            assert "Sign out" in reader.get("/log")


HELD = """
    from pathlib import Path
    import anyio
    from toolwire import Toolkit

    desk = Toolkit("Desk")

    @desk.tool(approval="auto", safe=True)
    async def hold(name: str) -> str:
        \"\"\"Hold until a file is there.\"\"\"
        while not Path(name).exists():
            await anyio.sleep(0.01)
        return "let go"

    @desk.tool(approval="auto", safe=True)
    def tell() -> str:
        \"\"\"Tell.\"\"\"
        return "told"
"""


@pytest.mark.requirement("CO-02")
def test_operator_sees_the_ordinary_calls_that_run_without_their_arguments(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    (tmp_path / "keys.txt").write_text(KEYS)
    state = tmp_path / "state"
    with start_serve(write("held.py", HELD), "--api-key-file", tmp_path / "keys.txt", "--state", state) as (_, reply):
        url, gate = url_in(reply), tmp_path / "<i>gate"
        ann = {"authorization": "Bearer key-of-ann"}
        path = f"/api/hold?{urlencode({'name': str(gate)})}"
        with ThreadPoolExecutor() as threads:
            held = [threads.submit(send, url, "GET", path, **ann) for _ in range(3)]
            assert send(url, "GET", "/api/tell", **ann)[0] == 200
            reader = Reader(url, "key-of-olga", root="/console")
            while (page := reader.get("/calls")).count("<code>hold</code>") != 3:
                assert "tell" not in page
            assert "3 calls run now" in page
            assert page.count("key:ann") == 3
            assert "gate" not in page
            gate.touch()
            assert [one.result()[0] for one in held] == [200] * 3
        page = reader.get("/calls")
        assert "<code>hold</code>" not in page
        assert "0 calls run now" in page


@pytest.mark.requirement("CO-02", "GW-05")
def test_operator_of_a_gateway_sees_its_upstreams(folder: Path, sites: tuple[str, str]) -> None:
    (folder / "keys.txt").write_text("key-of-olga olga toolwire:console\nkey-of-ann ann first\n")
    write_file(folder, (sites[0], "http://127.0.0.1:9"), 'api-key-file = "keys.txt"', 'scopes = ["first"]')
    with run_gateway() as (_, url):
        reader: Any = Reader(url, "key-of-olga", root="/console")
        page = reader.get("/upstreams")
        assert page.count("answers") == 1
        assert "not reached yet" in page
        assert "second: not answering" in reader.get("/")
        assert "<code>tell_first</code>" in reader.submit("/connections", url="first")
        assert try_key(url, "key-of-ann") == 403


@pytest.mark.requirement("CO-02")
def test_server_without_a_key_of_an_operator_has_no_console(tmp_path: Path, write: Callable[..., Path]) -> None:
    (tmp_path / "keys.txt").write_text("key-of-all\nkey-of-ann ann first\n")
    with start_serve(write("films.py", SLOW), "--api-key-file", tmp_path / "keys.txt") as (_, reply):
        url = url_in(reply)
        for path in ("/console", "/console/inbox"):
            assert send(url, "GET", path)[0] in (401, 404)
            assert "Sign in to the console" not in send(url, "GET", path)[1]


@pytest.mark.requirement("PL-04")
def test_operator_sees_why_and_since_when_an_upstream_is_not_reached_and_tries_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., Path]
) -> None:
    port = find_free_port()
    (tmp_path / "keys.txt").write_text(KEYS)
    (tmp_path / "toolwire.toml").write_text(
        f'port = 0\napi-key-file = "keys.txt"\nstate = "state"\n[upstreams.gone]\ntarget = "http://127.0.0.1:{port}"\n'
    )
    monkeypatch.chdir(tmp_path)
    with run_gateway() as (_, url):
        reader = Reader(url, "key-of-olga", root="/console")
        page = reader.get("/upstreams")
        for words in ("gone", "not reached yet", "since", "refused the connection. Is the server running?", "Try now"):
            assert words in page
        assert ">http://" not in reader.get("/connections"), "its name is shown, and not its address"
        assert "no longer exists" in reader.submit("/upstreams", name="other")
        with start_serve(write("desk.py", HELD), "--port", port):
            assert "Trying now. Its status changes here when it answers" in reader.submit("/upstreams", name="gone")
            wait_until(lambda: "not reached yet" not in reader.get("/upstreams"))
            assert "Try now" not in reader.get("/upstreams")
