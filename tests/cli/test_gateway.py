"""``toolwire gateway``: a file lists the upstreams, each with its own options, for callers who see what they may."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copyfile
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.certificates import write_certificate
from tests.cli.conftest import Outcome
from tests.programs import find_free_port
from tests.support.gateway_folder import folder, sites, write_file
from tests.support.gateway_process import WAIT_S, run_gateway, wait_for_line
from tests.support.waiting import wait_until
from toolwire import Kind, Problem, Toolkit, Value, asgi, connect_sync
from toolwire.hosting import open_upstreams
from toolwire.hosting.build_settings import build_settings
from toolwire.hosting.gateway_file import read_gateway_file
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.protocols import BUILTIN
from toolwire.testing.loopback import background

__all__ = ["folder", "sites"]  # fixtures

KEYS = "key-of-all\nkey-of-ann ann first\nkey-of-bob bob second\n"


def list_tools(url: str, protocol: str, key: str) -> list[str]:
    with connect_sync(url, protocol=protocol, api_key=key) as remote:
        return sorted(tool.name for tool in remote.tools)


@pytest.mark.requirement("GW-01")
@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_caller_sees_and_calls_only_upstreams_of_its_scopes(
    folder: Path, sites: tuple[str, str], protocol: str
) -> None:
    (folder / "keys.txt").write_text(KEYS)
    write_file(folder, sites, 'api-key-file = "keys.txt"', 'scopes = ["first"]', 'scopes = ["second"]')
    with run_gateway() as (_, url):
        assert list_tools(url, protocol, "key-of-all") == ["tell_first", "tell_second"]
        assert list_tools(url, protocol, "key-of-ann") == ["tell_first"]
        assert list_tools(url, protocol, "key-of-bob") == ["tell_second"]
        with connect_sync(url, protocol=protocol, api_key="key-of-bob", agree=lambda _: True) as remote:
            assert remote.call("tell_second") == Value("Second")
            refused = remote.call("tell_first")
            assert isinstance(refused, Problem)
            assert refused.kind in (Kind.FORBIDDEN, Kind.UNKNOWN_TOOL)


@pytest.fixture
def go_on(folder: Path, write: Callable[..., Path]) -> Path:
    """Write tools.py, whose call ends when something is written to this pipe, and more.py."""
    pipe = folder / "go_on"
    os.mkfifo(pipe)
    write(
        "tools.py",
        f"""
        from toolwire import Toolkit

        kit = Toolkit("Slow")


        @kit.tool(approval="auto")
        def wait() -> str:
            "Wait for a word."
            print("the call runs", flush=True)
            return open({str(pipe)!r}).read()
        """,
    )
    write("more.py", 'from toolwire import Toolkit\nkit = Toolkit("More")\nkit.tool(approval="auto")(abs)\n')
    return pipe


@pytest.mark.requirement("GW-01")
def test_changed_gateway_file_is_reloaded_without_dropping_calls(folder: Path, go_on: Path) -> None:
    file = folder / "toolwire.toml"
    file.write_text('port = 0\n[upstreams.slow]\ntarget = "tools.py"\n')
    results: list[Any] = []
    with run_gateway() as (process, url):

        def call() -> None:
            with connect_sync(url, protocol="otc", agree=lambda _: True) as remote:
                results.append(remote.call("wait"))

        caller = threading.Thread(target=call)
        caller.start()
        assert process.stdout is not None
        assert process.stdout.readline() == "the call runs\n"
        file.write_text(file.read_text() + '[upstreams.more]\ntarget = "more.py"\n')
        process.send_signal(signal.SIGHUP)
        wait_for_line(process, "Reloaded")
        release = threading.Thread(target=go_on.write_text, args=["done"])
        release.start()
        caller.join(WAIT_S)
        release.join(WAIT_S)
        assert results == [Value("done")]
        file.write_text("[upstreams.more]\ntarget = 7\n")
        process.send_signal(signal.SIGHUP)
        reply = wait_for_line(process, "not taken")
        assert 'toolwire.toml:2:1: an upstream needs "target"' in reply
        with connect_sync(url, protocol="otc") as remote:
            assert sorted(tool.name for tool in remote.tools) == ["abs", "wait"]


@pytest.mark.requirement("GW-01")
def test_check_tests_each_upstream_with_its_key_and_reports_every_fault(
    folder: Path, sites: tuple[str, str], toolwire: Callable[..., Outcome]
) -> None:
    write_file(folder, sites)
    good = toolwire("gateway", "check", "--json")
    rows = json.loads(good.out)
    assert (good.code, [(row["name"], row["ok"], row["tools"]) for row in rows]) == (
        0,
        [("first", True, 1), ("second", True, 1)],
    )
    write_file(folder, ("http://127.0.0.1:1", sites[1]))
    bad = toolwire("gateway", "check")
    assert (bad.code, "one-of-" in bad.out + bad.err) == (4, False)
    assert re.search(r"first .* The upstream first: .*could not be reached", bad.out)
    assert re.search(r"second .* 1 .* ok", bad.out)


CLONED = """\
[upstreams.books]
target = "{site}"
key-env = "FIRST_KEY"
[upstreams.own]
target = "own.py"
"""


@pytest.fixture
def cloned(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, list[Any]]]:
    """A folder that came from anybody: its file sends a key to a server, and runs code; and what that server got."""
    monkeypatch.delenv("TOOLWIRE_SETTINGS")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setenv("FIRST_KEY", "one-of-first")
    kit, got = Toolkit("Books"), list[Any]()
    app = asgi(kit, api_keys=["one-of-first"])

    async def record(scope: Any, receive: Any, send: Any) -> None:
        got.append(scope)
        await app(scope, receive, send)

    @kit.tool(approval="auto", safe=True)
    def read() -> str:
        """Read."""
        return ""

    (folder / "own.py").write_text(
        "from pathlib import Path\nfrom toolwire import Toolkit\nPath('ran').touch()\nkit = Toolkit('Own')\n"
        "@kit.tool(approval='auto', safe=True)\ndef look() -> str:\n    'Look.'\n    return ''\n"
    )
    with background(record) as site:
        (folder / "toolwire.toml").write_text(CLONED.format(site=site))
        yield folder, got


@pytest.mark.requirement("AT-40")
@pytest.mark.parametrize("words", [("check",), ("check", "--json"), ("check", "--file", "toolwire.toml"), ("list",)])
def test_a_cloned_folder_runs_nothing_and_gets_nothing_before_it_is_trusted(
    cloned: tuple[Path, list[Any]], toolwire: Callable[..., Outcome], words: tuple[str, ...]
) -> None:
    folder, got = cloned
    outcome = toolwire("gateway", *words)
    assert (got, (folder / "ran").exists()) == ([], False)
    if words[0] == "check":
        assert outcome.code == 2
        assert "toolwire.toml is not trusted yet, so nothing was run or sent" in outcome.err


@pytest.mark.requirement("AT-40")
@pytest.mark.parametrize("command", [("gateway", "check"), ("settings", "trust"), ("gateway", "run")])
def test_a_cloned_gateway_is_used_after_one_yes_until_its_file_changes(
    cloned: tuple[Path, list[Any]],
    toolwire: Callable[..., Outcome],
    terminal: Callable[..., Any],
    command: tuple[str, ...],
) -> None:
    folder, got = cloned
    asked = terminal(*command)
    asked.wait_for(b"[y/N] ")
    shown = asked.shown.decode()
    assert re.search(r"books: connects to http://127.0.0.1:\d+, and sends the value of FIRST_KEY", shown)
    assert "own: runs the code of own.py" in shown
    asked.type("n")
    assert asked.end() == 3
    assert (got, (folder / "ran").exists()) == ([], False)
    asked = terminal("gateway", "check")
    asked.wait_for(b"[y/N] ")
    asked.type("y")
    assert asked.end() == 0
    assert (bool(got), (folder / "ran").exists()) == (True, True)
    assert toolwire("gateway", "check").code == 0
    file = folder / "toolwire.toml"
    stored = file.read_text()
    file.write_text(f"{stored}\n# changed\n")
    assert toolwire("gateway", "check").code == 2
    file.write_text(stored)
    assert "no longer trusted" in toolwire("settings", "forget").out
    assert toolwire("gateway", "check").code == 2


HIDDEN = """\
wake = "redis://queue.example"
host = "0.0.0.0"
allow-host = ["tools.example"]
{harmless}
[upstreams.books]
target = "{site}"
key-env = "FIRST_KEY"
server = "https://other.example"
ca-file = "their.pem"
agree = true
"""


@pytest.mark.requirement("AT-40", "D-08")
@pytest.mark.parametrize("command", [("gateway", "check"), ("settings", "trust")])
def test_question_about_a_cloned_gateway_shows_all_that_its_file_sets(
    cloned: tuple[Path, list[Any]], terminal: Callable[..., Any], command: tuple[str, ...]
) -> None:
    folder, got = cloned
    # So many harmless upstreams that a question which shows the first hundred lines would show nothing else.
    harmless = "\n".join(f'[upstreams.a{number}]\ntarget = "https://a.example"' for number in range(120))
    site = (folder / "toolwire.toml").read_text().partition('target = "')[2].partition('"')[0]
    (folder / "toolwire.toml").write_text(HIDDEN.format(site=site, harmless=harmless))
    asked = terminal(*command)
    asked.wait_for(b"[y/N] ")
    shown = asked.shown.decode()
    for line in (
        "books: server = https://other.example",
        "books: ca-file = their.pem",
        "books: agree = true",
        "wake: connects to redis://queue.example",
        "host = 0.0.0.0",
        "allow-host = tools.example",
        "a119: connects to https://a.example",
    ):
        assert line in shown
    asked.type("n")
    assert asked.end() == 3
    assert got == []


@pytest.mark.requirement("AT-40")
def test_what_the_user_adds_keeps_the_trust_and_gives_none(
    cloned: tuple[Path, list[Any]], toolwire: Callable[..., Outcome]
) -> None:
    folder, _ = cloned
    assert toolwire("gateway", "add", "own.py", "--name", "more").code == 0
    assert toolwire("gateway", "check").code == 2
    (folder / "toolwire.toml").unlink()
    assert toolwire("gateway", "add", "own.py", "--name", "mine").code == 0
    (folder / "other.py").write_text((folder / "own.py").read_text().replace("look", "see"))
    assert toolwire("gateway", "add", "other.py", "--name", "second").code == 0
    assert toolwire("gateway", "check").code == 0


@pytest.mark.requirement("AT-40")
def test_accounts_of_a_cloned_folder_open_no_database_of_another_host(
    cloned: tuple[Path, list[Any]], toolwire: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = cloned
    monkeypatch.setenv("PGPASSWORD", "of-postgres")
    with socket.create_server(("127.0.0.1", 0)) as theirs:
        theirs.setblocking(False)
        state = (
            f'state = "postgresql://127.0.0.1:{theirs.getsockname()[1]}/theirs"\npublic-url = "http://127.0.0.1:9"\n'
        )
        file = folder / "toolwire.toml"
        file.write_text(f"{state}[sign-in]\n{file.read_text()}")
        outcome = toolwire("users", "list")
        assert (
            outcome.code,
            (
                "is not trusted yet, so nothing was run or sent. The file can run code and send secrets. Read "
                "it, then run `toolwire gateway check` in a terminal, or set"
            )
            in outcome.err,
        ) == (2, True)
        with pytest.raises(BlockingIOError):
            theirs.accept()


@pytest.mark.requirement("GW-01")
def test_check_counts_the_tools_of_a_file_that_need_consent(folder: Path, toolwire: Callable[..., Outcome]) -> None:
    (folder / "own.py").write_text(
        "from toolwire import Toolkit\nkit = Toolkit('Own')\n"
        "@kit.tool(approval='per-call')\ndef publish() -> str:\n    'Publish it.'\n    return ''\n"
        "@kit.tool(approval='auto', safe=True)\ndef read() -> str:\n    'Read it.'\n    return ''\n"
    )
    (folder / "toolwire.toml").write_text('[upstreams.own]\ntarget = "own.py"\n')
    (row,) = json.loads(toolwire("gateway", "check", "--json").out)
    assert (row["tools"], row["asking"]) == (2, 1)


@pytest.mark.requirement("GW-01", "OQ-7", "D-26")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("prot = 1", '1:1: there is no option "prot" here; did you mean "port"?'),
        ("port = 'x'", "1:1: port must be an integer, not a string."),
        ("port = 70000", "1:1: port: "),
        ("\n  access-log = 1", "2:3: access-log must be true or false, not a number."),
        ("allow-host = [1]", "1:1: allow-host must be a string or an array of strings."),
        ("consent = 'never'", "1:1: consent must be one of hints, refuse"),
        ("include = 'all'", '1:1: there is no option "include" here; it belongs to an upstream.'),
        ("api-key = 'secret-word'", "1:1: a secret does not belong into this file"),
        ("upstreams = 7", "1:1: there is no upstream"),
        ("[upstreams]", "1:1: there is no upstream"),
        ("[upstreams.'a b']\ntarget = 'x'", "1:1: the name of an upstream is a letter"),
        ("[upstreams]\na = 1", "2:1: an upstream is a table, not a number."),
        ("[upstreams.a]\ninclude = 'all'", '1:1: an upstream needs "target"'),
        ("[upstreams.a]\ntarget = 'u'\nscopes = 'all'", "3:1: scopes is an array of strings"),
        ("[upstreams.a]\ntarget = 'u'\nkey = 'secret-word'", "3:1: a secret does not belong into this file"),
        ("[upstreams.a]\ntarget = 'u'\nport = 1", '3:1: there is no option "port" here; it belongs above'),
        ("upstreams.a.target = 'u'\nupstreams.a.include = 'some'", "2:1: include must be one of declared, all"),
        ("[upstreams.a]\ntarget='u'\n[upstreams.A]\ntarget='u'", "3:1: another upstream has this name"),
        ("[upstreams\n", "toolwire.toml:1:11: invalid TOML"),
        (f"port = {'9' * 5_000}", "is not valid TOML: a number has too many digits."),
        (f"port = {'[' * 100_000}", "is not valid TOML: maximum recursion depth exceeded"),
        ('state = "kept/\\u0000"', "1:1: a text has a null character"),
        ("[upstreams.a]\ntarget = 'u'\nheader = ['A: b', \"C: \\u0000\"]", "3:1: a text has a null character"),
        ("[upstreams.a]\ntarget = 'u'\n\"ke\\u0000y\" = 1", "a text has a null character"),
        ("[upstreams.a]\ntarget = 'u'\nrate = '60'", "3:1: a rate must be written as calls and a window"),
        ("[upstreams.a]\ntarget = 'u'\nrate = '60/1y'", "3:1: a rate limit's window must be written like"),
        ("[upstreams.a]\ntarget = 'u'\nrate = 60", "3:1: rate is a string such as"),
        ("[upstreams.a]\ntarget = 'u'\nrunning = 0", "3:1: running is 1 to 100,000, not 0."),
        ("[upstreams.a]\ntarget = 'u'\ntimeout = true", "3:1: timeout must be an integer, not a boolean."),
        ("[upstreams.a]\ntarget = 'u'\ntimout = 1", '3:1: there is no option "timout" here; did you mean "timeout"?'),
        ("callers = 1\nupstreams.a.target = 'u'", "1:1: callers are tables"),
        ("[callers]\nann = 1\n[upstreams.a]\ntarget = 'u'", "2:1: a caller is a table, not a number."),
        ("[callers.ann]\nscope = []\n[upstreams.a]\ntarget = 'u'", '2:1: there is no option "scope" here; did you'),
        ("[callers.ann]\nscopes = 'a'\n[upstreams.a]\ntarget = 'u'", "2:1: scopes is an array of strings"),
        ("[callers.'*']\nrate = '0/1m'\n[upstreams.a]\ntarget = 'u'", "2:1: a rate limit's max must be"),
    ],
)
def test_gateway_file_fault_is_one_sentence_with_line_and_column(
    folder: Path, toolwire: Callable[..., Outcome], text: str, sentence: str
) -> None:
    whole = text if "upstreams" in text else f"{text}\n[upstreams.a]\ntarget = 'http://127.0.0.1:1'"
    (folder / "toolwire.toml").write_text(whole)
    for action in ("run", "check", "list"):
        outcome = toolwire("gateway", action)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err.startswith("toolwire: toolwire.toml")
        assert sentence in outcome.err
        assert "secret-word" not in outcome.err
        assert outcome.err.count("\n") == 1


@pytest.mark.requirement("GW-01")
def test_adding_an_upstream_keeps_the_rest_of_the_file(folder: Path, toolwire: Callable[..., Outcome]) -> None:
    assert toolwire("gateway", "list").code == 2
    first = toolwire(
        *("gateway", "add", "https://api.tasks.example/openapi.json", "--no-check"),
        *("--include", "all", "--tag", "a", "--tag", "b"),
    )
    assert (first.code, first.err) == (0, "")
    file = folder / "toolwire.toml"
    file.write_text("# ours\n" + file.read_text())
    options = ("--name", "notes", "--key-env", "NOTES_KEY", "--safe-only")
    assert toolwire("gateway", "add", "https://notes.example", "--no-check", *options).code == 0
    assert file.read_text().startswith("# ours\n")
    listed = toolwire("gateway", "list", "--json")
    assert [(row["name"], row["target"]) for row in json.loads(listed.out)] == [
        ("api-tasks-example", "https://api.tasks.example/openapi.json"),
        ("notes", "https://notes.example"),
    ]
    before = file.read_text()
    assert 'tag = ["a","b"]' in before.replace(", ", ",")
    assert "safe-only = true" in before
    again = toolwire("gateway", "add", "https://notes.example", "--no-check", "--name", "notes")
    assert (again.code, file.read_text()) == (2, before)
    keyed = toolwire("gateway", "add", "https://more.example", "--no-check", "--key", "secret-word")
    assert (keyed.code, "secret-word" in keyed.err, file.read_text()) == (2, False, before)
    field = toolwire("gateway", "add", "https://more.example", "--header", "Authorization: Bearer secret-word")
    assert (field.code, "secret-word" in field.err, file.read_text()) == (2, False, before)
    assert sorted(path.name for path in folder.iterdir()) == ["toolwire.toml"]


LATE = """
    from toolwire import Toolkit

    kit = Toolkit("First")


    @kit.tool(safe=True, approval="auto")
    def tell_first() -> str:
        "Tell which of the sites this is."
        return "late"
"""


@pytest.mark.requirement("GW-01")
@pytest.mark.parametrize("workers", [1, 2])
def test_upstream_down_at_start_is_served_once_it_answers(
    folder: Path, sites: tuple[str, str], write: Callable[..., Path], workers: int
) -> None:
    port = find_free_port()
    write_file(folder, (f"http://127.0.0.1:{port}", sites[1]), f"workers = {workers}")
    with run_gateway() as (process, url):
        for _ in range(workers):  # a worker that starts later than the upstream has nothing to say of it
            reply = wait_for_line(process, "tried again")
            assert "The upstream first could not be reached" in reply
            assert "one-of-first" not in reply
        assert list_tools(url, "otc", "") == ["tell_second"]
        health = httpx2.get(f"{url}/health?full").json()
        rows = [(one["name"], one["state"], one["tools"]) for one in health["upstreams"]]
        assert (health["status"], rows) == ("DEGRADED", [("first", "waiting", 0), ("second", "ok", 1)])
        environment = {**os.environ, "TOOLWIRE_API_KEYS": "one-of-first"}
        command = [sys.executable, "-m", "toolwire", "serve", str(write("late.py", LATE)), "--port", str(port)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as late:
            try:
                for _ in range(workers):
                    wait_for_line(process, "has been reached")
                for protocol in ("otc", "mcp", "opentool", "openapi"):
                    assert list_tools(url, protocol, "") == ["tell_first", "tell_second"]
                with connect_sync(url, protocol="mcp", agree=lambda _: True) as remote:
                    assert remote.call("tell_first") == Value("late")
            finally:
                late.terminate()


@pytest.mark.requirement("GW-01")
def test_unresponsive_upstream_does_not_block_the_others(
    folder: Path, sites: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_upstreams, "OPENING_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = write_file(folder, (f"http://127.0.0.1:{silent.getsockname()[1]}", sites[1]))
        read = read_gateway_file(file)
        first, second = open_toolboxes(build_settings(read.arguments, read.upstreams))
        assert [tool.name for tool in first.catalog().tools] == []
        assert [tool.name for tool in second.catalog().tools] == ["tell_second"]


PUBLIC_PATHS = ("/", "/openapi.json", "/.well-known/openapi.json", "/.well-known/llm.json", "/.well-known/api-catalog")
OTHER_PATHS = ("/tools", "/info", "/uts/tools", "/ots/tools", "/llm.json", "/nothing", "/health", "/?tool=tell_second")


@pytest.mark.requirement("GW-01")
def test_strangers_learn_of_no_tool_and_callers_of_their_own_on_every_document(
    folder: Path, sites: tuple[str, str]
) -> None:
    (folder / "keys.txt").write_text(KEYS)
    write_file(folder, sites, 'api-key-file = "keys.txt"', 'scopes = ["first"]', 'scopes = ["second"]')

    def fetch(path: str, key: str = "", form: str = "") -> tuple[int, str]:
        headers = {"x-api-key": key} if key else {}
        response = httpx2.request("POST" if form else "GET", f"{url}{path}", headers=headers, content=form)
        return response.status_code, response.text

    with run_gateway() as (_, url):
        for path in (*PUBLIC_PATHS, *OTHER_PATHS):
            asked = path.partition("=")[2] or "-"  # what a request names may come back to it
            assert not re.search("tell_|First|Second", fetch(path)[1].replace(asked, "")), path
            assert not re.search("tell_second|Second", fetch(path, "key-of-ann")[1].replace(asked, "")), path
        assert [fetch(path)[0] for path in ("/openapi.json", "/nothing", "/tools/tell_first")] == [401] * 3
        assert "tell_first" in fetch("/openapi.json", "key-of-ann")[1]
        assert "tell_first" in fetch("/", "key-of-ann")[1]
        # a browser has no header fields: its user gives the key to the page
        status, text = fetch("/", form="step=show&key=key-of-ann&tool=tell_first")
        assert (status, "Try it" in text, "tell_second" in text) == (200, True, False)
        assert fetch("/", form="step=show&key=wrong&tool=tell_first")[0] == 401


def write_limited(folder: Path, sites: tuple[str, str], of_first: str, more: str) -> None:
    (folder / "keys.txt").write_text("key-of-ann ann\nkey-of-bob bob\n")
    file = write_file(folder, sites, 'api-key-file = "keys.txt"', of_first)
    file.write_text(file.read_text() + more)


@pytest.mark.requirement("GW-01")
@pytest.mark.parametrize("workers", [1, 2])
def test_rate_of_an_upstream_counts_all_callers_and_that_of_a_caller_all_tools(
    folder: Path, sites: tuple[str, str], workers: int
) -> None:
    limits = '[callers.ann]\nrate = "4/1h"\n[callers."*"]\nrate = "100/1h"\n'
    write_limited(folder, sites, 'rate = "3/1h"', limits)
    file = folder / "toolwire.toml"
    file.write_text(f'workers = {workers}\nstate = "kept"\n{file.read_text()}')
    with run_gateway() as (_, url):

        def call(key: str, tool: str) -> Any:
            with connect_sync(url, protocol="otc", api_key=key, agree=lambda _: True, retries=0) as remote:
                result = remote.call(tool)
                return result.value if isinstance(result, Value) else (result.kind, result.message)

        assert [call("key-of-ann", "tell_first"), call("key-of-bob", "tell_first")] == ["First"] * 2
        assert call("key-of-ann", "tell_first") == "First"
        kind, sentence = call("key-of-bob", "tell_first")
        assert (kind, "first was called as often as its limit allows" in sentence) == (Kind.RATE_LIMITED, True)
        assert [call("key-of-ann", "tell_second"), call("key-of-ann", "tell_second")] == ["Second"] * 2
        kind, sentence = call("key-of-ann", "tell_second")
        assert (kind, "as often as your limit" in sentence) == (Kind.RATE_LIMITED, True)
        assert call("key-of-bob", "tell_second") == "Second"


@pytest.mark.requirement("GW-01")
def test_running_calls_of_an_upstream_and_of_a_caller_are_limited(folder: Path, go_on: Path) -> None:
    (folder / "keys.txt").write_text("key-of-ann ann\nkey-of-bob bob\n")
    (folder / "toolwire.toml").write_text(
        'port = 0\napi-key-file = "keys.txt"\n[upstreams.slow]\ntarget = "tools.py"\nrunning = 1\n'
        '[upstreams.more]\ntarget = "more.py"\n[callers.ann]\nrunning = 1\n'
    )
    results: list[Any] = []
    with run_gateway() as (process, url):

        def call(key: str, tool: str, **arguments: Any) -> Any:
            with connect_sync(url, protocol="otc", api_key=key, agree=lambda _: True, retries=0) as remote:
                return remote.call(tool, arguments)

        caller = threading.Thread(target=lambda: results.append(call("key-of-ann", "wait")))
        caller.start()
        assert process.stdout is not None
        assert process.stdout.readline() == "the call runs\n"
        of_ann, of_bob = call("key-of-ann", "abs", x=-1), call("key-of-bob", "wait")
        assert isinstance(of_ann, Problem)
        assert (of_ann.kind, of_ann.message) == (
            Kind.RATE_LIMITED,
            "This call did not run: 1 of your calls are already running.",
        )
        assert isinstance(of_bob, Problem)
        assert (of_bob.kind, of_bob.message) == (
            Kind.OVERLOADED,
            "wait did not run: slow is already running its maximum of 1 calls.",
        )
        assert call("key-of-bob", "abs", x=-1) == Value(1)
        release = threading.Thread(target=go_on.write_text, args=["done"])
        release.start()
        caller.join(WAIT_S)
        release.join(WAIT_S)
    assert results == [Value("done")]


@pytest.mark.requirement("GW-01")
def test_scopes_of_a_caller_in_the_file_stand_for_those_of_its_key(folder: Path, sites: tuple[str, str]) -> None:
    (folder / "keys.txt").write_text("key-of-ann ann first\nkey-of-bob bob\n")
    file = write_file(folder, sites, 'api-key-file = "keys.txt"', 'scopes = ["first"]', 'scopes = ["second"]')
    file.write_text(file.read_text() + '[callers.ann]\nscopes = ["second"]\n[callers."*"]\nscopes = ["first"]\n')
    with run_gateway() as (_, url):
        for protocol in ("mcp", "openapi"):
            assert list_tools(url, protocol, "key-of-ann") == ["tell_second"]
            assert list_tools(url, protocol, "key-of-bob") == ["tell_first"]


@pytest.mark.requirement("PL-04")
def test_one_upstream_is_tried_by_its_name(folder: Path, toolwire: Callable[..., Outcome]) -> None:
    (folder / "toolwire.toml").write_text(
        '[upstreams.own]\ntarget = "tools.py"\n[upstreams.gone]\ntarget = "http://127.0.0.1:1"\n'
    )
    (folder / "tools.py").write_text('from toolwire import Toolkit\nkit = Toolkit("Own")\n')
    own = toolwire("gateway", "check", "own")
    assert own.code == 0
    assert "gone" not in own.out
    gone = toolwire("gateway", "check", "gone", "--json")
    assert gone.code == 4
    assert [one["name"] for one in json.loads(gone.out)] == ["gone"]
    assert "refused the connection. Is the server running?" in gone.out
    other = toolwire("gateway", "check", "gome")
    assert other.code == 2
    assert "Did you mean gone?" in other.err


@pytest.mark.requirement("GW-01")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("metrics-address = 'x'", "--metrics-address must be a host and a port, such as 127.0.0.1:9464, not"),
        ("otlp = 'x'", "--otlp must be a URL such as http://127.0.0.1:4318"),
        ("tls-cert = 'no.pem'", "--tls-cert and --tls-key must be given together"),
        ("tls-cert = 'no.pem'\ntls-key = 'no.pem'", "no.pem"),
        ("ledger = 'no/ledger.sqlite3'", "no/ledger.sqlite3 cannot be used: No such file or directory."),
        ("rates = 'nosuch://x'", "Cannot store rate limits at this URL: unknown storage scheme : nosuch://x."),
        ("jwks = 'https://127.0.0.1/keys'", "--jwks needs --jwt-audience"),
        ("no-work = true", "--wake and --no-work leave calls to other processes"),
        (
            (
                "public-url = 'https://a.example'\nkey-file = 'no.key'\n"
                "[upstreams.t]\ntarget = 'https://127.0.0.1:1'\ncredentials = 'caller'"
            ),
            "need keys or",
        ),
    ],
)
def test_check_says_whatever_would_keep_the_gateway_from_beginning(
    folder: Path, sites: tuple[str, str], toolwire: Callable[..., Outcome], line: str, sentence: str
) -> None:
    write_file(folder, sites, line)
    for action in ("check", "run"):
        outcome = toolwire("gateway", action)
        assert (outcome.code, outcome.out) == (2, ""), action
        assert sentence in outcome.err, action


@pytest.mark.requirement("GW-01")
def test_option_that_switches_off_has_its_own_name_in_the_file(
    folder: Path, sites: tuple[str, str], toolwire: Callable[..., Outcome]
) -> None:
    file = write_file(folder, sites, "no-work = true\nstate = 'state'")
    assert toolwire("gateway", "check").code == 0
    assert read_gateway_file(file).arguments.works is False
    write_file(folder, sites, "no-work = false")
    assert read_gateway_file(file).arguments.works is True
    write_file(folder, sites, "works = false")
    assert 'there is no option "works" here' in toolwire("gateway", "check").err


@pytest.mark.requirement("GW-01")
def test_table_with_a_mistyped_name_is_found_where_it_stands(folder: Path, toolwire: Callable[..., Outcome]) -> None:
    (folder / "toolwire.toml").write_text("port = 0\n\n[upstream.a]\ntarget = 'a.py'\n")
    sentence = 'toolwire.toml:3:1: there is no option "upstream" here; did you mean "upstreams"?'
    assert toolwire("gateway", "check").err == f"toolwire: {sentence}\n"


@pytest.mark.requirement("GW-01")
def test_second_upstream_of_a_name_is_refused_by_that_name(folder: Path, toolwire: Callable[..., Outcome]) -> None:
    assert toolwire("gateway", "add", "https://notes.example", "--no-check", "--name", "notes").code == 0
    again = toolwire("gateway", "add", "https://more.example", "--no-check", "--name", "Notes")
    assert (again.code, again.err) == (
        2,
        "toolwire: toolwire.toml already contains an upstream notes. Choose another name with --name.\n",
    )


@pytest.mark.requirement("GW-01")
def test_reload_takes_no_settings_that_a_new_process_could_not_begin_with(folder: Path) -> None:
    (folder / "tools.py").write_text(
        'from toolwire import Toolkit\nkit = Toolkit("K")\nkit.tool(approval="auto")(abs)\n'
    )
    file = folder / "toolwire.toml"
    good = 'port = 0\n[upstreams.own]\ntarget = "tools.py"\n'
    file.write_text(good)
    with run_gateway() as (process, url):
        for line in ("ledger = 'no/ledger.sqlite3'", "rates = 'nosuch://x'", "metrics-address = 'x'"):
            file.write_text(f"{line}\n{good}")
            process.send_signal(signal.SIGHUP)
            assert wait_for_line(process, "The settings are not taken")
        file.write_text(good)
        process.send_signal(signal.SIGHUP)
        assert wait_for_line(process, "Reloaded")
        assert list_tools(url, "otc", "") == ["abs"]


@pytest.mark.requirement("GW-01")
def test_json_log_has_what_the_gateway_says_of_a_reload_too(folder: Path) -> None:
    (folder / "own.py").write_text('from toolwire import Toolkit\nkit = Toolkit("K")\nkit.tool(approval="auto")(abs)\n')
    file = folder / "toolwire.toml"
    good = 'port = 0\nlog = "json"\n[upstreams.own]\ntarget = "own.py"\n'
    file.write_text(good)
    with run_gateway() as (process, _):
        said = []
        for text, words in ((f"{good}oops", "not taken"), (good.replace("= 0", "= 1"), "Reloaded")):
            file.write_text(text)
            process.send_signal(signal.SIGHUP)
            assert process.stderr is not None
            for line in process.stderr:
                said.append(json.loads(line))
                if words in line:
                    break
    words = ("not taken", "Restart the gateway", "Reloaded")
    assert [one["level"] for word in words for one in said if word in one["event"]] == ["warning", "warning", "info"]


@pytest.mark.requirement("GW-01")
def test_reload_takes_a_renewed_certificate_and_says_what_it_cannot_take(folder: Path) -> None:
    (folder / "own.py").write_text('from toolwire import Toolkit\nkit = Toolkit("K")\nkit.tool(approval="auto")(abs)\n')
    old, new = (write_certificate(folder, name, "127.0.0.1") for name in ("old", "new"))
    cert, key, file = folder / "cert.pem", folder / "key.pem", folder / "toolwire.toml"
    good = 'port = 0\ntls-cert = "cert.pem"\ntls-key = "key.pem"\n[upstreams.own]\ntarget = "own.py"\n'
    file.write_text(good)

    def place(certificate: Path, its_key: Path) -> None:
        copyfile(certificate, cert)
        copyfile(its_key, key)

    def fetch() -> str:
        return ssl.get_server_certificate(("127.0.0.1", urlsplit(url).port or 0)).strip()

    place(*old)
    with run_gateway() as (process, url):

        def reload(words: str) -> str:
            process.send_signal(signal.SIGHUP)
            return wait_for_line(process, words)

        place(new[0], old[1])
        assert "cert.pem and key.pem for TLS: the key is not that of the certificate." in reload("not taken")
        cert.unlink()
        assert "cert.pem cannot be read: No such file or directory." in reload("not taken")
        assert fetch() == old[0].read_text().strip()
        place(*new)
        assert reload("Reloaded")
        wait_until(lambda: fetch() == new[0].read_text().strip())
        file.write_text("workers = 2\nlimit = ['head_s=9']\n" + good.replace("port = 0", "port = 1"))
        assert "to apply changes of port, workers, limit: a reload does not." in reload("Restart the gateway")
        assert wait_for_line(process, "Reloaded")


@pytest.mark.requirement("GW-01")
def test_reload_that_is_asked_for_while_the_tools_are_loaded_comes_after_the_start(
    folder: Path, write: Callable[..., Path]
) -> None:
    write(
        "tools.py",
        """
        import os, signal
        from pathlib import Path
        from toolwire import Toolkit

        if not Path("loaded").exists():
            Path("loaded").touch()
            os.kill(os.getpid(), signal.SIGHUP)
        kit = Toolkit("K")
        kit.tool(approval="auto")(abs)
        """,
    )
    (folder / "toolwire.toml").write_text('port = 0\n[upstreams.own]\ntarget = "tools.py"\n')
    with run_gateway() as (process, url):
        assert wait_for_line(process, "Reloaded")
        assert list_tools(url, "otc", "") == ["abs"]


@pytest.mark.requirement("GW-01")
def test_reload_waits_for_tools_that_load_as_long_as_the_slowest_upstream(
    folder: Path, write: Callable[..., Path]
) -> None:
    write(
        "tools.py",
        """
        import multiprocessing, time
        from pathlib import Path
        from toolwire import Toolkit

        kit = Toolkit("K")
        kit.tool(approval="auto")(abs)
        if Path("renewed").exists():
            kit.tool(approval="auto")(round)
            if multiprocessing.parent_process() is not None:
                with Path("renewed").open("w") as pipe:
                    time.sleep(OPENING_S)
                    pipe.write("loaded")
        """.replace("OPENING_S", str(open_upstreams.OPENING_S)),
    )
    (folder / "toolwire.toml").write_text('port = 0\n[upstreams.own]\ntarget = "tools.py"\n')
    with run_gateway() as (process, url):
        assert list_tools(url, "otc", "") == ["abs"]
        os.mkfifo(folder / "renewed")
        process.send_signal(signal.SIGHUP)
        assert (folder / "renewed").read_text() == "loaded", "the new process was not ended before"
        # The process before answers until the new one has begun.
        wait_until(lambda: process.poll() is not None or list_tools(url, "otc", "") == ["abs", "round"])
        assert process.poll() is None


@pytest.mark.requirement("GW-01", "LC-01")
def test_long_call_is_still_known_after_a_reload(
    folder: Path, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.delenv("TOOLWIRE_STATE", raising=False)
    write(
        "tools.py",
        """
        from toolwire import Toolkit

        kit = Toolkit("Long")


        @kit.tool(approval="auto", long=True)
        async def build() -> str:
            "Build something."
            return "built"


        @kit.tool(approval="auto")
        def identify() -> int:
            "Return the process that answers."
            import os
            return os.getpid()
        """,
    )
    (folder / "toolwire.toml").write_text('port = 0\n[upstreams.own]\ntarget = "tools.py"\nagree = true\n')
    with run_gateway() as (process, url):
        with connect_sync(url, protocol="openapi", agree=lambda _: True) as remote:
            handle = remote.start("build")
            assert handle.result(timeout_s=60) == Value("built")
        first = httpx2.get(f"{url}/api/identify").json()
        process.send_signal(signal.SIGHUP)
        wait_for_line(process, "Reloaded")
        wait_until(lambda: httpx2.get(f"{url}/api/identify").json() != first)
        with connect_sync(url, protocol="openapi") as remote:
            assert remote.handle(handle.id).result(timeout_s=60) == Value("built")


@pytest.mark.requirement("GW-01")
def test_added_paths_mean_files_of_the_working_folder(folder: Path, toolwire: Callable[..., Outcome]) -> None:
    (folder / "own.py").write_text('from toolwire import Toolkit\nkit = Toolkit("K")\nkit.tool(approval="auto")(abs)\n')
    (folder / "api.json").write_text(
        json.dumps({"openapi": "3.1.0", "info": {"title": "A", "version": "1"}, "paths": {}, "servers": [{"url": "/"}]})
    )
    (folder / "over.json").write_text(
        json.dumps({"overlay": "1.0.0", "info": {}, "actions": [{"target": "$.info", "update": {}}]})
    )
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"git": {"command": "git"}}}))
    (folder / "conf").mkdir()
    file = "conf/toolwire.toml"
    for target, name in (("own.py:kit", "own"), ("https://a.example", "far"), ("mcp.json:git", "program")):
        assert toolwire("gateway", "add", target, "--no-check", "--name", name, "--file", file).code == 0
    words = ("api.json", "--no-check", "--name", "api", "--overlay", "over.json")
    assert toolwire("gateway", "add", *words, "--file", file).code == 0
    rows = json.loads(toolwire("gateway", "list", "--json", "--file", file).out)
    assert [one["target"] for one in rows] == ["../own.py:kit", "https://a.example", "../mcp.json:git", "../api.json"]
    assert 'overlay = "../over.json"' in (folder / file).read_text()
