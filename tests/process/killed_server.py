"""``toolwire serve`` as often as it is killed, with the processes that serve for it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

KIT = Path(__file__).with_name("accounts.py")
PATIENCE_S = 90.0
SOON_S = 5.0
"""In how many seconds from the start all accepted calls have their answers; the long run holds the server to it."""
KILLS = int(os.environ.get("TOOLWIRE_KILLS", "0"))


class Server:
    """``toolwire serve`` on one state and one port, as often as it is started."""

    def __init__(self, folder: Path, workers: int, state: str, kit: Path = KIT) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.is_leased = "://" in state
        self.runs = folder / "runs.txt"
        self.errors = folder / "errors.txt"
        self._argv = [sys.executable, "-m", "toolwire", "serve", str(kit), "--port", str(self.port)]
        self._argv += ["--workers", str(workers), "--state", state]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.errors.open("ab") as errors:
            self._process = subprocess.Popen(
                self._argv,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, "TOOLWIRE_TEST_RUNS": str(self.runs)},
                start_new_session=True,
            )

    def workers(self) -> list[int]:
        """Return the processes that serve for this one, the oldest first."""
        assert self._process is not None
        file = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return sorted(int(child) for child in file.read_text().split() if b"spawn_main" in _command(child))

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE_S)


def _command(process: str) -> bytes:
    with contextlib.suppress(OSError):  # it has just ended
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""
