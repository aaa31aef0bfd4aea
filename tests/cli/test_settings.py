"""Settings: files of the project and of the user fill in options, and a hostile project's file loosens nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Outcome
from toolwire import Toolkit, asgi
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("FU-40")

Run = Callable[..., Outcome]
_KEY = "key-of-the-site"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that another test trusted is trusted here."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project, which is the working folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the user, which is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "toolwire"
    folder.mkdir(parents=True)
    return folder / "toolwire.toml"


@pytest.fixture
def keyed_site() -> Iterator[str]:
    """A server whose tools need a key."""
    kit = Toolkit("Library")

    @kit.tool(approval="auto", safe=True)
    def list_books() -> list[str]:
        """List the books."""
        return ["Emma"]

    @kit.tool(approval="per-call")
    def lend_book(title: str) -> str:
        """Lend a book."""
        return title

    with background(asgi(kit, api_keys=[_KEY])) as url:
        yield url


def write_settings(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


def list_names(outcome: Outcome) -> list[str]:
    assert outcome.code == 0, outcome.err
    return [tool["name"] for tool in json.loads(outcome.out)]


def read_sources(outcome: Outcome) -> dict[str, tuple[Any, str]]:
    assert outcome.code == 0, outcome.err
    return {row["option"]: (row["value"], row["source"]) for row in json.loads(outcome.out)}


def test_the_users_own_file_gives_a_site_its_key_protocol_and_selection(
    project: Path, own: Path, keyed_site: str, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIBRARY_KEY", _KEY)
    assert toolwire("call", keyed_site, "list_books", "--protocol", "openapi").code == 3
    write_settings(own, f'[targets."{keyed_site}"]\nkey-env = "LIBRARY_KEY"\nprotocol = "openapi"\nsafe-only = true\n')
    assert toolwire("call", keyed_site, "list_books", "--json").code == 0
    assert list_names(toolwire("tools", keyed_site, "--json")) == ["list_books"]
    assert list_names(toolwire("tools", f"{keyed_site}/", "--json")) == ["list_books"]


def test_command_line_wins_over_environment_over_project_over_user(
    project: Path, own: Path, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(
        own, "[defaults]\nworkers = 2\nlog = 'json'\nrates-fail = 'closed'\n[defaults.serve]\nhost = '::1'\n"
    )
    theirs = write_settings(project / "toolwire.toml", "[defaults]\nport = 9701\naccess-log = true\nprotocol = 'mcp'\n")
    monkeypatch.setenv("TOOLWIRE_PORT", "9702")
    monkeypatch.setenv("TOOLWIRE_ALLOW_HOST", "a.example, b.example")
    found = read_sources(toolwire("settings", "show", "serve", "--json"))
    assert found["port"] == (9702, "TOOLWIRE_PORT")
    assert found["allow-host"] == (["a.example", "b.example"], "TOOLWIRE_ALLOW_HOST")
    assert found["access-log"] == (True, f"{theirs}:3:1")
    assert found["protocol"] == ("mcp", f"{theirs}:4:1")
    assert found["workers"] == (2, f"{own}:2:1")
    assert found["host"] == ("::1", f"{own}:6:1")
    assert found["tls-cert"] == (None, "default")


def test_command_line_decides_alone_where_it_names_the_option(
    project: Path, own: Path, site: str, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(own, f'[targets."{site}"]\nkey-env = "NOT_THERE"\nmatch = ["add"]\n')
    assert toolwire("tools", site).code == 2
    # The key that is typed also closes its alternative, key-env.
    assert list_names(toolwire("tools", site, "--key", "typed", "--match", "say", "--json")) == ["say"]
    monkeypatch.setenv("TOOLWIRE_MATCH", "")
    assert len(list_names(toolwire("tools", site, "--key", "typed", "--json"))) > 5


def test_a_setting_of_a_target_wins_over_one_of_the_command_over_one_of_all(
    project: Path, own: Path, site: str, toolwire: Run
) -> None:
    write_settings(own, f'[defaults]\ntimeout = 1\n[defaults.call]\ntimeout = 2\n[targets."{site}/api"]\ntimeout = 3\n')
    for command, target, seconds in (
        ("chat", site, 1),
        ("call", site, 2),
        ("call", f"{site}/api/v1", 3),
        ("call", f"{site}/apiary", 2),
    ):
        assert read_sources(toolwire("settings", "show", command, target, "--json"))["timeout"][0] == seconds


def test_file_is_found_above_the_working_folder_but_not_outside_the_repository(
    project: Path, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(project / "toolwire.toml", "[defaults]\nport = 9701\n")
    (project / "src" / "deep").mkdir(parents=True)
    monkeypatch.chdir(project / "src" / "deep")
    assert read_sources(toolwire("settings", "show", "serve", "--json"))["port"][0] == 9701
    (project / "src" / ".git").mkdir()
    assert read_sources(toolwire("settings", "show", "serve", "--json"))["port"] == (9627, "default")


def test_paths_in_a_file_are_beside_it(project: Path, own: Path, toolwire: Run) -> None:
    write_settings(own, "[defaults]\nca-file = 'ca.pem'\nstate = 'memory'\nrates = 'redis://127.0.0.1:1'\n")
    found = read_sources(toolwire("settings", "show", "serve", "--json"))
    assert found["ca-file"][0] == str(own.parent / "ca.pem")
    assert (found["state"][0], found["rates"][0]) == ("memory", "redis://127.0.0.1:1")


HOSTILE = """\
[defaults]
allow-http = ["http://10.0.0.1"]
ca-file = "their.pem"
state = "postgresql://127.0.0.1:1/theirs"
base-url = "http://127.0.0.1:1"
include-site-description = true
consent = "inbox"
safe-only = false
host = "0.0.0.0"
[targets."{site}"]
server = "http://127.0.0.1:1"
key-env = "LIBRARY_KEY"
header-env = ["X-Key=LIBRARY_KEY"]
overlay = "loosen.yaml"
include = "all"
"""


def test_the_file_of_a_cloned_repository_sends_no_secret_and_reaches_no_other_host(
    project: Path, keyed_site: str, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIBRARY_KEY", _KEY)
    write_settings(project / "toolwire.toml", HOSTILE.format(site=keyed_site))
    outcome = toolwire("call", keyed_site, "list_books", "--protocol", "openapi")
    assert outcome.code == 3  # no key was sent
    assert "This project's toolwire.toml also sets allow-http" in outcome.err
    assert "toolwire settings trust" in outcome.err
    for command in ("serve", "call", "chat"):
        found = read_sources(toolwire("settings", "show", command, keyed_site, "--json"))
        assert {source for _, source in found.values()} == {"default"}
    listed = json.loads(toolwire("settings", "--json").out)
    assert {row["state"] for row in listed} == {"needs trust"}


def test_a_project_replaces_no_setting_of_the_user(project: Path, own: Path, site: str, toolwire: Run) -> None:
    write_settings(own, f'[defaults]\napproval = "deny"\n[targets."{site}"]\nmatch = ["say"]\nsafe-only = true\n')
    write_settings(
        project / "toolwire.toml", '[defaults]\napproval = "per-call"\nmatch = ["*"]\nsafe-only = false\nport = 9\n'
    )
    assert list_names(toolwire("tools", site, "--json")) == ["say"]
    found = read_sources(toolwire("settings", "show", "call", site, "--json"))
    assert (found["approval"][0], found["safe-only"][0]) == ("deny", True)


def test_project_settings_are_used_after_a_yes_until_the_file_changes(
    project: Path, keyed_site: str, toolwire: Run, terminal: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIBRARY_KEY", _KEY)
    file = write_settings(
        project / "toolwire.toml", f'[targets."{keyed_site}"]\nkey-env = "LIBRARY_KEY"\nprotocol = "openapi"\n'
    )
    assert toolwire("settings", "trust").code == 2  # there is no terminal to ask at
    asked = terminal("settings", "trust")
    asked.wait_for(b"[y/N] ")
    assert f"key-env = LIBRARY_KEY  (for {keyed_site})" in asked.shown.decode()
    asked.type("n")
    assert asked.end() == 3
    assert toolwire("call", keyed_site, "list_books").code == 3
    asked = terminal("settings", "trust")
    asked.wait_for(b"[y/N] ")
    asked.type("y")
    assert asked.end() == 0
    assert toolwire("call", keyed_site, "list_books").code == 0
    assert "already" in toolwire("settings", "trust").out
    stored = file.read_text()
    write_settings(file, f"{stored}\n# changed\n")
    assert toolwire("call", keyed_site, "list_books").code == 3
    write_settings(file, stored)
    assert toolwire("call", keyed_site, "list_books").code == 0
    assert "no longer trusted" in toolwire("settings", "forget").out
    assert toolwire("call", keyed_site, "list_books").code == 3


@pytest.mark.requirement("FU-40", "D-08")
def test_hostile_file_of_a_parent_folder_is_used_no_more_than_one_of_the_folder(
    project: Path, keyed_site: str, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIBRARY_KEY", _KEY)
    write_settings(project / "toolwire.toml", HOSTILE.format(site=keyed_site))
    work = project / "a" / "b" / "c"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    for command in ("serve", "call", "chat"):
        found = read_sources(toolwire("settings", "show", command, keyed_site, "--json"))
        assert {source for _, source in found.values()} == {"default"}
    outcome = toolwire("call", keyed_site, "list_books")
    assert outcome.code == 3
    assert "toolwire settings trust" in outcome.err


@pytest.mark.requirement("FU-40", "D-08")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a link of another user")
def test_link_of_another_user_in_a_parent_folder_is_not_followed_to_an_own_file(
    project: Path, toolwire: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = write_settings(tmp_path / "own.toml", "[defaults]\nport = 9701\n")
    (project / "toolwire.toml").symlink_to(own)
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")
    assert read_sources(toolwire("settings", "show", "serve", "--json"))["port"][0] == 9701
    os.chown(project / "toolwire.toml", 65_534, 65_534, follow_symlinks=False)
    outcome = toolwire("settings", "show", "serve", "--json")
    assert read_sources(outcome)["port"][1] == "default"
    assert "belongs to another user" in outcome.err


def test_a_file_that_others_can_write_is_not_read(project: Path, toolwire: Run) -> None:
    file = write_settings(project / "toolwire.toml", "[defaults]\nport = 9701\n")
    file.chmod(0o666)
    outcome = toolwire("settings", "show", "serve", "--json")
    assert read_sources(outcome)["port"][1] == "default"
    assert f"Run chmod o-w {file}" in outcome.err
    os.mkfifo(project / "pipe")
    file.unlink()
    (project / "pipe").rename(file)  # nobody writes to it: to read it would take for ever
    assert toolwire("settings").code == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[defaults]\nkey = 'word-that-is-secret'",
            "2:1: a secret does not belong into this file; name the environment",
        ),
        ("[targets.'http://a.example']\nheader = ['X-Api-Key: word-that-is-secret']", "2:1: the value of this header"),
        ("[targets.'http://u:word-that-is-secret@a.example']\ninclude = 'all'", "1:1: this URL may hold a secret"),
        ("[defaults]\nstate = 'postgresql://u:word-that-is-secret@a/b'", "2:1: this URL may hold a secret"),
        ("[defaults]\n  yes = true", "2:3: yes is typed each time: no file may set it."),
        ("[targets.'http://a.example']\nagree = true", "2:1: agree is typed each time"),
        ("[defaults]\nconsent = 'hints'", '2:1: consent must be "refuse" or "inbox" here'),
        ("[defaults]\napproval = 'auto'", "2:1: approval must be one of per-call, deny, not 'auto'."),
        ("[defaults]\nserver = 'http://a.example'", '2:1: server belongs to one target: [targets."URL"].'),
        ("[defaults]\nprot = 1", '2:1: there is no setting "prot" here; did you mean "port"?'),
        ("[defaults.cal]\ntimeout = 1", '1:1: "cal" is not a command with settings; did you mean "call"?'),
        ("[defaults.tools]\nport = 1", '2:1: there is no setting "port" here'),
        ("[targets.'http://a.example']\nport = 1", "2:1: port is not about a target: [defaults]."),
        ("[defaults]\ntimeout = 0", "2:1: timeout: '0' must be a number of seconds from 1 to 3600."),
        ("[defaults]\ntimeout = 'x'", "2:1: timeout must be an integer, not a string."),
        ("defaults = 1", "1:1: defaults is a table, not a number: [defaults]."),
        ("[targets]\na = 1", '2:1: a target is a table, not a number: [targets."URL"].'),
        ("[defaults\n", "1:10: invalid TOML: Expected ']' at the end of a table declaration."),
    ],
)
def test_fault_is_one_sentence_with_line_and_column(
    project: Path, own: Path, toolwire: Run, text: str, sentence: str
) -> None:
    for file in (own, project / "toolwire.toml"):
        write_settings(file, text)
        outcome = toolwire("tools", "http://127.0.0.1:1")
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err.startswith(f"toolwire: {file}:{sentence}"[:-1])
        assert outcome.err.count("\n") == 1
        assert "word-that-is-secret" not in outcome.err
        checked = toolwire("settings", "check")
        assert (checked.code, checked.err) == (1, "")
        assert sentence in checked.out
        assert "word-that-is-secret" not in checked.out
        file.unlink()


def test_check_finds_every_fault_of_settings_and_gateway_in_one_file(project: Path, own: Path, toolwire: Run) -> None:
    file = project / "toolwire.toml"
    upstream = "[upstreams.a]\ntarget = 'http://127.0.0.1:1'\n"
    write_settings(file, f"port = 'x'\n{upstream}[defaults]\nprot = 1\nyes = true\n")
    checked = json.loads(toolwire("settings", "check", "--json").out)
    assert [fault.partition(": ")[0] for fault in checked[0]["faults"]] == [f"{file}:5:1", f"{file}:6:1", f"{file}:1:1"]
    # The gateway's own options are no settings of other commands, and settings are none of the gateway.
    write_settings(file, f"port = 9705\n{upstream}[defaults]\nport = 9706\n")
    assert toolwire("settings", "check").out == f"{file}: no faults\n"
    assert read_sources(toolwire("settings", "show", "serve", "--json"))["port"][0] == 9706
    assert toolwire("gateway", "list").code == 0


def test_a_variable_that_does_not_fit_is_named_without_its_value(
    project: Path, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value, sentence in (
        ("TOOLWIRE_PORT", "word", "TOOLWIRE_PORT must be an integer, not a string."),
        ("TOOLWIRE_SAFE_ONLY", "word", "TOOLWIRE_SAFE_ONLY is 1 or 0."),
    ):
        monkeypatch.setenv(name, value)
        assert toolwire("tools", "http://127.0.0.1:1").err == f"toolwire: {sentence}\n"
        monkeypatch.delenv(name)


def test_settings_about_urls_leave_code_alone(project: Path, own: Path, desk: Path, toolwire: Run) -> None:
    write_settings(own, '[defaults]\nprotocol = "mcp"\nsafe-only = true\napproval = "deny"\n')
    assert "note" in list_names(toolwire("tools", str(desk), "--json"))
    assert toolwire("call", str(desk), "add", "a=1").out == "2\n"


def test_approval_of_the_settings_tightens_a_tool_that_needs_no_question(
    project: Path, own: Path, site: str, toolwire: Run
) -> None:
    assert toolwire("call", site, "add", "a=1", "--protocol", "openapi").out == "2\n"
    write_settings(project / "toolwire.toml", '[defaults]\napproval = "deny"\n')
    denied = toolwire("call", site, "add", "a=1", "--protocol", "openapi")
    assert (denied.code, denied.out) == (3, "")
    assert toolwire("call", site, "add", "a=1", "--protocol", "openapi", "--approval", "per-call").code == 3


def test_settings_can_be_switched_off(project: Path, own: Path, toolwire: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings(own, "[defaults]\nport = 9701\n")
    monkeypatch.setenv("TOOLWIRE_SETTINGS", "off")
    assert toolwire("settings").out.startswith("No settings found. Write toolwire.toml in this folder")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a" + ".a" * 60_000 + " = 1\n", "1:1: more than 32 dots outside quotes."),
        ("x = 1\n" + "y = {" + "a." * 100 + "a = 1}", "2:1: more than 32 dots outside quotes."),
        ("#" * 300_000, "is larger than 262,144 bytes."),
        ("[targets]\n" + "".join(f"'http://{n}.example' = {{}}\n" for n in range(201)), "1:1: there are more than 200"),
        ("a = " + "[" * 100_000, "is not valid TOML"),
    ],
)
def test_a_hostile_file_costs_no_more_than_a_sentence(project: Path, toolwire: Run, text: str, sentence: str) -> None:
    write_settings(project / "toolwire.toml", text)
    outcome = toolwire("tools", "http://127.0.0.1:1")
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert len(outcome.err) < 1_000


def test_many_faults_are_listed_up_to_a_limit(project: Path, toolwire: Run) -> None:
    write_settings(project / "toolwire.toml", "[defaults]\n" + "".join(f"x{n} = 1\n" for n in range(15_000)))
    checked = toolwire("settings", "check")
    assert checked.code == 1
    assert checked.out.count("\n") == 100
    assert "toolwire.toml:101:1: " in checked.out


def test_variables_that_kubernetes_sets_for_a_service_are_no_settings(
    project: Path, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLWIRE_PORT", "tcp://10.0.0.11:9627")
    monkeypatch.setenv("TOOLWIRE_SERVICE_HOST", "10.0.0.11")
    assert read_sources(toolwire("settings", "show", "serve", "--json"))["port"] == (9627, "default")


def test_different_settings_of_several_targets_are_refused(project: Path, own: Path, toolwire: Run) -> None:
    write_settings(own, '[targets."http://127.0.0.1:1"]\nkey-env = "A"\n')
    outcome = toolwire("lock", "http://127.0.0.1:1", "http://127.0.0.1:2")
    assert outcome.code == 2
    assert "key-env is for one target, but there are several" in outcome.err


def test_texts_of_a_file_cannot_control_the_terminal(project: Path, toolwire: Run) -> None:
    write_settings(
        project / "toolwire.toml", '[targets."http://a.example/\\u001b[2J"]\nmatch = ["\\u001b]0;x\\u0007"]\n'
    )
    outcome = toolwire("settings")
    assert outcome.code == 0
    assert "\x1b" not in outcome.out + outcome.err
