"""What goes no further than the door: pages of other sites, two hosts, calls that lack what a tool requires."""

import asyncio
import json

import pytest

import toolwire
from tests.support.wire import AppTransport
from toolwire import Authorization, Context, Kind, Problem, Requirements, Toolkit, connect_sync
from toolwire.core.http import Request, Response
from toolwire.testing.loopback import background


@pytest.fixture
def run_log() -> list[str]:
    return []


@pytest.fixture
def app(run_log: list[str]) -> toolwire.App:
    kit = Toolkit("Doors")

    @kit.tool(approval="auto")
    def look(at: str) -> str:
        """Look at something."""
        run_log.append(at)
        return at

    @kit.tool(approval="auto", requirements=Requirements(authorization=(Authorization(id="gh"),)))
    def private(context: Context) -> str:
        """Use a token."""
        run_log.append("private")
        return context.tokens["gh"].reveal()

    return toolwire.asgi(kit)


def get(app: toolwire.App, path: str, **fields: str) -> Response:
    headers = [(b"host", b"127.0.0.1:9627"), *((k.replace("_", "-").encode(), v.encode()) for k, v in fields.items())]
    answer = asyncio.run(AppTransport(app).send(Request("GET", f"http://127.0.0.1:9627{path}", headers)))
    assert isinstance(answer, Response)
    return answer


@pytest.mark.requirement("D-22", "D-24")
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_cross_site_image_request_runs_no_tool(app: toolwire.App, run_log: list[str], site: str) -> None:
    assert get(app, "/api/look?at=x", sec_fetch_site=site, sec_fetch_mode="no-cors").status == 403
    assert run_log == []


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_same_site_page_and_address_bar_may_run_a_tool(app: toolwire.App, run_log: list[str], site: str) -> None:
    assert get(app, "/api/look?at=x", sec_fetch_site=site).status == 200
    assert run_log == ["x"]


def test_public_document_is_readable_from_any_site(app: toolwire.App) -> None:
    assert get(app, "/.well-known/llm.json", sec_fetch_site="cross-site").status == 200


@pytest.mark.requirement("D-24")
def test_a_request_with_two_hosts_is_refused(app: toolwire.App, run_log: list[str]) -> None:
    headers = [(b"host", b"evil.example"), (b"host", b"127.0.0.1:9627")]
    answer = asyncio.run(AppTransport(app).send(Request("GET", "http://127.0.0.1:9627/api/look?at=x", headers)))
    assert isinstance(answer, Response)
    assert answer.status == 400
    assert run_log == []


@pytest.mark.requirement("OXP-011", "OTC-015")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_call_without_a_required_token_does_not_run_in_any_protocol(
    app: toolwire.App, run_log: list[str], protocol: str
) -> None:
    with background(app) as url, connect_sync(url, protocol=protocol, agree=lambda _: True) as remote:
        result = remote.call("private")
    assert isinstance(result, Problem)
    assert result.kind in (Kind.MISSING_REQUIREMENTS, Kind.INVALID_ARGUMENTS, Kind.TOOL_FAILED, Kind.MALFORMED)
    assert "a token for gh" in result.message
    assert run_log == []


@pytest.mark.requirement("XL-002", "XL-018", "XL-019")
def test_documents_name_the_path_the_app_is_mounted_under(app: toolwire.App) -> None:
    def mounted(path: str) -> Response:
        async def under(scope, receive, send) -> None:  # type: ignore[no-untyped-def]  # ASGI
            await app({**scope, "root_path": "/sub", "path": "/sub" + scope["path"]}, receive, send)

        answer = asyncio.run(
            AppTransport(under).send(Request("GET", f"http://127.0.0.1:9627{path}", [(b"host", b"127.0.0.1:9627")]))
        )
        assert isinstance(answer, Response)
        return answer

    assert json.loads(mounted("/.well-known/llm.json").body)["openapi"] == "/sub/openapi.json"
    assert json.loads(mounted("/openapi.json").body)["servers"] == [{"url": "/sub"}]
    assert mounted("/openapi.json").body == mounted("/.well-known/openapi.json").body
    assert b'href="/sub/tools"' in mounted("/").body
    assert json.loads(get(app, "/openapi.json").body)["servers"] == [{"url": "/"}]


def test_memory_stays_bounded_for_many_mount_paths(app: toolwire.App) -> None:
    for number in range(40):
        root = f"/{number}"

        async def under(scope, receive, send, root=root) -> None:  # type: ignore[no-untyped-def]  # ASGI
            await app({**scope, "root_path": root, "path": root + scope["path"]}, receive, send)

        request = Request("GET", "http://127.0.0.1:9627/openapi.json", [(b"host", b"127.0.0.1:9627")])
        answer = asyncio.run(AppTransport(under).send(request))
        assert isinstance(answer, Response)
        assert json.loads(answer.body)["servers"] == [{"url": root}]
