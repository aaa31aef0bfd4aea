"""Targets that are programs: ``stdio:COMMAND`` and an entry of an mcp.json, in each command, with one agreement."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Outcome
from toolwire import Answer, connect_sync
from toolwire.client import Session
from toolwire.client.transport.server_command import read_server_command
from toolwire.core.check import Question
from toolwire.core.codec import ConnectError
from toolwire.stores import MemoryGrants
from toolwire.stores.consent.agreed_digests import open_agreed_commands

Run = Callable[..., Outcome]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "toolwire"


@pytest.fixture
def command(desk: Path, state: Path) -> str:
    return shlex.join([sys.executable, "-m", "toolwire", "serve", str(desk), "--stdio"])


@pytest.fixture
def target(command: str, state: Path) -> str:
    """A target whose command was agreed to."""
    known = read_server_command(f"stdio:{command}")
    assert known is not None
    open_agreed_commands(state).add(known.digest, known.summary)
    return f"stdio:{command}"


@pytest.mark.requirement("MC-02")
def test_the_user_sees_the_whole_command_and_agrees_once(command: str, terminal: Callable[..., Any]) -> None:
    # As from a shell that has filled in $SHOP_TOKEN.
    first = terminal(
        "tools", f"stdio:TOKEN=hidden-by-its-name {command}", SHOP_TOKEN="hidden-by-its-name", COLUMNS="1000"
    )
    first.wait_for(b"Run it, now and whenever you name exactly this command for this folder? [y/N] ")
    asked = first.shown.decode().replace("\r\n", "\n")
    program = Path(sys.executable)
    linked = f", a link to {program.resolve()}" if program.resolve() != program else ""
    assert f"\n  {command}\n  the program   {program}{linked}\n  in the folder {Path.cwd()}\n" in asked
    assert "\n  it is given   TOKEN=$SHOP_TOKEN\n" in asked
    assert "hidden-by-its-name" not in asked
    first.type("y")
    assert first.end() == 0
    second = terminal("tools", f"stdio:TOKEN=$SHOP_TOKEN {command}", SHOP_TOKEN="another")
    assert second.end() == 0
    assert b"Run it" not in second.shown
    assert b"shred" in second.shown
    other = terminal("tools", f"stdio:{command} --log json")
    other.wait_for(b"[y/N] ")
    other.type("")
    assert other.end() == 3
    assert b"was not run, because it was not approved" in other.shown


@pytest.mark.requirement("MC-02")
def test_unapproved_program_does_not_run_without_a_terminal(command: str, toolwire: Run, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    outcome = toolwire("tools", f"stdio:touch {marker}")
    assert outcome.code == 3
    assert "there is no terminal to ask you" in outcome.err
    assert not marker.exists()


@pytest.mark.requirement("MC-02")
def test_each_command_with_a_target_accepts_a_program(target: str, toolwire: Run, tmp_path: Path) -> None:
    assert "shred" in toolwire("tools", target).out
    shown = toolwire("show", target, "add").out
    assert f"connect_sync({target!r})" in shown
    assert toolwire("call", target, "add", "a=2", "b=3", "--agree").out == "5\n"
    assert "Model Context Protocol was chosen: 9 tools" in toolwire("explain", target).out
    assert json.loads(toolwire("convert", target, "--to", "openapi").out)["openapi"]
    assert toolwire("size", target).code == 0
    lock = str(tmp_path / "toolwire.lock")
    assert "9 tools pinned" in toolwire("lock", target, "--file", lock).out
    assert "has not changed since it was locked" in toolwire("diff", target, "--file", lock).out
    assert toolwire("call", target, "add", "a=2", "--locked", "--file", lock, "--agree").out == "3\n"
    assert toolwire("approvals", "set", target, "add", "deny").code == 0
    assert toolwire("call", target, "add", "a=2", "--agree").code == 3
    assert toolwire("approvals", "unset", target, "add").code == 0


@pytest.mark.requirement("MC-02")
@pytest.mark.parametrize("section", ["mcpServers", "servers", "context_servers"])
def test_an_entry_of_a_file_of_hosts_is_a_target(target: str, section: str, toolwire: Run, tmp_path: Path) -> None:
    words = shlex.split(target.removeprefix("stdio:"))
    file = tmp_path / "hosts.json"
    entry = {"command": words[0], "args": words[1:], "cwd": str(Path.cwd())}
    file.write_text(json.dumps({section: {"desk": entry}}))
    assert "shred" in toolwire("tools", f"{file}:desk").out
    missing = toolwire("tools", f"{file}:desc")
    assert (missing.code, missing.err) == (2, f"toolwire: {file} contains no server 'desc'. Its servers: desk.\n")
    assert toolwire("tools", f"{file}x.json:desk").code == 2


def test_an_entry_with_a_url_is_that_url(site: str, toolwire: Run, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        json.dumps({"mcpServers": {"desk": {"url": f"{site}/mcp"}, "keyed": {"url": site, "headers": {"a": "b"}}}})
    )
    assert "shred" in toolwire("tools", f"{file}:desk").out
    with connect_sync(f"{file}:desk") as remote:
        assert remote.tools
    assert "Use its URL as the target" in toolwire("tools", f"{file}:keyed").err


@pytest.mark.requirement("MC-02")
def test_agreed_commands_are_listed_and_forgotten(target: str, toolwire: Run) -> None:
    placed = f"PWD={Path.cwd()} {target.removeprefix('stdio:')}"
    assert f"stdio:{placed}  a command that you agreed to\n" in toolwire("connections").out
    assert {"resource": placed, "account": "", "kind": "command", "issuer": "", "scopes": []} in json.loads(
        toolwire("connections", "--json").out
    )
    assert toolwire("logout", target).code == 0
    assert toolwire("tools", target).code == 3
    gone = toolwire("logout", target)
    assert (gone.code, f"in {Path.cwd()}. `toolwire connections` lists" in gone.err) == (1, True)


@pytest.mark.requirement("MC-02", "MC-04")
def test_program_is_installed_in_a_host_with_a_reference_to_its_key(
    target: str, toolwire: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "theirs")
    file, keyed = tmp_path / "mcp.json", target.replace("stdio:", "stdio:TOKEN=$SHOP_TOKEN ")
    refused = toolwire("install", "cursor", keyed, "--name", "shop", "--file", str(file))
    assert (refused.code, file.exists()) == (3, False), "the host has no terminal to ask at"
    known = read_server_command(keyed)
    assert known is not None
    open_agreed_commands(state).add(known.digest, known.summary)
    assert toolwire("install", "cursor", keyed, "--name", "shop", "--file", str(file), "--agree").code == 0
    entry = json.loads(file.read_text())["mcpServers"]["shop"]
    placed = keyed.replace("stdio:", f"stdio:PWD={Path.cwd()} ")
    assert entry["args"] == ["-P", "-m", "toolwire", "serve", placed, "--agree", "--consent", "inbox", "--stdio"]
    assert entry["env"] == {"SHOP_TOKEN": "${env:SHOP_TOKEN}"}
    assert "theirs" not in file.read_text()
    literal = toolwire("install", "cursor", target.replace("stdio:", "stdio:TOKEN=theirs "), "--file", str(file))
    assert (literal.code, "Write TOKEN=$TOKEN instead" in literal.err) == (2, True)
    # What the host starts is a bridge to the program that speaks MCP itself.
    with connect_sync(f"{file}:shop", approve_command=lambda _: True, agree=lambda _: True) as remote:
        assert remote.call("add", {"a": 2, "b": 3}).unwrap() == 5


@pytest.mark.parametrize("words", [("login",), ("conform",)])
def test_command_for_urls_refuses_a_program(target: str, toolwire: Run, words: tuple[str, ...]) -> None:
    outcome = toolwire(*words, target)
    assert outcome.code == 2
    assert "This command needs a server URL, but the target is a program on this machine" in outcome.err


def test_key_option_for_a_program_is_refused_with_advice(target: str, toolwire: Run) -> None:
    outcome = toolwire("tools", target, "--key", "abc")
    assert (outcome.code, outcome.err) == (
        2,
        "toolwire: a program speaks mcp, and gets its keys from environment variables: stdio:NAME=$NAME COMMAND.\n",
    )


@pytest.fixture
def bridge(target: str) -> Iterator[str]:
    """The URL where ``toolwire serve`` serves the program."""
    argv = [sys.executable, "-m", "toolwire", "serve", target, "--port", "0", "--agree"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            yield next(match for line in lines if (match := re.match(r"URL +(http://\S+)", line)))[1]
        finally:
            process.terminate()
            assert process.wait(30) == 0


@pytest.mark.requirement("MC-03")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_program_is_served_over_every_protocol(bridge: str, protocol: str) -> None:
    asked: list[str] = []

    def approve(question: Question) -> bool:
        asked.append(question.call.tool.name)
        return True

    with connect_sync(bridge, protocol=protocol, approve=approve) as remote:
        assert remote.call("add", {"a": 2, "b": 3}).unwrap() == 5
        assert remote.call("shred", {"pages": [1]}).unwrap() == "shredded"
    assert "shred" in asked


# What the question shows, and what asks again


PROGRAM = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    known = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "Box"}},
        "tools/list": {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "WHO"}]},
    }
    result = known.get(asked["method"])
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "unknown"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def build_project(folder: Path, who: str, **entry: Any) -> Path:
    """Write a project with ``server.py`` and an mcp.json that starts it, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "server.py").write_text(PROGRAM.replace("WHO", who))
    given = {"command": sys.executable, "args": ["server.py"], **entry}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"box": given}}))
    return folder


def say(target: str) -> str | None:
    """Return who answers at ``target``, or None where the user did not agree to its command."""
    try:
        with connect_sync(target, approve=lambda _: True) as remote:
            return str(remote.call("say").unwrap())
    except ConnectError as error:
        if "you have not agreed to this command yet" not in str(error):
            raise
        return None


def agree_to(target: str, state: Path) -> None:
    command = read_server_command(target)
    assert command is not None
    open_agreed_commands(state).add(command.digest, command.summary)


@pytest.mark.requirement("AT-33", "MC-02")
def test_question_shows_each_literal_and_names_what_can_load_code(
    terminal: Callable[..., Any], tmp_path: Path, state: Path
) -> None:
    env = {"PYTHONPATH": "./evil", "MODE": "fast\x1b[2J", "TOKEN": "${env:SHOP_TOKEN}", "node_options": "-r ./x.js"}
    project = build_project(tmp_path / "box", "box", env=env)
    asking = terminal("tools", f"{project / 'mcp.json'}:box", SHOP_TOKEN="hidden-by-its-name", COLUMNS="1000")
    asking.wait_for(b"[y/N] ")
    asked = re.sub(r"\x1b\[[0-9;]*m", "", asking.shown.decode().replace("\r\n", "\n"))
    for line in (
        f"  in the folder {project}",
        "  it is given   PYTHONPATH=./evil",
        "  it is given   TOKEN=${env:SHOP_TOKEN}",
        "  it is given   node_options=-r ./x.js",
        "  PYTHONPATH, node_options can make it run other code. Check the value.",
    ):
        assert f"\n{line}\n" in asked
    assert "\x1b[2J" not in asking.shown.decode()
    assert "hidden-by-its-name" not in asked
    asking.type("y")
    assert asking.end() == 0
    stored = (state / "commands.json").read_text()
    assert "MODE=***" in stored, "a literal may be a secret, and this list is kept"
    assert "hidden-by-its-name" not in stored
    assert "PYTHONPATH=./evil" in stored


@pytest.mark.requirement("AT-33", "AT-45", "MC-02")
@pytest.mark.parametrize(
    "change",
    [
        {"env": {"MODE": "slow", "TOKEN": "${SHOP_TOKEN}"}},
        {"env": {"MODE": "fast", "TOKEN": "${OTHER_TOKEN}"}},
        {"env": {"MODE": "fast", "TOKEN": "theirs"}},
        {"env": {"MODE": "fast", "TOKEN": "${SHOP_TOKEN}", "LD_PRELOAD": "./x.so"}},
        {"env": {"TOKEN": "${SHOP_TOKEN}"}},
        {"cwd": "sub"},
        {"args": ["server.py", "--all"]},
        {"command": "./python"},
    ],
)
def test_changed_entry_of_a_file_is_asked_about_again(
    change: dict[str, Any], toolwire: Run, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SHOP_TOKEN", "OTHER_TOKEN"):
        monkeypatch.setenv(name, "theirs")
    env = {"MODE": "fast", "TOKEN": "${SHOP_TOKEN}"}
    project = build_project(tmp_path / "box", "box", env=env)
    build_project(project / "sub", "sub")
    (project / "python").symlink_to(sys.executable)
    target = f"{project / 'mcp.json'}:box"
    agree_to(target, state)
    monkeypatch.setenv("SHOP_TOKEN", "renewed")
    assert "say" in toolwire("tools", target).out, "the value of a reference may change"
    build_project(project, "box", **{"env": env, **change})
    refused = toolwire("tools", target)
    assert (refused.code, "was not run, because it was not approved" in refused.err) == (3, True)


@pytest.mark.requirement("AT-45")
@pytest.mark.parametrize("entry", [{}, {"cwd": "."}, {"command": "./run.sh", "args": []}, {"args": ["./server.py"]}])
def test_consent_to_a_program_of_one_folder_holds_for_no_other(
    entry: dict[str, Any], tmp_path: Path, state: Path
) -> None:
    targets = []
    for name in ("trusted", "other"):
        project = build_project(tmp_path / name, name, **entry)
        (project / "run.sh").write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} server.py\n")
        (project / "run.sh").chmod(0o755)
        targets.append(f"{project / 'mcp.json'}:box")
    agree_to(targets[0], state)
    assert say(targets[0]) == "trusted"
    assert say(targets[1]) is None


@pytest.mark.requirement("AT-45")
def test_consent_to_a_command_holds_in_the_folder_where_it_was_given(
    toolwire: Run, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted, other = (build_project(tmp_path / name, name) for name in ("trusted", "other"))
    target = f"stdio:{shlex.quote(sys.executable)} server.py"
    monkeypatch.chdir(trusted)
    agree_to(target, state)
    assert say(target) == "trusted"
    monkeypatch.chdir(other)
    assert say(target) is None
    placed = target.replace("stdio:", f"stdio:PWD={trusted} ")
    assert say(placed) == "trusted", "the folder can be named from everywhere"
    assert toolwire("logout", placed).code == 0
    monkeypatch.chdir(trusted)
    assert say(target) is None


@pytest.mark.requirement("AT-45")
def test_another_program_first_in_path_or_behind_a_link_is_asked_about(
    toolwire: Run, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_program(file: Path, who: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!{sys.executable}\n{PROGRAM.replace('WHO', who)}")
        file.chmod(0o755)

    first, second = tmp_path / "first", tmp_path / "second"
    write_program(second / "box-v1", "good")
    write_program(second / "box-v2", "bad")
    (second / "box").symlink_to(second / "box-v1")
    monkeypatch.setenv("PATH", f"{first}:{second}:/usr/bin:/bin")
    agree_to("stdio:box", state)
    assert say("stdio:box") == "good"
    write_program(first / "box", "bad")
    assert say("stdio:box") is None
    (first / "box").unlink()
    assert say("stdio:box") == "good"
    (second / "box").unlink()
    (second / "box").symlink_to(second / "box-v2")
    assert say("stdio:box") is None
    assert "You will be asked before box runs again" in toolwire("logout", "stdio:box").out, (
        "an agreement can end after its program has changed"
    )


@pytest.mark.requirement("AT-45")
def test_link_that_is_swapped_after_consent_starts_nothing(tmp_path: Path, state: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    for file in (good, bad):
        file.write_text(f"#!{sys.executable}\n{PROGRAM.replace('WHO', file.name)}")
        file.chmod(0o755)
    link = tmp_path / "box"
    link.symlink_to(good)

    def swap(_: object) -> bool:
        link.unlink()
        link.symlink_to(bad)
        return True

    with (
        pytest.raises(ConnectError, match="leads to another file than"),
        connect_sync(f"stdio:{link}", approve_command=swap),
    ):
        pass


@pytest.mark.requirement("AT-45")
def test_permission_for_a_program_of_one_folder_holds_for_no_other(tmp_path: Path, state: Path) -> None:
    targets = []
    for name in ("trusted", "other"):
        serve = ["-P", "-m", "toolwire", "serve", "desk.py", "--stdio"]
        project = build_project(tmp_path / name, name, args=serve)
        (project / "desk.py").write_text(DESK)
        targets.append(f"{project / 'mcp.json'}:box")
    session = Session(grants=MemoryGrants())
    asked: list[str] = []

    def approve(question: Question) -> Answer:
        asked.append(question.site)
        return Answer(allowed=True, always=True)

    for target, questions in ((targets[0], 1), (targets[0], 1), (targets[1], 2)):
        with connect_sync(
            target, approve=approve, approve_command=lambda _: True, session=session, name="box"
        ) as remote:
            assert remote.call("say").ok
        assert len(asked) == questions
    assert len(set(asked)) == 2


DESK = """
from toolwire import Toolkit

kit = Toolkit("Desk")

@kit.tool(blanket_allowed=True)
def say() -> str:
    \"\"\"Say it.\"\"\"
    return "said"
"""


@pytest.mark.requirement("AT-45")
def test_entry_of_a_project_starts_beside_the_folder_of_its_host(tmp_path: Path, state: Path) -> None:
    project = build_project(tmp_path / "box", "box")
    for folder in (".cursor", ".vscode"):
        (project / folder).mkdir()
        file = (project / "mcp.json").rename(project / folder / "mcp.json")
        agree_to(f"{file}:box", state)
        assert say(f"{file}:box") == "box"
        file.rename(project / "mcp.json")
