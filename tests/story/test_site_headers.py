"""Header fields of the user: sent with every request to the site, shown in each question, and sent nowhere else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import toolwire
from toolwire import Question, SyncRemote, Toolkit, connect, connect_sync
from toolwire.adapters.dialects import Provider
from toolwire.adapters.tool_declarations import run_named_call_sync
from toolwire.cli import main
from toolwire.consent import build_display_rows
from toolwire.core.model import Secret
from toolwire.testing.loopback import background

WIRES = ["openapi", "opentool", "otc", "mcp"]
HIDDEN = "s3cr3t-of-the-tenant"


class Site:
    """A server, and the header fields of each request that it got."""

    def __init__(self) -> None:
        self.got: list[dict[str, str]] = []
        kit = Toolkit("Desk")

        @kit.tool(approval="auto", safe=True)
        def look(name: str) -> str:
            """Look."""
            return self.got[-1].get(name, "")

        @kit.tool(approval="per-call")
        def note(text: str) -> str:
            """Write down."""
            return text

        self.app = toolwire.asgi(kit)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.got.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await self.app(scope, receive, send)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def url(site: Site) -> Iterator[str]:
    with background(site) as url:
        yield url


@pytest.fixture
def toolwire_command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*argv: str) -> tuple[int, str, str]:
        code = main(list(argv))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.mark.requirement("XL-089")
@pytest.mark.parametrize("wire", WIRES)
def test_site_headers_are_sent_with_every_request_beside_a_key(site: Site, url: str, wire: str) -> None:
    headers = {"X-Tenant": "acme", "X-Key": Secret(HIDDEN)}
    options: Any = {"protocol": wire, "headers": headers, "agree": lambda _: True, "name": "desk"}
    with connect_sync(url, **options) as remote:
        assert remote.call("look", {"name": "x-tenant"}).unwrap() == "acme"
        assert remote.name == "desk"
    with connect_sync(url, api_key="k", **options) as remote:
        assert remote.call("look", {"name": "authorization"}).unwrap() != ""

    async def call() -> Any:
        async with connect(url, **options) as remote:
            return (await remote.call("look", {"name": "x-tenant"})).unwrap()

    assert asyncio.run(call()) == "acme"
    assert site.got
    assert {(one.get("x-tenant"), one.get("x-key")) for one in site.got} == {("acme", HIDDEN)}


@pytest.mark.requirement("XL-089", "D-26")
def test_question_shows_site_headers_and_hides_secret_ones(site: Site, url: str) -> None:
    asked: list[Question] = []
    headers = {"X-Tenant": "acme", "X-Key": Secret(HIDDEN)}
    with connect_sync(url, headers=headers, approve=lambda question: asked.append(question) is None) as remote:
        assert remote.call("note", {"text": "x"}).ok
        echoed = remote.call("look", {"name": "x-key"}).unwrap()
        assert remote.call("look", {"name": "x-tenant"}).unwrap() == "acme"  # it is no secret
    signed = {row.label: row.text for row in build_display_rows(asked[0])}["signed with"]
    assert signed == "your headers x-tenant: acme, x-key: ***"
    assert HIDDEN not in repr(asked) + echoed
    with connect_sync(
        url, headers={"X-Tenant": "other"}, approve=lambda question: asked.append(question) is None
    ) as remote:
        assert remote.call("note", {"text": "x"}).ok
    assert asked[0].binding != asked[1].binding  # an answer holds for these headers only


@pytest.mark.requirement("XL-089", "D-08")
def test_site_headers_are_not_sent_to_another_origin(site: Site, url: str) -> None:
    elsewhere = Site()
    with background(elsewhere) as other:
        document = {
            "openapi": "3.1.0",
            "info": {"title": "T", "version": "1"},
            "x-llm": {"version": "0.1", "enabled": True},
            "servers": [{"url": other}],
            "paths": {"/api/look": {"get": {"operationId": "look", "x-llm": {"enabled": True, "approval": "auto"}}}},
        }

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                return
            body = json.dumps(document).encode()
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
            )
            await send({"type": "http.response.body", "body": body})

        with (
            background(serve) as home,
            connect_sync(
                f"{home}/openapi.json", headers={"X-Tenant": "acme"}, allow_origins=[other], approve=lambda _: True
            ) as remote,
        ):
            remote.call("look")
        assert elsewhere.got
        assert all("x-tenant" not in one for one in elsewhere.got)


@pytest.mark.requirement("XL-089")
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "x"},
        {"Content-Type": "x"},
        {"mcp-method": "x"},
        {"a b": "x"},
        {"a": "x\r\ny: z"},
        {"a": " "},
        {"A": "1", "a": "2"},
    ],
    ids=str,
)
def test_reserved_site_header_is_refused_at_once(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="header"):
        connect_sync("https://a.example", headers=headers)


@pytest.mark.requirement("XL-089")
def test_adapters_send_site_headers(site: Site, url: str) -> None:
    with connect_sync(url, headers={"X-Tenant": "acme"}) as remote:
        assert isinstance(remote, SyncRemote)
        message = run_named_call_sync(remote, Provider.OPENAI, "look", {"name": "x-tenant"})
    assert "acme" in message.text


@pytest.mark.requirement("XL-089")
def test_every_command_with_a_key_option_accepts_site_headers(
    site: Site,
    url: str,
    toolwire_command: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:
    monkeypatch.setenv("TENANT_KEY", HIDDEN)
    monkeypatch.chdir(tmp_path)
    given = ("--header", "X-Tenant: acme", "--header-env", "X-Key=TENANT_KEY")
    for argv in (
        ("call", url, "look", "name=x-tenant", *given),
        ("tools", url, *given),
        ("size", url, *given),
        ("explain", url, *given),
        ("show", url, "look", *given),
        ("lock", url, *given),
        ("diff", url, *given),
        ("convert", url, "--to", "opentool", *given),
        ("conform", url, "--protocol", "openapi", *given),
    ):
        site.got.clear()
        code, out, err = toolwire_command(*argv)
        assert code in (0, 1), (argv, err)
        assert site.got, argv
        assert {(one.get("x-tenant"), one.get("x-key")) for one in site.got} == {("acme", HIDDEN)}, argv
        assert HIDDEN not in out + err
    assert toolwire_command("call", url, "look", "name=x-tenant", *given)[1] == "acme\n"
    for wrong in (
        ("--header", "X-Tenant"),
        ("--header", "Host: x"),
        ("--header-env", "X=NOTHING"),
        ("--header-env", "X"),
    ):
        assert toolwire_command("tools", url, *wrong)[0] == 2
    assert toolwire_command("chat", url, f"{url}/", "--model", "m", *given)[0] == 2


@pytest.mark.requirement("XL-089")
def test_gateway_sends_site_headers_and_ignores_those_of_callers(site: Site, url: str) -> None:
    from toolwire.hosting.open_upstreams import open_toolbox
    from toolwire.hosting.targets.target import UrlTarget
    from toolwire.hosting.targets.url_options import UrlOptions

    toolbox = open_toolbox(UrlTarget(url), options=UrlOptions(headers={"X-Tenant": "acme"}))
    with background(toolwire.asgi(toolbox)) as gateway, connect_sync(gateway, headers={"X-Tenant": "evil"}) as remote:
        assert remote.call("look", {"name": "x-tenant"}).unwrap() == "acme"
