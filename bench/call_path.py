"""Count the Python calls and the files of one client call: how long the way is that a reader has to follow.

Run it as ``python bench/call_path.py``. It counts what ``sys.setprofile`` sees of ``src/toolwire`` while a blocking
``remote.call`` runs over loopback: once a call that needs no question, and once a call that is asked about. Each step
of a generator counts as a call. The second call of a connection is counted, as nothing is loaded or made for it first.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import apps

if TYPE_CHECKING:
    from collections.abc import Callable

_SOURCE = str(Path(__file__).resolve().parent.parent / "src" / "toolwire")


class CallPath(NamedTuple):
    """How often each function ran in one client call, by file and name."""

    functions: Counter[tuple[str, str]]

    @property
    def calls(self) -> int:
        """The number of Python calls."""
        return self.functions.total()

    @property
    def files(self) -> int:
        """The number of files they are in."""
        return len({file for file, _ in self.functions})


def measure_path(work: Callable[[], object]) -> CallPath:
    """Return the path of ``work``."""
    functions = Counter[tuple[str, str]]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_SOURCE):
            functions[code.co_filename[len(_SOURCE) + 1 :], code.co_qualname] += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return CallPath(functions)


def client_call(*, agreed: bool) -> CallPath:
    """Return the path of a call of ``add`` over loopback; without ``agreed`` a question is asked, and answered yes."""
    import toolwire
    from toolwire.testing.loopback import background

    app = toolwire.asgi(apps.calculator())
    with (
        background(app) as url,
        toolwire.connect_sync(url, protocol="opentool", approve=lambda _: True, agree=lambda _: agreed) as remote,
    ):

        def call() -> None:
            result = remote.call("add", {"a": 1, "b": 2})
            if result != toolwire.Value(3):
                raise RuntimeError(str(result))

        call()
        return measure_path(call)


if __name__ == "__main__":
    for name, agreed in (("without a question", True), ("with a question", False)):
        path = client_call(agreed=agreed)
        sys.stdout.write(f"a client call {name}: {path.calls} Python calls through {path.files} files\n")
        if "--list" in sys.argv:
            for (file, function), count in path.functions.items():
                sys.stdout.write(f"{count:4} {file} {function}\n")
