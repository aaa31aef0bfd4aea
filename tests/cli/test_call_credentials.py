"""The tools of seed 003 that need a token or a secret can be called from the command line and from ``connect``."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolwire import Context, Secret, Toolkit, asgi, connect, connect_sync
from toolwire.cli import main
from toolwire.client.calls.grant_polling import find_missing_grants
from toolwire.client.login import SignInUser
from toolwire.core.model import Authorization, Kind, Problem, Requirements, Value
from toolwire.testing.loopback import background

from .conftest import Terminal

CANARY = "canary-3003"
READ_ONLY = "https://www.googleapis.com/auth/gmail.readonly"


def gmail() -> Toolkit:
    kit = Toolkit("Gmail", version="1.2.0")

    @kit.tool(
        approval="auto",
        safe=True,
        requirements=Requirements(authorization=(Authorization(id="google", scopes=(READ_ONLY,)),)),
    )
    def get_emails(query: str, context: Context) -> str:
        """Retrieve emails."""
        return f"{query}: {len(context.token('google').reveal())} characters of token"

    @kit.tool(approval="auto", safe=True, requirements=Requirements(secrets=("TWILIO_API_KEY",), user_id=True))
    def send(to: str, context: Context) -> str:
        """Send an SMS."""
        return f"{to}, {context.user_id}: {len(context.secret('TWILIO_API_KEY').reveal())} characters of secret"

    return kit


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with background(asgi(gmail())) as base:
        yield base


def command(url: str, *words: str) -> list[str]:
    return ["call", url, *words, "--protocol", "otc", "--agree"]


@pytest.mark.requirement("OTC-014", "OTC-015", "OTC-016", "C-10")
def test_a_token_comes_from_the_environment_or_a_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text(CANARY + "\n")
    assert main(command(url, "get_emails", "query=tea", "--token", f"google=@{tmp_path / 'token'}")) == 0
    monkeypatch.setenv("GOOGLE_TOKEN", CANARY)
    assert main(command(url, "get_emails", "query=tea", "--token", "google")) == 0
    reply = capsys.readouterr()
    assert reply.out == "tea: 11 characters of token\n" * 2
    assert CANARY not in reply.out + reply.err


@pytest.mark.requirement("OTC-014", "OTC-017", "C-10")
def test_secret_and_user_id_are_passed_to_the_tool(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TWILIO_API_KEY", CANARY)
    assert main(command(url, "send", "to=ada", "--secret", "TWILIO_API_KEY", "--user-id", "u1")) == 0
    assert capsys.readouterr().out == "ada, u1: 11 characters of secret\n"
    assert main(command(url, "send", "to=ada", "--user-id", "u1")) != 0
    assert "the secret TWILIO_API_KEY" in capsys.readouterr().err


@pytest.mark.requirement("D-26", "C-10")
def test_secret_is_typed_without_echo(url: str, tmp_path: Path) -> None:
    terminal = Terminal(
        command(url, "send", "to=ada", "--secret", "TWILIO_API_KEY", "--user-id", "u1"),
        {"XDG_STATE_HOME": str(tmp_path), "NO_COLOR": "1"},
    )
    try:
        terminal.wait_for(b"Secret TWILIO_API_KEY: ")
        terminal.type(CANARY)
        assert terminal.end() == 0
    finally:
        terminal.close()
    assert b"11 characters of secret" in terminal.shown
    assert CANARY.encode() not in terminal.shown


@pytest.mark.requirement("D-26")
@pytest.mark.parametrize(
    "words",
    [
        ["--secret", f"TWILIO_API_KEY={CANARY}"],
        ["--token", f"google={CANARY}"],
        ["--secret", "="],
        ["--secret", "NOT_SET_ANYWHERE"],
        ["--secret", "X=@/not/there"],
        ["--secret", "X=@/dev/null"],
    ],
)
def test_secret_value_on_the_command_line_is_refused(
    words: list[str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(url, "send", "to=ada", *words)) == 2
    reply = capsys.readouterr()
    assert CANARY not in reply.out + reply.err


@pytest.mark.requirement("D-08")
def test_a_chat_with_several_sites_takes_no_secret(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", url, url, "--model", "m", "--user-id", "u1"]) == 2
    assert "apply to one server. Several are given." in capsys.readouterr().err


@pytest.mark.requirement("OTC-017")
def test_local_code_receives_secrets(tmp_path: Path) -> None:
    (tmp_path / "kit.py").write_text(
        "from toolwire import Context, Requirements, Toolkit\nkit = Toolkit('K')\n"
        "@kit.tool(approval='auto', safe=True, requirements=Requirements(secrets=('PIN',)))\n"
        "def show(context: Context) -> int:\n    'Show.'\n    return len(context.secret('PIN').reveal())\n"
    )
    words = [sys.executable, "-m", "toolwire", "call", str(tmp_path / "kit.py"), "show"]
    with_it = subprocess.run(
        [*words, "--secret", "PIN"], env={"PIN": CANARY}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (with_it.returncode, with_it.stdout) == (0, "11\n"), with_it.stderr
    without = subprocess.run(words, env={}, capture_output=True, text=True, timeout=60, check=False)
    assert without.returncode != 0
    assert "the secret PIN" in without.stderr


# a grant that the server waits for


class Provider:
    """A server of OTC whose tool waits until the user granted access, and the address that says so."""

    def __init__(self) -> None:
        self.checks = 0
        self.granted_after = 2
        self.calls = 0
        self.check_url = "/granted"
        self.base = ""

    def app(self) -> Any:
        listing = {
            "$schema": "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json",
            "tools": [
                {
                    "id": "Gmail.GetEmails@1.2.0",
                    "name": "Gmail_GetEmails",
                    "description": "Get.",
                    "version": "1.2.0",
                    "input_schema": {"parameters": {"type": "object"}},
                    "output_schema": {"type": "string"},
                    "requirements": {"authorization": [{"id": "google", "oauth2": {"scopes": ["read"]}}]},
                }
            ],
        }

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                return
            status, data = 404, {}
            if scope["path"] == "/tools":
                status, data = 200, listing
            elif scope["path"] == "/granted":
                self.checks += 1
                status, data = 200, {"status": "completed" if self.checks >= self.granted_after else "pending"}
            elif scope["path"] == "/call":
                self.calls += 1
                status, data = self.answer(self.base)
            await send(
                {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]}
            )
            await send({"type": "http.response.body", "body": json.dumps(data).encode()})

        return app

    def answer(self, base: str) -> tuple[int, dict[str, Any]]:
        if self.checks >= self.granted_after:
            return 200, {"success": True, "output": {"value": "mail"}}
        page = {"id": "google", "url": "https://accounts.example/grant", "check_url": base + self.check_url}
        if not self.check_url:
            del page["check_url"]
        return 400, {"message": "Missing.", "missing_requirements": {"authorization": [page]}}


@pytest.fixture
def provider() -> Iterator[tuple[Provider, str]]:
    found = Provider()
    with background(found.app()) as base:
        found.base = base
        yield found, base


def user(shown: list[str], wait_s: float = 0.1) -> SignInUser:
    return SignInUser(show=shown.append, wait_s=wait_s)


@pytest.mark.requirement("OXP-011")
def test_call_continues_after_the_user_granted_access(provider: tuple[Provider, str], tmp_path: Path) -> None:
    server, base = provider
    shown: list[str] = []
    with connect_sync(base, protocol="otc", user=user(shown), approve=_allow) as remote:
        assert remote.call("Gmail_GetEmails") == Value("mail")
    assert (server.calls, server.checks) == (2, 2)
    assert len(shown) == 1
    assert "https://accounts.example/grant" in shown[0]


@pytest.mark.requirement("OXP-011", "XL-050")
def test_call_continued_after_a_grant_is_the_approved_one(provider: tuple[Provider, str]) -> None:
    server, base = provider
    asked: list[Any] = []

    def approve(question: Any) -> Any:
        asked.append(question)
        return _allow(question)

    with connect_sync(base, protocol="otc", user=user([]), approve=approve) as remote:
        assert remote.call("Gmail_GetEmails") == Value("mail")
        assert (server.calls, len(asked)) == (2, 1)
        assert remote.call("Gmail_GetEmails") == Value("mail")
    assert len(asked) == 2, "another call"


@pytest.mark.requirement("OXP-011")
@pytest.mark.anyio
async def test_asynchronous_client_waits_for_the_grant(provider: tuple[Provider, str]) -> None:
    server, base = provider

    async def allow(_: Any) -> Any:
        return _allow(None)

    async with connect(base, protocol="otc", user=user([]), approve=allow) as remote:
        assert await remote.call("Gmail_GetEmails") == Value("mail")
    assert server.calls == 2


@pytest.mark.requirement("OXP-011")
@pytest.mark.parametrize(("check_url", "checks"), [("", 0), ("/granted", 5), ("/elsewhere", 0)])
def test_wait_for_a_grant_is_limited_and_ends_with_the_refusal(
    check_url: str, checks: int, provider: tuple[Provider, str]
) -> None:
    server, base = provider
    server.check_url, server.granted_after = check_url, 1_000
    with connect_sync(base, protocol="otc", user=user([], wait_s=0.05), approve=_allow) as remote:
        result = remote.call("Gmail_GetEmails")
    assert isinstance(result, Problem)
    assert result.kind is Kind.MISSING_REQUIREMENTS
    assert (server.calls, server.checks) == (1, checks)


@pytest.mark.requirement("OXP-011")
def test_grant_page_is_in_the_result_without_a_user(
    provider: tuple[Provider, str], capsys: pytest.CaptureFixture[str]
) -> None:
    server, base = provider
    with connect_sync(base, protocol="otc", approve=_allow) as remote:
        result = remote.call("Gmail_GetEmails")
    assert isinstance(result, Problem)
    (grant,) = find_missing_grants(result)
    assert grant.url == "https://accounts.example/grant"
    assert server.checks == 0


def _allow(_: Any) -> Any:
    from toolwire import Answer

    return Answer(allowed=True)


@pytest.mark.requirement("OTC-015", "C-10")
def test_connect_accepts_a_context_with_tokens(url: str) -> None:
    context = Context(tokens={"google": Secret(CANARY)})
    with connect_sync(url, protocol="otc", agree=lambda _: True, context=context) as remote:
        assert remote.call("get_emails", {"query": "tea"}) == Value("tea: 11 characters of token")


@pytest.mark.requirement("AT-44", "D-26")
@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("how", ["str", "bytes.hex", "repr", "base64"])
def test_secret_of_a_call_of_code_is_in_nothing_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], how: str, debug: bool
) -> None:
    monkeypatch.setenv("TWILIO_API_KEY", CANARY)
    monkeypatch.setenv("HOW", how)
    (tmp_path / "sms.py").write_text(CODE)
    words = ["call", str(tmp_path / "sms.py"), "fail", "--secret", "TWILIO_API_KEY", *(["--debug"] if debug else [])]
    for more in ([], ["--json"]):
        assert main([*words, *more]) == 1
        reply = capfd.readouterr()
        written = {"bytes.hex": CANARY.encode().hex(), "base64": base64.b64encode(CANARY.encode()).decode().rstrip("=")}
        assert written.get(how, CANARY) not in reply.out + reply.err
        assert "the provider refused ***" in reply.err
        assert ("Traceback" in reply.err) == debug


CODE = """
import base64, os
from toolwire import Context, Toolkit
from toolwire.core.model import Requirements

kit = Toolkit("SMS")

@kit.tool(approval="auto", safe=True, requirements=Requirements(secrets=("TWILIO_API_KEY",)))
def fail(context: Context) -> str:
    \"\"\"Fail.\"\"\"
    key = context.secret("TWILIO_API_KEY").reveal()
    ways = {"bytes.hex": lambda: key.encode().hex(), "repr": lambda: repr({"key": key})}
    ways["base64"] = lambda: base64.b64encode(key.encode()).decode()
    raise ValueError("the provider refused " + ways.get(os.environ["HOW"], lambda: key)().replace("{'key': '", ""))
"""
