"""Our client signs in to our server over loopback, and what it does with what it got."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

import toolwire
from tests.oauth.running_site import ME, Running
from tests.programs import require_loopback
from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.credential import Credential
from toolwire.cli import main
from toolwire.client.login import (
    CredentialAuth,
    SignInOptions,
    SignInUser,
    TokenRefresher,
    find_sign_in,
    sign_in,
    sign_out,
    step_up,
)
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem, Secret
from toolwire.server.oauth import protect_app
from toolwire.stores.credentials.files import CredentialStore

from .conftest import Walker


@pytest.fixture
def running_site(tmp_path: Path, serve: Callable[[Callable[[str], Any]], str]) -> Running:
    return Running(tmp_path, serve)


@pytest.mark.requirement("AC-01", "AC-05", "AC-06", "AC-08", "XL-110", "XL-111", "OQ-10")
def test_user_signs_in_once_and_later_connections_work(running_site: Running) -> None:
    walker = Walker()
    found = running_site.signed_in(walker)
    assert found.scopes == ("tasks:delete", "tasks:read")
    for _ in range(2):  # a new connection, as after a restart
        with toolwire.connect_sync(
            running_site.url, protocol="otc", agree=lambda _: True, credential_store=running_site.credentials
        ) as remote:
            assert remote.call("list_tasks") == toolwire.Value(["wash up"])
    assert len(walker.pages) == 1
    assert "token" not in "".join(walker.told)


@pytest.fixture
def guarded_site(tmp_path: Path, serve: Callable[[Callable[[str], Any]], str]) -> Running:
    """A site whose paths need different scopes, without any protocol of ours."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["state"]["caller"].name.encode()})

    needs = {"/read": ("tasks:read",), "/clear": ("tasks:read", "tasks:delete"), "/never": ("tasks:write", "admin")}

    class Guarded(Running):
        def wrapped(self) -> Any:
            return protect_app(answer, self.server.callers, lambda _, path: needs.get(path, ()))

    return Guarded(tmp_path, serve)


def build_signing_network(running: Running, person: SignInUser | None, first: Credential | None = None) -> SyncNetwork:
    refresher = TokenRefresher(running.url, running.credentials, first, running.transport)
    ask = None if person is None else step_up(ME, person, running.transport)
    return SyncNetwork(signer=CredentialAuth(running.url, refresher, ask))


def status(transport: SyncNetwork, url: str) -> int:
    answer = transport.send(Request("POST", url, (), b"x"))
    assert isinstance(answer, Response), answer
    return answer.status


@pytest.mark.requirement("XL-102", "AC-08")
def test_401_starts_sign_in_and_403_asks_for_more_scopes(guarded_site: Running) -> None:
    walker, asked = Walker(), list[tuple[str, ...]]()

    def allow(_: str, scopes: Any) -> bool:
        asked.append(tuple(scopes))
        return True

    transport = build_signing_network(guarded_site, walker.person(allow=allow))
    assert status(transport, f"{guarded_site.url}/read") == 200
    assert status(transport, f"{guarded_site.url}/read") == 200
    assert asked == [("tasks:read",)]
    assert status(transport, f"{guarded_site.url}/clear") == 200
    assert asked[1:] == [("tasks:read", "tasks:delete")]  # what there was, and what was missing
    assert status(transport, f"{guarded_site.url}/read") == 200
    assert len(walker.pages) == 2
    assert [each.scopes for each in guarded_site.credentials.list_all()] == [("tasks:read", "tasks:delete")]


@pytest.mark.requirement("AC-08")
def test_scope_requests_stop_if_the_scope_is_not_granted(guarded_site: Running) -> None:
    walker = Walker(scopes=("tasks:read",))  # never ticks what is missing
    first = guarded_site.signed_in(walker)
    transport = build_signing_network(guarded_site, walker.person(), first)
    for _ in range(4):
        assert status(transport, f"{guarded_site.url}/clear") == 403
    assert len(walker.pages) == 1 + 2
    refuses = build_signing_network(guarded_site, walker.person(allow=lambda _, scopes: False), first)
    assert status(refuses, f"{guarded_site.url}/clear") == 403
    assert len(walker.pages) == 1 + 2
    nobody = build_signing_network(guarded_site, None, first)
    assert status(nobody, f"{guarded_site.url}/clear") == 403


@pytest.mark.requirement("AC-11", "D-08")
def test_a_request_to_another_origin_is_sent_without_the_token(guarded_site: Running) -> None:
    first = guarded_site.signed_in(Walker())
    sent: list[Request] = []

    def record(request: Request, _: float | None) -> Generator[Any, Any, Response | Problem]:
        sent.append(request)
        return Response(200)
        yield

    refresher = TokenRefresher(guarded_site.url, guarded_site.credentials, first, guarded_site.transport)
    auth = CredentialAuth(guarded_site.url, refresher)
    ours = [f"{guarded_site.url}/read", f"{guarded_site.url}?x=1"]
    others = [
        "https://evil.example/read",
        guarded_site.url + ".evil.example/",
        guarded_site.url + "0/read",
        f"https://e.example?{guarded_site.url}/",
    ]
    for url in ours + others:
        headers = ((b"Authorization", b"Bearer of the model"),) if url in ours else ()
        assert list(auth.send(record, Request("GET", url, headers), None)) == []
    token = f"Bearer {first.access.reveal()}".encode()
    assert [request.headers for request in sent[:2]] == [((b"authorization", token),)] * 2
    assert [request.headers for request in sent[2:]] == [()] * 4


@pytest.mark.requirement("AC-05")
def test_the_redirect_may_be_to_either_loopback_address(running_site: Running) -> None:
    require_loopback("::1")
    found = running_site.signed_in(Walker(), SignInOptions(identity=ClientIdentity(client_id="native"), host="::1"))
    assert found.access.reveal()


@pytest.mark.requirement("AC-04")
def test_client_registers_itself_if_the_server_permits_it(
    tmp_path: Path, serve: Callable[[Callable[[str], Any]], str]
) -> None:
    running = Running(tmp_path, serve, registration=True)
    found = running.signed_in(Walker(), SignInOptions())
    assert found.client_id.startswith("app-")
    assert found.registered is True


@pytest.mark.requirement("AC-12", "XL-116")
def test_sign_out_revokes_the_tokens(running_site: Running) -> None:
    found = running_site.signed_in(Walker())
    assert sign_out(found, running_site.transport) is True
    answer = running_site.transport.send(
        Request("GET", f"{running_site.url}/tools", ((b"authorization", f"Bearer {found.access.reveal()}".encode()),))
    )
    assert isinstance(answer, Response)
    assert answer.status == 401


@pytest.mark.requirement("AC-11", "XL-112")
def test_existing_token_can_be_passed_to_connect(running_site: Running) -> None:
    found = running_site.signed_in(Walker())
    for token in (found.access, found.access.reveal()):
        with toolwire.connect_sync(running_site.url, protocol="otc", agree=lambda _: True, token=token) as remote:
            assert remote.call("list_tasks") == toolwire.Value(["wash up"])


@pytest.mark.requirement("AC-06")
def test_denied_consent_ends_the_sign_in(running_site: Running) -> None:
    place = find_sign_in(f"{running_site.url}/tools", running_site.transport)
    assert not isinstance(place, Problem)
    reply = sign_in(place, ME, Walker(decision="deny").person(), running_site.transport)
    assert isinstance(reply, Problem)
    assert reply.kind is Kind.DENIED


@pytest.mark.requirement("AC-09")
def test_concurrent_threads_refresh_an_expired_token_once(running_site: Running) -> None:
    found = running_site.signed_in(Walker())
    keepers = [
        TokenRefresher(
            running_site.url,
            running_site.credentials,
            found,
            running_site.transport,
            now=lambda: (found.expires_at or 0.0) - 30,
        )
        for _ in range(2)  # two that know nothing of each other, as two processes
    ]
    at_once = threading.Barrier(8)

    def fresh(number: int) -> Credential | Problem:
        at_once.wait(10)
        return keepers[number % 2].ensure_valid(found.access)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(fresh, range(8)))
    assert all(isinstance(answer, Credential) for answer in answers)
    assert "refresh token reused" not in running_site.kinds()
    assert running_site.kinds() == ["granted", "tokens issued", "tokens issued"]  # the sign-in, and one refresh


@pytest.mark.requirement("AC-09")
def test_concurrent_processes_refresh_a_token_once(running_site: Running, tmp_path: Path) -> None:
    found = running_site.signed_in(Walker())
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from toolwire.client.login import TokenRefresher\n"
        "from toolwire.client.transport.network import SyncNetwork\n"
        "from toolwire.core.model import Secret\n"
        "from toolwire.stores.credentials.files import CredentialStore\n"
        "kept = CredentialStore(Path(sys.argv[1]))\n"
        "first = kept.get(sys.argv[2])\n"
        "print('ready', flush=True)\n"
        "refused = Secret(sys.stdin.readline().strip())\n"
        "print(type(TokenRefresher(first.resource, kept, first, SyncNetwork()).ensure_valid(refused)).__name__)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "credentials"), found.storage_name]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    with ThreadPoolExecutor(3) as pool:
        given = found.access.reveal() + "\n"
        replies = list(pool.map(lambda process: process.communicate(given, timeout=60)[0].strip(), started))
    assert replies == ["Credential"] * 3
    assert running_site.kinds() == ["granted", "tokens issued", "tokens issued"]


@pytest.mark.requirement("AC-09")
def test_refused_refresh_deletes_the_credential_and_names_the_login_command(running_site: Running) -> None:
    found = running_site.signed_in(Walker())
    sign_out(found, running_site.transport)
    reply = TokenRefresher(running_site.url, running_site.credentials, found, running_site.transport).ensure_valid(
        found.access
    )
    assert isinstance(reply, Problem)
    assert "toolwire login" in reply.message
    assert running_site.credentials.list_all() == []


@pytest.mark.requirement("AC-09", "XL-102")
def test_revoked_access_token_is_refreshed_during_a_connection(running_site: Running) -> None:
    found = running_site.signed_in(Walker())

    async def calls() -> list[Any]:
        async with toolwire.connect(
            running_site.url, protocol="otc", agree=lambda _: True, credential_store=running_site.credentials
        ) as remote:
            first = await remote.call("list_tasks")
            form = f"client_id=native&token={found.access.reveal()}".encode()
            kind = ((b"content-type", b"application/x-www-form-urlencoded"),)
            SyncNetwork().send(Request("POST", f"{running_site.url}/oauth/revoke", kind, form))
            return [first, await remote.call("list_tasks")]

    assert anyio.run(calls) == [toolwire.Value(["wash up"])] * 2
    stored = running_site.credentials.get(found.storage_name)
    assert stored is not None
    assert stored.access != found.access


@pytest.mark.requirement("AC-11", "D-08")
def test_token_is_sent_only_to_its_resource(
    running_site: Running, serve: Callable[[Callable[[str], Any]], str]
) -> None:
    seen: list[Any] = []

    async def other(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        seen.append(scope)
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    elsewhere = serve(lambda _: other)
    running_site.signed_in(Walker())
    with (
        pytest.raises(toolwire.ConnectError),
        toolwire.connect_sync(elsewhere, credential_store=running_site.credentials),
    ):
        pass
    assert seen
    assert not any(name == b"authorization" for scope in seen for name, _ in scope["headers"])
    assert not any(b"token" in scope["query_string"] for scope in seen)


@pytest.mark.requirement("XL-117")
def test_signed_in_user_is_still_asked_about_each_call(
    tmp_path: Path, serve: Callable[[Callable[[str], Any]], str]
) -> None:
    running = Running(tmp_path, serve, default_scopes=("tasks:read", "tasks:delete"))
    running.signed_in(Walker())
    asked: list[str] = []

    def approve(question: Any) -> bool:
        asked.append(question.call.tool.name)
        return False

    preferences = toolwire.Preferences(everything=toolwire.Approval.PER_CALL)
    with toolwire.connect_sync(
        running.url, protocol="otc", credential_store=running.credentials, approve=approve, preferences=preferences
    ) as remote:
        reply = remote.call("list_tasks")
    assert isinstance(reply, Problem)
    assert reply.kind is Kind.DENIED
    assert asked == ["list_tasks"]


@pytest.mark.requirement("AC-10", "XL-111", "D-26")
def test_login_connections_and_logout_commands_never_print_a_token(
    running_site: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    errors = tmp_path / "errors"
    command = [
        sys.executable,
        "-m",
        "toolwire",
        "login",
        running_site.url + "/tools",
        "--client-id",
        "native",
        "--scope",
        "tasks:read",
    ]
    with (
        errors.open("w", encoding="utf-8") as file,
        subprocess.Popen(command, stderr=subprocess.PIPE, stdout=file, text=True) as program,
    ):
        assert program.stderr is not None
        line = program.stderr.readline()
        assert "Open this page" in line
        Walker().open(line.rpartition(" ")[2].strip())
        assert program.wait(60) == 0
    assert errors.read_text() == f"Signed in to {running_site.url}, for tasks:read.\n"
    assert main(["connections"]) == 0
    assert main(["call", running_site.url, "list_tasks", "--protocol", "otc", "--agree", "--json"]) == 0
    assert main(["connections", "--json"]) == 0
    assert main(["logout", running_site.url]) == 0
    assert main(["logout", running_site.url]) == 1
    printed = capsys.readouterr().out
    assert f"{running_site.url}  tasks:read" in printed
    assert "wash up" in printed
    assert running_site.kinds()[-1] == "revoked"
    assert list((tmp_path / "state" / "toolwire" / "credentials").glob("*.json")) == []


@pytest.mark.requirement("AC-14", "XL-112")
def test_a_key_is_asked_for_once_and_stored_like_a_token(
    tmp_path: Path,
    serve: Callable[[Callable[[str], Any]], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    url = serve(lambda _: toolwire.asgi(tasks_without_scopes(), api_keys=["correct-horse"]))
    command = [sys.executable, "-m", "toolwire", "login", url, "--key"]
    done = subprocess.run(command, input="correct-horse\n", capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "correct-horse" not in done.stdout + done.stderr
    assert main(["call", url, "add", "a=1", "b=2"]) == 0
    assert capsys.readouterr().out == "3\n"
    (stored,) = (tmp_path / "state" / "toolwire" / "credentials").glob("*.json")
    assert stored.stat().st_mode & 0o777 == 0o600


@pytest.mark.requirement("AC-14", "AC-13")
def test_login_reads_password_schemes_and_unsafe_flows_from_the_document(
    tmp_path: Path, serve: Callable[[Callable[[str], Any]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    schemes: dict[str, Any] = {"b": {"type": "http", "scheme": "basic"}}
    schemes["i"] = {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "/a", "scopes": {}}}}
    operation = {"operationId": "ping", "x-llm": {}, "responses": {"200": {"description": "ok"}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "paths": {"/ping": {"get": operation}},
        "components": {"securitySchemes": schemes},
        "x-llm": {"version": "0.1", "name": "T"},
    }

    async def site(scope: Any, receive: Any, send: Any) -> None:
        found = scope["type"] == "http" and scope["path"] == "/openapi.json"
        kind = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200 if found else 404, "headers": kind})
        await send({"type": "http.response.body", "body": json.dumps(document).encode() if found else b"{}"})

    url = serve(lambda _: site)
    command = [sys.executable, "-m", "toolwire", "login", url]
    unsafe = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "implicit flow, which is not secure" in unsafe.stderr
    assert unsafe.returncode != 0
    done = subprocess.run(
        [*command, "--key"], input="Ada\npw-canary\n", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "canary" not in done.stdout + done.stderr
    (stored,) = CredentialStore(tmp_path / "state" / "toolwire" / "credentials").list_all()
    assert (stored.header, stored.prefix, stored.access.reveal()) == ("authorization", "Basic ", "QWRhOnB3LWNhbmFyeQ==")


def tasks_without_scopes() -> toolwire.Toolkit:
    kit = toolwire.Toolkit("Sums")

    @kit.tool(approval="auto", safe=True)
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    return kit


@pytest.mark.requirement("AC-13")
def test_device_sign_in_polls_until_another_device_confirms(tmp_path: Path) -> None:
    waited: list[float] = []
    answers = iter(
        [
            {"device_code": "dc", "user_code": "WDJB", "verification_uri": "https://login.example/go", "interval": 2},
            {"error": "authorization_pending"},
            {"error": "slow_down"},
            {"access_token": "at", "token_type": "Bearer"},
        ]
    )

    class Scripted:
        def send(self, request: Request) -> Response:
            data = next(answers)
            return Response(400 if "error" in data else 200, (), json.dumps(data).encode())

        def listen(self, request: Request, hear: Any, *, brief: bool = False) -> Response:
            return self.send(request)

        def close(self) -> None: ...

    from toolwire.auth.metadata_discovery import AuthorizationServerMetadata, SignInTarget

    texts: list[str] = []
    server = AuthorizationServerMetadata(
        issuer="https://login.example", token_url="https://login.example/t", device_url="https://login.example/d"
    )
    person = SignInUser(show=texts.append, sleep=waited.append, now=lambda: 0.0)
    place = SignInTarget(resource="https://tasks.example", server=server)
    found = sign_in(place, SignInOptions(identity=ClientIdentity(client_id="me"), device=True), person, Scripted())
    assert isinstance(found, Credential)
    assert found.access == Secret("at")
    assert waited == [2.0, 2.0, 7.0]
    assert texts == ["On any device, open https://login.example/go and type WDJB"]
