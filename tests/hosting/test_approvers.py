"""Questions about a tool that has an approver group are answered by users of that group alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from toolwire import Problem, Toolkit, ToolwireError, Value, asgi, connect_sync
from toolwire.cli import main
from toolwire.core.model import Condition, Result
from toolwire.hosting import open_gateway
from toolwire.limits import CallerRules, RulesByCaller
from toolwire.server.access.caller_rules import list_groups
from toolwire.server.access.callers import Caller
from toolwire.testing import background

pytestmark = pytest.mark.requirement("PL-03")

KEYS = {"ann": "key-of-ann", "bob": "key-of-bob", "eve": "key-of-eve"}
tasks = Toolkit("Tasks")


@tasks.tool(approval="per-call", blanket_allowed=True)
def close(number: int) -> str:
    """Close a task."""
    return f"closed {number}"


@tasks.tool(approval="per-call")
def rename(number: int) -> str:
    """Rename a task."""
    return f"renamed {number}"


def write_file(folder: Path, site: str, more: str, above: str = "") -> Path:
    (folder / "keys.txt").write_text("".join(f"{key} {name}\n" for name, key in KEYS.items()))
    head = f'api-key-file = "keys.txt"\nstate = "kept"\npublic-url = "http://127.0.0.1:9"\n{above}\n'
    file = folder / "toolwire.toml"
    file.write_text(f'{head}[callers.leads]\nmembers = ["bob"]\n[upstreams.tasks]\ntarget = "{site}"\n{more}\n')
    return file


@pytest.fixture
def site() -> Iterator[str]:
    with background(asgi(tasks)) as url:
        yield url


def call(url: str, protocol: str, name: str, tool: str, number: int) -> Result:
    with connect_sync(url, protocol=protocol, api_key=KEYS[name], approve=lambda _: True) as remote:
        return remote.call(tool, {"number": number})


def answer(url: str, name: str, **more: str) -> httpx2.Response:
    """Allow the newest question that the owner of a key sees, or the one with the id in ``more``."""
    with httpx2.Client(base_url=url, follow_redirects=True) as browser:
        page = browser.post("/inbox/sign-in", data={"key": KEYS[name], "next": "/"}).text
        form = dict(re.findall(r'name="(token)" value="([^"]*)"', page))
        newest = re.findall(r'<article class="card" data-key="([^"]*)"', page)[-1:]
        return browser.post("/inbox/", data={**form, "id": "".join(newest), "answer": "allow", **more})


@pytest.mark.parametrize("protocol", ["opentool", "otc", "openapi", "mcp"])
def test_client_that_approves_by_itself_decides_nothing_about_a_tool_with_approvers(
    tmp_path: Path, site: str, protocol: str
) -> None:
    file = write_file(tmp_path, site, 'approvers = {"close*" = ["leads"]}')
    with background(open_gateway(file)) as url:
        refused = call(url, protocol, "ann", "close", 1)
        assert isinstance(refused, Problem)
        assert ", within five minutes. Then send the same call again" in refused.message
        own = answer(url, "ann")
        assert (own.status_code, "for the users of leads" in own.text) == (403, True)
        id_ = re.findall(r'<article class="card" data-key="([^"]*)"', own.text)[-1]
        assert "No pending questions" in answer(url, "eve", id=id_).text
        assert isinstance(call(url, protocol, "ann", "close", 1), Problem)
        assert answer(url, "bob").status_code == 200
        assert call(url, protocol, "ann", "close", 1) == Value("closed 1")
        # An answer is for one call, and other tools are asked about as before.
        assert isinstance(call(url, protocol, "ann", "close", 1), Problem)
        assert call(url, protocol, "ann", "rename", 1) == Value("renamed 1")


@pytest.mark.parametrize(
    ("more", "above", "sentence"),
    [
        ("approvers = 1", "", "approvers must be an array of groups"),
        ('approvers = {"close" = []}', "", "name at least one group for each pattern"),
        ('approvers = ["*"]', "", "approvers must name each one"),
        ('approvers = ["leads"]', 'receipts = "required"', "leave out receipts"),
        ("", "self-approval = 1", "self-approval must be true or false"),
    ],
)
def test_approvers_that_cannot_be_are_one_sentence(tmp_path: Path, more: str, above: str, sentence: str) -> None:
    with pytest.raises(ToolwireError, match=sentence):
        open_gateway(write_file(tmp_path, "http://127.0.0.1:9", more, above))


def test_group_that_the_file_defines_is_none_of_the_same_name_at_the_issuer() -> None:
    claims = (Condition("/department", "eq", "tools"),)
    rules = RulesByCaller({"leads": CallerRules(claims=claims), "bob": CallerRules(member_of="heads")})
    caller = Caller("user:s:0a", claims={"groups": ["leads", "heads", "staff", 1, ""]})
    assert list_groups(caller, rules, "groups") == {"heads", "staff"}
    assert list_groups(Caller("user:s:0a", claims={"department": "tools", "groups": "staff"}), rules, "groups") == {
        "leads",
        "staff",
    }


CODE = """
from toolwire import Toolkit

tasks = Toolkit("Tasks")


@tasks.tool(approval="per-call", blanket_allowed=True)
def close(number: int) -> str:
    return f"closed {number}"


@tasks.tool(approval="per-call", long=True, keep_s=60)
def close_all(number: int) -> str:
    return f"closed all {number}"


@tasks.tool(approval="per-call")
def rename(number: int) -> str:
    return f"renamed {number}"


@tasks.tool(approval="auto", safe=True)
def close_count(number: int) -> int:
    return number
"""


@pytest.mark.parametrize("protocol", ["opentool", "otc", "openapi", "mcp"])
@pytest.mark.parametrize("consent", ["hints", "refuse", "inbox"])
def test_approvers_answer_for_the_code_of_the_gateway_too(tmp_path: Path, protocol: str, consent: str) -> None:
    (tmp_path / "desk.py").write_text(CODE)
    file = write_file(tmp_path, "desk.py", 'approvers = {"close*" = ["leads"]}', f'consent = "{consent}"')
    with background(open_gateway(file)) as url:
        # An MCP host without forms gets a task for a long call, which waits for the answer.
        for tool in ("close", "close_all") if protocol != "mcp" else ("close",):
            refused = call(url, protocol, "ann", tool, 1)
            assert isinstance(refused, Problem)
            assert ", within five minutes. Then send the same call again" in refused.message
            own = answer(url, "ann")
            assert (own.status_code, "for the users of leads" in own.text) == (403, True)
            assert isinstance(call(url, protocol, "ann", tool, 1), Problem)
            assert answer(url, "bob").status_code == 200
            allowed = call(url, protocol, "ann", tool, 1)
            assert isinstance(allowed, Value), allowed
        assert isinstance(call(url, protocol, "ann", "close", 2), Problem), "a yes is for one call"
        assert isinstance(call(url, protocol, "ann", "close_count", 2), Value)


@pytest.mark.parametrize("protocol", ["opentool", "otc", "openapi", "mcp"])
def test_no_one_answers_the_own_calls_of_code_of_the_gateway(tmp_path: Path, protocol: str) -> None:
    (tmp_path / "desk.py").write_text(CODE)
    file = write_file(tmp_path, "desk.py", "", "self-approval = false")
    with background(open_gateway(file)) as url:
        refused = call(url, protocol, "ann", "rename", 1)
        assert isinstance(refused, Problem)
        assert answer(url, "ann").status_code == 403
        assert isinstance(call(url, protocol, "ann", "rename", 1), Problem)


def test_check_names_a_group_that_no_one_is_in_and_a_file_in_which_no_one_can_answer(
    tmp_path: Path, site: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLWIRE_SETTINGS", "trust")
    write_file(tmp_path, site, 'approvers = ["lead"]', "self-approval = false")
    assert main(["gateway", "check"]) == 0
    text = capsys.readouterr().err
    assert "The group lead, whose users answer questions about tasks, is empty" in text
    assert "only `toolwire approvals` in a terminal can answer" in text


@pytest.mark.parametrize("consent", ["refuse", "inbox"])
def test_long_call_of_an_mcp_host_without_forms_waits_as_a_task_for_the_approver(tmp_path: Path, consent: str) -> None:
    (tmp_path / "desk.py").write_text(CODE)
    file = write_file(tmp_path, "desk.py", 'approvers = {"close*" = ["leads"]}', f'consent = "{consent}"')
    with background(open_gateway(file)) as url, ThreadPoolExecutor(1) as threads:
        ended = threads.submit(call, url, "mcp", "ann", "close_all", 1)
        while (own := answer(url, "ann")).status_code != 403:  # until the call waits
            assert not ended.done(), ended.result()
        assert "for the users of leads" in own.text
        assert not ended.done(), "its caller answers nothing"
        assert answer(url, "bob").status_code == 200
        assert ended.result(60) == Value("closed all 1")


def test_long_call_of_an_mcp_host_that_asks_by_itself_is_refused_until_the_approver_answered(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(CODE)
    file = write_file(tmp_path, "desk.py", 'approvers = {"close*" = ["leads"]}', 'consent = "hints"')
    with background(open_gateway(file)) as url:
        refused = call(url, "mcp", "ann", "close_all", 1)
        assert isinstance(refused, Problem)
        assert "its user must decide at" in refused.message
        assert answer(url, "bob").status_code == 200
        assert call(url, "mcp", "ann", "close_all", 1) == Value("closed all 1")
