"""A server with keys: who has one may call, and finding out what it speaks gives no key away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import toolwire
from toolwire import ConnectError, Kind, Problem, Secret, Toolkit, Value, connect_sync
from toolwire.testing.loopback import background

KEY = "correct-horse"


class Safe:
    """An app that keeps the credentials of every request."""

    def __init__(self, **options: Any) -> None:
        self.runs = 0
        self.given: list[tuple[str, bytes | None]] = []
        toolkit = Toolkit("Safe")

        @toolkit.tool(approval="auto")
        def open_it() -> str:
            """Open the safe."""
            self.runs += 1
            return "gold"

        self._app = toolwire.asgi(toolkit, **options)
        self.drain = self._app.drain

    @property
    def active_calls(self) -> int:
        return self._app.active_calls

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.given.append((scope["path"], dict(scope["headers"]).get(b"authorization")))
        await self._app(scope, receive, send)


@pytest.fixture(scope="module")
def served_safe() -> Iterator[tuple[Safe, str]]:
    safe = Safe(api_keys=(KEY, "another"))
    with background(safe) as url:
        yield safe, url


@pytest.fixture
def safe(served_safe: tuple[Safe, str]) -> Safe:
    served_safe[0].runs = 0
    served_safe[0].given.clear()
    return served_safe[0]


@pytest.fixture
def site(served_safe: tuple[Safe, str], safe: Safe) -> str:
    return served_safe[1]


@pytest.mark.requirement("OTC-042", "A-30")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
@pytest.mark.parametrize("key", [KEY, "another", Secret(KEY)])
def test_caller_with_a_valid_key_can_call(site: str, protocol: str, key: Any) -> None:
    with connect_sync(site, protocol=protocol, agree=lambda _: True, api_key=key) as remote:
        assert remote.call("open_it") == Value("gold")


@pytest.mark.requirement("OTC-042", "A-40")
def test_caller_without_a_valid_key_is_refused(site: str, safe: Safe) -> None:
    for key in (None, "wrong"):
        with connect_sync(site, api_key=key) as remote:
            result = remote.call("open_it")
            assert isinstance(result, Problem)
            assert result.kind is Kind.UNAUTHORIZED
        for protocol in ("opentool", "otc", "mcp"):
            with pytest.raises(ConnectError, match="key"), connect_sync(site, protocol=protocol, api_key=key):
                pass
    assert safe.runs == 0


@pytest.mark.requirement("XL-014")
def test_discovery_sends_no_key_unless_asked_for(site: str, safe: Safe) -> None:
    with connect_sync(site, api_key=KEY) as remote:
        assert {given for _, given in safe.given} == {None}
        remote.call("open_it")
    assert safe.given[-1] == ("/api/open_it", f"Bearer {KEY}".encode())


def test_key_is_never_printed_or_logged(site: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConnectError) as error, connect_sync(site, protocol="otc", api_key="wrong-horse"):
        pass
    for text in (str(error.value), repr(error.value.probes), caplog.text, repr(Secret(KEY)), f"{Secret(KEY)}"):
        assert "horse" not in text
