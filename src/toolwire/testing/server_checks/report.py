"""Format reports as JSON data and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from toolwire.core.model import Json

from .check import CheckStatus
from .run_checks import CheckReport


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
