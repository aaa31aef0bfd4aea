"""What a server has no use for is not loaded by it."""

from __future__ import annotations

import json
import subprocess
import sys

SERVED = """
import json, sys
import toolwire, toolwire.server.http.process
kit = toolwire.Toolkit("Kit")
kit.add(lambda: 1, name="one", approval="auto")
toolwire.asgi(kit)
print(json.dumps(sorted(name for name in sys.modules if name == "sqlite3" or name.startswith("toolwire."))))
"""


def test_server_does_not_import_client_modules() -> None:
    ran = subprocess.run([sys.executable, "-c", SERVED], capture_output=True, text=True, check=True, timeout=60)
    loaded = json.loads(ran.stdout)
    assert "toolwire.protocols.mcp.server" in loaded
    halves = [
        name for name in loaded if name.startswith("toolwire.protocols.") and name.endswith(("client", "discovery"))
    ]
    assert halves == []
    assert "sqlite3" not in loaded
    assert [name for name in loaded if name.split(".")[1] in ("client", "consent", "gateway", "cli", "auth")] == []
