"""Where the frameworks of agents are that tests run, each with the packages of its own lock."""

from __future__ import annotations

from pathlib import Path

CACHE = Path(__file__).parents[3] / ".cache" / "agent-frameworks"
INSTALLED = CACHE / "installed.txt"
MISSING = "there are no frameworks of agents: `make test` installs them with pip and npm, which need a network"
QUIET = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "HF_HUB_OFFLINE": "1",
    "NO_COLOR": "1",
    "OTEL_SDK_DISABLED": "true",
}
"""The environment in which the frameworks send nothing to their makers."""
