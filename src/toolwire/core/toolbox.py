"""The one shape in the middle: whatever has a catalog and can run a call."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias, runtime_checkable

from .catalog import Catalog
from .model import Call, Progress, Result

Notify: TypeAlias = Callable[[Progress], Coroutine[Any, Any, None]]
"""Takes each piece of progress, in order; awaiting it is the back-pressure."""


async def ignore_progress(progress: Progress) -> None:
    """Take progress that nobody listens to."""


@runtime_checkable
class Toolbox(Protocol):
    """Functions of this process, a remote server, or any wrapper around another Toolbox."""

    def catalog(self) -> Catalog:
        """Return what can be called now. The same object again means that nothing changed."""
        ...

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` and return how it ended. Failures are Problems; only cancellation and bugs are raised."""
        ...
