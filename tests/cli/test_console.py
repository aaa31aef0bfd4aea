"""``toolwire console`` as a program: its link, its pages, and its end."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.scripted_model import lines, provider
from tests.support.console_process import start_console
from tests.support.console_reader import Reader
from tests.support.listed_tools import ListedTools, list_tool
from tests.support.waiting import wait_until
from toolwire.consent.grant import GrantKey
from toolwire.stores.consent.grants import StoredGrants
from toolwire.testing import background


@pytest.mark.requirement("CO-02")
def test_console_shows_what_other_commands_keep_and_takes_it_back(tmp_path: Path, site: str) -> None:
    grants = StoredGrants(tmp_path / "toolwire")
    grants.add(GrantKey("me", "desk", site, "Desk.note@1.2.0", "d" * 64))
    with start_console("--no-open", site, home=tmp_path) as (process, url, key):
        reader = Reader(url, key)
        assert "Desk.note@1.2.0" in reader.get("/permissions")
        assert "Revoked. The next call asks again." in reader.submit("/permissions", id=grants.list_grants()[0].id)
        assert grants.list_grants() == []
        offers = reader.submit("/connections", url=site)
        assert "<code>shred</code>" in offers
        assert "destroys something" in offers
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


@pytest.mark.requirement("QF-01")
def test_console_shows_the_tools_of_a_site_before_any_call_and_trusts_them_once(
    tmp_path: Path, toolwire: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    server = ListedTools(
        list_tool("find", about="Find <b>it</b>.", readOnlyHint=True),
        list_tool("browse", names=("url",), readOnlyHint=True, openWorldHint=True),
        list_tool("write"),
    )

    def list_untrusted(page: str) -> dict[str, str]:
        """Return the digests in the form by the names of the tools."""
        found = re.findall(r'name="trust (\w+)" value="yes" checked> <span><code>(\w+)</code>', page)
        return {name: digest for digest, name in found}

    def run(tool: str, *words: str) -> bool:
        return bool(toolwire("call", f"{far}/mcp", tool, *words).code == 0)

    with background(server) as far, start_console("--no-open", f"{far}/mcp", home=tmp_path) as (_, url, key):
        assert not run("find")
        reader = Reader(url, key)
        page = reader.submit("/connections", url=f"{far}/mcp")
        shown = list_untrusted(page)
        assert shown.keys() == {"find", "browse"}
        assert "Find &lt;b&gt;it&lt;/b&gt;." in page
        assert "the site says that it reaches other systems" in page
        assert "takes a destination: url" in page
        page = reader.submit("/connections", url=f"{far}/mcp", **{f"trust {shown['find']}": "yes"})
        assert list_untrusted(page).keys() == {"browse"}
        assert [run("find"), run("browse", "url=x"), run("write")] == [True, False, False]
        server.tools[0] = list_tool("find", about="Find it.", names=("to",), readOnlyHint=True)
        server.tools[1] = list_tool("browse", about="Changed meanwhile.", readOnlyHint=True, openWorldHint=True)
        page = reader.submit("/connections", url=f"{far}/mcp", **{f"trust {shown['browse']}": "yes"})
        assert "changed some of these tools meanwhile" in page
        page = reader.submit("/connections", url=f"{far}/mcp")
        assert list_untrusted(page).keys() == {"find", "browse"}
        assert page.count("changed since you trusted or approved it: ") >= 1
        assert not run("find")
        again = {f"trust {digest}": "yes" for digest in list_untrusted(page).values()}
        assert list_untrusted(reader.submit("/connections", url=f"{far}/mcp", **again)) == {}
        assert [run("find"), run("browse")] == [True, True]


@pytest.mark.requirement("CO-02")
def test_console_compares_a_site_with_the_lock(tmp_path: Path, site: str, toolwire: Callable[..., Any]) -> None:
    lock = tmp_path / "toolwire.lock"
    assert toolwire("lock", site, "--file", lock).code == 0
    with start_console("--no-open", "--lock", lock, home=tmp_path) as (_, url, key):
        reader = Reader(url, key)
        locked = re.search(r'name="url" value="([^"]+)"', reader.get("/lock"))
        assert locked is not None
        assert "The server has not changed since it was locked." in reader.submit("/lock", url=locked[1])
        lock.write_text(json.dumps({"lock": 1, "connections": {locked[1]: {}}}))
        assert "added, wider" in reader.submit("/lock", url=locked[1])
        lock.write_text("damaged")
        assert "This is not a version 1 toolwire.lock file. Create one with `toolwire lock URL`" in reader.get("/lock")


@pytest.mark.requirement("CO-02")
def test_console_refuses_a_file_as_a_site_and_a_folder_of_others(tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("console", "tools.py", "--no-open")
    assert (outcome.code, "is not a URL" in outcome.err) == (2, True)
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    outcome = toolwire("console", "--path", folder, "--no-open")
    assert (outcome.code, "Other users can write to" in outcome.err) == (2, True)


@pytest.mark.requirement("CO-03")
def test_chat_in_the_browser_uses_the_model_and_the_sites_of_the_command_line(tmp_path: Path, site: str) -> None:
    with provider(lines([("add", {"a": 2, "b": 3})], "It is five.")) as model:
        options = ("--browser", "--no-open", site, "--agree", "--model", "scripted", "--base-url", f"{model.url}/v1")
        with start_console(*options, home=tmp_path, command="chat") as (process, url, key):
            reader = Reader(url, key)
            wait_until(lambda: "connected" in reader.get("/chat"))
            reader.submit("/chat", message="What is 2 + 3?")
            wait_until(lambda: "It is five." in reader.get("/chat"))
            assert "add at" in reader.get("/chat")
            assert "The command line chose the model scripted" in reader.get("/chat/settings")
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
    assert '"result":5' in model.heard[-1]["messages"][-1]["content"]


@pytest.mark.requirement("CO-03")
def test_chat_without_a_site_or_a_model_says_what_is_missing(toolwire: Callable[..., Any], site: str) -> None:
    outcome = toolwire("chat", "--model", "m")
    assert (outcome.code, "toolwire chat URL" in outcome.err) == (2, True)
    outcome = toolwire("chat", "--browser", site, "--base-url", "nonsense", "--model", "m")
    assert (outcome.code, "--base-url nonsense is not an http" in outcome.err) == (2, True)
