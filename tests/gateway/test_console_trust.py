"""Operators trust what an upstream calls read-only, in the console of the gateway."""

from __future__ import annotations

import html
import re
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.console_reader import Reader
from tests.support.listed_tools import ListedTools, list_tool
from toolwire import Secret, connect_sync
from toolwire.auth.credential import Credential
from toolwire.hosting import open_gateway
from toolwire.hosting.gateway_callers import open_caller_vault
from toolwire.stores.consent.open import open_decisions, open_grants
from toolwire.testing import background

KEYS = "key-of-ann ann\nkey-of-olga olga toolwire:console\n"
CHANGED = "changed some of these tools meanwhile"


def build_server() -> ListedTools:
    return ListedTools(
        list_tool("find", about="Find <b>it</b>.", readOnlyHint=True),
        list_tool("browse", names=("url",), readOnlyHint=True, openWorldHint=True),
        list_tool("write", readOnlyHint=False),
        list_tool("wipe", readOnlyHint=True, destructiveHint=True),
    )


@contextmanager
def run_nodes(folder: Path, target: str, count: int = 1, *, more: str = "", head: str = "") -> Generator[list[str]]:
    """Give the URLs of gateways that share the file and the state in ``folder``."""
    (folder / "keys.txt").write_text(KEYS)
    file = folder / "toolwire.toml"
    head += f'consent = "refuse"\nstate = "{folder}/state"\napi-key-file = "keys.txt"\n'
    file.write_text(f'{head}[upstreams.far]\ntarget = "{target}/mcp"\nprotocol = "mcp"\n{more}')
    with ExitStack() as stack:
        yield [stack.enter_context(background(open_gateway(file))) for _ in range(count)]


def runs(url: str, *names: str) -> list[bool]:
    """Call as Ann, whose client asks nobody, and return which calls have run."""
    with connect_sync(url, protocol="otc", api_key="key-of-ann", agree=lambda _: True) as remote:
        return [remote.call(name, {"url": "x"} if name == "browse" else {}).ok for name in names]


def read_hint(url: str, name: str) -> bool:
    """Return whether the gateway itself tells its callers that the tool only reads."""
    with connect_sync(url, protocol="otc", api_key="key-of-ann") as remote:
        tool = next(one for one in remote.tools if one.name == name)
        return tool.safe or tool.claimed_safe


def open_console(url: str) -> Reader:
    return Reader(url, "key-of-olga", root="/console")


def look(reader: Reader) -> str:
    return html.unescape(reader.submit("/connections", url="far"))


def list_untrusted(page: str) -> dict[str, str]:
    """Return the digests in the form by the names of the tools."""
    found = re.findall(r'name="trust (\w+)" value="yes" checked> <span><code>(\w+)</code>', page)
    return {name: digest for digest, name in found}


def trust(reader: Reader, *digests: str) -> str:
    return html.unescape(reader.submit("/connections", url="far", **{f"trust {one}": "yes" for one in digests}))


@pytest.mark.requirement("QF-01")
def test_console_trusts_what_it_shows_on_every_node_and_after_a_restart(tmp_path: Path) -> None:
    server = build_server()
    with background(server) as far:
        with run_nodes(tmp_path, far, 2) as (one, other):
            for url in (one, other):
                assert runs(url, "find", "browse", "write") == [False, False, False]
            reader = open_console(one)
            page = look(reader)
            shown = list_untrusted(page)
            assert shown.keys() == {"find", "browse"}, "what may destroy is no read, whatever else its server says"
            assert "the site says that it reaches other systems" in page
            assert "takes a destination: url" in page
            assert not read_hint(one, "find")
            assert list_untrusted(trust(reader, shown["find"])).keys() == {"browse"}
            for url in (one, other):
                assert runs(url, "find", "browse", "write") == [True, False, False]
                assert read_hint(url, "find")
        with run_nodes(tmp_path, far) as (again,):
            assert read_hint(again, "find")
            assert runs(again, "find", "browse") == [True, False]
    assert [name for name, _ in server.called] == ["find", "find", "find"]
    records = [entry.record for entry in open_decisions(tmp_path / "state").entries()]
    (agreed,) = [one for one in records if one.decision == "agreed"]
    assert (agreed.principal, agreed.channel, agreed.binding) == ("olga", "console", shown["find"])
    assert agreed.tool.partition("@")[0].endswith("find")


@pytest.mark.requirement("QF-01")
@pytest.mark.parametrize(
    "changed",
    [
        {"description": "Find a text, and send it."},
        {"annotations": {"readOnlyHint": False}},
        {"annotations": {"readOnlyHint": True, "openWorldHint": True}},
        {"inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}}},
    ],
    ids=["meaning", "flipped", "world", "argument"],
)
def test_tool_that_changes_asks_again_and_only_the_change_is_shown(tmp_path: Path, changed: dict[str, Any]) -> None:
    server = build_server()
    with background(server) as far, run_nodes(tmp_path, far, 2) as (one, other):
        reader = open_console(one)
        trust(reader, *list_untrusted(look(reader)).values())
        assert runs(one, "find", "browse") == [True, True]
        server.tools[0] = {**server.tools[0], **changed}
        page = look(reader)
        asked = list_untrusted(page)
        is_read = changed.get("annotations", {}).get("readOnlyHint", True)
        assert asked.keys() == ({"find"} if is_read else set())
        assert ("changed since you trusted or approved it: " in page) is is_read
        assert runs(one, "find", "browse") == [False, True]
        open_console(other).submit("/connections", url="far")  # it has the change now too
        assert runs(other, "find", "browse") == [False, True]
        if asked:
            assert list_untrusted(trust(reader, *asked.values())) == {}
            assert [runs(url, "find") for url in (one, other)] == [[True], [True]]


@pytest.mark.requirement("QF-01")
def test_change_between_showing_and_pressing_is_refused_and_trusts_nothing(tmp_path: Path) -> None:
    server = build_server()
    with background(server) as far, run_nodes(tmp_path, far) as (url,):
        reader = open_console(url)
        shown = list_untrusted(look(reader))
        server.tools[0] = list_tool("find", about="Changed meanwhile.", readOnlyHint=True)
        assert CHANGED in trust(reader, *shown.values())
        assert CHANGED in trust(reader, "0" * 64)
        assert runs(url, "find", "browse") == [False, False]
        assert list_untrusted(look(reader)).keys() == {"find", "browse"}
        assert not open_grants(tmp_path / "state").list_grants()


@pytest.mark.requirement("QF-01")
def test_trust_is_a_permission_that_counts_and_is_taken_back_at_once(tmp_path: Path) -> None:
    server = build_server()
    with background(server) as far, run_nodes(tmp_path, far, 2) as (one, other):
        reader = open_console(one)
        trust(reader, list_untrusted(look(reader))["find"])
        assert [runs(url, "find") for url in (one, other)] == [[True], [True]]
        page = html.unescape(reader.get("/permissions"))
        assert "2 calls" in page
        (grant,) = open_grants(tmp_path / "state").list_grants()
        reader.submit("/permissions", id=grant.id)
        assert [runs(url, "find") for url in (one, other)] == [[False], [False]]


@pytest.mark.requirement("QF-01", "QF-02")
def test_rule_of_the_file_that_asks_wins_over_the_trust(tmp_path: Path) -> None:
    server = build_server()
    with background(server) as far, run_nodes(tmp_path, far, more='ask = ["find"]\n') as (url,):
        reader = open_console(url)
        trust(reader, *list_untrusted(look(reader)).values())
        assert runs(url, "find", "browse") == [False, True]


@pytest.mark.requirement("QF-01")
def test_form_without_its_token_or_an_operator_trusts_nothing(tmp_path: Path) -> None:
    server = build_server()
    with background(server) as far, run_nodes(tmp_path, far) as (url,):
        reader = open_console(url)
        digest = list_untrusted(look(reader))["find"]
        reader.submit("/connections", url="far", token="other", **{f"trust {digest}": "yes"})
        assert runs(url, "find") == [False]


@pytest.mark.requirement("QF-01")
def test_trust_covers_callers_who_have_credentials_of_their_own(tmp_path: Path) -> None:
    server, sealing = build_server(), tmp_path / "sealing"
    sealing.write_text("k" * 64)
    sealing.chmod(0o600)
    with background(server) as far:
        key = Credential(kind="key", resource=f"{far}/mcp", access=Secret("key-at-far"))
        open_caller_vault(str(sealing), tmp_path / "state").open_store("key:ann").put(key)
        with run_nodes(tmp_path, far, 2, more='account = "caller"\n', head=f'key-file = "{sealing}"\n') as (one, other):
            assert runs(one, "find", "browse") == [False, False]
            reader = open_console(one)
            trust(reader, list_untrusted(look(reader))["find"])
            assert [runs(url, "find", "browse") for url in (one, other)] == [[True, False]] * 2
