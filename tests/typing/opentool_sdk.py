"""The OpenTool SDK in use, for the type checkers: what is a Tool, and what its methods give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_type

from toolwire.opentool import (
    FunctionCall,
    OpenTool,
    OpenToolClient,
    OpenToolServer,
    SyncOpenToolClient,
    Tool,
    ToolReturn,
    Version,
    main,
)


class Plain:
    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, **arguments}

    def load(self) -> OpenTool | None:
        return None


class Awaited:
    async def call(self, name: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        return dict(arguments or {}, name=name)

    async def load(self) -> dict[str, Any]:
        return {}


def tools() -> list[Tool]:
    return [Plain(), Awaited()]


async def calls(client: OpenToolClient) -> None:
    assert_type(await client.version(), Version)
    assert_type(await client.call(FunctionCall("1", "f", {"a": 1})), ToolReturn)
    assert_type(await client.load(), OpenTool | None)


def blocking_calls(client: SyncOpenToolClient) -> None:
    assert_type(client.call(FunctionCall("1", "f")), ToolReturn)


def check_serve() -> int:
    with OpenToolServer(Plain(), port=0, api_keys=["K1"]) as server:
        assert_type(server.url, str)
    return main(Plain, ["--help"])
