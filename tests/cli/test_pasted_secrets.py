"""Every command that takes a URL, with keys pasted into the URL: none is printed or kept."""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolwire import connect_sync
from toolwire.cli import parser as cli
from toolwire.consent.display import build_display_rows
from toolwire.core.check import Answer, Question
from toolwire.stores.consent.approvals import Approvals

CANARY = "canary-4711"
_TAKES_URL = {"TARGET", "URL", "SOURCE"}
# What the other required words of a command are, by the names that --help shows for them.
_WORDS = {
    "HOST": "cursor",
    "NAME": "note",
    "TOOL": "note",
    "KIND": "openapi",
    "FILE": "no-such-file.json",
    "ACTION": "add",
    "WORD": "tea",
}
_FORMS = [
    "http://{host}/?api_key={key}&x=1#{key}",
    "http://user:{key}@{host}/?token={key}",
    "http://{host}/nothing/here?X-Amz-Signature={key}",
    "http://127.0.0.1:1/?access_token={key}",
    "http://user:{key}/{key}@{host}/",
    "http://{host}:99999/?sig={key}",
    "ftp://user:{key}@{host}/?key={key}",
    "http://[bad/?password={key}",
]


def commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command of the program that has a URL among its words."""
    for action in cli._build_parser("0")._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                if any(_takes_url(one) for one in command._actions):
                    yield name, command


def _takes_url(action: argparse.Action) -> bool:
    return not action.option_strings and action.metavar in _TAKES_URL


def words(command: argparse.ArgumentParser, url: str) -> list[str]:
    """Return the words that ``command`` cannot do without, with ``url`` in each place of a URL."""
    replies: list[str] = []
    for action in command._actions:
        if not action.option_strings:
            if _takes_url(action):
                replies.append(url)
            elif action.nargs not in ("*", "?"):
                replies.append(
                    str(action.choices[0]) if isinstance(action.choices, Sequence) else _WORDS[str(action.metavar)]
                )
        elif action.required:
            replies += [action.option_strings[0], _WORDS[str(action.metavar)]]
    return replies


_SERVERS = ("serve", "work", "console")
"""Commands that run until they are stopped."""


def test_parser_contains_the_expected_commands() -> None:
    assert {"tools", "call", "explain", "lock", "serve", "chat", "login", "convert"} <= {name for name, _ in commands()}


@pytest.mark.requirement("D-26")
@pytest.mark.parametrize(
    ("name", "json"),
    [
        (name, json)
        for name, command in commands()
        for json in (False, True)
        if name not in _SERVERS and (not json or "--json" in command._option_string_actions)
    ],
)
def test_no_command_prints_or_keeps_a_pasted_key(
    name: str, json: bool, site: str, toolwire: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = dict(commands())[name]
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for form in _FORMS:
        url = form.format(host=site.removeprefix("http://").rstrip("/"), key=CANARY)
        for more in ([], ["--debug"], ["--no-such-option"], [url, url]):
            outcome = toolwire(name, *words(command, url), *(["--json"] if json else []), *more)
            assert CANARY not in outcome.out + outcome.err, (form, more)
    assert [file for file in tmp_path.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()] == []


@pytest.mark.requirement("D-26")
@pytest.mark.parametrize("form", _FORMS[3:])
@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("work",)], ids=lambda words: words[0])
def test_server_does_not_print_the_key_of_an_unreachable_url(
    words: tuple[str, ...], form: str, site: str, tmp_path: Path
) -> None:
    url = form.format(host=site.removeprefix("http://").rstrip("/"), key=CANARY)
    reply = subprocess.run(
        [sys.executable, "-m", "toolwire", *words, url],
        cwd=tmp_path,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert reply.returncode != 0
    assert CANARY not in reply.stdout + reply.stderr
    assert [file for file in tmp_path.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()] == []


@pytest.mark.requirement("D-26", "XL-050")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_question_and_its_stored_file_contain_the_site_but_no_key(protocol: str, site: str, tmp_path: Path) -> None:
    asked: list[str] = []
    approvals = Approvals(tmp_path)

    def approve(question: Question) -> Answer:
        approvals.ask(question)
        asked.extend((repr(question), repr(build_display_rows(question)), repr(question.request), question.target))
        return Answer(allowed=False, channel="test")

    with connect_sync(f"{site}/?api_key={CANARY}#{CANARY}", protocol=protocol, approve=approve) as remote:
        asked.append(repr(remote.call("note", {"text": "x"})))
    assert len(asked) == 5
    assert site.rstrip("/") in asked[3]
    assert CANARY not in "".join(asked)
    approvals.close()
    assert [file for file in tmp_path.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()] == []


@pytest.mark.requirement("D-26")
@pytest.mark.parametrize("option", ["--state", "--ledger", "--jwt-secret-file", "--api-key-file", "--rates"])
@pytest.mark.parametrize("form", _FORMS)
def test_file_and_url_options_do_not_print_a_pasted_key(
    option: str, form: str, desk: Path, toolwire: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = toolwire("serve", str(desk), "--port", "0", option, form.format(host="127.0.0.1:1", key=CANARY))
    assert outcome.code == 2
    assert CANARY not in outcome.out + outcome.err
    assert [path for path in tmp_path.rglob("*") if CANARY in str(path)] == []


@pytest.mark.requirement("ST-01", "D-26")
@pytest.mark.parametrize("option", ["--state", "--ledger", "--rates"])
@pytest.mark.parametrize(
    "form",
    [
        "postgresql://ada:{key}@127.0.0.1:1/none",
        "postgresql://ada:{key}/{key}@127.0.0.1:1/none",
        "postgresql://ada:x@{key}@127.0.0.1:1/none",
        "postgresql://127.0.0.1:1/none?password={key}",
        "postgresql://[bad/?password={key}",
    ],
)
def test_serve_never_prints_the_password_of_a_database(
    option: str, form: str, desk: Path, toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("serve", str(desk), "--port", "0", option, form.format(key=CANARY))
    assert outcome.code == 2
    assert "PostgreSQL" in outcome.err or "127.0.0.1:1/none" in outcome.err
    assert CANARY not in outcome.out + outcome.err


@pytest.mark.requirement("D-26")
def test_serve_refuses_a_client_document_that_is_no_url(desk: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("serve", str(desk), "--port", "0", "--client-document", f"http://[bad/?password={CANARY}")
    assert (outcome.code, CANARY in outcome.err) == (2, False)
    assert "is not a valid URL for a client metadata document" in outcome.err


@pytest.mark.requirement("D-26", "D-03")
@pytest.mark.parametrize("form", [_FORMS[4], *_FORMS[5:]])
def test_chat_refuses_a_base_url_without_printing_its_key(
    form: str, site: str, toolwire: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", "k")
    url = form.format(host="127.0.0.1:1", key=CANARY)
    outcome = toolwire("chat", site, "--model", "m", "--base-url", url, "--model-key-env", "MODEL_KEY")
    assert (outcome.code, CANARY in outcome.out + outcome.err) == (2, False)
    assert "--base-url" in outcome.err
