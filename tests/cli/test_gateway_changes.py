"""Upstreams are added to and removed from a gateway that runs: checked first, written to its file, and recorded."""

from __future__ import annotations

import http.client
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
import pytest

from tests.cli.conftest import Outcome
from tests.support.console_reader import Reader
from tests.support.gateway_process import WAIT_S, run_gateway
from tests.support.waiting import wait_until
from toolwire import Toolkit, Value, asgi, connect_sync
from toolwire.consent.decision_record import Decision
from toolwire.hosting.gateway_changes import ChangedBy, add_upstream
from toolwire.stores.consent.open import open_decisions
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("PL-08")

HEAD = """\
# Ours.
port = 0   # any
workers = {workers}
api-key-file = "keys.txt"
state = "kept"
"""
SLOW = """
from toolwire import Toolkit

kit = Toolkit("Slow")


@kit.tool(approval="auto")
def wait() -> str:
    "Wait for a word."
    print("the call runs", flush=True)
    return open({path!r}).read()
"""
OWN = 'from toolwire import Toolkit\nkit = Toolkit("Own")\nkit.tool(approval="auto")(abs)\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the gateway's file, which is the working folder, and which the user trusts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLWIRE_SETTINGS", "trust")
    (tmp_path / "keys.txt").write_text("key-of-olga olga toolwire:console\nkey-of-ann\n")
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a server that wants no key."""
    kit = Toolkit("Site")

    @kit.tool(safe=True, approval="auto")
    def tell() -> str:
        """Tell."""
        return "told"

    with background(asgi(kit)) as url:
        yield url


def write_file(folder: Path, tables: str, workers: int = 1) -> Path:
    file = folder / "toolwire.toml"
    file.write_text(HEAD.format(workers=workers) + tables)
    return file


def list_names(url: str) -> list[str]:
    answer = httpx2.get(f"{url}/tools", headers={"authorization": "Bearer key-of-ann"})
    # On a machine without a moment, a process that ends can still be the one that answers, with 503.
    return sorted(tool["name"] for tool in answer.json()["tools"]) if answer.status_code == 200 else []


def wait_for_names(url: str, *names: str) -> None:
    """Wait until whichever process answers offers these tools."""
    wait_until(lambda: all(list_names(url) == sorted(names) for _ in range(4)))


def list_rows(folder: Path) -> list[Decision]:
    return [one.record for one in open_decisions(folder / "kept").entries()]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_running_gateway_takes_an_added_upstream_and_finishes_the_calls_of_a_removed_one(
    folder: Path, site: str, toolwire: Callable[..., Outcome], workers: int
) -> None:
    go_on = folder / "go_on"
    os.mkfifo(go_on)
    (folder / "slow.py").write_text(SLOW.format(path=str(go_on)))
    own = '\n# Ours too.\n[upstreams.own]\ntarget = "own.py"\n'
    tables = f'\n# Slow.\n[upstreams.slow]\ntarget = "slow.py"  # here\n{own}'
    file = write_file(folder, tables, workers)
    results: list[Any] = []

    def call(url: str) -> None:
        with connect_sync(url, protocol="otc", api_key="key-of-ann", agree=lambda _: True) as remote:
            results.append(remote.call("wait"))

    with run_gateway() as (process, url):
        caller = threading.Thread(target=call, args=[url])
        caller.start()
        assert process.stdout is not None
        assert process.stdout.readline() == "the call runs\n"
        added = toolwire("gateway", "add", site, "--name", "site", "--agree")
        assert (added.code, added.err) == (0, "")
        assert added.out == "toolwire.toml: added site with 1 tool. The running gateway is loading the change.\n"
        wait_for_names(url, "abs", "tell", "wait")
        removed = toolwire("gateway", "remove", "slow")
        assert removed.out == "toolwire.toml: removed slow. The running gateway is loading the change.\n"
        wait_for_names(url, "abs", "tell")
        assert results == [], "the call goes on meanwhile"
        go_on.write_text("done")
        caller.join(WAIT_S)
        assert results == [Value("done")]
    after = f'\n# Slow.\n{own}\n[upstreams.site]\ntarget = "{site}"\nagree = true\n'
    assert file.read_text() == HEAD.format(workers=workers) + after
    rows = [(one.decision, one.tool, one.channel, one.site) for one in list_rows(folder)]
    assert rows == [("upstream added", "site", "terminal", site), ("upstream removed", "slow", "terminal", "")]
    assert all(one.principal and one.at for one in list_rows(folder))


def test_what_the_running_gateway_cannot_take_changes_nothing(
    folder: Path, site: str, toolwire: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_file(folder, '[upstreams.own]\ntarget = "own.py"\n')
    before = file.read_text()
    with run_gateway() as (_, url):
        refused = [
            (toolwire("gateway", "add", "http://127.0.0.1:1", "--name", "gone"), "could not be reached"),
            (toolwire("gateway", "add", site, "--name", "keyed", "--key-env", "NO_SUCH_KEY"), "NO_SUCH_KEY"),
            (
                toolwire("gateway", "add", "stdio:no-such-program", "--name", "program"),
                "no-such-program was not run, because it was not approved",
            ),
            (toolwire("gateway", "remove", "own"), "is the only upstream"),
            (toolwire("gateway", "remove", "onw"), "Did you mean own?"),
        ]
        monkeypatch.setenv("KEY_HERE_ALONE", "secret-word")
        here = toolwire("gateway", "add", site, "--name", "here", "--key-env", "KEY_HERE_ALONE")
        refused.append((here, "cannot load it. The upstream here: The env"))
        for outcome, words in refused:
            assert words in outcome.err
            assert outcome.code != 0
            assert "Traceback" not in outcome.err
        assert file.read_text() == before
        assert list_names(url) == ["abs"]
    assert list_rows(folder) == []
    assert sorted(path.name for path in folder.iterdir() if path.suffix not in (".pyc", "")) == [
        "keys.txt",
        "own.py",
        "toolwire.toml",
    ]


NESTED = """\
# of b
[upstreams.b] # "b"
target = "b.py"
ask = [{tools = "x", when = [
["/a", "eq", 1],
]}]
[upstreams.b.program-limits]
memory-mb = 9

# of a
[upstreams.a]
target = "own.py\"\
"""
NAMED = """\
[upstreams.a]
target = "own.py"
[upstreams.b]
target = "b.py"
[bundles.both]
tools = ["b"]
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[upstreams.b]\r\ntarget = "b.py"\r\n# of a\r\n[upstreams.a]\r\ntarget = "own.py"\r\n', None),
        (NESTED, '# of b\n\n# of a\n[upstreams.a]\ntarget = "own.py"\n'),
        (
            '[upstreams.a]\ntarget = "own.py"\n\n[ upstreams . "b" ]\ntarget = "b.py"\n# the end\n',
            '[upstreams.a]\ntarget = "own.py"\n\n# the end\n',
        ),
        ('[upstreams]\na = {target = "own.py"}\nb = {target = "b.py"}\n', ""),
        ('upstreams.b.target = "b.py"\nupstreams.a.target = "own.py"\n', ""),
        (NAMED, "there is no upstream 'b'"),
    ],
)
def test_removing_an_upstream_leaves_every_other_letter(
    folder: Path, toolwire: Callable[..., Outcome], before: str, after: str | None
) -> None:
    stored = folder / "kept.toml"
    stored.write_text(before, newline="")
    stored.chmod(0o640)
    file = folder / "toolwire.toml"
    file.symlink_to(stored)
    outcome = toolwire("gateway", "remove", "b")
    text = stored.read_bytes().decode()
    assert file.is_symlink()
    assert stored.stat().st_mode & 0o777 == 0o640
    if after is None:
        assert text == '# of a\r\n[upstreams.a]\r\ntarget = "own.py"\n'
    elif "[" in after:
        assert text == after
        assert "No gateway runs as this user" in outcome.out
    else:
        assert (outcome.code, text) == (2, before)
        assert (after or ". Edit its lines there yourself") in outcome.err


def test_changes_at_the_same_time_are_all_kept(folder: Path) -> None:
    file = write_file(folder, "")
    names = [f"site{number}" for number in range(8)]

    def add(name: str) -> None:
        add_upstream(file, name, ['target = "own.py"'], ChangedBy(name="ann", channel="terminal"))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, names))
    text = file.read_text()
    assert [text.count(f"[upstreams.{name}]") for name in names] == [1] * 8
    assert sorted(one.tool for one in list_rows(folder)) == names


def post(address: str, **fields: str) -> int:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=WAIT_S)
    headers = {"content-type": "application/x-www-form-urlencoded"}
    connection.request("POST", parts.path, urlencode(fields), headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_operators_add_and_remove_upstreams_in_the_console(folder: Path, site: str) -> None:
    file = write_file(folder, '[upstreams.own]\ntarget = "own.py"\n', workers=2)
    before = file.read_text()
    started = folder / "started"
    program = shlex.join([sys.executable, "-c", f"open({str(started)!r}, 'w')"])
    with run_gateway() as (_, url):
        assert post(f"{url}/console/upstreams/add", name="site", url=site) == 401
        reader = Reader(url, "key-of-olga", root="/console")
        assert "Add an upstream" in reader.get("/upstreams")
        for fields, words in (
            (
                {"name": "site", "url": site, "token": "wrong"},
                ("This form has expired or was not sent from this page. Go back and reload it"),
            ),
            (
                {"name": "x", "url": f"stdio:{program}"},
                ("Add a program or a file in a terminal: `toolwire gateway add`"),
            ),
            ({"name": "x", "url": "own.py"}, "Add a program or a file in a terminal: `toolwire gateway add`"),
            (
                {"name": "x", "url": "https://a.example/mcp.json:tool"},
                ("Add a program or a file in a terminal: `toolwire gateway add`"),
            ),
            ({"name": "x", "url": "https://a.example/?key=0123456789abcdef0123"}, "might contain a secret"),
            (
                {"name": "Not a name", "url": site},
                "Invalid upstream name",
            ),
            ({"name": "OWN", "url": site}, "already contains an upstream own"),
            ({"name": "x", "url": "http://127.0.0.1:1"}, "could not be reached"),
            ({"name": "x", "url": site, "account": "caller"}, "was not changed"),
        ):
            assert words in reader.submit("/upstreams/add", **fields)
        assert "is the only upstream" in reader.submit("/upstreams/remove", name="own")
        assert file.read_text() == before
        assert not started.exists()
        assert "Added." in reader.submit("/upstreams/add", name="site", url=site, scopes="", include="all")
        wait_for_names(url, "abs", "tell")
        assert file.read_text() == f'{before}\n[upstreams.site]\ntarget = "{site}"\ninclude = "all"\n'
        assert "Removed." in reader.submit("/upstreams/remove", name="own")
        wait_for_names(url, "tell")
        page = reader.get("/log")
        assert "upstream added" in page
        assert "upstream removed" in page
    rows = [(one.principal, one.decision, one.tool, one.channel) for one in list_rows(folder)]
    assert rows == [("olga", "upstream added", "site", "console"), ("olga", "upstream removed", "own", "console")]
