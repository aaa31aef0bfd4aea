"""A console on loopback over a folder of its own, and a client that signs in as a browser does."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from toolwire.console import Console, ConsoleSource, OneTimeKey
from toolwire.core.check import Question
from toolwire.core.model import Approval, Call, Tool
from toolwire.testing.loopback import background

TOKEN = 'name="token" value="'


@dataclass
class Reply:
    """An answer of the console."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class Browser:
    """What a browser does, without a window: it keeps the cookie, follows redirects, and sends forms with the token."""

    url: str
    cookie: str = ""
    sent: dict[str, str] = field(default_factory=dict)

    def send(self, method: str, path: str, body: str = "", **headers: str) -> Reply:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=20)
        fields = {"cookie": self.cookie} if self.cookie else {}
        if body:
            fields["content-type"] = "application/x-www-form-urlencoded"
        connection.request(
            method, path, body or None, fields | {name.replace("_", "-"): headers[name] for name in headers}
        )
        answer = connection.getresponse()
        reply = Reply(
            answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
        )
        connection.close()
        return reply

    def get(self, path: str = "/") -> Reply:
        return self.send("GET", path)

    def sign_in(self, key: str) -> Reply:
        reply = self.send("POST", "/sign-in", urlencode({"key": key, "next": "/"}))
        if "set-cookie" in reply.headers:
            self.cookie = reply.headers["set-cookie"].partition(";")[0]
        return reply

    def submit(self, path: str, **fields: str) -> Reply:
        """Send a form of a page, and return the page that it leads to."""
        token = self.get("/").text.partition(TOKEN)[2].partition('"')[0]
        reply = self.send("POST", path, urlencode({"token": token, **fields}))
        return self.get(reply.headers["location"]) if reply.status == 303 else reply


@dataclass
class Started:
    """A console that runs: where it is, its source and its key."""

    url: str
    source: ConsoleSource
    key: OneTimeKey

    def browser(self) -> Browser:
        """Return a browser that is signed in."""
        browser = Browser(self.url)
        assert browser.sign_in(self.key.key).status == 303
        return browser


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "decisions"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Started]]:
    """Start a console over ``folder``."""
    with ExitStack() as ending:

        def started(public_url: str = "", hosts: Iterable[str] = (), **given: Any) -> Started:
            source = ConsoleSource(place=folder, **given)
            key = OneTimeKey("you")
            console = Console(source, key, own_user_only=True, find_known=key, public_url=public_url, hosts=hosts)
            url = ending.enter_context(background(console))
            ending.callback(console.drain)
            return Started(url, source, key)

        yield started


def build_question(name: str = "pay", **changes: Any) -> Question:
    """A question about a payment."""
    given: dict[str, Any] = {"always_allowed": True, "binding": name, "title": "Bank", **changes}
    tool = Tool(name=name, description="Pay somebody.", destructive=given.pop("destructive", False))
    call = Call(tool, given.pop("arguments", {"to": "Ada", "amount": 20}))
    return Question(call, "https://bank.example", f"POST https://bank.example/{name}", Approval.PER_CALL, **given)
