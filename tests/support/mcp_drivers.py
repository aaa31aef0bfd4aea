"""MCP clients of other makers, each driven as a program of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.interop.mcp_makers import CACHE, HERE, build_environment, start_node, start_python

STATELESS, HANDSHAKE = "2026-07-28", "2025-11-25"

WAIT_S = 60


class Driver(NamedTuple):
    """A program that does everything with one client: how it is started, what it is told, and what it then speaks."""

    command: list[str]
    told: dict[str, str]
    revision: str


def list_drivers() -> list[Any]:
    python_2, fastmcp = start_python("python_sdk_2.py", ""), start_python("fastmcp_client.py", "fastmcp")
    node = start_node(HERE / "typescript.mjs")
    packages = {"packages": str(CACHE)}
    drivers = {
        "python-sdk-1": Driver(start_python("python_sdk_1.py", "python_sdk_1"), {}, HANDSHAKE),
        "typescript-sdk-1": Driver(node, {**packages, "sdk": "sdk"}, HANDSHAKE),
    }
    for mode, revision in (("auto", STATELESS), ("legacy", HANDSHAKE)):
        drivers[f"python-sdk-2-{mode}"] = Driver(python_2, {"mode": mode}, revision)
        drivers[f"typescript-sdk-2-{mode}"] = Driver(node, {**packages, "sdk": "client", "mode": mode}, revision)
        drivers[f"fastmcp-{mode}"] = Driver(fastmcp, {"mode": mode}, revision)
    return [pytest.param(driver, id=name) for name, driver in drivers.items()]


def run_driver(driver: Driver, home: Path, **target: Any) -> dict[str, Any]:
    """Return what the client saw, once it did everything."""
    command = [*driver.command, json.dumps({**target, **driver.told})]
    done = subprocess.run(
        command, env=build_environment(home), capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def check_consent(said: dict[str, Any]) -> None:
    """Check that the user was asked twice, with every argument, and that only the second call ran."""
    assert len(said["asked"]) == 2
    assert all('Arguments: {"name":"old.txt"}' in question for question in said["asked"])
    assert said["deleted"] == ["delete was not called, because the user did not allow it.", "deleted old.txt"]
