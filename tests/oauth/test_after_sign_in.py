"""What signing in does not change, and what signing out ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import toolwire
from tests.oauth.running_site import Running
from toolwire import Answer, Problem, Question
from toolwire.auth.credential import Credential
from toolwire.cli import main
from toolwire.client.login import find_sign_in, sign_out
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Secret
from toolwire.protocols import BUILTIN
from toolwire.stores.credentials.files import CredentialStore

from .conftest import Walker

Serve = Callable[[Callable[[str], Any]], str]


class Shop(Running):
    """A site that declares per-call for one tool, whoever is signed in."""

    ran: list[str]

    def wrapped(self) -> Any:
        kit, self.ran = toolwire.Toolkit("Shop"), []

        @kit.tool(approval="per-call", scopes=["tasks:read"])
        def order() -> str:
            """Order a dish."""
            self.ran.append("order")
            return "soup"

        return toolwire.asgi(kit, callers=self.server.callers)


@pytest.mark.requirement("XL-117", "XL-041", "XL-043")
@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_site_policy_applies_to_a_signed_in_user(protocol: str, tmp_path: Path, serve: Serve) -> None:
    shop = Shop(tmp_path, serve)
    shop.signed_in(Walker())
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=len(asked) == 2)

    with toolwire.connect_sync(
        shop.url, protocol=protocol, credential_store=shop.credentials, approve=approve
    ) as remote:
        refused = remote.call("order")
        assert isinstance(refused, Problem)
        assert (refused.kind, shop.ran) == (Kind.DENIED, [])
    # the same session gets the same no for a minute
    with toolwire.connect_sync(
        shop.url, protocol=protocol, credential_store=shop.credentials, approve=approve
    ) as remote:
        assert remote.call("order") == toolwire.Value("soup")
    assert [question.call.tool.name for question in asked] == ["order", "order"]
    assert shop.ran == ["order"]


@pytest.mark.requirement("AC-12")
def test_signing_out_revokes_the_refresh_token_first_and_then_the_access_token() -> None:
    sent: list[Request] = []

    class Recording:
        def send(self, request: Request) -> Response:
            sent.append(request)
            return Response(200)

        def listen(self, request: Request, hear: Any, *, brief: bool = False) -> Response:
            return self.send(request)

        def close(self) -> None: ...

    found = Credential(
        kind="oauth",
        resource="https://shop.example",
        access=Secret("at"),
        refresh=Secret("rt"),
        revocation_url="https://shop.example/revoke",
        client_id="me",
    )
    assert sign_out(found, Recording()) is True
    assert [b"token=rt" in request.body for request in sent] == [True, False]
    assert [b"token=at" in request.body for request in sent] == [False, True]


@pytest.mark.requirement("AC-12", "XL-116")
def test_disconnect_deletes_tokens_even_if_the_server_is_unreachable(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    stored = CredentialStore(tmp_path / "state" / "toolwire" / "credentials")
    closed = "http://127.0.0.1:9"  # the port of "discard", where nothing listens
    stored.put(
        Credential(
            kind="oauth",
            resource=closed,
            access=Secret("at"),
            refresh=Secret("rt"),
            revocation_url=f"{closed}/revoke",
            client_id="me",
        )
    )
    assert len(stored.list_all()) == 1
    assert main(["logout", closed]) == 0
    assert stored.list_all() == []
    assert "did not revoke its tokens. They were deleted here, and expire by themselves" in capsys.readouterr().err


@pytest.mark.requirement("AC-03", "D-28")
@pytest.mark.parametrize("methods", [["S256"], ["plain"], [], None])
def test_sign_in_is_refused_if_the_metadata_lacks_s256(methods: list[str] | None, tmp_path: Path, serve: Serve) -> None:
    shop = Shop(tmp_path, serve)
    changed: list[str] = []

    class Editing:
        """The network, but the metadata of the server says something else about PKCE."""

        def send(self, request: Request) -> Response | Problem:
            answer = shop.transport.send(request)
            if isinstance(answer, Problem) or "oauth-authorization-server" not in request.url or answer.status != 200:
                return answer
            changed.append(request.url)
            data = json.loads(answer.body)
            assert data.pop("code_challenge_methods_supported") == ["S256"]
            more = {} if methods is None else {"code_challenge_methods_supported": methods}
            return answer._replace(body=json.dumps(data | more).encode())

        def listen(self, request: Request, hear: Any, *, brief: bool = False) -> Response | Problem:
            return shop.transport.listen(request, hear, brief=brief)

        def close(self) -> None:
            shop.transport.close()

    found = find_sign_in(f"{shop.url}/tools", Editing())
    assert changed
    if methods == ["S256"]:
        assert not isinstance(found, Problem)
        return
    assert isinstance(found, Problem)
    assert "PKCE" in found.message
