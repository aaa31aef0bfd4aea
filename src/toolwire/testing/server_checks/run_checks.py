"""All checks of a protocol on one server: which protocol it is, the outcomes, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from toolwire.core.model import Secret

from . import mcp, openapi, opentool, otc
from .check import Check, CheckStatus, Outcome, run_check
from .probe import ProbeTool, ServerProbe, open_probe

PROTOCOLS: Final[Mapping[str, tuple[Check, ...]]] = MappingProxyType(
    {"openapi": openapi.CHECKS, "opentool": opentool.CHECKS, "otc": otc.CHECKS, "mcp": mcp.CHECKS}
)
"""The checks of each protocol, in the order of the report; a check's number is its place here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What the checks of one protocol came to on one server."""

    url: str
    protocol: str
    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The checks that failed."""
        return tuple(one for one in self.outcomes if one.standing is CheckStatus.FAILED)

    def count(self, standing: CheckStatus) -> int:
        """How many checks ended so."""
        return sum(one.standing is standing for one in self.outcomes)


def conform(
    url: str, *, protocol: str | None = None, key: str | Secret | None = None, call: ProbeTool | None = None
) -> tuple[CheckReport, ...]:
    """Return a report for ``protocol``, else for each that the server at ``url`` speaks; none where it speaks none.

    Only looks are taken unless ``call`` names a tool that may be called, with arguments it takes; it is then called
    some twenty times. ``key`` is sent as a bearer token to the server and nowhere else.

    Raises:
        ValueError: there is no protocol of that name.
    """
    if protocol is not None and protocol not in PROTOCOLS:
        raise ValueError(f"{protocol!r} cannot be checked; there is {', '.join(PROTOCOLS)}")
    probe = open_probe(url, key=key, call=call)
    try:
        names = [protocol] if protocol is not None else [name for name in PROTOCOLS if _has_protocol(probe, name)]
        return tuple(run_protocol_checks(open_probe(url, key=key, call=call), name) for name in names)
    finally:
        probe.close()


def run_protocol_checks(probe: ServerProbe, protocol: str) -> CheckReport:
    """Return the outcomes of all checks of ``protocol`` on the server that is asked, and close its connections."""
    try:
        checks = enumerate(PROTOCOLS[protocol], 1)
        outcomes = tuple(run_check(check, f"{protocol}-{place:02}", probe) for place, check in checks)
    finally:
        probe.close()
    return CheckReport(url=probe.base, protocol=protocol, outcomes=outcomes)


def _has_protocol(probe: ServerProbe, protocol: str) -> bool:
    """Whether the first check of what only this protocol has does not fail."""
    path = {
        "openapi": "/.well-known/llm.json",
        "opentool": "/opentool/version",
        "otc": "/tools",
    }.get(protocol)
    if path is not None:
        answer = probe.get(path)
        return answer.status in (200, 401) and answer.data is not None
    return mcp.CHECKS[0].run(probe) is None
