"""The levels of consent that a user sets once hold for every command, for ``connect`` and for servers of remotes."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from toolwire import Answer, Preferences, Toolkit, asgi, connect, connect_sync, open_stored_session
from toolwire.cli import main
from toolwire.client.approvers.browser_approver import page_approver
from toolwire.core.check import Question
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Kind, Problem, Value
from toolwire.hosting.open_upstreams import UpstreamCalls, open_toolbox
from toolwire.hosting.targets.target import UrlTarget
from toolwire.stores.consent.preferences import PREFERENCES_FILE, StoredPreferences
from toolwire.testing.loopback import background

ASKED: list[str] = []


def shop() -> Toolkit:
    kit = Toolkit("Shop")

    @kit.tool(approval="auto", safe=True)
    def look() -> str:
        """Look."""
        return "tea"

    @kit.tool(approval="auto", safe=False)
    def buy() -> str:
        """Buy."""
        return "bought"

    @kit.tool(approval="per-call", blanket_allowed=True)
    def save() -> str:
        """Save."""
        return "saved"

    return kit


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "toolwire"


@pytest.fixture
def url(state: Path) -> Iterator[str]:
    with background(asgi(shop())) as base:
        yield base


def ask(question: Question) -> Answer:
    ASKED.append(question.call.tool.name)
    return Answer(allowed=True, always=question.always_allowed)


@pytest.fixture(autouse=True)
def _forget() -> None:
    ASKED.clear()


@pytest.mark.requirement("XL-042", "CC-04")
def test_every_command_applies_the_stored_level(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", url, "look", "--agree"]) == 0
    assert main(["approvals", "set", url, "look", "deny"]) == 0
    assert f"look of {url} is never called" in capsys.readouterr().out
    assert main(["call", url, "look", "--agree"]) == 3
    assert main(["approvals", "set", url, "look", "per-call"]) == 0
    assert main(["call", url, "look", "--agree"]) == 3  # no terminal to ask at
    assert "needs your consent" in capsys.readouterr().err
    assert main(["call", url, "look", "--agree", "--yes"]) == 3
    assert main(["approvals", "unset", url, "look"]) == 0
    assert main(["approvals", "unset", url, "look"]) == 1
    assert main(["call", url, "look", "--agree"]) == 0


@pytest.mark.requirement("XL-042", "CC-04")
def test_stored_level_is_listed_and_shown_with_the_tools(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["look", "deny"], ["--writes", "per-call"], ["--every", "per-call"]):
        option = [one for one in words if one.startswith("--")]
        assert main(["approvals", "set", url, *(one for one in words if not one.startswith("--")), *option]) == 0
    capsys.readouterr()
    assert main(["approvals"]) == 0
    listed = capsys.readouterr().out
    assert [line.split()[-1] for line in listed.splitlines()[1:]] == ["per-call", "per-call", "deny"]
    assert "every tool that changes something" in listed
    assert main(["tools", url]) == 0
    assert "denied" in capsys.readouterr().out
    assert main(["tools", url, "--json"]) == 0
    levels = {one["name"]: one["consent"] for one in json.loads(capsys.readouterr().out)}
    assert levels == {"look": "deny", "buy": "per-call", "save": "per-call"}


@pytest.mark.requirement("XL-042", "XL-048")
def test_new_level_applies_to_an_open_connection(url: str) -> None:
    with connect_sync(url, approve=ask, agree=lambda _: True) as remote:
        assert remote.call("buy") == Value("bought")
        assert main(["approvals", "set", url, "--writes", "per-call"]) == 0
        assert remote.call("buy") == Value("bought")
        assert ASKED == ["buy"]
        assert main(["approvals", "set", url, "buy", "deny"]) == 0
        result = remote.call("buy")
        assert isinstance(result, Problem)
        assert result.kind is Kind.DENIED
        assert remote.call("look") == Value("tea")


@pytest.mark.requirement("XL-042", "XL-045", "XL-048")
def test_new_level_ends_an_allow_always_grant(url: str, state: Path) -> None:
    session = open_stored_session()
    with connect_sync(url, approve=ask, session=session) as remote:
        assert remote.call("save") == Value("saved")
        assert remote.call("save") == Value("saved")
        assert ASKED == ["save"]  # allowed always
        assert main(["approvals", "set", url, "save", "per-call"]) == 0
        assert remote.call("save") == Value("saved")
        assert remote.call("save") == Value("saved")
    assert ASKED == ["save"] * 3


@pytest.mark.requirement("XL-042", "CC-04")
@pytest.mark.anyio
async def test_connect_reads_stored_levels_unless_disabled(url: str) -> None:
    assert main(["approvals", "set", url, "look", "deny"]) == 0
    async with connect(url, agree=lambda _: True) as remote:
        assert isinstance(await remote.call("look"), Problem)
    async with connect(url, agree=lambda _: True, preferences=None) as remote:
        assert await remote.call("look") == Value("tea")
    with connect_sync(url, agree=lambda _: True, preferences=None) as sync:
        assert sync.call("look") == Value("tea")


@pytest.mark.requirement("XL-042")
def test_stored_level_applies_to_one_site(url: str) -> None:
    assert main(["approvals", "set", "http://127.0.0.1:9", "look", "deny"]) == 0
    assert main(["call", url, "look", "--agree"]) == 0


@pytest.mark.requirement("XL-042")
def test_level_for_an_unknown_tool_is_stored_with_a_warning(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approvals", "set", url, "lok", "deny"]) == 0
    reply = capsys.readouterr()
    assert f"lok of {url} is never called" in reply.out
    assert "'lok'" in reply.err
    assert "look" in reply.err
    assert main(["approvals", "unset", url, "lok"]) == 0
    assert main(["approvals", "set", url, "look", "deny"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.requirement("XL-042")
@pytest.mark.parametrize("name", ["Shop.look", "Shop_look", "shop.look", "look"])
def test_level_can_be_set_by_any_name_of_a_tool(url: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with connect_sync(url, agree=lambda _: True) as remote:
        is_known = not isinstance(remote.find(name), Problem)
    assert main(["approvals", "set", url, name, "deny"]) == 0
    text = capsys.readouterr().err
    assert main(["call", url, "look", "--agree"]) == (3 if is_known else 0)
    if not is_known:
        assert f"Unknown tool {name!r}. Available tools: " in text


@pytest.mark.requirement("XL-042")
def test_level_can_be_set_for_an_unreachable_site(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approvals", "set", "http://127.0.0.1:9", "look", "deny"]) == 0
    assert "was not checked" in capsys.readouterr().err
    assert StoredPreferences(state).list_levels() == [("http://127.0.0.1:9", "look", Approval.DENY)]


@pytest.mark.requirement("XL-042")
def test_gateway_applies_the_stored_level(url: str) -> None:
    assert main(["approvals", "set", url, "look", "deny"]) == 0
    gateway = open_toolbox(UrlTarget(url), calls=UpstreamCalls(agree=True))
    with background(asgi(gateway)) as served:
        assert main(["call", served, "look", "--agree"]) == 3
        assert main(["approvals", "unset", url, "look"]) == 0
        assert main(["call", served, "look", "--agree"]) == 0


@pytest.mark.requirement("XL-042", "CC-04")
@pytest.mark.parametrize(
    "words",
    [
        ["set", "SITE", "look", "auto"],
        ["set", "SITE", "look"],
        ["set", "SITE"],
        ["set"],
        ["set", "SITE", "look", "deny", "more"],
        ["set", "ftp://x", "look", "deny"],
        ["unset", "SITE"],
        ["unset", "SITE", "look", "deny"],
        ["revoke", "g1", "look"],
    ],
)
def test_loosening_or_incomplete_level_is_a_usage_error(
    words: list[str], state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["approvals", *(word.replace("SITE", "shop.example") for word in words)]) == 2
    assert capsys.readouterr().err
    assert not (state / PREFERENCES_FILE).exists()


@pytest.mark.requirement("XL-042")
def test_preferences_file_is_private_and_a_damaged_one_loosens_nothing(
    url: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["approvals", "set", url, "look", "deny"]) == 0
    file = state / PREFERENCES_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    with connect_sync(url, agree=lambda _: True) as remote:
        for text in ('{"version": 1, "sites": {', '{"version": 1, "sites": {"SITE": {"look": "auto"}}}', "[1]"):
            file.write_text(text.replace("SITE", url))
            assert isinstance(remote.call("look"), Problem)
            with pytest.raises(DefinitionError, match=r"preferences\.json"):
                connect_sync(url).__enter__()
            capsys.readouterr()
            assert main(["call", url, "look", "--agree"]) != 0
            assert "preferences.json" in capsys.readouterr().err


@pytest.mark.requirement("XL-042")
def test_concurrent_writers_lose_no_level(state: Path) -> None:
    def write(number: int) -> None:
        StoredPreferences(state).set("https://a.example", f"tool{number}", Approval.DENY)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(StoredPreferences(state).list_levels()) == 16


# on the page


def press(level: str, answer: str) -> Callable[[str], None]:
    """Return a browser that answers the page with ``level`` for later calls."""

    def open_page(page_url: str) -> None:
        def work() -> None:
            with urllib.request.urlopen(page_url, timeout=10) as page:
                text = page.read().decode()
            assert f'<option value="{level}">' in text
            token = text.split('name="token" value="')[1].split('"')[0]
            form = urlencode({"token": token, "answer": answer, "later": level}).encode()
            urllib.request.urlopen(page_url, form, timeout=10).close()

        threading.Thread(target=work, daemon=True).start()

    return open_page


@pytest.mark.requirement("XL-042", "CC-04")
@pytest.mark.parametrize(("level", "answer"), [("deny", "deny"), ("per-call", "allow")])
def test_the_page_of_a_question_sets_the_level_for_later_calls(level: str, answer: str, url: str, state: Path) -> None:
    with connect_sync(url, approve=page_approver(press(level, answer))) as remote:
        assert remote.call("save").ok is (answer == "allow")
    (stored,) = StoredPreferences(state).list_levels()
    assert (stored.site, stored.tool, stored.level.value) == (url, "save", level)
    with connect_sync(url, approve=ask) as remote:
        assert remote.call("save").ok is (level == "per-call")
    assert ["save"] * (level == "per-call") == ASKED


@pytest.mark.requirement("XL-042")
def test_question_page_offers_no_level_if_none_can_be_stored(url: str) -> None:
    seen: list[bool] = []

    def look(question: Question) -> Answer:
        seen.append(question.can_keep_level)
        return Answer(allowed=False)

    with connect_sync(url, approve=look, preferences=None) as remote:
        remote.call("save")
    with connect_sync(url, approve=look) as remote:
        remote.call("save")
    assert seen == [False, True]


@pytest.mark.requirement("XL-042")
def test_level_that_is_set_while_a_question_waits_holds_for_its_call(url: str) -> None:
    def deny_meanwhile(_: Question) -> Answer:
        assert main(["approvals", "set", url, "save", "deny"]) == 0
        return Answer(allowed=True)

    with connect_sync(url, approve=deny_meanwhile, preferences=Preferences()) as remote:
        refused = remote.call("save")
    assert isinstance(refused, Problem)
    assert refused.message == "Your rules do not allow calls of save."
