"""A site that sends on to another origin is followed only after a yes at the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from toolwire.testing.loopback import background

ASKED = b"Connect to that one instead? [y/N] "


@pytest.fixture
def old_site(site: str) -> Iterator[str]:
    """The URL of a site that has moved to ``site``."""

    async def gone(scope: Any, receive: Any, send: Any) -> None:
        there = f"{site}{scope['path']}".encode()
        await send({"type": "http.response.start", "status": 308, "headers": [(b"location", there)]})
        await send({"type": "http.response.body", "body": b""})

    with background(gone) as url:
        yield url


@pytest.mark.requirement("XL-011")
@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 1), ("n", 1), ("yep", 1)])
def test_only_yes_follows_a_relocation(
    answer: str, code: int, site: str, old_site: str, terminal: Callable[..., Any]
) -> None:
    at = terminal("call", old_site, "add", "a=1", "b=2", NO_COLOR="1")
    at.wait_for(ASKED)
    assert f"{old_site} redirects to {site}.".encode() in at.shown
    at.type(answer)
    assert (at.end() == 0) is (code == 0)
    assert (b"3" in at.shown.splitlines()) is (code == 0)


@pytest.mark.requirement("XL-011")
def test_relocation_is_refused_without_a_terminal(site: str, old_site: str, toolwire: Callable[..., Any]) -> None:
    ended = toolwire("call", old_site, "add", "a=1", "b=2")
    assert ended.code != 0
    assert f"{old_site} redirects to {site}, and there is no terminal on which to ask you." in ended.err
    assert f"redirects to {site}" in ended.err
