"""The README fits its limit, has its parts in order, and its figures are those of the pages that it links."""

import re

import pytest

from .page import ROOT

pytestmark = pytest.mark.requirement("FD-01")
README = (ROOT / "README.md").read_text()
BENCHMARKS = dict(re.findall(r"^\| (.+?) \| ([^|]+?) \|", (ROOT / "docs" / "benchmarks.md").read_text(), re.MULTILINE))
CORPUS = dict(
    re.findall(r"^\| (.+?) \| ([\d,]+) \|$", (ROOT / "docs" / "reference" / "corpus.md").read_text(), re.MULTILINE)
)


def read_row(start: str) -> list[str]:
    (line,) = [line for line in README.splitlines() if line.startswith(f"| {start}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_it_has_at_most_120_lines_in_the_order_of_what_people_come_for() -> None:
    assert len(README.splitlines()) <= 120
    assert re.findall("^## (.+)", README, re.MULTILINE) == [
        "Install",
        "60 seconds: offer tools",
        "60 seconds: use any server or API",
        "60 seconds: in an assistant",
        "What is different",
        "Protocols",
    ]


def test_rates_are_those_of_the_benchmarks() -> None:
    names = ("rate, mcp, async add", "other library, fastmcp", "other library, mcp_sdk")
    assert read_row("[MCP calls per second]")[1:4] == [
        f"{float(BENCHMARKS[name].removesuffix(' of raw')):.2f}" for name in names
    ]


def test_shares_of_gateways_are_those_of_the_benchmarks() -> None:
    row = read_row("[A gateway in front of an MCP server]")
    names = (
        "gateway, mcp, with 4 connections, with a key, limits, consent, ledger and audit, by its CPU time",
        "other library, FastMCP's proxy, mcp, with 4 connections, by its CPU time",
        "other library, mcpo, openapi to mcp, with 4 connections, by its CPU time",
        "other library, LiteLLM's gateway, mcp, with 4 connections, by its CPU time",
    )
    assert [row[1], row[2], row[5], row[6]] == [BENCHMARKS[name].removesuffix(" of raw") for name in names]


@pytest.mark.parametrize(
    ("start", "document"),
    [("[GitHub's", "GitHub, {} tools"), ("[Microsoft Graph's", "Microsoft Graph, {} tools")],
)
def test_times_of_conversion_are_those_of_the_benchmarks(start: str, document: str) -> None:
    def find(pattern: str) -> str:
        (value,) = [value for name, value in BENCHMARKS.items() if re.fullmatch(pattern, name)]
        return value.strip()

    def shorten(value: str) -> str:
        seconds = value.removesuffix(" s")
        if seconds.startswith("> "):
            return f"over {seconds[2:]} s"
        return f"{float(seconds):.2f} s" if float(seconds) < 0.95 else f"{float(seconds):.1f} s"

    title = document.partition(",")[0]
    found = [
        find(rf"convert, {title}, [\d,]+ tools"),
        find(rf"convert, {title}, other library: fastmcp(, [\d,]+ tools)?"),
        find(rf"convert, {title}, other library: utcp-http, [\d,]+ tools"),
    ]
    row = read_row(start)
    assert [row[1], row[2], row[4]] == [shorten(value) for value in found]


def test_refused_bodies_are_those_of_the_corpus() -> None:
    row = read_row("[Valid request bodies that are refused]")
    assert row[1] == CORPUS["refused bodies"]
    assert f"of {CORPUS['bodies that their document accepts, at most 30 for an operation']} in" in row[0]
    assert f"in {CORPUS['documents']} documents" in row[0]
