"""Count the Python calls and the files of one client call: how long the way is that a reader has to follow.

Run it as ``python bench/call_path.py``, with ``--tree`` to see each call. It counts what ``sys.setprofile`` sees of
``src/toolwire`` while a blocking ``remote.call`` runs over loopback: over each protocol a call that needs no question,
and one that is asked about. Each step of a generator counts as a call. The second call of a connection is counted, as
nothing is loaded or made for it first.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import apps

if TYPE_CHECKING:
    from collections.abc import Generator

PROTOCOLS = ("openapi", "opentool", "otc", "mcp")
_SOURCE = str(Path(__file__).resolve().parent.parent / "src" / "toolwire")


class Step(NamedTuple):
    """One call of a function, and how many other calls it is in."""

    depth: int
    file: str
    function: str


class CallPath(NamedTuple):
    """The functions that ran in one client call, in order."""

    steps: list[Step]

    @property
    def calls(self) -> int:
        """The number of Python calls."""
        return len(self.steps)

    @property
    def files(self) -> int:
        """The number of files they are in."""
        return len({step.file for step in self.steps})


@contextmanager
def record_path() -> Generator[CallPath, None, None]:
    """Record what this thread runs until the block ends."""
    steps: list[Step] = []
    depth = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(_SOURCE):
            return
        if event == "call":
            steps.append(Step(depth, code.co_filename[len(_SOURCE) + 1 :], code.co_qualname))
        depth += 1 if event == "call" else -1

    sys.setprofile(note)
    try:
        yield CallPath(steps)
    finally:
        sys.setprofile(None)


def client_call(protocol: str, *, agreed: bool) -> CallPath:
    """Return the path of a call of ``add`` over loopback; without ``agreed`` a question is asked, and answered yes."""
    import toolwire
    from toolwire.testing.loopback import background

    app = toolwire.asgi(apps.calculator())
    with (
        background(app) as url,
        toolwire.connect_sync(url, protocol=protocol, approve=lambda _: True, agree=lambda _: agreed) as remote,
    ):

        def call() -> None:
            result = remote.call("add", {"a": 1, "b": 2})
            if result.ok is not True or result.value != 3:
                raise RuntimeError(str(result))

        call()
        with record_path() as path:
            call()
        return path


if __name__ == "__main__":
    for protocol in PROTOCOLS:
        for name, agreed in (("without a question", True), ("with a question", False)):
            if protocol == "openapi" and not agreed:
                continue  # the call is a GET, so it is never asked about
            path = client_call(protocol, agreed=agreed)
            sys.stdout.write(f"{protocol}, {name}: {path.calls} Python calls through {path.files} files\n")
            for step in path.steps if "--tree" in sys.argv else ():
                sys.stdout.write(f"{'  ' * step.depth}{step.function}  {step.file}\n")
