"""What a caller may not use of a gateway is not listed, not described, not found and not called, on any protocol."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest

from tests.support.jwt_signing import SECRET, sign_with_secret
from tests.support.waiting import wait_until
from toolwire import Problem, Toolkit, ToolwireError, Value, asgi, connect_sync
from toolwire.cli import main
from toolwire.core.model import Kind
from toolwire.hosting import open_gateway
from toolwire.stores.consent.open import open_approvals
from toolwire.testing import background

pytestmark = pytest.mark.requirement("PL-02")

PROTOCOLS = ["opentool", "otc", "openapi", "mcp"]
ANN, BOB = "key-of-ann", "key-of-bob"

tasks = Toolkit("Tasks")


@tasks.tool(safe=True, approval="auto")
def list_open(project: str = "help") -> str:
    """List the open tasks."""
    return f"open in {project}"


@tasks.tool(approval="per-call", blanket_allowed=True)
def close(project: str, number: int = 1) -> str:
    """Close a task."""
    return f"closed {number} of {project}"


@tasks.tool(approval="per-call", destructive=True)
def purge(project: str) -> str:
    """Remove all tasks for ever."""
    return f"purged {project}"


@tasks.tool(safe=True, approval="auto", cost="paid")
def appraise(project: str) -> str:
    """Buy a review."""
    return f"bought for {project}"


@tasks.resource("tasks://rulebook")
def rulebook() -> str:
    """The rules of the project."""
    return "be kind"


CODE = """from toolwire import Toolkit

sums = Toolkit("Sums")


@sums.tool(safe=True, approval="auto")
def add(a: int, b: int) -> int:
    \"\"\"Add two numbers.\"\"\"
    return a + b
"""

LONG = """from toolwire import Toolkit

books = Toolkit("Books")


@books.tool(approval="per-call", long=True)
def audit(year: int) -> str:
    \"\"\"Audit a year.\"\"\"
    return f"audited {year}"
"""

Write: TypeAlias = Callable[..., Path]


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with background(asgi(tasks)) as url:
        yield url


@pytest.fixture
def write(tmp_path: Path, site: str) -> Write:
    """Writes the file of a gateway before the tasks and a sum."""
    (tmp_path / "sums.py").write_text(CODE)
    (tmp_path / "keys.txt").write_text(f"{ANN} ann\n{BOB} bob\n")

    def write_file(rest: str, *, above: str = 'api-key-file = "keys.txt"', of_tasks: str = "agree = true") -> Path:
        upstreams = f'[upstreams.sums]\ntarget = "sums.py"\n[upstreams.tasks]\ntarget = "{site}"\n{of_tasks}\n'
        file = tmp_path / "toolwire.toml"
        file.write_text(f"{above}\n{upstreams}{rest}")
        return file

    return write_file


def list_names(url: str, key: str, protocol: str = "otc") -> list[str]:
    with connect_sync(url, api_key=key or None, protocol=protocol) as remote:
        return sorted(remote.catalog().names)


def read_everything(url: str, key: str) -> str:
    """Return all that a gateway says of its tools to a caller, as text."""
    replies = [
        httpx2.get(url + path, headers={"authorization": f"Bearer {key}"}).text
        for path in ("/openapi.json", "/.well-known/llm.json", "/tools", "/uts/tools", "/opentool/load", "/health?full")
    ]
    replies.append(httpx2.post(f"{url}/", data={"key": key}).text)
    replies += [ask_mcp(url, key, method).text for method in ("tools/list", "resources/list")]
    return "\n".join(replies)


def ask_mcp(url: str, key: str, method: str, params: Mapping[str, Any] | None = None, session: str = "") -> Any:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    headers |= {"mcp-protocol-version": "2025-11-25"}
    headers |= {"accept": "application/json, text/event-stream"} | ({"mcp-session-id": session} if session else {})
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    return httpx2.post(f"{url}/mcp", headers=headers, json=message)


def open_session(url: str, key: str) -> str:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    session: str = ask_mcp(url, key, "initialize", hello).headers["mcp-session-id"]
    return session


def call_raw(url: str, key: str, tool: str, protocol: str) -> tuple[int, str]:
    """Return the status and the text of a call by name, without the name."""
    headers, arguments = {"authorization": f"Bearer {key}"} if key else {}, {"project": "help"}
    match protocol:
        case "opentool":
            body: Any = {"jsonrpc": "2.0", "id": "1", "method": tool, "params": arguments}
            response = httpx2.post(f"{url}/opentool/call", headers=headers, json=body)
        case "otc":
            body = {"request": {"call_id": "c", "tool_id": f"Tasks.{tool}@1.0.0", "input": arguments}}
            response = httpx2.post(f"{url}/tools/call", headers=headers, json=body)
        case "openapi":
            response = httpx2.post(f"{url}/api/{tool}", headers=headers, json=arguments)
        case _:
            response = ask_mcp(url, key, "tools/call", {"name": tool, "arguments": arguments})
    return response.status_code, response.text.replace(tool, "TOOL")


BOUND = """
[callers.ann]
tools = ["tasks.list_*", "sums"]
[callers."*"]
tools = []
"""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_caller_lists_and_calls_the_tools_of_its_patterns_alone(write: Write, protocol: str) -> None:
    with background(open_gateway(write(BOUND))) as url:
        assert list_names(url, ANN, protocol) == ["add", "list_open"]
        assert list_names(url, BOB, protocol) == []
        with connect_sync(url, api_key=ANN, protocol=protocol, agree=lambda _: True) as remote:
            assert remote.call("list_open") == Value("open in help")
            assert remote.call("add", {"a": 1, "b": 2}) == Value(3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_forbidden_tool_is_answered_like_one_that_is_not_there(write: Write, protocol: str) -> None:
    with background(open_gateway(write(BOUND))) as url:
        refused, unknown = (call_raw(url, ANN, name, protocol) for name in ("purge", "quell"))
        allowed = call_raw(url, ANN, "list_open", protocol)
    assert refused == unknown
    assert allowed != unknown


def test_no_document_or_page_names_a_forbidden_tool_or_resource(write: Write) -> None:
    with background(open_gateway(write(BOUND))) as url:
        reply = read_everything(url, ANN)
        found = ask_mcp(url, ANN, "resources/read", {"uri": "tasks+tasks://rulebook"}).text
    assert [name for name in ("purge", "close", "appraise", "rulebook") if name in reply] == []
    assert "list_open" in reply
    assert "be kind" not in found


@pytest.mark.parametrize(
    ("effects", "names"),
    [
        (["reads"], ["add", "list_open"]),
        (["reads", "costs"], ["add", "appraise", "list_open"]),
        (["reads", "writes"], ["add", "close", "list_open"]),
        (["writes", "destructive"], ["close", "purge"]),
        ([], []),
    ],
)
def test_effects_bound_what_a_caller_may_use(write: Write, effects: list[str], names: list[str]) -> None:
    with background(open_gateway(write(f'[callers."*"]\neffects = {effects}\n'))) as url:
        assert list_names(url, ANN) == names


def test_untrusted_claim_to_read_makes_no_tool_a_read(write: Write) -> None:
    rest = '[callers.ann]\neffects = ["reads"]\n[callers.bob]\neffects = ["reads", "writes"]\n'
    over_mcp = 'protocol = "mcp"'
    with background(open_gateway(write(rest, of_tasks=over_mcp))) as url:
        assert list_names(url, ANN) == ["add"]
        assert list_names(url, BOB) == ["add"]  # and none to write: only the server says that it destroys nothing
    with background(open_gateway(write(rest, of_tasks=f"{over_mcp}\nagree = true"))) as url:
        assert list_names(url, ANN) == ["add", "list_open"]
        assert list_names(url, BOB) == ["add", "close", "list_open"]


def test_delete_is_destructive_whatever_the_document_says(tmp_path: Path) -> None:
    reply = {"responses": {"204": {"description": "Done"}}, "x-llm": {"enabled": True, "destructive": False}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Orders", "version": "1"},
        "servers": [{"url": "https://orders.example"}],
        "x-llm": {"version": "0.1"},
        "paths": {"/orders": {"delete": {"operationId": "drop", **reply}, "post": {"operationId": "make", **reply}}},
    }
    (tmp_path / "orders.json").write_text(json.dumps(document))
    file = tmp_path / "toolwire.toml"
    file.write_text(f"""
[upstreams.orders]
target = "{tmp_path / "orders.json"}"
[callers."*"]
effects = ["reads", "writes"]
""")
    with background(open_gateway(file)) as url:
        assert list_names(url, "") == ["make"]


def sign_in(**claims: Any) -> str:
    return sign_with_secret({"sub": "ada", "exp": time.time() + 600, **claims}).decode()


GROUPS = """
[callers.support]
claims = [["/groups", "eq", "support"], ["/level", "ge", 2]]
tools = ["tasks.*"]
effects = ["reads", "writes"]
[callers.staff]
claims = [["/email", "matches", "@example[.]com$"]]
tools = ["sums"]
[callers.cleo]
tools = ["tasks.close"]
[callers."*"]
tools = []
"""


@pytest.mark.parametrize(
    ("claims", "names"),
    [
        ({"groups": ["desk", "support"], "level": 2}, ["close", "list_open"]),
        ({"groups": "support", "level": 3}, ["close", "list_open"]),
        ({"groups": ["support"], "level": 1}, []),
        ({"groups": ["support"]}, []),
        ({"email": "ada@example.com"}, ["add"]),
        ({"email": "ada@example.com", "groups": ["support"], "level": 2}, ["close", "list_open"]),
        ({"sub": "cleo", "groups": ["support"], "level": 2}, ["close"]),
        ({}, []),
    ],
)
def test_claims_of_a_token_put_its_caller_into_the_first_group_that_fits(
    write: Write, tmp_path: Path, claims: dict[str, Any], names: list[str]
) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    file = write(GROUPS, above='jwt-secret-file = "secret"')
    with background(open_gateway(file)) as url:
        assert list_names(url, sign_in(**claims)) == names


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_call_is_refused_unless_its_arguments_meet_the_conditions(write: Write, protocol: str) -> None:
    rest = '[callers.ann.arguments]\n"tasks.*" = [["/project", "in", ["help", "shop"]]]\n'
    with (
        background(open_gateway(write(rest))) as url,
        connect_sync(url, api_key=ANN, protocol=protocol, approve=lambda _: True) as remote,
    ):
        assert remote.call("close", {"project": "shop"}) == Value("closed 1 of shop")
        refused = remote.call("close", {"project": "core"})
        assert remote.call("list_open") == Value("open in help")  # the default of the tool counts
        assert remote.call("add", {"a": 1, "b": 1}) == Value(2)
    assert isinstance(refused, Problem)
    assert refused.kind is Kind.FORBIDDEN
    assert 'close did not run: you can call it only if /project is one of ["help", "shop"]' in refused.message


def test_bound_holds_where_nobody_has_a_key(write: Write) -> None:
    with background(open_gateway(write('[callers."*"]\ntools = ["sums"]\n', above=""))) as url:
        assert list_names(url, "") == ["add"]
        assert call_raw(url, "", "purge", "mcp") == call_raw(url, "", "quell", "mcp")


def test_session_of_mcp_lists_and_calls_what_its_caller_may_use(write: Write) -> None:
    with background(open_gateway(write(BOUND))) as url:
        session = open_session(url, ANN)
        listed = ask_mcp(url, ANN, "tools/list", session=session).text
        called = ask_mcp(url, ANN, "tools/call", {"name": "purge", "arguments": {"project": "x"}}, session).text
        found = ask_mcp(url, ANN, "resources/read", {"uri": "tasks+tasks://rulebook"}, session).text
    assert "list_open" in listed
    assert "purge" not in listed
    assert "purged" not in called
    assert "be kind" not in found


def test_session_that_stays_open_follows_a_change_of_the_file(write: Write, tmp_path: Path) -> None:
    above = f'api-key-file = "keys.txt"\nstate = "{tmp_path / "state"}"'
    closing = {"name": "list_open", "arguments": {}}
    with background(open_gateway(write('[callers.ann]\ntools = ["tasks"]\n', above=above))) as url:
        session = open_session(url, ANN)
        before = ask_mcp(url, ANN, "tools/call", closing, session).text
    with background(open_gateway(write('[callers.ann]\ntools = ["sums"]\n', above=above))) as url:
        listed = ask_mcp(url, ANN, "tools/list", session=session).text
        after = ask_mcp(url, ANN, "tools/call", closing, session).text
    assert "open in help" in before
    assert "add" in listed
    assert "list_open" not in listed
    assert "open in help" not in after


@pytest.mark.parametrize(("tools", "said"), [('["books"]', "audited 2026"), ('["sums"]', "Unknown tool")])
def test_long_call_that_waited_for_its_user_runs_only_if_its_caller_still_may(
    write: Write, tmp_path: Path, tools: str, said: str
) -> None:
    (tmp_path / "books.py").write_text(LONG)
    state = str(tmp_path / "state")
    above = f'api-key-file = "keys.txt"\nstate = "{state}"\nconsent = "inbox"\npublic-url = "https://tools.example"'
    headers = {"authorization": f"Bearer {ANN}"}
    books = '[upstreams.books]\ntarget = "books.py"\n[callers.ann]\ntools = '
    with background(open_gateway(write(f'{books}["books"]\n', above=above))) as url:
        wanted = {**headers, "prefer": "respond-async, wait=0"}
        place = httpx2.post(f"{url}/api/audit", headers=wanted, json={"year": 2026}).headers["location"]
        (asked,) = wait_until(open_approvals(state).list_pending)
    with background(open_gateway(write(f"{books}{tools}\n", above=above))) as url:
        assert main(["approvals", "allow", asked.id, "--path", state]) == 0
        # A caller without the right to the tool cannot read how its call ended.
        wait_until(
            lambda: said.encode() in b"".join(one.read_bytes() for one in Path(state).rglob("*") if one.is_file())
        )
    with background(open_gateway(write(f'{books}["books"]\n', above=above))) as url:
        assert said in httpx2.get(url + place, headers=headers).text


def test_scope_of_a_key_adds_nothing_to_the_bound(write: Write, tmp_path: Path) -> None:
    file = write('[callers.ann]\ntools = ["sums"]\nscopes = ["tasks"]\n', of_tasks='agree = true\nscopes = ["tasks"]')
    with background(open_gateway(file)) as url:
        assert list_names(url, ANN) == ["add"]
        assert call_raw(url, ANN, "purge", "openapi") == call_raw(url, ANN, "quell", "openapi")


BUNDLES = """
[bundles.support]
title = "Support tools"
tools = ["tasks.list_*", "tasks.close", "sums"]
[bundles.reading]
effects = ["reads"]
"""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bundle_has_its_own_url_on_each_protocol(write: Write, protocol: str) -> None:
    ending = "/mcp" if protocol == "mcp" else "/"
    with background(open_gateway(write(f'{BUNDLES}[callers.bob]\ntools = ["sums"]\n'))) as url:
        support, reading = (f"{url}/bundles/{name}{ending}" for name in ("support", "reading"))
        assert list_names(support, ANN, protocol) == ["add", "close", "list_open"]
        assert list_names(reading, ANN, protocol) == ["add", "list_open"]
        assert list_names(support, BOB, protocol) == ["add"]
        with connect_sync(f"{url}/bundles/reading/", api_key=ANN) as found:
            assert sorted(found.catalog().names) == ["add", "list_open"]
        assert list_names(f"{url}{ending}", ANN, protocol) == ["add", "appraise", "close", "list_open", "purge"]
        with connect_sync(support, api_key=ANN, protocol=protocol, approve=lambda _: True) as remote:
            assert remote.call("close", {"project": "help"}) == Value("closed 1 of help")
            assert protocol == "otc" or remote.catalog().title == "Support tools"  # OTC has no titles
        inside = f"{url}/bundles/support"
        assert call_raw(inside, ANN, "purge", protocol) == call_raw(inside, ANN, "quell", protocol)


def test_bundle_has_documents_and_a_page_of_its_own(write: Write) -> None:
    with background(open_gateway(write(BUNDLES))) as url:
        headers = {"authorization": f"Bearer {ANN}"}
        page = httpx2.post(f"{url}/bundles/support/", data={"key": ANN}).text
        index = httpx2.get(f"{url}/bundles/support/.well-known/llm.json", headers=headers).json()
        document = httpx2.get(f"{url}/bundles/support/openapi.json", headers=headers).json()
        unknown = httpx2.get(f"{url}/bundles/nothing/tools", headers=headers)
    assert "Support tools" in page
    assert "close" in page
    assert "purge" not in page
    assert "/bundles/support/" in str(index)
    assert document["info"]["title"] == "Support tools"
    assert "/bundles/support" in str(document["servers"])
    assert unknown.status_code == 404


@pytest.mark.parametrize("place", ["", "/bundles/support"])
def test_tools_that_find_others_tell_only_of_what_the_caller_may_use(write: Write, place: str) -> None:
    above = 'api-key-file = "keys.txt"\nfind = "always"'
    rights = '[callers.ann]\neffects = ["reads", "writes"]\n' if not place else ""
    with background(open_gateway(write(f"{BUNDLES}{rights}", above=above))) as url:
        ask = {"name": "find", "arguments": {"words": "task purge close project"}}
        found = ask_mcp(url + place, ANN, "tools/call", ask).text
        ask = {"name": "describe", "arguments": {"names": ["purge", "close"]}}
        described = ask_mcp(url + place, ANN, "tools/call", ask).text
        ask = {"name": "call", "arguments": {"name": "purge", "arguments": {"project": "help"}}}
        called = ask_mcp(url + place, ANN, "tools/call", ask).text
    assert "close" in found
    assert "purge" not in found
    assert "Close a task" in described
    assert "Remove all tasks" not in described
    assert "Unknown tool 'purge'" in called
    assert "Tasks.purge" not in called


def test_session_of_a_bundle_is_none_of_the_gateway(write: Write) -> None:
    with background(open_gateway(write(BUNDLES))) as url:
        inside = f"{url}/bundles/reading"
        session = open_session(inside, ANN)
        listed = ask_mcp(inside, ANN, "tools/list", session=session).text
        outside = ask_mcp(url, ANN, "tools/list", session=session)
    assert "list_open" in listed
    assert "purge" not in listed
    assert outside.status_code == 404


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ('[callers.ann]\ntools = "sums"\n', 'tools is an array of patterns: "UPSTREAM", or "UPSTREAM.TOOL"'),
        ('[callers.ann]\ntools = ["task.x"]\n', "there is no upstream 'task'; did you mean \"tasks\"?"),
        ('[callers.ann]\ntools = ["tasks.[ab]"]\n', "'tasks.[ab]' is not a pattern of tools"),
        ('[callers.ann]\neffects = ["read"]\n', "effects is an array of some of reads, writes, destructive, costs"),
        ('[callers.ann.arguments]\n"tasks.x" = [["project", "eq", 1]]\n', "The pointer must be a JSON Pointer"),
        ('[callers.ann]\nclaims = [["/groups", "has", "x"]]\n', "The op must be one of"),
        ('[callers."*"]\nclaims = [["/groups", "eq", "x"]]\n', "claims are for a group"),
        ('[bundles.Support]\ntools = ["sums"]\n', "the name of a bundle is a part of its URL"),
        ("[bundles.support]\n", 'a bundle needs "tools"'),
    ],
)
def test_fault_of_the_file_is_one_sentence_with_its_line(write: Write, rest: str, said: str) -> None:
    with pytest.raises(ToolwireError, match=r"^toolwire\.toml:\d+:\d+: ") as error:
        open_gateway(write(rest))
    assert said in str(error.value)
