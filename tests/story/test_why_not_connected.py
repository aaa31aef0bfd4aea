"""A program can tell why nothing was found without reading a sentence."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from toolwire import ConnectError, Kind, Toolkit, asgi, connect, connect_sync
from toolwire.testing.loopback import background


def kinds(url: str, **options: str) -> set[Kind | None]:
    async def connecting() -> Kind | None:
        with pytest.raises(ConnectError) as refused:
            async with connect(url, **options):
                pass
        return refused.value.kind

    with pytest.raises(ConnectError) as refused, connect_sync(url, **options):
        pass
    return {refused.value.kind, asyncio.run(connecting())}


@pytest.mark.requirement("I-10")
@pytest.mark.parametrize("protocol", ["opentool", "otc", "mcp"])
def test_a_missing_and_a_wrong_key_are_unauthorized(protocol: str) -> None:
    with background(asgi(Toolkit("Closed"), api_keys=["right"])) as url:
        assert kinds(url, protocol=protocol) == {Kind.UNAUTHORIZED}
        assert kinds(url, protocol=protocol, api_key="wrong") == {Kind.UNAUTHORIZED}


def test_server_without_a_known_protocol_is_not_found() -> None:
    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with background(nothing) as url:
        assert kinds(url, protocol="opentool") == {Kind.NOT_FOUND}


def test_closed_port_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert kinds(url) == {Kind.UNREACHABLE}
