"""A sign-out at one process of a server holds at all processes with the same state, also after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from tests.console.conftest import TOKEN, Browser
from tests.postgres import Postgres, postgres, shared_postgres, wait_until_answering  # noqa: F401 - the fixtures
from tests.support.inbox import wait_for
from tests.support.serve_process import start_serve, url_in

pytestmark = pytest.mark.requirement("CO-02", "GW-04", "ST-01", "D-39")

KEYS = "key-of-olga olga toolwire:console\nkey-of-ann ann\n"
DESK = '''
    from toolwire import Toolkit

    desk = Toolkit("Desk")

    @desk.tool(destructive=True)
    def shred(name: str) -> str:
        """Shred a file."""
        return "shredded"
'''
ROOTS = [("/console", "key-of-olga"), ("/inbox", "key-of-ann")]


class Page:
    """The pages below one root, at any process: a cookie is named for the port, which is one behind a proxy."""

    def __init__(self, root: str, url: str, key: str) -> None:
        self.root = root
        browser = Browser(url)
        reply = browser.send("POST", f"{root}/sign-in", urlencode({"key": key, "next": "/"}))
        assert reply.status == 303, reply.text
        self.cookie = reply.headers["set-cookie"].partition("=")[2].partition(";")[0]

    def open(self, url: str) -> Browser:
        return Browser(url, f"toolwire_{self.root[1:]}_{urlsplit(url).port}={self.cookie}")

    def read_status(self, url: str, path: str = "") -> int:
        return self.open(url).get(f"{self.root}{path}").status

    def sign_out(self, url: str) -> int:
        browser = self.open(url)
        token = browser.get(self.root).text.partition(TOKEN)[2].partition('"')[0]
        return browser.send("POST", f"{self.root}/sign-out", urlencode({"token": token})).status


@pytest.fixture
def start(tmp_path: Path, write: Callable[..., Path]) -> Iterator[Callable[[str], str]]:
    """Start a process with the state at a place, and return its URL."""
    (tmp_path / "keys.txt").write_text(KEYS)
    desk = write("desk.py", DESK)
    with ExitStack() as running:

        def started(state: str) -> str:
            options = ("--api-key-file", tmp_path / "keys.txt", "--consent", "inbox", "--state", state)
            return url_in(running.enter_context(start_serve(desk, *options))[1])

        yield started


@pytest.mark.parametrize("root,key", ROOTS, ids=["console", "inbox"])  # noqa: PT006 - as the other tests
@pytest.mark.parametrize("kind", ["folder", "postgresql"])
def test_a_sign_out_holds_at_each_process_and_after_a_restart(
    kind: str, root: str, key: str, start: Callable[[str], str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    state = str(tmp_path / "state")
    if kind == "postgresql":
        state = request.getfixturevalue("shared_postgres").create_database()
    here, there = start(state), start(state)
    page, other = Page(root, here, key), Page(root, here, key)
    assert [one.read_status(url) for one in (page, other) for url in (here, there)] == [200] * 4
    assert page.sign_out(there) == 303
    for url in (here, there, start(state)):
        assert [page.read_status(url, path) for path in ("", "/permissions", "/events")] == [401] * 3
        assert page.sign_out(url) == 401, "a form of it is not taken either"
        assert other.read_status(url) == 200, "another sign-in of the same user goes on"


def test_without_its_store_no_session_is_trusted_and_a_sign_out_says_that_it_failed(
    start: Callable[[str], str],
    postgres: Postgres,  # noqa: F811 - a fixture
) -> None:
    wait_until_answering(postgres)
    url = start(postgres.create_database())
    page = Page("/console", url, "key-of-olga")
    browser = page.open(url)
    token = browser.get("/console").text.partition(TOKEN)[2].partition('"')[0]
    postgres.kill()
    for reply in (
        browser.get("/console"),
        browser.get("/console/events"),
        browser.send("POST", "/console/sign-out", urlencode({"token": token})),
    ):
        assert (reply.status, "Cannot read or end the console&#x27;s sessions now. Try again." in reply.text) == (
            503,
            True,
        )
        assert "set-cookie" not in reply.headers, "so that the user can try it again"
    postgres.start()
    wait_until_answering(postgres)
    wait_for(lambda: page.read_status(url) == 200)  # a connection of the last second is not looked at before its use
    assert page.sign_out(url) == 303
    assert page.read_status(url) == 401
