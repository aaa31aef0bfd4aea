"""Where the frameworks of agents are that tests run, each with the packages of its own lock."""

from __future__ import annotations

import sysconfig
from pathlib import Path

CACHE = Path(__file__).parents[3] / ".cache" / "agent-frameworks"
_FITS = any((CACHE / "frameworks" / "pydantic_core").glob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"))
INSTALLED = (CACHE / "installed.txt").exists() and _FITS
MISSING = "there are no frameworks of agents for this Python: `make test` installs them with pip and npm, by a network"
QUIET = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "HF_HUB_OFFLINE": "1",
    "NO_COLOR": "1",
    "OTEL_SDK_DISABLED": "true",
}
"""The environment in which the frameworks send nothing to their makers."""
