"""The operator's rules in the file of a gateway, about the tools of servers of other makers."""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from mcp import Client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.support import gateway_process
from tests.support.listed_tools import ListedTools, list_tool
from toolwire import Kind, connect_sync
from toolwire.cli import main
from toolwire.core.errors import UsageError
from toolwire.hosting import open_gateway
from toolwire.testing import background

PROTOCOLS = ("mcp", "otc", "opentool", "openapi")
RULES = """
run = ["reads", "list_*", "note", {tools = "pay", when = [{pointer = "/to", op = "in", value = ["Ada", "Bob"]}]}]
ask = [{tools = "list_secrets", when = [{pointer = "/of", op = "ne", value = "me"}]}]
never = ["DROP_*"]
"""


def build_server() -> ListedTools:
    return ListedTools(
        list_tool("find", names=("text",), readOnlyHint=True),
        list_tool("list_issues"),
        list_tool("list_secrets", names=("of",)),
        list_tool("list_and_close", readOnlyHint=False),
        list_tool("note", readOnlyHint=False, destructiveHint=False),
        list_tool("other"),
        list_tool("pay", names=("to",)),
        list_tool("drop_table", names=("name",)),
        list_tool("wipe", destructiveHint=True),
    )


@contextlib.contextmanager
def run_gateway(folder: Path, server: ListedTools, rules: str, head: str = 'consent = "refuse"') -> Iterator[str]:
    """Give the URL of a gateway whose file has ``rules`` about ``server``; a call that needs consent is refused."""
    with background(server) as there:
        file = folder / "toolwire.toml"
        table = f'state = "state"\n[upstreams.far]\ntarget = "{there}/mcp"\nprotocol = "mcp"\n'
        file.write_text(f"{head}\n{table}{rules}")
        with background(open_gateway(file)) as url:
            yield url


def call_by_host(url: str, *calls: tuple[str, dict[str, Any]]) -> list[bool]:
    """Call as an MCP host without forms, and return which calls have run."""

    async def call_all() -> list[bool]:
        async with Client(f"{url}/mcp") as client:
            return [not (await client.call_tool(name, arguments)).is_error for name, arguments in calls]

    return asyncio.run(call_all())


@pytest.mark.requirement("QF-02")
def test_rules_of_the_file_let_run_ask_and_refuse(tmp_path: Path) -> None:
    server = build_server()
    with run_gateway(tmp_path, server, RULES) as url:
        expected = {
            ("find", "rose"): True,
            ("list_issues",): True,
            ("list_secrets", "me"): True,
            ("list_secrets", "Ada"): False,
            ("list_and_close",): False,  # its server says that it changes something, and no rule names it
            ("note",): True,
            ("other",): False,
            ("pay", "Ada"): True,
            ("pay", "Eve"): False,
            ("drop_table", "all"): False,
            ("wipe",): False,
        }
        names = {"find": "text", "list_secrets": "of", "pay": "to", "drop_table": "name"}
        calls = [(name, dict(zip((names.get(name),), values, strict=False))) for name, *values in expected]
        assert dict(zip(expected, call_by_host(url, *calls), strict=True)) == expected
    assert [name for name, _ in server.called] == ["find", "list_issues", "list_secrets", "note", "pay"]


@pytest.mark.requirement("QF-02")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rule_holds_on_every_protocol_whatever_the_caller_confirms(tmp_path: Path, protocol: str) -> None:
    server, asked = build_server(), []

    def approve(question: Any) -> bool:
        asked.append(question.call.tool.name)
        return True

    with run_gateway(tmp_path, server, RULES) as url, connect_sync(url, protocol=protocol, approve=approve) as remote:
        refused = remote.call("drop_table", {"name": "all"})
        assert refused.kind is Kind.DENIED
        assert 'never = "DROP_*" in the file of the gateway, upstream far' in refused.message
        assert remote.call("list_secrets", {"of": "Ada"}).ok
        assert remote.call("other", {}).ok
    assert [name for name, _ in server.called] == ["list_secrets", "other"]


@pytest.mark.requirement("QF-02")
def test_server_that_requires_a_question_wins_over_a_rule_that_lets_run(tmp_path: Path) -> None:
    strict, dear = {"enabled": True, "approval": "per-call"}, {"enabled": True, "costIndicator": "paid"}
    server = ListedTools(
        list_tool("wipe", destructiveHint=True),
        {**list_tool("strict"), "_meta": {"toolwire/x-llm": strict}},
        {**list_tool("dear"), "_meta": {"toolwire/x-llm": dear}},
    )
    rules = 'run = ["wipe", "strict", "dear"]\n'
    with run_gateway(tmp_path, server, rules) as url:
        assert call_by_host(url, *((tool["name"], {}) for tool in server.tools)) == [False, False, False]
    assert server.called == []


def build_plain_api(**root: Any) -> Starlette:
    """An application whose document says nothing of consent, except what ``root`` adds."""
    called = {"responses": {"200": {"description": "Done."}}}
    paths = {
        "/pets": {
            "get": {"operationId": "listPets", **called},
            "post": {"operationId": "addPet", **called},
            "delete": {"operationId": "dropPets", **called},
        },
        "/tags": {"post": {"operationId": "addTag", **called}},
        "/bills": {"post": {"operationId": "pay", "x-openai-isConsequential": True, **called}},
    }
    document = {"openapi": "3.1.0", "info": {"title": "Pets", "version": "1.0.0"}, "paths": paths, **root}

    async def answer(_: Request) -> JSONResponse:
        return JSONResponse("done")

    async def describe(_: Request) -> JSONResponse:
        return JSONResponse(document)

    methods = ["GET", "POST", "DELETE"]
    return Starlette(
        routes=[Route("/openapi.json", describe), *(Route(path, answer, methods=methods) for path in paths)]
    )


PLAIN_RULES = 'run = ["reads", "addPet", "add*", "dropPets", "pay"]\n'


@contextlib.contextmanager
def run_plain_gateway(folder: Path, api: Starlette) -> Iterator[str]:
    with background(api) as there:
        file = folder / "toolwire.toml"
        table = f'[upstreams.pets]\ntarget = "{there}/openapi.json"\ninclude = "all"\n{PLAIN_RULES}'
        file.write_text(f'consent = "refuse"\nstate = "state"\n{table}')
        with background(open_gateway(file)) as url:
            yield url


PLAIN_TOOLS = ("listPets", "addPet", "addTag", "dropPets", "pay")


def call_unconfirmed(url: str, name: str) -> bool:
    """Call over Open Tool Calling without a word of confirmation, and return whether the call has run."""
    body = json.dumps({"request": {"tool_id": f"Pets.{name}", "input": {}}}).encode()
    request = urllib.request.Request(f"{url}/call", body, {"content-type": "application/json"})
    with contextlib.suppress(urllib.error.HTTPError), build_opener().open(request) as response:
        return bool(json.load(response)["success"])
    return False


@pytest.mark.requirement("QF-02")
def test_rules_let_calls_of_a_document_run_that_says_nothing_of_consent(tmp_path: Path) -> None:
    # A pattern names no write, what destroys asks, and so does what the document calls consequential.
    expected = [True, True, False, False, False]
    with run_plain_gateway(tmp_path, build_plain_api()) as url:
        assert call_by_host(url, *((name, {}) for name in PLAIN_TOOLS)) == expected
        assert [call_unconfirmed(url, name) for name in PLAIN_TOOLS] == expected


@pytest.mark.requirement("QF-02")
def test_rules_let_no_call_run_of_which_the_document_says_that_each_asks(tmp_path: Path) -> None:
    api = build_plain_api(**{"x-llm": {"version": "0.1", "defaultApproval": "per-call"}})
    with run_plain_gateway(tmp_path, api) as url:
        assert call_by_host(url, *((name, {}) for name in PLAIN_TOOLS)) == [False] * 5


@pytest.mark.requirement("QF-02")
def test_check_start_and_console_name_rules_that_let_no_call_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOOLWIRE_SETTINGS", "trust")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys.txt").write_text("key-of-olga olga toolwire:console\n")
    (tmp_path / "keys.txt").chmod(0o600)
    expected = [
        'The upstream pets: run = "add*" lets no call run: a pattern covers no tool that may change something.',
        'The upstream pets: run = "sell*" lets no call run: no tool has such a name.',
        'The upstream pets: run = "dropPets" lets no call run: the server of dropPets requires a question, or',
    ]
    with background(build_plain_api()) as there:
        rules = 'run = ["addPet", "add*", "sell*", "dropPets"]\n'
        table = f'[upstreams.pets]\ntarget = "{there}/openapi.json"\ninclude = "all"\n{rules}'
        (tmp_path / "toolwire.toml").write_text(f'port = 0\napi-key-file = "keys.txt"\nstate = "state"\n{table}')
        assert main(["gateway", "check"]) == 0
        said = capsys.readouterr().err
        with gateway_process.run_gateway() as (process, url):
            page = read_console(url, "/")
            lines = [gateway_process.wait_for_line(process, "lets no call run") for _ in expected]
    assert all(one in said and one in line and one in page for one, line in zip(expected, lines, strict=True))
    assert 'run = "addPet"' not in said + page


@pytest.mark.requirement("QF-02", "QF-01")
@pytest.mark.parametrize(
    "changed",
    [
        {"description": "Deletes everything."},
        {"annotations": {"readOnlyHint": True}},
        {"inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}}},
    ],
    ids=["meaning", "hint", "argument"],
)
def test_rule_ends_for_a_tool_whose_definition_changes_while_the_gateway_runs(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    server = build_server()
    with run_gateway(tmp_path, server, RULES) as url:
        assert call_by_host(url, ("note", {}), ("list_issues", {})) == [True, True]
        for entry in server.tools:
            if entry["name"] in ("note", "list_issues"):
                entry.update(changed)
        server.tools = [entry for entry in server.tools if entry["name"] != "other"]
        refresh(url)
        ran = call_by_host(url, ("note", {}), ("list_issues", {}), ("find", {}))
    assert ran == [False, False, True]


def refresh(url: str) -> None:
    """Let the gateway look at its upstream again: a tool that its server no longer has makes it do so."""
    with connect_sync(url, protocol="otc", approve=lambda _: True) as remote:
        remote.call("other", {})


def read_console(url: str, path: str) -> str:
    """Return a page of the gateway's console, for its operator."""
    browser = build_opener(HTTPCookieProcessor())
    browser.open(f"{url}/console/sign-in", urlencode({"key": "key-of-olga", "next": "/"}).encode()).close()
    with browser.open(f"{url}/console{path}") as answer:
        return html.unescape(answer.read().decode())


@pytest.mark.requirement("QF-02")
def test_log_has_what_the_file_decided_and_for_whom(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys.txt").write_text("key-of-ann ann\nkey-of-olga olga toolwire:console\n")
    calls = (("find", {"text": "a"}), ("find", {"text": "b"}), ("pay", {"to": "Ada"}))
    with run_gateway(tmp_path, build_server(), RULES, 'api-key-file = "keys.txt"') as url:
        with connect_sync(url, protocol="otc", api_key="key-of-ann", approve=lambda _: True) as remote:
            assert all(remote.call(name, arguments).ok for name, arguments in calls)
            assert not remote.call("drop_table", {"name": "all"}).ok
        page = read_console(url, "/rules")
    assert 'pay where /to is one of ["Ada", "Bob"]' in page
    assert page.index("never called") < page.index("asks each time") < page.index("runs without a question")
    capfd.readouterr()
    assert main(["approvals", "log", "--path", str(tmp_path / "state"), "--json"]) == 0
    records = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    by_file = [one for one in records if one["channel"] == "file"]
    rows = [(one["decision"], one["tool"].partition("@")[0].rpartition(".")[2], one["connection"]) for one in by_file]
    assert rows == [("agreed", "find", "far"), ("allowed", "pay", "far"), ("denied", "drop_table", "far")]
    assert {(one["principal"], one["caller"]) for one in by_file} == {("the gateway's file", "key:ann")}


@pytest.mark.requirement("QF-01")
def test_file_trusts_the_reads_that_it_names_and_no_others(tmp_path: Path) -> None:
    server = ListedTools(list_tool("find", readOnlyHint=True), list_tool("look", readOnlyHint=True))
    with run_gateway(tmp_path, server, 'agree = ["find"]\n') as url:
        assert call_by_host(url, ("find", {}), ("look", {})) == [True, False]


@pytest.mark.requirement("QF-02")
@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ('run = "reads"', "run must be an array"),
        ('run = ["writes"]', ": name each tool that can change something without a question"),
        ('ask = [{tool = "a"}]', "unknown member 'tool'. Only tools and when"),
        ('never = [{tools = "a", when = []}]', ": when must be a non-empty array of conditions"),
        (
            'never = [{tools = "a", when = [{pointer = "a", op = "eq", value = 1}]}]',
            "The pointer must be a JSON Pointer",
        ),
        ("ask = [7]", 'rule 1 of ask must be "reads", "writes" or the name of a tool'),
    ],
)
def test_wrong_rule_is_named_with_its_place(tmp_path: Path, rules: str, said: str) -> None:
    file = tmp_path / "toolwire.toml"
    file.write_text(f'[upstreams.far]\ntarget = "https://far.example"\n{rules}\n')
    with pytest.raises(UsageError, match=r"toolwire.toml:3:") as refused:
        open_gateway(file)
    assert said in str(refused.value)


@pytest.mark.requirement("QF-02")
def test_rules_about_code_are_refused_and_not_ignored(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        'from toolwire import Toolkit\nkit = Toolkit("More")\nkit.tool(approval="auto")(abs)\n'
    )
    file = tmp_path / "toolwire.toml"
    file.write_text('[upstreams.more]\ntarget = "tools.py"\nnever = ["abs"]\n')
    with pytest.raises(
        UsageError, match="run, ask, never and names in agree are for other servers\\. For code, declare approval="
    ):
        open_gateway(file)
