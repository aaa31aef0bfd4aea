"""``toolwire call``: what it prints, and the exit code of every way to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from toolwire.cli.exits import exit_code
from toolwire.core.model import Kind, Problem
from toolwire.protocols import BUILTIN
from toolwire.testing import background

READS = {"readOnlyHint": True}


@pytest.fixture(params=["code", "url"])
def target(request: pytest.FixtureRequest, desk: Path) -> str:
    """The same tools as code and as a URL."""
    return str(desk) if request.param == "code" else request.getfixturevalue("site")


def test_a_value_is_printed_and_the_code_is_0(target: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("call", target, "add", "a=1", "b=2")
    assert (outcome.code, outcome.out, outcome.err) == (0, "3\n", "")


@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_the_same_call_goes_over_every_protocol(protocol: str, site: str, toolwire: Callable[..., Any]) -> None:
    assert toolwire("call", site, "add", "a=20", "b=22", "--protocol", protocol, "--agree").out == "42\n"


def test_tool_can_be_called_by_its_id(target: str, toolwire: Callable[..., Any]) -> None:
    assert toolwire("call", target, "Desk.add@1.2.0", "a=1").out == "2\n"


def test_options_can_stand_between_arguments(desk: Path, toolwire: Callable[..., Any]) -> None:
    assert json.loads(toolwire("call", desk, "add", "a=1", "--json", "b=2").out) == {"ok": True, "value": 3}
    assert toolwire("call", desk, "add", "--yes", "a=1", "b=2").out == "3\n"


def test_text_result_is_written_to_a_pipe_unchanged(target: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("call", target, "say", "text=a\u202e\x1b[31m é\n").out
    from_a_site = target.startswith("http")  # which could hide something in it: that was taken out before
    assert outcome == ("a é\n" if from_a_site else "a\u202e\x1b[31m é\n")
    assert toolwire("call", target, "say", "text=a", "tags=1", "tags=2").out == "a12\n"


def test_result_that_is_no_text_is_printed_as_json(target: str, toolwire: Callable[..., Any]) -> None:
    assert json.loads(toolwire("call", target, "count", "to=3").out) == [0, 1, 2]


def test_tool_without_a_value_prints_nothing(target: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("call", target, "note", "text=hello", "--yes")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    reply = toolwire("call", target, "note", "text=hello", "--yes", "--json").out
    assert json.loads(reply) == {"ok": True, "value": None}


def test_progress_of_local_code_is_written_to_standard_error(desk: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("call", desk, "count", "to=3", "--json")
    assert outcome.err == "0\n1\n2\n"
    assert json.loads(outcome.out) == {"ok": True, "value": [0, 1, 2]}


def test_a_tool_that_fails_is_exit_code_1(target: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("call", target, "fail", "reason=The printer is on fire.")
    assert (outcome.code, outcome.out) == (1, "")
    assert "toolwire: The printer is on fire.\n" in outcome.err
    assert "Traceback" not in outcome.err


def test_json_output_of_a_problem_has_kind_message_and_retry_fields(desk: Path, toolwire: Callable[..., Any]) -> None:
    data = json.loads(toolwire("call", desk, "fail", "reason=Later.", "--json").out)
    assert (data["ok"], data["kind"], data["message"]) == (False, "tool_failed", "Later.")
    assert (data["can_retry"], data["retry_after_ms"]) == (True, 2_500)


def test_retry_time_is_printed(desk: Path, toolwire: Callable[..., Any]) -> None:
    assert "might succeed in 2.5 seconds" in toolwire("call", desk, "fail", "reason=Later.").err


def test_retryable_failure_is_reported_as_retryable(write: Callable[..., Path], toolwire: Callable[..., Any]) -> None:
    text = """
        from toolwire import ToolError, Toolkit
        kit = Toolkit("K")

        @kit.tool(approval="auto", safe=True)
        def act() -> None:
            raise ToolError("Not now.", can_retry=True)
        """
    outcome = toolwire("call", write("kit.py", text), "act")
    assert outcome.err == "toolwire: Not now.\ntoolwire: The same call might succeed later.\n"


def test_exception_of_local_code_is_printed_and_its_traceback_only_with_debug(
    desk: Path, toolwire: Callable[..., Any]
) -> None:
    quiet, loud = toolwire("call", desk, "fail"), toolwire("call", desk, "fail", "--debug")
    assert (quiet.code, loud.code) == (1, 1)
    assert "ZeroDivisionError" in quiet.err
    assert "Traceback" not in quiet.err
    assert "Traceback" in loud.err


def test_developer_message_is_neither_printed_as_json_nor_sent(
    desk: Path, site: str, toolwire: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert "ZeroDivision" not in toolwire("call", desk, "fail", "--json").out
    remote = toolwire("call", site, "fail", "--json")
    assert remote.code == 1
    assert "ZeroDivision" not in remote.out


def test_local_tool_ends_at_its_time_limit(desk: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("call", desk, "late")
    assert outcome.code == 1
    assert outcome.err == "toolwire: late was cancelled: it took longer than 0.05 seconds.\n"


def test_unknown_tool_gives_exit_code_2_and_lists_the_tools(target: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("call", target, "divide", "a=1")
    assert (outcome.code, outcome.out) == (2, "")
    assert "Available tools: add," in outcome.err
    assert json.loads(toolwire("call", target, "divide", "--json").out)["kind"] == "unknown_tool"


@pytest.mark.requirement("FU-23")
def test_misspelled_tool_name_gets_a_suggestion(target: str, toolwire: Callable[..., Any]) -> None:
    for name in ("ad", "Desk.Addd"):
        outcome = toolwire("call", target, name, "a=1")
        assert outcome.code == 2
        assert f"Unknown tool '{name}'. Did you mean add? Available tools: " in outcome.err


@pytest.mark.parametrize("values", [["a=x"], ["b=1"], ["a=1", "c=1"], ["a"], ["--args", "[]"]])
def test_invalid_arguments_give_exit_code_2_without_running(
    target: str, values: list[str], toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("call", target, "add", *values)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("toolwire: ")
    assert json.loads(toolwire("call", target, "add", *values, "--json").out)["kind"] == "invalid_arguments"


@pytest.mark.requirement("XL-053")
def test_call_that_needs_consent_gives_exit_code_3_without_a_terminal(
    target: str, toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("call", target, "note", "text=secretly")
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err == (
        "toolwire: note needs your consent, and there is no terminal to ask you. "
        "Use --ask page to answer in a browser, or --ask store to answer with `toolwire approvals`.\n"
        "toolwire: note was not called: it was not allowed.\n"
    )
    assert json.loads(toolwire("call", target, "note", "text=secretly", "--json").out)["kind"] == "denied"
    assert json.loads(toolwire("call", target, "noted").out) == []


def test_yes_option_approves_only_tools_that_permit_blanket_approval(target: str, toolwire: Callable[..., Any]) -> None:
    allowed = toolwire("call", target, "note", "text=openly", "--yes")
    destructive = toolwire("call", target, "shred", "pages=1", "--yes")
    assert (allowed.code, destructive.code) == (0, 3)
    assert json.loads(toolwire("call", target, "noted").out) == ["openly"]
    assert "--yes does not cover this call: it destroys something." in destructive.err
    assert "shredded" not in destructive.out


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("", "its server does not allow approval in advance"),
        ("blanket_allowed=True, destructive=True", "it destroys something"),
        ("blanket_allowed=True, cost='paid'", "it costs something"),
    ],
)
def test_reason_why_yes_does_not_approve_is_printed(
    declared: str, reason: str, write: Callable[..., Path], toolwire: Callable[..., Any]
) -> None:
    text = f"from toolwire import Toolkit\nkit = Toolkit('K')\n@kit.tool({declared})\ndef act() -> None: ...\n"
    outcome = toolwire("call", write("kit.py", text), "act", "--yes")
    assert outcome.code == 3
    assert f"toolwire: warning: --yes does not cover this call: {reason}.\n" in outcome.err


def test_unreachable_server_gives_exit_code_4(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("call", "127.0.0.1:1", "add")
    assert (outcome.code, outcome.out) == (4, "")
    data = json.loads(toolwire("call", "127.0.0.1:1", "add", "--json").out)
    assert (data["ok"], data["kind"]) == (False, "unreachable")


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        (2, {Kind.UNKNOWN_TOOL, Kind.INVALID_ARGUMENTS, Kind.MISSING_REQUIREMENTS}),
        (3, {Kind.DENIED, Kind.UNCONFIRMED, Kind.UNAUTHORIZED, Kind.FORBIDDEN}),
        (4, {Kind.UNREACHABLE}),
        (5, {Kind.ACCEPTED}),
    ],
)
def test_each_problem_kind_has_its_exit_code(code: int, kinds: set[Kind]) -> None:
    assert {kind for kind in Kind if exit_code(Problem(kind=kind, message="m")) == code} == kinds
    assert {exit_code(Problem(kind=kind, message="m")) for kind in Kind} == {1, 2, 3, 4, 5}


@pytest.mark.requirement("O-38")
def test_a_result_that_breaks_the_schema_of_its_own_server_is_shown_with_a_warning(
    toolwire: Callable[..., Any],
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    answers = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "serverInfo": {"name": "Odd", "version": "1"},
        },
        "tools/list": {
            "tools": [
                {"name": "count", "inputSchema": {"type": "object"}, "outputSchema": schema, "annotations": READS}
            ]
        },
        "tools/call": {"content": [], "structuredContent": {"n": "one"}},
    }

    async def answer(request: Request) -> Response:
        if request.method == "GET":
            return Response(status_code=405, headers={"allow": "POST"})
        asked = await request.json()
        if "id" not in asked:
            return Response(status_code=202)
        result = answers.get(asked["method"])
        reply = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], **reply})

    with background(Starlette(routes=[Route("/mcp", answer, methods=["GET", "POST"])])) as url:
        plain = toolwire("call", f"{url}/mcp", "count", "--agree")
        data = toolwire("call", f"{url}/mcp", "count", "--agree", "--json")
    fault = 'it breaks "type" of its output schema at n'
    assert (plain.code, json.loads(plain.out)) == (0, {"n": "one"})
    assert f"This result does not match what its server declares: {fault}." in plain.err
    assert json.loads(data.out) == {"ok": True, "value": {"n": "one"}, "schema_fault": fault}
