"""toolwire conform: the reports on a terminal, as JSON and as Markdown, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from toolwire import Toolkit, asgi
from toolwire.testing.loopback import background


@pytest.fixture
def url() -> Iterator[str]:
    toolkit = Toolkit("Calculator", version="1.0.0", description="Arithmetic.")

    @toolkit.tool(approval="auto")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with background(asgi(toolkit, api_keys=["K1"])) as url:
        yield url


def test_each_protocol_is_reported_and_a_conforming_server_gives_exit_code_0(
    url: str, toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("conform", url, "--key", "K1", "--call", "add", '{"a": 1, "b": 2}')
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["CHECK", "REQUIREMENT", "OUTCOME", "WHAT"]
    assert [line.partition(":")[0] for line in lines if " checks, " in line] == ["openapi", "opentool", "otc"]
    assert "otc-01" in outcome.out


def test_failed_check_gives_exit_code_1_and_its_reason(url: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("conform", url, "--protocol", "otc")
    assert outcome.code == 1
    assert "FAILED" in outcome.out
    assert "GET /tools: 401" in outcome.out


def test_reports_can_be_json_or_markdown(url: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("conform", url, "--key", "K1", "--protocol", "openapi", "--json")
    (report,) = json.loads(outcome.out)
    assert (report["protocol"], report["failed"], len(report["checks"])) == ("openapi", 0, 16)
    outcome = toolwire("conform", url, "--key", "K1", "--protocol", "openapi", "--markdown")
    assert "| openapi-01 | XL-001 | " in outcome.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("examples/calculator.py",), 2, "conform needs a URL. Serve the file first, with `toolwire serve`"),
        (("http://127.0.0.1:9", "--protocol", "ftp"), 2, "Unknown protocol: 'ftp'."),
        (("http://127.0.0.1:9", "--call", "add", "[1]"), 2, "must be a JSON object"),
        (("http://127.0.0.1:9", "--call", "add", "{"), 2, "must be a JSON object"),
        (("http://127.0.0.1:9",), 4, "refused the connection. Is the server running?"),
    ],
)
def test_conform_failure_is_reported_in_one_sentence(
    words: tuple[str, ...], code: int, said: str, toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("conform", *words)
    assert outcome.code == code
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
