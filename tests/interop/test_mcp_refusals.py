"""A refused request does not end the connection of a client of an older revision."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.interop.mcp_makers import INSTALLED, MISSING, build_environment, start_python
from tests.support.mcp_drivers import WAIT_S
from toolwire import Toolkit, asgi
from toolwire.testing import background

pytestmark = [pytest.mark.requirement("MC-12"), pytest.mark.skipif(not INSTALLED, reason=MISSING)]


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

    with background(asgi(kit)) as url:
        done = subprocess.run(
            [*start_python("after_refusals.py", "python_sdk_1"), json.dumps({"url": f"{url}/mcp"})],
            env=build_environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["Invalid arguments: name: is required.", "2"]
