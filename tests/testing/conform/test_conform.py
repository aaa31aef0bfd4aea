"""The kit finds nothing wrong with our server, names what is wrong with others, and calls nothing unasked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import toolwire
from toolwire import Toolkit
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.testing.loopback import background
from toolwire.testing.server_checks import PROTOCOLS, CheckReport, CheckStatus, ProbeTool, conform
from toolwire.testing.server_checks.run_checks import format_markdown, reports_to_json, summarize_report

ROOT = Path(__file__).parents[3]
CALL = ProbeTool("add", {"a": 1, "b": 2})


def calculator(ran: list[int]) -> Toolkit:
    toolkit = Toolkit("Calculator", version="1.0.0", description="Arithmetic.")

    @toolkit.tool(approval="auto")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        ran.append(a)
        return a + b

    return toolkit


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    with ExitStack() as running:

        def start(app: Any) -> str:
            return running.enter_context(background(app))

        yield start


class Silly:
    """A server that answers everything with one response."""

    def __init__(self, response: Response) -> None:
        self._response = response

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        status, headers, body = self._response
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        await send({"type": "http.response.body", "body": body})

    def drain(self) -> None:
        """Do nothing."""

    active_calls = 0


@pytest.mark.parametrize("keys", [(), ("K1",)], ids=["open", "keyed"])
def test_our_server_conforms_in_every_protocol(serve: Callable[..., str], keys: tuple[str, ...]) -> None:
    ran: list[int] = []
    url = serve(toolwire.asgi(calculator(ran), api_keys=keys))
    key = keys[0] if keys else None
    looked = conform(url, key=key)
    assert [report.protocol for report in looked] == list(PROTOCOLS)
    assert ran == []
    called = conform(url, key=key, call=CALL)
    assert ran
    for report in (*looked, *called):
        assert report.failures == ()
    with_key = [report.count(CheckStatus.SKIPPED) for report in called]
    assert with_key == ([0, 1, 1] if keys else [0, 2, 4])


def test_checks_fail_on_servers_that_are_wrong(serve: Callable[..., str]) -> None:
    failed: dict[str, set[str]] = {protocol: set() for protocol in PROTOCOLS}
    for response in (
        Response(500, JSON_HEADERS, b"{}"),
        Response(
            200, JSON_HEADERS, b'{"tools": [{"id": 7}], "items": [{"x": 1}], "paths": {"/a": {"get": {"x-llm": 7}}}}'
        ),
        Response(200, JSON_HEADERS, _ODD_EVERYTHING),
        Response(200, JSON_HEADERS, b'{"opentool": 1, "server": 1, "functions": [{"parameters": [{}], "return": {}}]}'),
        Response(200, JSON_HEADERS, _ODD_FUNCTIONS),
        Response(204),
    ):
        url = serve(Silly(response))
        for protocol in PROTOCOLS:
            (report,) = conform(url, protocol=protocol, key="K1", call=CALL)
            failed[protocol] |= {one.number for one in report.failures}
    never = {name: len(checks) - len(failed[name]) for name, checks in PROTOCOLS.items()}
    assert never == {"openapi": 3, "opentool": 2, "otc": 9}  # those that one answer to everything passes


_ODD_EVERYTHING = b"""{
    "openapi": 7, "auth": 7, "version": "1", "opentool": 7, "functions": 7,
    "x-llm": {"defaultApproval": "never"},
    "paths": {"/a": {"get": {"x-llm": {"enabled": 1, "approval": 1, "blanketApprovalAllowed": 1, "destructive": 1,
        "rateLimit": 1, "hint": 1, "costIndicator": 1}}}},
    "tools": [
        {"id": "A.b@2.0.0", "name": "b c", "version": "2.0.0", "requirements": 7},
        {"id": "A.b@2.0.0", "version": "1.0.0", "output_schema": {"$ref": "#"}, "input_schema":
            {"parameters": {"properties": {"a": {"type": "int"}}}}}
    ]
}"""
_ODD_FUNCTIONS = b"""{
    "opentool": "1.1.0", "info": {}, "server": {}, "functions": [
        {"name": "", "parameters": 7},
        {"name": "a", "parameters": [{"name": "x", "schema": {"type": "x"}}], "return": {"schema": {"type": "array"}}}
    ]
}"""


def test_checks_fail_on_an_unreachable_server() -> None:
    (report,) = conform("http://127.0.0.1:9", protocol="otc")
    assert "refused the connection. Is the server running?" in report.outcomes[0].why
    assert report.count(CheckStatus.PASSED) < 5
    assert conform("http://127.0.0.1:9") == ()


def test_unknown_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'ftp' is not a protocol\. Choose one of: openapi, opentool, otc"):
        conform("http://127.0.0.1:9", protocol="ftp")


def test_each_check_names_an_existing_requirement() -> None:
    import tomllib

    known = tomllib.loads((ROOT / "spec" / "requirements.toml").read_text(encoding="utf-8"))
    for checks in PROTOCOLS.values():
        assert all(check.requirement in known for check in checks)
        assert len({check.sentence for check in checks}) == len(checks)


def test_report_can_be_a_summary_json_or_markdown(serve: Callable[..., str]) -> None:
    (report,) = conform(serve(toolwire.asgi(calculator([]))), protocol="openapi")
    assert summarize_report(report) == "openapi: 16 checks, 16 passed, 0 failed, 0 skipped."
    (data,) = reports_to_json([report])
    assert (data["protocol"], data["passed"], data["checks"][0]["standing"]) == ("openapi", 16, "passed")
    assert list(format_markdown(report))[2].startswith("| openapi-01 | XL-001 | ")
    assert isinstance(report, CheckReport)


def test_conformance_page_equals_the_generated_one() -> None:
    command = [sys.executable, str(ROOT / "spec" / "conformance.py"), "--print"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    page = (ROOT / "docs" / "reference" / "conformance.md").read_text(encoding="utf-8")
    assert printed.stdout == page, "run: python spec/conformance.py"


def test_the_known_deviations_of_universal_tool_server_are_named() -> None:
    page = (ROOT / "docs" / "reference" / "conformance.md").read_text(encoding="utf-8")
    theirs = page.partition("## universal-tool-server 0.0.3")[2]
    failed = {line.split(" | ")[1] for line in theirs.splitlines() if "| failed" in line}
    assert failed == {
        *("OTC-001", "OTC-008", "OTC-025", "OTC-034", "OTC-036", "OTC-038", "OTC-040", "OTC-044"),
        *("OXP-008", "OXP-009", "OXP-013", "A-31", "A-42", "A-48"),
    }
