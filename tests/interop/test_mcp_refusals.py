"""A refused request does not end the connection of a client of an older revision."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_makers import INSTALLED, MISSING, build_environment, start_python
from tests.support.mcp_drivers import WAIT_S
from toolwire import Toolkit, asgi
from toolwire.core.model import Call, Kind, Problem, Result
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

pytestmark = [pytest.mark.requirement("MC-12"), pytest.mark.skipif(not INSTALLED, reason=MISSING)]


class FullAtFirst:
    """A Toolbox that has no room for the first call of its tool, as a server behind a gateway."""

    def __init__(self, inner: FunctionToolbox) -> None:
        self._inner, self._is_full = inner, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        if call.tool.name == "add" and self._is_full:
            self._is_full = False
            return Problem(kind=Kind.OVERLOADED, message="This server is busy.", can_retry=True)
        return await self._inner.run(call, notify)


def test_client_of_the_python_sdk_1_goes_on_after_a_refusal(tmp_path: Path) -> None:
    kit = Toolkit("Desk")

    @kit.tool(approval="auto")
    def add(a: int) -> int:
        """Add one."""
        return a + 1

    @kit.prompt
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Greet {name}."

    with background(asgi(FullAtFirst(FunctionToolbox(kit)))) as url:
        done = subprocess.run(
            [*start_python("after_refusals.py", "python_sdk_1"), json.dumps({"url": f"{url}/mcp"})],
            env=build_environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["Invalid arguments: name: is required.", "This server is busy.", "2"]
