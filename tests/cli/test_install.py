"""``toolwire install`` changes one entry of a host's file, and the official client starts what it wrote."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi import FastAPI
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from toolwire import Toolkit, asgi
from toolwire.framing import jsontext
from toolwire.hosting.mcp_hosts.host_files import HOSTS, HostFile, read_host_file
from toolwire.hosting.secret_detection import choose_program_name, find_secret_word
from toolwire.testing.loopback import background

FILES = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers", {}),
    "claude-code": (".claude.json", "mcpServers", {"type": "stdio"}),
    "cursor": (".cursor/mcp.json", "mcpServers", {}),
    "vscode": (".config/Code/User/mcp.json", "servers", {"type": "stdio"}),
    "windsurf": (".codeium/windsurf/mcp_config.json", "mcpServers", {}),
    "zed": (".config/zed/settings.json", "context_servers", {"source": "custom"}),
    "gemini-cli": (".gemini/settings.json", "mcpServers", {}),
}
PROJECT = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "zed": ".zed/settings.json",
    "gemini-cli": ".gemini/settings.json",
}
Run = Callable[..., Any]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    return folder


def read(file: Path) -> Any:
    return jsontext.read(file.read_bytes())


def list_tools(entry: dict[str, Any], folder: Path = Path("/")) -> list[str]:
    """Start the entry as a host does, in a folder of its own, and return the names of its tools."""

    async def start() -> list[str]:
        parameters = StdioServerParameters(command=entry["command"], args=entry["args"], cwd=folder)
        async with Client(stdio_client(parameters)) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    return anyio.run(start)


@pytest.mark.requirement("MC-04")
@pytest.mark.parametrize("host", FILES)
def test_host_starts_the_tools_of_its_installed_entry(host: str, home: Path, desk: Path, toolwire: Run) -> None:
    place, section, members = FILES[host]
    outcome = toolwire("install", host, desk, "--name", "desk")
    assert (outcome.code, outcome.err) == (0, "")
    assert str(home / place) in outcome.out
    entry = read(home / place)[section]["desk"]
    assert {name: entry[name] for name in members} == members
    assert entry.keys() == {*members, "command", "args"}
    assert "add" in list_tools(entry)
    assert (home / place).stat().st_mode & 0o777 == 0o600
    again = toolwire("install", host, desk, "--name", "desk")
    assert again.out.startswith(f"{HOSTS[host].title} already has desk.\n")


@pytest.mark.requirement("AT-32")
@pytest.mark.parametrize("host", FILES)
def test_folder_that_a_host_opens_cannot_replace_a_module_of_an_installed_entry(
    host: str, home: Path, desk: Path, toolwire: Run, tmp_path: Path
) -> None:
    assert toolwire("install", host, desk, "--name", "desk").code == 0
    place, section, _ = FILES[host]
    entry = read(home / place)[section]["desk"]
    opened, marker = tmp_path / "opened", tmp_path / "ran"
    (opened / "toolwire").mkdir(parents=True)
    for module in ("shlex.py", "json.py", "toolwire.py", "toolwire/__init__.py", "sitecustomize.py", "runpy.py"):
        (opened / module).write_text(f"open({str(marker)!r}, 'w')\nraise SystemExit(7)\n")
    assert "add" in list_tools(entry, opened)
    assert not marker.exists()


@pytest.mark.requirement("MC-04")
@pytest.mark.parametrize("host", FILES)
def test_install_keeps_the_other_entries_of_a_host_file(host: str, home: Path, desk: Path, toolwire: Run) -> None:
    place, section, _ = FILES[host]
    file = home / place
    file.parent.mkdir(parents=True, exist_ok=True)
    before = {"theme": "Ä", section: {"other": {"command": "x", "args": [], "env": {"A": "1"}}}, "z": [1.50, None]}
    text = json.dumps(before, indent=4, ensure_ascii=False)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o640)
    assert toolwire("install", host, desk, "--name", "desk").code == 0
    after = read(file)
    assert list(after) == list(before)
    assert {**after, section: {"other": after[section]["other"]}} == before
    assert file.read_text(encoding="utf-8").startswith('{\n    "theme": "Ä"'), "its indentation stays too"
    assert file.with_name(f"{file.name}.bak").read_text(encoding="utf-8") == text
    assert file.stat().st_mode & 0o777 == 0o640
    assert toolwire("install", host, "--remove", "--name", "desk").code == 0
    assert file.read_text(encoding="utf-8") == text
    assert {one.name for one in file.parent.iterdir()} == {file.name, f"{file.name}.bak"}, "and nothing else is left"


COMMENTED = """// Zed settings
{
  "theme": "a//b", // not a comment: "a//b", }
  "SECTION": {
    // the first
    "x": {"command": "y", "args": ["\\"//"],},
    /* the end, */
  },
}
"""


@pytest.mark.requirement("MC-04")
@pytest.mark.parametrize("host", FILES)
@pytest.mark.parametrize(
    "text", [COMMENTED, '{"z":1}', '{"SECTION":{}}', '{\r\n\t"z": {}\r\n}', "", "{}", '\ufeff{"z": 1}']
)
def test_install_keeps_comments_and_formatting(text: str, host: str, home: Path, desk: Path, toolwire: Run) -> None:
    place, section, _ = FILES[host]
    file = home / place
    file.parent.mkdir(parents=True, exist_ok=True)
    text = text.replace("SECTION", section)
    file.write_bytes(text.encode())
    assert toolwire("install", host, desk, "--name", "desk").code == 0
    added = file.read_bytes().decode()
    assert "desk" in HostFile.servers(read_host_file(HOSTS[host], file))
    lines = iter(added.splitlines())
    assert all(any(line.rstrip(",}") in other for other in lines) for line in text.splitlines()), "each in its order"
    assert toolwire("install", host, desk, "--name", "desk", "--safe-only", "--replace").code == 0
    assert toolwire("install", host, "--remove", "--name", "desk").code == 0
    if section in text and "//" in text:
        assert file.read_bytes().decode() == text


@pytest.mark.requirement("MC-04")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n  // my servers\n  "mcpServers": {},,\n}', "is not a JSON object"),
        ('{"mcpServers": {}, "mcpServers": {"a": {}}}', "is not a JSON object"),
        ('{"mcpServers": []}', "is not an object"),
        ("[1]", "is not a JSON object"),
        ('{"mcpServers": {', "is not a JSON object"),
        (b"\xff\xfe{}", "is not a JSON object"),
        # With a pattern that takes the square of their length, each of these would take an hour.
        ('"\\' * 1_000_000, "is not a JSON object"),
        ("/* " * 1_000_000, "is not a JSON object"),
        ('{"a": "\\' + '\\"' * 1_000_000, "is not a JSON object"),
    ],
)
def test_unreadable_host_file_is_not_changed(
    text: str | bytes, said: str, home: Path, desk: Path, toolwire: Run
) -> None:
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    before = file.read_bytes()
    outcome = toolwire("install", "cursor", desk)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert "was not changed" in outcome.err
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.requirement("MC-04")
def test_print_option_shows_the_entry_without_writing(home: Path, desk: Path, toolwire: Run) -> None:
    outcome = toolwire("install", "vscode", desk, "--name", "desk", "--print")
    place, _, shown = outcome.out.partition(":\n")
    assert place == str(home / FILES["vscode"][0])
    assert list(json.loads(shown)["servers"]) == ["desk"]
    assert list(home.iterdir()) == []


@pytest.mark.requirement("MC-04")
@pytest.mark.parametrize("host", FILES)
def test_key_is_written_as_a_reference_and_never_as_text(
    host: str, home: Path, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, section, _ = FILES[host]
    monkeypatch.setenv("PET_KEY", "hunter2")
    url = "https://petstore.example/openapi.json"
    outcome = toolwire("install", host, url, "--include", "all", "--tag", "pet", "--tag", "x y", "--key-env", "PET_KEY")
    assert outcome.code == 0
    entry = read(home / place)[section]["petstore-example"]
    assert "hunter2" not in (home / place).read_text()
    wanted = [
        *("serve", url, "--key-env", "PET_KEY", "--include", "all", "--tag", "pet", "--tag", "x y", "--stdio"),
        *("--consent", "inbox"),
    ]
    assert sorted(entry["args"][3:]) == sorted(wanted)
    referred = {"claude-code": "${PET_KEY}", "cursor": "${env:PET_KEY}", "vscode": "${env:PET_KEY}"}
    referred |= {"windsurf": "${env:PET_KEY}", "gemini-cli": "${PET_KEY}"}
    assert entry.get("env") == ({"PET_KEY": referred[host]} if host in referred else None)
    assert ("in which PET_KEY is set" in outcome.err) == (host not in referred)
    outcome = toolwire(
        "install", host, url, "--name", "two", "--header-env", "X-Key=PET_KEY", "--header", "X-Version: 2"
    )
    assert outcome.code == 0
    second = read(home / place)[section]["two"]
    assert second["args"][5:9] == ["--header", "X-Version: 2", "--header-env", "X-Key=PET_KEY"]
    assert second.get("env") == entry.get("env")
    refused = toolwire("install", host, url, "--key", "hunter2")
    assert (refused.code, "hunter2" in refused.err) == (2, False)


@pytest.mark.requirement("MC-04")
def test_relative_paths_are_made_absolute_or_refused(
    home: Path, desk: Path, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.parent)
    overlay = desk.parent / "mine.yaml"
    outcome = toolwire("install", "cursor", desk.name, "petstore.example", "--overlay", "mine.yaml", "--print")
    arguments = json.loads(outcome.out.partition(":\n")[2])["mcpServers"][desk.stem]["args"]
    assert arguments[3:] == [
        *("serve", str(desk), "https://petstore.example", "--overlay", str(overlay), "--consent", "inbox", "--stdio"),
    ]
    assert Path(desk.parent / "mine.yaml") == overlay
    refused = toolwire("install", "cursor", f"{desk.stem}:kit")
    assert (refused.code, "works only in the current folder. Give the path of the file instead" in refused.err) == (
        2,
        True,
    )


@pytest.mark.requirement("MC-04")
@pytest.mark.parametrize("host", FILES)
def test_project_option_uses_the_file_of_the_project(
    host: str, home: Path, desk: Path, tmp_path: Path, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    outcome = toolwire("install", host, desk, "--project")
    if host not in PROJECT:
        assert (outcome.code, "has no project file. Leave out --project" in outcome.err) == (2, True)
        return
    assert list(read(project / PROJECT[host])[FILES[host][1]]) == [desk.stem]
    assert list(home.iterdir()) == []


@pytest.mark.requirement("MC-04")
def test_existing_server_of_another_target_is_replaced_only_with_replace(home: Path, desk: Path, toolwire: Run) -> None:
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"desk": {"url": "https://example.com/mcp"}}}')
    refused = toolwire("install", "cursor", desk, "--name", "desk")
    assert (refused.code, "a different server named 'desk'" in refused.err) == (2, True)
    assert toolwire("install", "cursor", desk, "--name", "desk", "--replace").code == 0
    assert "command" in read(file)["mcpServers"]["desk"]
    assert toolwire("install", "cursor", "--remove", "--name", "shop").code == 2
    for name in ("", "a b", "../x", "x" * 65):
        assert toolwire("install", "cursor", desk, "--name", name or " ").code == 2


@pytest.mark.requirement("MC-04")
def test_unwritable_folder_is_reported(home: Path, desk: Path, toolwire: Run) -> None:
    (home / ".cursor").touch()
    outcome = toolwire("install", "cursor", desk)
    assert (outcome.code, "Cannot write" in outcome.err) == (2, True)


@pytest.mark.requirement("MC-04")
def test_symlinked_host_file_is_written_through_the_link(home: Path, desk: Path, tmp_path: Path, toolwire: Run) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").symlink_to(real)
    assert toolwire("install", "cursor", desk, "--name", "desk").code == 0
    assert (home / ".cursor" / "mcp.json").is_symlink()
    assert "desk" in read(real)["mcpServers"]


CODEX = """# my settings
model = "x"  # the best

[mcp_servers.other] # mine
command = "y"
args = [
  "[mcp_servers.desk]",
]

[mcp_servers.other.env]
A = "1"

# the end
[tui]
theme = "Ä"
"""


@pytest.mark.requirement("QF-07")
@pytest.mark.parametrize("text", [CODEX, "", CODEX.replace("\n", "\r\n"), CODEX.removesuffix("\n")])
def test_codex_gets_a_table_and_the_rest_of_its_file_stays(text: str, home: Path, desk: Path, toolwire: Run) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_bytes(text.encode())
    outcome = toolwire("install", "codex", desk, "--name", "desk")
    assert (outcome.code, outcome.err) == (0, "")
    added = file.read_bytes().decode()
    assert added.startswith(text)
    entry = tomllib.loads(added)["mcp_servers"]["desk"]
    assert "add" in list_tools(entry)
    url = ["https://petstore.example/openapi.json", "--key-env", "PET_KEY"]
    assert toolwire("install", "codex", *url, "--name", "desk", "--replace").code == 0
    assert tomllib.loads(file.read_text())["mcp_servers"]["desk"]["env_vars"] == ["PET_KEY"]
    shown = toolwire("install", "codex", *url, "--name", "desk", "--print").out.partition(":\n")[2]
    assert tomllib.loads(shown)["mcp_servers"]["desk"] == tomllib.loads(file.read_text())["mcp_servers"]["desk"]
    assert toolwire("install", "codex", "--remove", "--name", "desk").code == 0
    assert file.read_bytes().decode().rstrip() == text.rstrip()


@pytest.mark.requirement("QF-07")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[mcp_servers", "is not a TOML file"),
        ("mcp_servers = 1", "is not an object"),
        ("mcp_servers.desk.command = 'x'", "are ambiguous"),
        ("mcp_servers = {desk = {command = 'x'}}", "are ambiguous"),
        ('a = """\n[mcp_servers.desk]\nb\n"""', "are ambiguous"),
    ],
)
def test_codex_file_that_cannot_be_changed_safely_stays(
    text: str, said: str, home: Path, desk: Path, toolwire: Run
) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    outcome = toolwire("install", "codex", desk, "--name", "desk", "--replace")
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert file.read_text() == text


@pytest.mark.requirement("QF-07")
@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("cursor", "If a call needs your consent, Cursor shows a form."),
        ("zed", "Zed does not show forms. If a call needs your consent, you decide with `toolwire approvals`."),
        ("windsurf", "If it cannot show forms, you decide with `toolwire approvals`."),
    ],
)
def test_install_says_how_the_user_of_the_host_is_asked(host: str, told: str, home: Path, toolwire: Run) -> None:
    assert told in toolwire("install", host, "https://petstore.example/openapi.json", "--include", "all").out


def test_help_lists_the_supported_hosts(toolwire: Run) -> None:
    outcome = toolwire("install", "--help").out
    assert re.sub(r"\s+", " ", outcome).count(", ".join(HOSTS)) == 1


@pytest.mark.requirement("CC-05")
@pytest.mark.parametrize("consent", ["hints", "refuse", "inbox"])
def test_the_server_of_an_entry_asks_as_the_user_chose(consent: str, home: Path, desk: Path, toolwire: Run) -> None:
    assert toolwire("install", "cursor", desk, "--name", "desk", "--consent", consent).code == 0
    arguments = read(home / FILES["cursor"][0])["mcpServers"]["desk"]["args"]
    assert arguments[arguments.index("--consent") + 1] == consent


SECRET_COMMANDS = [
    "server --api-key {}",
    "server --api-key={}",
    "server --token {} --port 1",
    "npx -y @scope/server {}",
    "server --header 'Authorization: Bearer {}'",
    "server -H 'X-Api-Key: {}'",
    "server postgresql://ann:{}@127.0.0.1/db",
    "server https://127.0.0.1/mcp?api_key={}",
    "server password={}",
]


@pytest.mark.requirement("AT-54")
@pytest.mark.parametrize("command", SECRET_COMMANDS)
@pytest.mark.parametrize("more", [[], ["--print"], ["--name", "one"]])
def test_secret_among_the_words_of_a_program_is_not_written(
    command: str, more: list[str], home: Path, toolwire: Run
) -> None:
    secret = "sk-proj-4fT9bQ2xLm7Zr8Wd1Kc5"
    outcome = toolwire("install", "cursor", f"stdio:{command.format(secret)}", *more)
    assert (outcome.code, "secrets are not written to files" in outcome.err) == (2, True)
    assert secret not in outcome.out + outcome.err
    assert list(home.rglob("*.json")) == []


@pytest.mark.requirement("AT-54")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("npx -y @modelcontextprotocol/server-filesystem@2025.11.25 /tmp", "server-filesystem-2025-11-25"),
        ("python -m my_server --auth none --max-tokens 4000", "my_server"),
        ("uvx mcp-server-git==2025.1.14 --repository .", "mcp-server-git"),
        ("server --key-file /etc/none.pem --mode quick-and-dirty", "server"),
        ("docker run -i --rm image@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "image"),
    ],
)
def test_words_that_are_no_secrets_are_accepted(command: str, name: str) -> None:
    words = shlex.split(command)
    assert find_secret_word(words[1:]) == ""
    assert choose_program_name(words).startswith(name[:5])


@pytest.mark.requirement("AT-54")
def test_entry_is_not_named_after_the_value_of_an_option() -> None:
    assert choose_program_name(["npx", "-y", "@scope/notes", "--pin", "4711"]) == "notes"
    assert choose_program_name(["/usr/bin/notes", "--pin", "4711"]) == "notes"


@pytest.mark.requirement("AT-54")
def test_header_field_that_may_hold_a_secret_is_not_written(home: Path, toolwire: Run) -> None:
    outcome = toolwire("install", "cursor", "http://127.0.0.1:1", "--header", "X-Api-Key: hunter2", "--print")
    assert (outcome.code, "hunter2" in outcome.out + outcome.err) == (2, False)


@pytest.mark.requirement("AT-54")
@pytest.mark.parametrize("place", [".cursor", ".cursor/mcp.json"])
def test_project_follows_no_link_out_of_its_folder(
    place: str, home: Path, desk: Path, tmp_path: Path, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    (project / place).parent.mkdir(parents=True)
    outside.mkdir()
    (outside / "mcp.json").write_text("{}")
    (project / place).symlink_to(outside if place == ".cursor" else outside / "mcp.json")
    monkeypatch.chdir(project)
    outcome = toolwire("install", "cursor", desk, "--project")
    assert (outcome.code, ", which is outside this folder. Use --file FILE" in outcome.err) == (2, True)
    assert (outside / "mcp.json").read_text() == "{}"
    inside = project / "settings"
    inside.mkdir()
    (project / place).unlink()
    (project / place).symlink_to(inside if place == ".cursor" else inside / "mcp.json")
    assert toolwire("install", "cursor", desk, "--project").code == 0
    assert desk.stem in read(inside / "mcp.json")["mcpServers"]


@pytest.mark.requirement("FU-54")
@pytest.mark.parametrize("more", [[], ["--print"]])
@pytest.mark.parametrize("text", ["", "import no_such_module_here", "x = 1", "1 +"])
def test_target_that_does_not_load_is_not_installed(
    text: str, more: list[str], home: Path, tmp_path: Path, toolwire: Run
) -> None:
    file = tmp_path / "made_for_a_test_of_install.py"
    if text:
        file.write_text(text)
    outcome = toolwire("install", "cursor", file, *more)
    assert (outcome.code, outcome.out) == (2, "")
    assert "made_for_a_test_of_install" in outcome.err
    assert list(home.rglob("*.json")) == []


@pytest.mark.requirement("FU-54")
def test_install_names_the_tools_that_its_target_offers(home: Path, desk: Path, toolwire: Run) -> None:
    outcome = toolwire("install", "cursor", desk, "--name", "desk")
    assert "It offers 9 tools: add, count, fail, late, note and 4 more." in outcome.out
    kit = Toolkit("One")

    @kit.tool(approval="auto", safe=True)
    def only() -> str:
        """Only."""
        return ""

    with background(asgi(kit)) as url:
        assert "It offers 1 tool: only." in toolwire("install", "cursor", url, "--name", "one").out
    outcome = toolwire("install", "cursor", url, "--name", "later")
    assert (outcome.code, "The tools cannot be listed now" in outcome.err) == (0, True)
    api = FastAPI()
    api.get("/orders", operation_id="orders")(list)
    with background(api) as url:
        outcome = toolwire("install", "cursor", url, "--name", "none")
        assert (outcome.code, "--include all" in outcome.err, "Nothing was added" in outcome.err) == (2, True, True)
        assert '"none"' not in (home / ".cursor" / "mcp.json").read_text()
        assert (
            "It offers 1 tool: orders." in toolwire("install", "cursor", url, "--name", "all", "--include", "all").out
        )
    missing = toolwire("install", "cursor", "stdio:no-such-program-here")
    assert (missing.code, "was not found. Install it, or give its path" in missing.err) == (2, True)
    assert toolwire("install", "cursor", home / "none.json").code != 0


def test_entry_is_removed_by_its_name_without_an_option(home: Path, desk: Path, toolwire: Run) -> None:
    assert toolwire("install", "cursor", desk, "--name", "my-desk").code == 0
    assert toolwire("install", "cursor", "--remove", "my-desk").code == 0
    assert read(home / ".cursor" / "mcp.json")["mcpServers"] == {}
    assert toolwire("install", "cursor", "--remove", "my-desk").code == 2
