"""Describe how each server behind a Toolbox is, for its operators."""
# GW-05

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

HealthState: TypeAlias = Literal["ok", "failing", "paused", "waiting"]
"""``ok``: the last call got an answer, or there was none yet; ``failing``: the last calls got none that can be used;
``paused``: after several of these, nothing is sent for some seconds; ``waiting``: not reached since the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamHealth:
    """The health of one server behind a gateway, as this process observes it. Times are in seconds since 1970.

    - ``tools``: how many tools it offers.
    - ``running``: how many of its calls are running.
    - ``calls``, ``answered``, ``failures``: counted since the start.
    - ``failures_in_row``: failures since the last answer.
    - ``last_failure``, ``last_failure_at``: why and when it last failed.
    - ``failing_since``: the first failure after the last answer, or the first failed attempt to connect.
    - ``latency_ms``: how long the last answer took, in milliseconds.
    - ``scopes``: the scopes that a caller needs to see its tools. None uses the scopes of each tool.
    """

    name: str
    state: HealthState
    tools: int
    running: int = 0
    calls: int = 0
    answered: int = 0
    failures: int = 0
    failures_in_row: int = 0
    last_failure: str = ""
    last_failure_at: float | None = None
    failing_since: float | None = None
    latency_ms: float | None = None
    scopes: tuple[str, ...] | None = None


@runtime_checkable
class DescribesHealth(Protocol):
    """A Toolbox with servers behind it, such as a gateway."""

    def list_health(self) -> Sequence[UpstreamHealth]:
        """Return the health of each server, in a fixed order."""
        ...


def list_health(toolbox: object) -> Sequence[UpstreamHealth]:
    """Return the health of each server behind ``toolbox``; none if there are none."""
    return toolbox.list_health() if isinstance(toolbox, DescribesHealth) else ()
