"""The official MCP conformance suite against our server and our client: all passes but what is listed, with its reason.

``make mcp`` puts the suite into ``.cache``; without it these tests are skipped and say so.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from tests.interop.mcp_suite import INSTALLED, LINE, LISTED, MISSING, NODE, SUITE, list_scenarios
from tests.support.forked_programs import listen_for_forks
from toolwire import App, Audio, Context, File, Image, Kind, Problem, PromptMessage, ToolError, Toolkit, Value, asgi
from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval, Call, Result, Tool
from toolwire.core.no_user_input import REQUIRED_CAPABILITIES
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.gateway import merge_toolboxes
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing.loopback import background

HERE = Path(__file__)
CLIENT = HERE.with_name("mcp_client.py")
IMPORTS = (
    *("toolwire.client.connection.connect", "toolwire.client.login", "toolwire.protocols.mcp.client"),
    *("toolwire.stores.credentials.files", "httpx2", "joserfc.jwt", "sqlite3", "tempfile", "fcntl"),
)
"""What our client imports."""
PATIENCE_S = 240
SERVED = {"tools-list", "tools-call-simple-text", "tools-call-error", "dns-rebinding-protection"}
CALLED = {
    "2025-11-25": {"initialize", "tools_call", "auth/basic-cimd", "auth/pre-registration", "auth/scope-step-up"},
    "2026-07-28": {
        "tools_call",
        "request-metadata",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "auth/iss-supported",
    },
    "backcompat": {"auth/2025-03-26-oauth-metadata-backcompat"},
}
PNG = b"\x89PNG\r\n\x1a\n"
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def _add_content_tools(kit: Toolkit) -> None:
    @kit.tool(approval="auto")
    def test_image_content() -> Image:
        """Return an image."""
        return Image(PNG, "image/png")

    @kit.tool(approval="auto")
    def test_audio_content() -> Audio:
        """Return a sound."""
        return Audio(b"RIFF", "audio/wav")

    @kit.tool(approval="auto")
    def test_embedded_resource() -> File:
        """Return a file."""
        return File(b"This is an embedded resource content.", "text/plain", "note.txt")

    @kit.tool(approval="auto")
    def test_multiple_content_types() -> list[str | Image | File]:
        """Return a text, an image and a file."""
        return [
            "Multiple content types test:",
            Image(b"\x89PNG", "image/png"),
            File(b"{}", "application/json", "a.json"),
        ]


def _add_progress_tool(kit: Toolkit) -> None:
    @kit.tool(approval="auto")
    async def test_tool_with_progress(context: Context) -> str:
        """Report progress three times."""
        for done in (1, 50, 100):
            await context.progress({"progress": done, "total": 100})
        return "Done"


def _add_logging_tools(kit: Toolkit) -> None:
    async def talk(context: Context) -> str:
        """Write three messages to the log."""
        for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await context.log(message)
        return "Done"

    for name in ("test_tool_with_logging", "test_logging_tool"):
        kit.add(talk, name=name, approval="auto")


@dataclass
class Reply:
    username: str
    email: str


@dataclass
class Defaults:
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


def titled(member: str, *titles: str) -> Any:
    choices = [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, 1)]
    return Field(json_schema_extra={member: choices})


Choices = make_dataclass(  # the suite's own names
    "Choices",
    [
        ("untitledSingle", Literal["option1", "option2", "option3"]),
        ("titledSingle", Annotated[str, titled("oneOf", "First Option", "Second Option", "Third Option")]),
        (
            "legacyEnum",
            Annotated[
                Literal["opt1", "opt2", "opt3"],
                Field(json_schema_extra={"enumNames": ["Option One", "Option Two", "Option Three"]}),
            ],
        ),
        ("untitledMulti", list[Literal["option1", "option2", "option3"]]),
        ("titledMulti", list[Annotated[str, titled("anyOf", "First Choice", "Second Choice", "Third Choice")]]),
    ],
)


@dataclass
class Topic:
    context: str


def _add_asking_tools(kit: Toolkit) -> None:
    @kit.tool(approval="auto")
    async def test_elicitation(message: str, context: Context) -> str:
        """Ask for a name and an address."""
        return f"User response: {await context.ask(Reply, message)}"

    @kit.tool(approval="auto")
    async def test_streaming_elicitation(context: Context) -> str:
        """Ask for a name and an address."""
        return f"User response: {await context.ask(Reply, 'Who are you?')}"

    @kit.tool(approval="auto")
    async def test_elicitation_sep1034_defaults(context: Context) -> str:
        """Ask with defaults."""
        return f"Elicitation completed: {await context.ask(Defaults, 'Is this right?')}"

    @kit.tool(approval="auto")
    async def test_elicitation_sep1330_enums(context: Context) -> str:
        """Ask with choices of each kind."""
        return f"Elicitation completed: {await context.ask(Choices, 'What do you choose?')}"

    @kit.prompt
    async def test_input_required_result_prompt(context: Context) -> str:
        """Ask what a prompt is about."""
        answer = await context.ask(Topic, "What context should the prompt use?", name="user_context")
        return f"Talk about {answer.context}." if answer else answer.message


def _add_header_tool(kit: Toolkit) -> None:
    @kit.tool(approval="auto")
    def test_x_mcp_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "") -> str:
        """Return a region, which is in a header too."""
        return region


def _add_resources(kit: Toolkit) -> None:
    @kit.resource("test://static-text", media_type="text/plain")
    def static_text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @kit.resource("test://static-binary", media_type="image/png")
    def static_binary() -> bytes:
        """A picture."""
        return PNG

    @kit.resource("test://watched-resource", media_type="text/plain")
    def watched() -> str:
        """A text to which a client subscribes."""
        return "This text may change."

    @kit.resource("test://template/{id}/data", media_type="application/json")
    def template(id: str) -> dict[str, str]:  # noqa: A002 - the suite's own name
        """Data by its id."""
        return {"id": id, "templateTest": "true", "data": f"Data for ID: {id}"}


def _add_prompts(kit: Toolkit) -> None:
    @kit.prompt
    def test_simple_prompt() -> str:
        """Say something."""
        return "This is a simple prompt for testing."

    @kit.prompt
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """Say two things."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @kit.prompt
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[str | PromptMessage]:  # noqa: N803 - as above
        """Say what a resource holds."""
        held = File(b"Embedded resource content for testing.", "text/plain", resourceUri.rpartition("/")[2])
        return [PromptMessage(held), "Please process the embedded resource above."]

    @kit.prompt
    def test_prompt_with_image() -> list[str | PromptMessage]:
        """Show a picture."""
        return [PromptMessage(Image(PNG, "image/png")), "Please analyze the image above."]


def _add_long_tools(kit: Toolkit) -> None:
    """Add the tools whose calls become tasks."""

    @dataclass
    class Sure:
        confirm: bool

    @kit.tool(approval="auto")
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}!"

    @kit.tool(approval="auto", long=True)
    async def slow_compute(seconds: float, label: str = "") -> str:
        """Compute slowly."""
        await asyncio.sleep(seconds)
        return f"{label} done"

    @kit.tool(approval="auto", long=True)
    async def failing_job() -> str:
        """Fail."""
        raise ToolError("This job fails.")

    @kit.tool(approval="auto", long=True)
    async def confirm_delete(filename: str, context: Context) -> str:
        """Ask before it deletes."""
        answer = await context.ask(Sure, f"Delete {filename}?")
        return f"deleted {filename}" if answer and answer.confirm else f"kept {filename}"

    @kit.tool(approval="auto", long=True)
    async def multi_input(context: Context) -> str:
        """Ask two questions at the same time."""
        async with asyncio.TaskGroup() as group:
            first = group.create_task(context.ask(Sure, "First?"))
            second = group.create_task(context.ask(Sure, "Second?"))
        return f"{first.result()} {second.result()}"


class SchemaToolbox:
    """A tool whose schema no function has, and one that answers with an error of the protocol."""

    def __init__(self) -> None:
        name, text = "json_schema_2020_12_tool", "Take a contact."
        tool = Tool(name=name, description=text, input_schema=SCHEMA, approval=Approval.AUTO, safe=True)
        wrong = Tool(name="protocol_error_job", description="Fail.", approval=Approval.AUTO, long=True)
        needy = Tool(name="test_missing_capability", description="Fail without sampling.", approval=Approval.AUTO)
        self._catalog = Catalog(title="Schemas", tools=(tool, wrong, needy))

    def catalog(self) -> Catalog:
        return self._catalog

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        if call.tool.long:
            return Problem(kind=Kind.UNKNOWN_TOOL, message="The job is gone.")
        if call.tool.name == "test_missing_capability":  # as the server of a gateway says it
            details = {REQUIRED_CAPABILITIES: {"sampling": {}}}
            return Problem(kind=Kind.MISSING_REQUIREMENTS, message="This needs sampling.", details=details)
        return Value("ok")


def app() -> App:
    """Return the server: the tools that the suite calls by name, of those that ours can be."""
    kit = Toolkit("Conformance", version="1.0.0", description="Tools by the names that the suite calls.")

    @kit.tool(approval="auto")
    def test_simple_text() -> str:
        """Return a text."""
        return "This is a simple text response for testing."

    @kit.tool(approval="auto")
    def test_error_handling() -> str:
        """Fail."""
        raise ToolError("This tool intentionally returns an error for testing")

    @dataclass
    class Name:
        name: str

    @dataclass
    class Color:
        color: str

    @dataclass
    class Ok:
        ok: bool

    @kit.tool(approval="auto")
    async def test_input_required_result_elicitation(context: Context) -> str:
        """Ask for a name."""
        answer = await context.ask(Name, "What is your name?", name="user_name")
        return f"Hello, {answer.name}!" if answer else answer.message

    async def confirm(context: Context) -> str:
        answer = await context.ask(Ok, "Please confirm", name="confirm")
        return "state-ok" if answer else answer.message

    @kit.tool(approval="auto")
    async def test_input_required_result_request_state(context: Context) -> str:
        """Ask for a confirmation, with a state."""
        return await confirm(context)

    @kit.tool(approval="auto")
    async def test_input_required_result_tampered_state(context: Context) -> str:
        """Ask for a confirmation, with a state that is signed."""
        return await confirm(context)

    @kit.tool(approval="auto")
    async def test_input_required_result_multi_round(context: Context) -> str:
        """Ask two questions, one after the other."""
        first = await context.ask(Name, "Step 1: What is your name?", name="step1")
        second = await context.ask(Color, "Step 2: What is your favorite color?", name="step2")
        return f"{first} {second}"

    _add_content_tools(kit)
    _add_resources(kit)
    _add_prompts(kit)
    _add_progress_tool(kit)
    _add_logging_tools(kit)
    _add_asking_tools(kit)
    _add_header_tool(kit)
    _add_long_tools(kit)
    return asgi(merge_toolboxes([FunctionToolbox(kit), SchemaToolbox()]), sessions="all")


@pytest.mark.requirement("R17", "MC-11", "I-29")
@pytest.mark.skipif(not INSTALLED, reason=MISSING)
@pytest.mark.parametrize("revision", sorted(LISTED["server"]))
def test_server_passes_the_conformance_suite_except_listed_checks(revision: str, tmp_path: Path) -> None:
    with background(app()) as url:
        reply = _run(["server", "--url", f"{url.rstrip('/')}/mcp", "--requirements", revision], tmp_path)
    assert _outcomes(reply, LISTED["server"][revision]) >= SERVED


@pytest.mark.requirement("R17", "MC-11")
@pytest.mark.skipif(not INSTALLED, reason=MISSING)
@pytest.mark.parametrize("revision", sorted(LISTED["client"]))
def test_client_passes_the_conformance_suite_except_listed_checks(revision: str, tmp_path: Path) -> None:
    which = ["--suite", revision] if revision == "backcompat" else ["--requirements", revision]
    # The suite starts a client for each of its scenarios: a fork of one that has imported what it needs.
    with listen_for_forks(CLIENT, tmp_path, *IMPORTS) as start:
        ours = shlex.join([*start, str(tmp_path / "turns")])
        reply = _run(["client", "--command", ours, "--timeout", str(PATIENCE_S * 1_000), "--verbose", *which], tmp_path)
    assert _outcomes(reply, LISTED["client"][revision]) >= CALLED[revision]


@pytest.mark.requirement("MC-11", "I-29")
def test_each_scenario_that_we_do_not_pass_has_one_reason_and_eight_do_not_apply() -> None:
    reasons = [LISTED["does_not_apply"], LISTED["is_missing"]]
    groups = {group for side in ("server", "client") for lists in LISTED[side].values() for group in lists}
    assert groups == reasons[0].keys() | reasons[1].keys()
    assert not reasons[0].keys() & reasons[1].keys()
    assert (len(list_scenarios("does_not_apply")), len(list_scenarios("is_missing"))) == (8, 0)
    assert not list_scenarios("does_not_apply").keys() & list_scenarios("is_missing").keys()


def _run(arguments: Sequence[str], folder: Path) -> str:
    """Return what the suite printed; it fails by itself where scenarios fail, so that says nothing."""
    command: list[str | Path] = [NODE, SUITE, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return str(done.stdout)


def _outcomes(said: str, listed: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the scenarios that ran, once exactly those that are ``listed`` were found to fail."""
    outcomes = {scenario: mark for mark, scenario, _, _ in LINE.findall(said)}
    failing = {scenario for scenario, mark in outcomes.items() if mark == "✗"}
    assert failing == {scenario for scenarios in listed.values() for scenario in scenarios}, said
    return set(outcomes)
