"""Detect the protocols of a server, run their checks and build the reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, Unpack

from toolwire.client.transport.network import NetworkAccess
from toolwire.core.model import Json, Secret

from . import openapi, opentool, otc
from .check import Check, CheckStatus, Outcome, run_check
from .probe import WAIT_S, ProbeTool, ServerProbe, open_probe

_NO_HEADERS: Final[Mapping[str, str | Secret]] = {}

PROTOCOLS: Final[Mapping[str, tuple[Check, ...]]] = MappingProxyType(
    {"openapi": openapi.CHECKS, "opentool": opentool.CHECKS, "otc": otc.CHECKS}
)
"""The checks of each protocol, in the order of the report. The position of a check is its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The results of one protocol's checks on one server."""

    url: str
    protocol: str
    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The checks that failed."""
        return tuple(one for one in self.outcomes if one.standing is CheckStatus.FAILED)

    def count(self, standing: CheckStatus) -> int:
        """Return how many checks have the result ``standing``."""
        return sum(one.standing is standing for one in self.outcomes)


def conform(
    url: str,
    *,
    protocol: str | None = None,
    key: str | Secret | None = None,
    call: ProbeTool | None = None,
    headers: Mapping[str, str | Secret] = _NO_HEADERS,
    wait_s: float = WAIT_S,
    **access: Unpack[NetworkAccess],
) -> tuple[CheckReport, ...]:
    """Check the server at ``url`` and return one report for each protocol that it speaks, or only for ``protocol``.

    The result is empty if the server speaks none of the protocols.

    - ``call``: a tool that may be called, with valid arguments. The checks call it about twenty times. Without it, they
      call only tools that cannot exist.
    - ``key``: sent as a bearer token, to this server only.
    - ``headers``: added to every request to this server.
    - ``wait_s``: the time limit of each answer, in seconds.
    - ``access``: the options ``allow_private``, ``allow_http`` and ``ca_file`` of ``connect``. An HTTPS server can have
      a private address without them.

    Raises:
        ValueError: ``protocol`` is unknown.
    """
    if protocol is not None and protocol not in PROTOCOLS:
        raise ValueError(f"{protocol!r} is not a protocol. Choose one of: {', '.join(PROTOCOLS)}")
    open_anew = partial(open_probe, url, key=key, call=call, access=access, headers=headers, wait_s=wait_s)
    probe = open_anew()
    try:
        names = [protocol] if protocol is not None else [name for name in PROTOCOLS if _has_protocol(probe, name)]
        return tuple(run_protocol_checks(open_anew(), name) for name in names)
    finally:
        probe.close()


def run_protocol_checks(probe: ServerProbe, protocol: str) -> CheckReport:
    """Run all checks of ``protocol`` and close the connections of ``probe``."""
    try:
        checks = enumerate(PROTOCOLS[protocol], 1)
        outcomes = tuple(run_check(check, f"{protocol}-{place:02}", probe) for place, check in checks)
    finally:
        probe.close()
    return CheckReport(url=probe.base, protocol=protocol, outcomes=outcomes)


def _has_protocol(probe: ServerProbe, protocol: str) -> bool:
    """Return whether the server answers at a path that only this protocol has."""
    path = {"openapi": "/.well-known/llm.json", "opentool": "/opentool/version", "otc": "/tools"}[protocol]
    answer = probe.get(path)
    return answer.status in (200, 401) and answer.data is not None


def reports_to_json(reports: Sequence[CheckReport]) -> list[dict[str, Json]]:
    """Return ``reports`` as JSON data."""
    return [
        {
            "url": report.url,
            "protocol": report.protocol,
            **{standing.value: report.count(standing) for standing in CheckStatus},
            "checks": [asdict(one) for one in report.outcomes],
        }
        for report in reports
    ]


def summarize_report(report: CheckReport) -> str:
    """Return one sentence that counts the passed, failed and skipped checks."""
    counts = ", ".join(f"{report.count(standing)} {standing}" for standing in CheckStatus)
    return f"{report.protocol}: {len(report.outcomes)} checks, {counts}."


def format_markdown(report: CheckReport) -> Iterator[str]:
    """Yield the lines of a Markdown table with one row for each check."""
    yield "| check | requirement | what | outcome |"
    yield "|---|---|---|---|"
    for one in report.outcomes:
        why = f": {one.why}" if one.why else ""
        yield f"| {one.number} | {one.requirement} | {_escape_cell(one.sentence)} | {one.standing}{_escape_cell(why)} |"


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
