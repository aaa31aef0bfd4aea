"""A program signs in over loopback, from the command line and in Python, and comes back when its token has ended."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey
from starlette.requests import Request
from starlette.responses import JSONResponse

import toolwire
from toolwire.client.login import SignInOptions, SignInUser
from toolwire.core.model import Secret, Value
from toolwire.stores.credentials.files import CredentialStore

pytestmark = pytest.mark.requirement("AC-13", "MC-11")
Serve = Callable[[Callable[[str], Any]], str]
KEY = ECKey.generate_key("P-256")
PATHS = {
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
}


class Gate:
    """A site that wants tokens, with the server that gives them; another of the kind is the identity provider."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.forms: list[dict[str, str]] = []
        self.lifetime_s = 3_600
        kit = toolwire.Toolkit("Tasks")

        @kit.tool(approval="auto", safe=True)
        def list_tasks() -> list[str]:
            """List the tasks."""
            return ["wash up"]

        self.site = toolwire.asgi(kit)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.site(scope, receive, send)
            return
        request = Request(scope, receive)
        if scope["path"] in PATHS:
            answer = JSONResponse(self.describe())
        elif scope["path"] == "/token":
            answer = self.give_token(dict(parse_qsl((await request.body()).decode())))
        elif request.headers.get("authorization") == f"Bearer at{len(self.forms)}":
            await self.site(scope, receive, send)
            return
        else:
            answer = JSONResponse({}, 401, {"www-authenticate": "Bearer"})
        await answer(scope, receive, send)

    def describe(self) -> dict[str, Any]:
        return {
            "resource": self.base,
            "authorization_servers": [self.base],
            "issuer": self.base,
            "token_endpoint": f"{self.base}/token",
            "code_challenge_methods_supported": ["S256"],
        }

    def give_token(self, form: dict[str, str]) -> JSONResponse:
        self.forms.append(form)
        if form["grant_type"].endswith("token-exchange"):
            granted = build_token({"aud": form["audience"], "exp": time.time() + 60})
            kind = "urn:ietf:params:oauth:token-type:id-jag"
            return JSONResponse({"access_token": granted, "issued_token_type": kind, "token_type": "N_A"})
        return JSONResponse(
            {"access_token": f"at{len(self.forms)}", "token_type": "Bearer", "expires_in": self.lifetime_s}
        )


def build_token(claims: dict[str, Any]) -> str:
    parts = [urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "ES256"}, claims)]
    return ".".join([*parts, "c2ln"])


def start_gate(serve: Serve) -> Gate:
    made: list[Gate] = []

    def make(base: str) -> Gate:
        made.append(Gate(base))
        return made[0]

    serve(make)
    return made[0]


def log_in(state: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"XDG_STATE_HOME": str(state), "PATH": "", "NO_COLOR": "1", **variables}
    return subprocess.run(
        [sys.executable, "-m", "toolwire", "login", *words],
        capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip


def test_login_with_a_client_key_signs_a_proof_for_the_server(serve: Serve, tmp_path: Path) -> None:
    gate, file = start_gate(serve), tmp_path / "key.pem"
    file.write_bytes(KEY.as_pem(private=True))
    file.chmod(0o644)
    words = (gate.base, "--client-id", "me", "--client-key", str(file))
    shared = log_in(tmp_path, *words)
    assert (shared.returncode, gate.forms) == (2, [])
    assert "chmod go=" in shared.stderr
    file.chmod(0o600)
    done = log_in(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert f"Signed in to {gate.base}" in done.stdout
    assert log_in(tmp_path, *words).returncode == 0
    claims = [jwt.decode(form["client_assertion"], KEY, algorithms=["ES256"]).claims for form in gate.forms]
    assert [each["aud"] for each in claims] == [gate.base] * 2
    assert claims[0]["jti"] != claims[1]["jti"]
    proof = gate.forms[0]["client_assertion"]
    stored = "".join(each.read_text() for each in tmp_path.rglob("*") if each.is_file() and each != file)
    for secret in (proof, file.read_text().splitlines()[1]):
        assert secret not in done.stdout + done.stderr + stored


def test_login_with_the_token_of_a_workload_sends_it_to_its_audience_only(serve: Serve, tmp_path: Path) -> None:
    gate, file = start_gate(serve), tmp_path / "token"
    token = build_token({"aud": "https://other.example", "exp": time.time() + 60})
    file.write_text(token)
    refused = log_in(tmp_path, gate.base, "--assertion-file", str(file))
    assert refused.returncode != 0
    assert gate.forms == []
    assert f"different audience than {gate.base}" in refused.stderr
    assert token not in refused.stderr
    token = build_token({"aud": gate.base, "exp": time.time() + 60})
    done = log_in(tmp_path, gate.base, "--assertion-env", "WORKLOAD", WORKLOAD=token)
    assert done.returncode == 0, done.stderr
    assert gate.forms[0]["assertion"] == token
    assert "client_id" not in gate.forms[0]
    assert token not in done.stdout + done.stderr


def test_login_by_the_identity_provider_of_an_organization_exchanges_the_id_token(serve: Serve, tmp_path: Path) -> None:
    gate, provider = start_gate(serve), start_gate(serve)
    token = build_token({"iss": provider.base, "aud": "here", "exp": time.time() + 60})
    words = (gate.base, "--identity-provider", provider.base, "--provider-client-id", "here", "--client-id", "me")
    done = log_in(tmp_path, *words, "--assertion-env", "ID_TOKEN", ID_TOKEN=token)
    assert done.returncode == 0, done.stderr
    asked = provider.forms[0]
    assert (asked["audience"], asked["subject_token"]) == (gate.base, token)
    assert [(form["grant_type"][-10:], form["client_id"]) for form in gate.forms] == [("jwt-bearer", "me")]
    assert token not in str(gate.forms) + done.stdout + done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--client-key", "/nowhere"),
        ("--client-id", "me", "--client-key", "/nowhere"),
        ("--client-id", "me", "--client-secret-env", "HOME_SECRET", "--client-key", "/nowhere"),
        ("--assertion-file", "/nowhere"),
        ("--assertion-env", "NOWHERE"),
        ("--assertion-env", "HOME_SECRET", "--assertion-file", "/nowhere"),
        ("--identity-provider", "https://id.example"),
        ("--provider-client-id", "here"),
        ("--as-program",),
    ],
)
def test_options_of_a_program_that_do_not_fit_are_one_sentence(
    words: tuple[str, ...], serve: Serve, tmp_path: Path
) -> None:
    gate = start_gate(serve)
    done = log_in(tmp_path, gate.base, *words, HOME_SECRET="hunter2")
    assert (done.returncode, gate.forms) == (2, []), done.stderr
    assert "Traceback" not in done.stderr
    assert "--" in done.stderr or "variable" in done.stderr
    assert "hunter2" not in done.stderr


def test_connection_of_a_workload_signs_in_anew_when_its_token_has_ended(serve: Serve, tmp_path: Path) -> None:
    gate = start_gate(serve)
    gate.lifetime_s = 30  # ends before it is used again: a token is renewed a minute early
    asked: list[str] = []

    def read_token(issuer: str) -> Secret:
        asked.append(issuer)
        return Secret(build_token({"aud": issuer, "exp": time.time() + 60}))

    with toolwire.connect_sync(
        gate.base,
        user=SignInUser(show=lambda _: None),
        sign_in=SignInOptions(assertion=read_token),
        credential_store=CredentialStore(tmp_path / "kept"),
    ) as remote:
        first = len(asked)
        for _ in range(2):
            result = remote.call("list_tasks")
            assert isinstance(result, Value), result
    assert first >= 1
    assert len(asked) >= first + 2
    assert set(asked) == {gate.base}
