"""``toolwire serve``: what it says, what it refuses, and what can be called while it runs."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.confirmed_note import send_note
from tests.support.serve_process import start_serve, url_in
from toolwire import Problem, Question, Tool, Value, connect_sync
from toolwire.core.catalog import Catalog
from toolwire.core.codec import ConnectError
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Call, Result
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.hosting.open_upstreams import count_asking_tools, open_toolbox
from toolwire.hosting.serve_app import build_app, build_app_from_environment
from toolwire.hosting.serve_settings import SETTINGS, ServeSettings, read_settings
from toolwire.hosting.targets.load_code import open_code
from toolwire.hosting.targets.target import FileTarget, UrlTarget
from toolwire.opentool.keys import read_keys
from toolwire.protocols import BUILTIN
from toolwire.server import asgi
from toolwire.server.http.process import open_listener
from toolwire.server.options import ServerOptions
from toolwire.testing.loopback import background


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_prints_tools_url_and_protocols_and_stops_quietly(desk: Path, number: int) -> None:
    with start_serve(desk) as (process, reply):
        with connect_sync(url_in(reply)) as remote:
            assert remote.call("add", {"a": 1, "b": 2}) == Value(3)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert "Desk 1.2.0: add, count, fail, late, note, noted, say, shred and 1 more\n" in reply
    assert all(codec.title in reply for codec in BUILTIN)
    assert "\x1b" not in reply
    assert (process.returncode, out, err) == (0, "", "")


def test_workers_share_the_keys_and_print_none(desk: Path) -> None:
    with start_serve(desk, "--workers", 2, environment={"TOOLWIRE_API_KEYS": "canary-one,canary-two"}) as (
        process,
        reply,
    ):
        url = url_in(reply)
        with connect_sync(url, api_key="canary-two") as remote:
            assert remote.call("add", {"a": 1, "b": 2}) == Value(3)
        with connect_sync(url, api_key="canary-three", protocol="openapi") as remote:
            refused = remote.call("add", {"a": 1, "b": 2})
        arguments = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if _is_child(file, process.pid)]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert isinstance(refused, Problem)
    assert len(arguments) >= 2
    assert b"canary" not in b"".join(arguments)
    assert "canary" not in reply + out + err
    assert "keys       one of 2" in reply
    assert process.returncode == 0


@pytest.mark.requirement("MC-10")
@pytest.mark.parametrize(
    ("options", "has_session"),
    [
        ((), True),
        (("--workers", 2), False),
        (("--workers", 2, "--state", "memory"), False),
        (("--workers", 2, "--state", "FOLDER"), True),
        (("--sessions", "none", "--state", "FOLDER"), False),
    ],
)
def test_one_process_keeps_sessions_and_several_keep_those_of_a_state_that_they_share(
    desk: Path, options: tuple[str | int, ...], has_session: bool, tmp_path: Path
) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
    message = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    given = [tmp_path / "state" if word == "FOLDER" else word for word in options]
    with start_serve(desk, *given) as (_, reply):
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{url_in(reply)}/mcp", message.encode(), headers)
        with urllib.request.urlopen(request) as answer:
            assert ("mcp-session-id" in answer.headers) is has_session


def _is_child(cmdline: Path, parent: int) -> bool:
    try:
        return f"PPid:\t{parent}\n" in (cmdline.parent / "status").read_text()
    except OSError:  # it has just ended
        return False


def test_a_worker_that_cannot_start_ends_the_server_with_1(write: Callable[..., Path]) -> None:
    file = write(
        "kit.py",
        """
        import multiprocessing
        from toolwire import Toolkit
        kit = Toolkit("Kit")
        if multiprocessing.parent_process() is not None:
            raise RuntimeError("not here")
        """,
    )
    with start_serve(file, "--workers", 2) as (process, _):
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "RuntimeError: not here" in err
    assert "Traceback" not in out + err


@pytest.mark.requirement("FU-14")
def test_changed_file_is_reloaded(write: Callable[..., Path]) -> None:
    text = "from toolwire import Toolkit\nkit = Toolkit('Kit')\n@kit.tool(approval='auto', safe=True)\ndef {}(): ...\n"
    file = write("kit.py", text.format("old"))
    with start_serve(file, "--reload") as (process, reply):
        url, names = url_in(reply), [""]
        until = time.monotonic() + 60
        while names != ["new"]:
            assert time.monotonic() < until, names
            names = _names(url)
            if names == ["old"]:
                write("kit.py", text.format("new"))
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert "toolwire: Reloaded: kit.py changed." in errors


def _names(url: str) -> list[str]:
    try:
        with connect_sync(url, protocol="otc", agree=lambda _: True) as remote:
            return [tool.name for tool in remote.tools]
    except ConnectError:  # between one process and the next
        return []


@pytest.mark.parametrize("package", ["uvicorn", "uvloop"])
def test_missing_package_names_what_to_install(package: str, desk: Path) -> None:
    code = (
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"
        "from toolwire.cli import main\n"
        f"sys.exit(main(['serve', '--workers', '2', '--state', {str(desk.parent / 'kept')!r}, {str(desk)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "toolwire: This needs an optional package: pip install 'toolwire[server]'.\n"


def test_a_port_that_is_taken_is_one_sentence_and_exit_code_2(desk: Path, toolwire: Callable[..., Any]) -> None:
    with open_listener("127.0.0.1", 0) as taken:
        outcome = toolwire("serve", desk, "--port", str(taken.getsockname()[1]))
    assert outcome.code == 2
    assert outcome.err.startswith("toolwire: Cannot listen on 127.0.0.1:")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(("host", "warned"), [("192.0.2.1", True), ("127.0.0.1", False), ("localhost", False)])
def test_public_server_without_keys_is_warned_about(
    host: str, warned: bool, desk: Path, toolwire: Callable[..., Any]
) -> None:
    with open_listener("127.0.0.1", 0) as taken:  # nothing is served: the port is taken, or the address not ours
        place = ["--host", host, "--port", str(taken.getsockname()[1])]
        without, keyed = toolwire("serve", desk, *place), toolwire("serve", desk, *place, "--api-key", "k")
    assert (without.code, keyed.code) == (2, 2)
    assert ("Anyone who can reach" in without.err) is warned
    assert "Anyone who can reach" not in keyed.err


def test_targets_that_cannot_be_served_together_are_refused(
    write: Callable[..., Path], desk: Path, toolwire: Callable[..., Any]
) -> None:
    twin = write("twin.py", desk.read_text(encoding="utf-8"))
    outcome = toolwire("serve", desk, twin)
    assert outcome.code == 2
    assert "Cannot serve these together" in outcome.err


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["nowhere.py"], 2, "File not found: nowhere.py."),
        (["127.0.0.1:1"], 4, "could not be reached"),
        (["DESK", "--reload", "--workers", "2"], 2, "Leave out --workers"),
        (["DESK", "--sessions", "all", "--workers", "2"], 2, "a session is kept by one process: name a folder with"),
        (["DESK", "--api-key", ""], 2, "An API key is empty"),
        (["DESK", "--api-key", "canary\x00"], 2, "An API key is empty or contains an invalid character"),
        (["DESK", "--api-key-file", "nowhere"], 2, "Cannot read the keys from nowhere"),
    ],
)
def test_unusable_target_is_reported_before_listening(
    options: list[str], code: int, sentence: str, desk: Path, toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("serve", *[str(desk) if word == "DESK" else word for word in options])
    assert (outcome.code, outcome.out) == (code, "")
    assert sentence in outcome.err
    assert "canary" not in outcome.err


def test_reload_requires_a_file_target(site: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("serve", site, "--reload")
    assert outcome.code == 2
    assert "--reload needs a target that is a file" in outcome.err


def test_keys_are_read_from_options_file_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\none\n\n two \n", encoding="utf-8")
    monkeypatch.setenv("TOOLWIRE_API_KEYS", "three, one,")
    assert read_keys(["four"], str(file)) == ("four", "three", "one", "two")
    assert read_keys([], None) == ("three", "one")


@pytest.mark.parametrize(("data", "sentence"), [(b"# none\n", "no key"), (b"\xff", "not UTF-8")])
def test_a_file_without_a_key_is_refused(tmp_path: Path, data: bytes, sentence: str) -> None:
    file = tmp_path / "keys"
    file.write_bytes(data)
    with pytest.raises(DefinitionError, match=sentence):
        read_keys([], str(file))


def test_settings_survive_json_and_hide_keys() -> None:
    settings = ServeSettings(
        targets=["a.py"],
        api_keys=["canary"],
        server=ServerOptions(hosts=["h"], origins=["https://o"], state="postgresql://u:canary@h/d"),
        limits=["tool_s=3"],
    )
    assert read_settings(settings.to_json()) == settings
    assert "canary" not in repr(settings)


def test_worker_process_builds_the_app_and_hides_keys_from_its_tools(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTINGS, ServeSettings(targets=[str(desk)], api_keys=["canary"]).to_json())
    app = build_app_from_environment()
    assert "canary" not in str(os.environ)
    with background(app) as url, connect_sync(url, api_key="canary", protocol="otc", agree=lambda _: True) as remote:
        assert remote.call("add", {"a": 1}) == Value(2)
    with background(app) as url, pytest.raises(ConnectError):
        connect_sync(url, protocol="otc").__enter__()


@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_gateway_serves_a_remote_server_and_local_code_together(
    protocol: str, site: str, write: Callable[..., Path]
) -> None:
    file = write(
        "more.py",
        """
        from toolwire import Toolkit
        more = Toolkit("More")

        @more.tool(approval="auto", safe=True)
        def double(a: int) -> int:
            "Double a number."
            return 2 * a
        """,
    )
    settings = ServeSettings(targets=[site, str(file)])
    boxes = [open_toolbox(UrlTarget(site)), open_toolbox(FileTarget(file))]
    with (
        background(build_app(settings, boxes)) as url,
        connect_sync(url, protocol=protocol, agree=lambda _: True) as remote,
    ):
        assert remote.call("add", {"a": 1, "b": 2}) == Value(3)
        assert remote.call("double", {"a": 21}) == Value(42)


@pytest.mark.requirement("XL-053", "XL-056", "FU-04")
@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_gateway_runs_a_confirmed_call_and_asks_the_user_once(site: str, protocol: str) -> None:
    box = open_toolbox(UrlTarget(site))
    assert count_asking_tools([box]) == 2
    asked: list[Question] = []

    def answer(allowed: bool) -> Callable[[Question], bool]:
        def approve(question: Question) -> bool:
            asked.append(question)
            return allowed

        return approve

    def noted() -> Result:
        with connect_sync(site) as direct:
            return direct.call("noted")

    with background(build_app(ServeSettings(targets=[site]), [box])) as url:
        for number, (allowed, left) in enumerate([(False, []), (True, ["x"]), (True, ["x", "x"])], start=1):
            with connect_sync(url, protocol=protocol, approve=answer(allowed), agree=lambda _: True) as remote:
                ended = remote.call("note", {"text": "x"})
            assert isinstance(ended, Value) is allowed
            assert noted() == Value(left)
            assert len(asked) == number


@pytest.mark.requirement("XL-053", "XL-056")
@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_a_chain_of_gateways_asks_the_user_once(site: str, protocol: str) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    with background(build_app(ServeSettings(targets=[site]), [open_toolbox(UrlTarget(site))])) as near:
        far = build_app(ServeSettings(targets=[near]), [open_toolbox(UrlTarget(near))])
        with background(far) as url, connect_sync(url, protocol=protocol, approve=approve) as remote:
            assert isinstance(remote.call("note", {"text": "x"}), Value)
    assert len(asked) == 1


@pytest.mark.requirement("XL-053", "XL-056")
@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_gateway_asks_about_a_call_its_client_did_not_ask_about(write: Callable[..., Path], protocol: str) -> None:
    file = write(
        "claims.py",
        """
        from toolwire import Toolkit
        kit = Toolkit("Claims")

        @kit.tool(approval="auto", safe=False)
        def water(times: int) -> int:
            "Water the plants."
            return times
        """,
    )
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    with background(asgi(open_code(FileTarget(file)))) as site:
        app = build_app(ServeSettings(targets=[site]), [open_toolbox(UrlTarget(site))])
        with (
            background(app) as url,
            connect_sync(url, protocol=protocol, approve=approve, agree=lambda _: True) as remote,
        ):
            assert remote.call("water", {"times": 2}) == Value(2)
    (question,) = asked
    assert f"water is a tool of {site}" in question.reasons[0]


@pytest.mark.requirement("XL-056")
def test_confirmation_word_of_one_worker_is_valid_once_in_every_worker(site: str) -> None:
    with start_serve(site, "--workers", 2) as (_, reply):
        url = url_in(reply)
        answers = []
        for number in range(12):  # each request has a connection of its own, which any worker may take
            word = send_note(url, str(number))[1]
            answers.append([send_note(url, str(number), word)[0] for _ in range(3)])
    assert answers == [[200, 428, 428]] * 12


@pytest.mark.requirement("XL-056")
def test_gateway_confirmation_word_is_valid_once_for_one_caller_and_call(site: str) -> None:
    box = open_toolbox(UrlTarget(site))
    keys = ["key-of-ada ada", "key-of-bob bob"]
    settings = ServeSettings(targets=[site], api_keys=keys)

    def call(url: str, text: str, key: str = "key-of-ada", word: str = "") -> tuple[int, str]:
        fields = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        fields |= {"toolwire-confirmation": word} if word else {}
        request = urllib.request.Request(f"{url}/api/note", json.dumps({"text": text}).encode(), fields)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["details"]["confirmation"]["word"]

    with background(build_app(settings, [box])) as url:
        status, word = call(url, "x")
        assert (status, bool(word)) == (428, True)
        assert call(url, "x", "key-of-bob", word)[0] == 428, "another caller"
        status, word = call(url, "x")
        assert call(url, "y", word=word)[0] == 428, "other arguments"
        status, word = call(url, "x")
        assert call(url, "x", word="a-word-of-its-own")[0] == 428
        assert call(url, "x", word=word)[0] == 200
        assert call(url, "x", word=word)[0] == 428, "once"
    with connect_sync(site) as direct:
        assert direct.call("noted") == Value(["x"])


def test_gateway_reports_at_start_how_many_tools_need_consent(site: str, toolwire: Callable[..., Any]) -> None:
    with open_listener("127.0.0.1", 0) as taken:
        outcome = toolwire("serve", site, "--port", str(taken.getsockname()[1]))
    assert "2 tools from elsewhere need consent" in outcome.err


@pytest.mark.requirement("D-24")
def test_only_the_names_and_origins_that_were_allowed_are_answered(desk: Path) -> None:
    with start_serve(desk, "--allow-host", "desk.example", "--allow-origin", "https://desk.example") as (_, reply):
        place = url_in(reply).removeprefix("http://")
        assert _status(place, {"Host": "desk.example"}) == 200
        assert _status(place, {"Host": "evil.example"}) == 421
        assert _status(place, {"Origin": "https://desk.example"}) == 200
        assert _status(place, {"Origin": "https://evil.example"}) == 403


def _status(place: str, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(place, timeout=20)
    try:
        connection.request("GET", "/tools", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_duplicate_tool_id_is_a_definition_error(desk: Path) -> None:
    box = open_toolbox(FileTarget(desk))
    with pytest.raises(DefinitionError):
        build_app(ServeSettings(targets=[]), [box, box])


def test_missing_target_is_reported_in_one_sentence(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("serve")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "toolwire: Name what to serve: a file, a module or a URL.\n"


class Bombs:
    """A toolbox whose tools have schemas that double at each of forty levels."""

    def __init__(self) -> None:
        tools = tuple(
            Tool(
                name=keyword.lower(),
                toolkit="Bombs",
                input_schema=_build_doubling_schema(keyword),
                approval=Approval.AUTO,
                safe=True,
            )
            for keyword in ("allOf", "anyOf", "oneOf")
        )
        self._catalog = Catalog(title="Bombs", tools=tools)

    def catalog(self) -> Catalog:
        return self._catalog

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        return Value("ran")


def _build_doubling_schema(keyword: str) -> dict[str, Any]:
    levels = {f"a{number}": {keyword: [{"$ref": f"#/$defs/a{number + 1}"}] * 2} for number in range(40)}
    return {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/a0"}},
        "required": ["x"],
        "$defs": {**levels, "a40": {"type": "string"}},
    }


@pytest.mark.requirement("D-17", "AT-02")
def test_a_gateway_to_a_schema_bomb_goes_on_serving_and_stops() -> None:
    with background(asgi(Bombs())) as site, start_serve(site) as (process, reply):
        connection = http.client.HTTPConnection(url_in(reply).rstrip("/").removeprefix("http://"), timeout=30)
        for tool in ("allof", "anyof", "oneof"):  # as a caller that checks nothing itself
            call = {"jsonrpc": "2.0", "id": 1, "method": tool, "params": {"x": "y"}}
            connection.request("POST", "/opentool/call", json.dumps(call), {"Content-Type": "application/json"})
            answer = connection.getresponse().read().decode()
            assert "too much work" in answer, answer
            connection.request("GET", "/health")
            answered = connection.getresponse()
            assert (answered.status, bool(answered.read())) == (200, True)
        connection.close()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
