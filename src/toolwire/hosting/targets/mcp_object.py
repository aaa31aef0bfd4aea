"""Serve the MCP server object of other frameworks that a file of the user makes: as a program of its own, over stdio.

``python -P -m toolwire.hosting.targets.mcp_object TARGET`` is that program.
"""
# FU-56

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import Any, Final

_PROGRAM: Final = "toolwire.hosting.targets.mcp_object"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MODULES: Final = ("mcp", "fastmcp")


def is_mcp_server(found: object) -> bool:
    """Return whether ``found`` is a server of FastMCP or of the official SDK. None of their packages is imported."""
    homes = {base.__module__.partition(".")[0] for base in type(found).__mro__}
    return not homes.isdisjoint(_MODULES) and callable(getattr(found, "run", None))


def build_command(target: str) -> str:
    """Return the target ``stdio:COMMAND`` of the program that serves the object that ``target`` names."""
    # The user's own code gets the variables that it would get when it is run. PWD is the folder (AT-45).
    names = [name for name in sorted(os.environ) if _VARIABLE.fullmatch(name) and name != "PWD"]
    variables = " ".join(f"{name}=${name}" for name in names)
    return f"stdio:{variables} {shlex.join([sys.executable, '-P', '-m', _PROGRAM, target])}"


def run_server(found: Any) -> None:
    """Serve ``found`` on standard input and output until the input ends."""
    if not callable(getattr(found, "create_initialization_options", None)):
        found.run()  # FastMCP, and the server of the SDK that has its interface: stdio is their default
        return
    import anyio  # only for this, as what follows
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await found.run(reading, writing, found.create_initialization_options())

    anyio.run(serve)


def main() -> None:
    """Serve the object that the argument names."""
    from .load_code import load_object
    from .target import FileTarget, ModuleTarget, read_target

    target = read_target(sys.argv[1])
    if isinstance(target, (FileTarget, ModuleTarget)):
        run_server(load_object(target)[0])


if __name__ == "__main__":
    main()
