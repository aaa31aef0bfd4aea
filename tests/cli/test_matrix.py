"""What one command has, its neighbours have too: options, their meanings, and the time limit that each keeps."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolwire import connect, connect_sync
from toolwire.cli.parser import WITH_SETTINGS, list_commands, list_settable_options
from toolwire.consent import DefinitionLock, write_lock

COMMANDS = list_commands("1")
SETTABLE = frozenset(name for options in list_settable_options("1").values() for name in options)
SITES = ("serve", "work", "gateway", "install", "tools", "show", "call", "calls", "resources", "prompts", "chat")
SITES += ("explain", "conform", "convert", "size", "lock", "diff")
"""The commands that send requests to a site that the user names."""

NETWORK = {"--allow-private", "--allow-http", "--ca-file", "--timeout"}
CREDENTIALS = {"--key", "--key-env", "--header", "--header-env"}
SELECTION = {"--include", "--tag", "--path", "--method", "--match", "--safe-only", "--no-deprecated", "--server"}
SELECTION |= {"--overlay", "--follow", "--any-version", "--document-bytes"}
SIGN_IN = {"--client-id", "--client-secret-env", "--client-document", "--sign-in-at"}
WITHOUT_PROTOCOL = {"explain": "it tries each"}
WITHOUT_ACCOUNT = dict.fromkeys(("explain", "conform"), "it uses the key that it is given, and no sign-in")
WITHOUT_SELECTION = {
    "calls": "calls go on whatever is selected now",
    "resources": "what is selected are tools",
    "prompts": "what is selected are tools",
    "explain": "it shows how a site is found, before anything is selected",
    "conform": "it checks the whole server",
}
WITHOUT_JSON = {
    *("serve", "work", "install", "chat", "console", "login", "logout", "lock", "example", "completion"),
    *("convert", "publish"),
}
"""They write a document, or do something and print a sentence about it, with an exit code for scripts."""


def list_options(name: str) -> dict[str, argparse.Action]:
    """Return the options of a command by their long names."""
    return {one.option_strings[-1]: one for one in COMMANDS[name]._actions if one.option_strings}


@pytest.mark.requirement("CL-01")
@pytest.mark.parametrize("name", [*SITES, "login", "logout"])
def test_command_about_a_site_has_the_options_of_networks(name: str) -> None:
    assert list_options(name).keys() >= NETWORK


@pytest.mark.requirement("CL-01")
@pytest.mark.parametrize("name", SITES)
def test_command_about_a_site_takes_credentials_a_protocol_and_a_selection(name: str) -> None:
    options = list_options(name).keys()
    assert options >= CREDENTIALS
    assert ("--account" in options) is (name not in WITHOUT_ACCOUNT)
    assert ("--protocol" in options) is (name not in WITHOUT_PROTOCOL)
    assert (options >= SELECTION) is (name not in WITHOUT_SELECTION)


@pytest.mark.requirement("CL-01")
@pytest.mark.parametrize("name", ["call", "calls", "resources", "prompts", "chat", "login"])
def test_command_that_may_have_its_user_sign_in_has_the_options_of_signing_in(name: str) -> None:
    assert list_options(name).keys() >= SIGN_IN


@pytest.mark.requirement("CL-01")
@pytest.mark.parametrize("name", ["tools", "show", "call", "chat"])
def test_command_that_reads_the_tools_of_a_site_compares_them_with_the_lock(name: str) -> None:
    assert list_options(name).keys() >= {"--locked", "--file"}


@pytest.mark.requirement("CL-01")
def test_every_command_that_a_script_reads_prints_json() -> None:
    assert {name for name in COMMANDS if "--json" not in list_options(name)} == WITHOUT_JSON


@pytest.mark.requirement("CL-01")
@pytest.mark.parametrize("name", ["call", "calls", "resources", "convert", "example"])
def test_command_that_writes_a_file_replaces_none_unasked(name: str) -> None:
    assert list_options(name).keys() >= {"--output", "--force"}


@pytest.mark.requirement("CL-01")
def test_installed_server_has_every_option_that_the_server_itself_would_have_on_standard_input() -> None:
    served, installed = list_options("serve"), list_options("install")
    of_http = {"--host", "--port", "--api-key", "--api-key-file", "--jwt-secret-file", "--jwks", "--jwt-issuer"}
    of_http |= {"--jwt-audience", "--allow-host", "--allow-origin", "--tls-cert", "--tls-key", "--reload", "--workers"}
    of_http |= {"--access-log", "--metrics-address", "--otlp", "--private", "--sessions", "--strict-jsonrpc"}
    of_http |= {"--client-document"}
    of_http |= {"--receipts", "--receipt-keys", "--receipt-audience", "--root-path", "--trusted-proxies"}
    of_several = {"--no-work", "--ledger", "--rates", "--rates-fail", "--rates-replicas"}
    assert served.keys() - installed.keys() - of_http - of_several == {"--stdio", "--ask-wait", "--log"}


MEANINGS = {
    "--find": "what a server lists, and words to search for",
    "--port": "serve listens there, the pages of chat and console on this machine alone",
    "--timeout": "a call, a server behind this one, finding a site: each has its own default",
    "--json": "what is printed differs",
    "--file": "the lock, the file of a gateway, that of a host",
    "--output": "what is written differs",
    "--force": "what is replaced differs",
    "--limit": "limits of a server, and a number of calls",
    "--key": "login asks for it",
    "--name": "of a server in a host, or of an upstream",
    "--path": "of tools, and the folder of decisions",
    "--kind": "of documents to check, and of a source to convert",
    "--strict": "what fails differs",
    "--overlay": "one for a document, several to check",
    "--client-document": "published by serve, used by a client",
    "--state": "console reads one, and needs none",
    "--call": "conform alone",
    "--consent": "said shorter for hosts",
    "--document": "said shorter for hosts",
    "--tag": "approvals has other words",
}


@pytest.mark.requirement("CL-01")
def test_option_of_several_commands_has_one_type_and_one_text() -> None:
    seen: dict[str, tuple[str, Any]] = {}
    for name in COMMANDS:
        for option, action in list_options(name).items():
            if option in MEANINGS:
                continue
            reply = (action.help, action.metavar, action.default, action.choices, action.type, action.nargs)
            first = seen.setdefault(option, (name, reply))
            assert reply == first[1], f"{option} of {name} differs from that of {first[0]}"


@pytest.mark.requirement("CL-01")
@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_what_holds_without_the_option(name: str) -> None:
    for option, action in list_options(name).items():
        text = str(action.help)
        assert text, f"{option} of {name} has no help"
        assert text[0].islower() or text.startswith(("OpenTool", "JSON")), f"{option} of {name} begins with a capital"
        assert not text.endswith("."), f"{option} of {name} ends with a dot"
        if action.default in (None, "", [], False, True, argparse.SUPPRESS):
            continue
        default = str(action.default)
        shown = text.replace("%(default)s", default).replace("MiB", "")
        assert default in shown, f"{option} of {name} does not say that its default is {default}"


@pytest.mark.requirement("CL-01")
def test_number_of_seconds_is_called_seconds_in_every_command() -> None:
    for name in COMMANDS:
        for option, action in list_options(name).items():
            if action.type is not None and re.search(r"how long|seconds", str(action.help)):
                assert action.metavar == "SECONDS", f"{option} of {name}"


NOT_IN_SETTINGS = {
    "agree": "typed each time",
    "stdio": "typed each time",
    "output": "typed each time",
    "force": "typed each time",
    "yes": "typed each time",
    "token": "a secret",
    "secret": "a secret",
    "user-id": "typed each time",
    "key": "a secret",
    "api-key": "a secret",
}
ABOUT_ONE_RUN = {
    *("json", "args", "start", "tags", "findings", "file", "browser", "no-open"),
    *("name", "project", "print", "replace", "remove", "document", "to", "kind", "strict", "losses"),
    *("markdown", "call", "scope", "device", "as-program", "client-key", "assertion-file", "assertion-env"),
    *(
        "identity-provider",
        "provider-client-id",
        "provider-secret-env",
        "reload",
        "metrics-address",
        "otlp",
        "ask-wait",
    ),
    *("no-work", "help", "help-all", "debug", "offline"),
}


@pytest.mark.requirement("CL-01")
def test_every_option_can_stand_in_a_file_or_is_about_one_run_of_a_command() -> None:
    options = {option.removeprefix("--") for name in WITH_SETTINGS for option in list_options(name)}
    assert options - SETTABLE == (ABOUT_ONE_RUN | NOT_IN_SETTINGS.keys()) & options
    assert not SETTABLE & (ABOUT_ONE_RUN | NOT_IN_SETTINGS.keys())
    assert options == SETTABLE | ABOUT_ONE_RUN | NOT_IN_SETTINGS.keys()


@pytest.mark.requirement("CL-01")
@pytest.mark.parametrize("name", sorted(WITH_SETTINGS))
def test_time_limit_and_networks_of_each_command_can_stand_in_a_file(name: str) -> None:
    assert list_settable_options("1")[name].keys() >= {"timeout", "allow-private", "allow-http", "ca-file"}


IN_PYTHON = {
    "account": "--account",
    "api_key": "--key",
    "token": "--key",
    "protocol": "--protocol",
    "preferences": "--approval",
    "allow_private": "--allow-private",
    "allow_http": "--allow-http",
    "ca_file": "--ca-file",
    "timeout_s": "--timeout",
    "discovery_s": "--timeout",
    "locked": "--locked",
    "agree": "--agree",
    "context": "--secret",
    "sign_in": "--client-id",
    "selection": "--include",
    "overlay": "--overlay",
    "headers": "--header",
    "approve": "--ask",
    "provide_input": "--ask",
    "caps": "--output",
}
FOR_PROGRAMS = {
    *("url", "retries", "session", "name", "allow_origins", "keys", "credential_store", "user", "approve_relocation"),
    *("include_site_description", "approve_command", "cache"),
}
"""What a program passes as objects, and the command asks its user for, or does by itself."""


@pytest.mark.requirement("CL-01")
def test_every_parameter_of_connect_is_an_option_of_call_or_for_programs_alone() -> None:
    parameters = set(inspect.signature(connect).parameters)
    assert parameters == IN_PYTHON.keys() | FOR_PROGRAMS
    assert list_options("call").keys() >= set(IN_PYTHON.values())


@pytest.mark.requirement("CL-01")
def test_both_forms_of_connecting_take_the_same_parameters() -> None:
    assert inspect.signature(connect).parameters == inspect.signature(connect_sync).parameters


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stored: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    stored.append(listener.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for one in stored:
            one.close()


READING = {
    "tools": ["URL"],
    "show": ["URL", "add"],
    "call": ["URL", "add"],
    "calls": ["list", "URL"],
    "resources": ["URL"],
    "prompts": ["URL"],
    "explain": ["URL"],
    "conform": ["URL"],
    "convert": ["URL", "--to", "mcp"],
    "size": ["URL"],
    "login": ["URL"],
    "lock": ["URL"],
    "diff": ["URL"],
    "chat": ["URL", "--model", "any"],
}


@pytest.mark.requirement("CL-01")
@pytest.mark.parametrize("name", READING)
def test_command_gives_a_server_that_does_not_answer_no_more_time_than_the_user(
    name: str, silent: str, toolwire: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolwire.lock").write_text(write_lock(DefinitionLock()), encoding="utf-8")
    words = [word.replace("URL", silent) for word in READING[name]]
    outcome = toolwire(name, *words, "--timeout", "1")
    assert outcome.code == 4, outcome.err
    assert re.search(r"(did not answer|did not name an endpoint) in time", outcome.err)
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.requirement("CL-01")
def test_time_limit_of_a_file_holds_for_every_action_of_calls(
    silent: str, toolwire: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolwire.toml").write_text("[defaults]\ntimeout = 1\n", encoding="utf-8")
    for action in (["list"], ["show"], ["cancel"], ["wait"]):
        words = [*action, silent] if action == ["list"] else [*action, silent, "abc"]
        assert toolwire("calls", *words).code == 4


@pytest.mark.requirement("CL-01")
def test_served_tools_of_a_site_have_the_time_that_the_option_says(
    site: str, toolwire: Callable[..., Any], write: Callable[..., Path]
) -> None:
    outcome = toolwire("serve", write("kit.py", "from toolwire import Toolkit\nkit = Toolkit('K')\n"), "--timeout", "3")
    assert outcome.code == 2
    assert "--timeout, --returns and the selection are for URLs" in outcome.err


@pytest.mark.requirement("CL-01")
def test_installed_server_keeps_its_state_where_the_user_said(
    desk: Path, toolwire: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = toolwire("install", "cursor", desk, "--print", "--state", "kept", "--limit", "tool_s=300")
    entry = json.loads(outcome.out.partition("\n")[2])["mcpServers"]["desk"]
    words = " ".join(entry["args"])
    assert f"--state {tmp_path / 'kept'}" in words
    assert "--limit tool_s=300" in words
    refused = toolwire("install", "cursor", desk, "--print", "--state", "postgresql://me:hunter2@db/tools")
    assert refused.code == 2
    assert "Set TOOLWIRE_STATE in the MCP host's environment" in refused.err
    assert "hunter2" not in refused.err + refused.out


@pytest.mark.requirement("CL-01")
def test_tool_that_differs_from_the_lock_is_not_shown_as_if_it_were_pinned(
    site: str, toolwire: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert toolwire("lock", site).code == 0
    assert toolwire("show", site, "add", "--locked").code == 0
    with connect_sync(site) as remote:
        changed = [one | {"description": "Add two texts."} for one in remote.definitions()]
        lock = DefinitionLock().with_connection(remote.url, changed)
    (tmp_path / "toolwire.lock").write_text(write_lock(lock), encoding="utf-8")
    outcome = toolwire("show", site, "add", "--locked")
    assert outcome.code == 1
    assert "add" in outcome.err
    assert "changed" in outcome.err
