"""Leave long calls to workers that look for them in the state once a second, without a queue."""
# ST-03

from __future__ import annotations

from toolwire.core.long_call import CallWork


class StateSearch:
    """Runs nothing and offers nothing: each worker finds accepted calls in the state."""

    is_shared = True

    async def begin(self, work: CallWork) -> None:
        """Do nothing."""

    async def offer(self, call_id: str) -> bool:
        """Return False: a worker finds the call."""
        return False

    async def end(self, grace_s: float) -> None:
        """Do nothing."""
