"""Where the MCP clients and servers of other makers are, and how a program in their language is started."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

from tests.interop.mcp_suite import INSTALLED as HAS_NODE
from tests.interop.mcp_suite import NODE

HERE = Path(__file__).with_name("clients")
CACHE = Path(__file__).parents[2] / ".cache" / "mcp-clients"
_FITS = any((CACHE / "fastmcp" / "pydantic_core").glob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"))
INSTALLED = HAS_NODE and (CACHE / "installed.txt").exists() and _FITS
MISSING = (
    "there are no MCP clients of other makers for this Python: `make test` installs them with pip and npm, which need a"
    " network"
)


def start_python(script: str, packages: str) -> list[str]:
    """Return the beginning of a command that runs ``script`` with ``packages``, "" for those of the tests."""
    if not packages:
        return [sys.executable, str(HERE / script)]
    return ["env", f"PYTHONPATH={CACHE / packages}", sys.executable, "-S", str(HERE / script)]


def start_node(*words: str | Path) -> list[str]:
    """Return the beginning of a command that runs a program of Node."""
    return [str(NODE), *map(str, words)]


def build_environment(home: Path) -> dict[str, str]:
    """Return the environment of a client that keeps what it keeps in ``home``."""
    return {**os.environ, "HOME": str(home)}
