"""The routes of a web app are tools on every protocol, for the users of the app, and with their consent."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import ElicitRequestParams, ElicitResult
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse
from starlette.routing import Mount, Route

from tests.integrations.shops import DOCUMENT, SHOPS
from toolwire import Kind, Problem, Selection, ServerLimits, Value, connect, connect_sync
from toolwire.core.check import Question
from toolwire.integrations.starlette import ServerOptions, publish_tools

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
PROTOCOLS = ("openapi", "opentool", "otc", "mcp")


@pytest.fixture
def dropped_orders() -> list[str]:
    """The orders that were dropped, and by whom."""
    return []


@pytest.fixture(params=SHOPS)
def shop(request: pytest.FixtureRequest, loopback: Any, dropped_orders: list[str]) -> Any:
    """The URL of a shop in one of the frameworks."""
    with loopback(SHOPS[request.param](dropped_orders)) as url:
        yield url


def open_shop(url: str, protocol: str, token: str | None, asked: list[Question] | None = None) -> Any:
    def approve(question: Question) -> bool:
        if asked is not None:
            asked.append(question)
        return asked is not None

    return connect_sync(url, protocol=protocol, api_key=token, approve=approve, agree=lambda _: True)


@pytest.mark.requirement("FU-30")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_user_calls_the_app_routes_over_each_protocol(shop: str, protocol: str, dropped_orders: list[str]) -> None:
    for name in ("ann", "bob"):
        asked: list[Question] = []
        with open_shop(shop, protocol, f"token-of-{name}", asked) as remote:
            assert sorted(tool.name for tool in remote.tools) == ["drop", "me"]
            assert name in str(remote.call("me"))
            assert not asked
            assert f"{name} 7" in str(remote.call("drop", {"number": 7}))
            assert [question.call.tool.name for question in asked] == ["drop"]
    assert dropped_orders == ["ann 7", "bob 7"]


@pytest.mark.requirement("FU-30")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("token", [None, "token-of-nobody"])
def test_app_itself_refuses_unknown_users(
    shop: str, protocol: str, token: str | None, dropped_orders: list[str]
) -> None:
    with open_shop(shop, protocol, token, []) as remote:
        for tool, arguments in (("me", {}), ("drop", {"number": 7})):
            result = remote.call(tool, arguments)
            assert isinstance(result, Problem)
            assert result.kind is Kind.UNAUTHORIZED
    assert dropped_orders == []


@pytest.mark.requirement("FU-30")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_call_without_consent_runs_nothing(shop: str, protocol: str, dropped_orders: list[str]) -> None:
    with open_shop(shop, protocol, "token-of-ann") as remote:
        result = remote.call("drop", {"number": 7})
    assert isinstance(result, Problem)
    assert result.kind is Kind.DENIED
    assert dropped_orders == []


@pytest.mark.requirement("FU-30")
@pytest.mark.parametrize("allow", [False, True])
def test_official_mcp_client_signs_in_at_the_app_and_asks_its_user(
    shop: str, allow: bool, dropped_orders: list[str]
) -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    shown: list[str] = []

    async def answer(_: Any, params: ElicitRequestParams) -> ElicitResult:
        shown.append(params.message)
        return ElicitResult(action="accept" if allow else "decline", content={"allow": True} if allow else None)

    async def story() -> tuple[Any, Any]:
        async with httpx2.AsyncClient(headers={"authorization": "Bearer token-of-bob"}) as http:
            transport = streamable_http_client(f"{shop}/mcp", http_client=http)
            async with Client(transport, elicitation_callback=answer) as client:
                return await client.call_tool("me", {}), await client.call_tool("drop", {"number": 3})

    me, drop = anyio.run(story)
    assert "bob" in me.content[0].text
    assert len(shown) == 1
    assert "3" in shown[0]
    assert dropped_orders == (["bob 3"] if allow else [])
    assert bool(drop.is_error) is not allow


@pytest.mark.requirement("FU-30")
def test_concurrent_users_are_not_confused(shop: str, dropped_orders: list[str]) -> None:
    def ask(number: int) -> bool:
        name = ("ann", "bob")[number % 2]
        with open_shop(shop, ("mcp", "otc")[number // 2 % 2], f"token-of-{name}", []) as remote:
            results = [str(remote.call("me")) for _ in range(5)]
        return all(name in result for result in results)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(24)))


@pytest.mark.requirement("FU-30", "D-26")
def test_idempotency_record_of_one_user_is_not_given_to_another(shop: str, dropped_orders: list[str]) -> None:
    import httpx2

    body = {"request": {"tool_id": "drop", "input": {"number": 7}}}
    with httpx2.Client(base_url=shop) as http:
        for name in ("ann", "bob", "ann"):
            fields = {"authorization": f"Bearer token-of-{name}", "idempotency-key": "the-same-key"}
            answer = http.post("/call", json=body, headers=fields)
            assert f"{name} 7" in answer.text, answer.text
    assert dropped_orders == ["ann 7", "bob 7"]  # ann's second call is her first one again


def build_app(**options: Any) -> tuple[Starlette, list[str | None]]:
    """An app with sessions in cookies, a route /tools of its own, and a mount of everything."""
    seen: list[str | None] = []

    async def me(request: Request) -> JSONResponse:
        seen.append(request.cookies.get("session"))
        return JSONResponse(seen[-1])

    async def tools(_: Request) -> PlainTextResponse:
        return PlainTextResponse("hammers and saws")

    async def everything(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("the page of the app")(scope, receive, send)

    app = Starlette(routes=[Route("/me", me), Route("/tools", tools), Mount("/", app=everything)])
    document = {**DOCUMENT, "paths": {"/me": DOCUMENT["paths"]["/me"]}}
    return publish_tools(app, document, include="all", **options), seen


@pytest.mark.requirement("FU-30")
def test_app_route_takes_precedence_and_a_root_mount_hides_no_protocol(
    loopback: Any, caplog: pytest.LogCaptureFixture
) -> None:
    import httpx2

    app, seen = build_app()
    assert "/tools is a route of the application, so its tools are not served over otc" in caplog.text
    with loopback(app) as url, httpx2.Client(base_url=url, cookies={"session": "of-ann"}) as http:
        assert http.get("/tools").text == "hammers and saws"
        assert http.get("/elsewhere").text == "the page of the app"
        call = {"jsonrpc": "2.0", "id": "1", "method": "me", "params": {}}
        assert http.post("/opentool/call", json=call).json()["result"] == {"result": "of-ann"}
        with connect_sync(url, protocol="mcp") as remote:
            assert [tool.name for tool in remote.tools] == ["me"]
    assert seen == ["of-ann"]


@pytest.mark.requirement("FU-30", "D-24")
def test_a_page_of_another_site_calls_nothing_with_the_cookies_of_a_user(loopback: Any) -> None:
    import httpx2

    app, seen = build_app()
    call = {"jsonrpc": "2.0", "id": "1", "method": "me", "params": {}}
    with loopback(app) as url, httpx2.Client(base_url=url, cookies={"session": "of-ann"}) as http:
        for fields in ({"origin": "https://evil.example"}, {"host": "evil.example"}):
            assert http.post("/opentool/call", json=call, headers=fields).status_code in (403, 421)
    assert seen == []
    app, seen = build_app(options=ServerOptions(hosts=["shop.example"], origins=["https://desk.example"]))
    with loopback(app) as url, httpx2.Client(base_url=url, cookies={"session": "of-ann"}) as http:
        fields = {"origin": "https://desk.example", "host": "shop.example"}
        assert http.post("/opentool/call", json=call, headers=fields).json()["result"] == {"result": "of-ann"}


@pytest.mark.requirement("FU-30", "CC-05")
def test_app_can_refuse_unconfirmed_calls_of_hosts_without_forms(loopback: Any) -> None:
    dropped: list[int] = []

    async def drop(request: Request) -> JSONResponse:
        dropped.append(request.path_params["number"])
        return JSONResponse("dropped")

    document = {**DOCUMENT, "paths": {"/orders/{number}": DOCUMENT["paths"]["/orders/{number}"]}, "security": []}
    for consent, runs in (("hints", True), ("refuse", False)):
        app = Starlette(routes=[Route("/orders/{number:int}", drop, methods=["DELETE"])])
        published = publish_tools(app, document, include="all", options=ServerOptions(consent=consent))  # type: ignore[arg-type]  # mypy widens the texts

        async def call(url: str) -> bool:
            async with Client(f"{url}/mcp") as client:
                return (await client.call_tool("drop", {"number": 3})).is_error is not True

        with loopback(published) as url:
            assert anyio.run(call, url) is runs
    assert dropped == [3]


@pytest.mark.requirement("FU-30")
def test_routes_take_the_options_of_every_server(loopback: Any) -> None:
    import httpx2

    app, seen = build_app(
        options=ServerOptions(api_keys=(key for key in ["correct-horse"]), limits=ServerLimits(body_bytes=100))
    )
    call = {"jsonrpc": "2.0", "id": "1", "method": "me", "params": {}}
    key = {"authorization": "Bearer correct-horse"}
    with loopback(app) as url, httpx2.Client(base_url=url, cookies={"session": "of-ann"}) as http:
        assert http.post("/opentool/call", json=call).json()["error"]["code"] == 401
        assert http.post("/opentool/call", json=call, headers=key).json()["result"] == {"result": "of-ann"}
        assert http.post("/opentool/call", json={**call, "params": {"a": "b" * 100}}, headers=key).status_code == 413
    assert seen == ["of-ann"]


@pytest.mark.requirement("FU-30")
def test_only_the_document_is_published_without_protocols(loopback: Any) -> None:
    import httpx2

    app, _ = build_app(options=None)
    with loopback(app) as url:
        assert httpx2.post(f"{url}/mcp", json={}).text == "the page of the app"
        with connect_sync(url, selection=Selection()) as remote:
            assert remote.protocol == "openapi"


@pytest.mark.requirement("FU-30", "XL-064")
def test_the_rate_limit_of_a_route_is_counted_for_each_user(loopback: Any) -> None:
    import httpx2

    me = {**DOCUMENT["paths"]["/me"]["get"], "x-llm": {"rateLimit": {"max": 2, "window": "1h"}}}

    async def endpoint(request: Request) -> JSONResponse:
        return JSONResponse(request.headers["authorization"])

    app = publish_tools(Starlette(routes=[Route("/me", endpoint)]), {**DOCUMENT, "paths": {"/me": {"get": me}}})
    body = {"request": {"tool_id": "me", "input": {}}}
    with loopback(app) as url, httpx2.Client(base_url=url) as http:
        for name in ("ann", "bob"):
            fields = {"authorization": f"Bearer {name}"}
            codes = [http.post("/call", json=body, headers=fields).status_code for _ in range(3)]
            assert codes == [200, 200, 429]


@pytest.mark.requirement("FU-30")
def test_failing_route_fails_only_its_own_call(loopback: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: Request) -> JSONResponse:
        raise RuntimeError("the word of a defect")

    async def me(_: Request) -> JSONResponse:
        return JSONResponse("ann")

    broken = {"operationId": "fail", "summary": "Fail", "responses": {}}
    document = {**DOCUMENT, "paths": {"/me": DOCUMENT["paths"]["/me"], "/fail": {"get": broken}}}
    app = publish_tools(Starlette(routes=[Route("/me", me), Route("/fail", fail)]), document, include="all")
    with loopback(app) as url, connect_sync(url, protocol="mcp", agree=lambda _: True) as remote:
        for _ in range(12):
            result = remote.call("fail")
            assert isinstance(result, Problem)
            assert "defect" not in str(result)
        assert remote.call("me") == Value("ann")
    assert "the word of a defect" in caplog.text  # in the log of the application, where its owner looks


@pytest.mark.requirement("FU-30")
def test_tools_of_a_mounted_app_work_without_its_lifespan(loopback: Any) -> None:
    app, _ = build_app()
    with (
        loopback(Starlette(routes=[Mount("/shop", app=app)])) as url,
        connect_sync(f"{url}/shop/mcp", protocol="mcp", agree=lambda _: True) as remote,
    ):
        assert [tool.name for tool in remote.tools] == ["me"]
        assert remote.call("me") == Value(None)


def build_endless_shop() -> tuple[Starlette, list[str]]:
    """Return an application whose route has a background task that never ends, and what happened to that task."""
    seen: list[str] = []

    async def follow() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")

    async def order(_: Request) -> JSONResponse:
        return JSONResponse("ordered", background=BackgroundTask(follow))

    operation = {"operationId": "order", "summary": "Order", "responses": {}, "x-llm": {"approval": "auto"}}
    paths = {"/orders": {"post": operation}}
    document = {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": paths}
    return publish_tools(Starlette(routes=[Route("/orders", order, methods=["POST"])]), document, include="all"), seen


@pytest.mark.requirement("FU-30", "CR-03")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("blocking", [False, True])
def test_task_that_never_ends_does_not_keep_a_connection_open(protocol: str, blocking: bool) -> None:
    app, seen = build_endless_shop()

    async def call() -> Any:
        async with connect(app, protocol=protocol, approve=lambda _: True, agree=lambda _: True) as shop:
            return await shop.call("order")

    if blocking:
        with connect_sync(app, protocol=protocol, approve=lambda _: True, agree=lambda _: True) as remote:
            assert remote.call("order") == Value("ordered")
    else:
        result = asyncio.run(asyncio.wait_for(call(), 20))
        assert isinstance(result, Value), result
    assert seen == ["began", "cancelled"]


@pytest.mark.requirement("FU-30", "CR-03")
@pytest.mark.parametrize("cancel", [False, True])
def test_task_that_never_ends_does_not_keep_the_server_from_stopping(cancel: bool) -> None:
    app, seen = build_endless_shop()
    body = json.dumps({"request": {"tool_id": "order", "input": {}}}).encode()

    async def story() -> None:
        to_app, from_app = asyncio.Queue[Any](), asyncio.Queue[Any]()
        state: dict[str, Any] = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        living = asyncio.create_task(app(state, to_app.get, from_app.put))
        await to_app.put({"type": "lifespan.startup"})
        assert (await from_app.get())["type"] == "lifespan.startup.complete"
        received, replies, ended = asyncio.Queue[Any](), list[Any](), asyncio.Event()
        await received.put({"type": "http.request", "body": body, "more_body": False})

        async def send(message: Any) -> None:
            replies.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                ended.set()

        fields = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"}
        place = {"path": "/call", "raw_path": b"/call", "query_string": b"", "root_path": "", "headers": fields}
        peers = {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {}}
        request = asyncio.create_task(app({**scope, **place, **peers}, received.get, send))
        await ended.wait()
        assert replies[0]["status"] == 200, replies
        if cancel:  # as a server does whose time to stop is over
            request.cancel()
            await asyncio.wait((request,))
            assert seen == ["began", "cancelled"]
        await to_app.put({"type": "lifespan.shutdown"})
        assert (await from_app.get())["type"] == "lifespan.shutdown.complete"
        await asyncio.gather(living, request, return_exceptions=True)

    asyncio.run(asyncio.wait_for(story(), 20))
    assert seen == ["began", "cancelled"]


def build_redirecting_shop() -> Starlette:
    """An application whose route of the document is there with a slash at its end, so that Starlette redirects."""

    async def list_orders(request: Request) -> JSONResponse:
        return JSONResponse(str(request.url))

    async def leave(request: Request) -> RedirectResponse:
        return RedirectResponse(request.query_params["to"])

    where = [{"name": "to", "in": "query", "required": True, "schema": {"type": "string"}}]
    paths = {
        "/orders": {"get": {"operationId": "orders", "summary": "Orders", "responses": {}}},
        "/leave": {"get": {"operationId": "leave", "summary": "Leave", "parameters": where, "responses": {}}},
    }
    document = {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": paths}
    return publish_tools(
        Starlette(routes=[Route("/orders/", list_orders), Route("/leave", leave)]), document, include="all"
    )


@pytest.mark.requirement("FU-30", "C-13")
@pytest.mark.parametrize("protocol", ["opentool", "otc", "mcp"])
@pytest.mark.parametrize("root", ["", "/shop"])
def test_route_that_redirects_to_itself_with_a_whole_url_is_called(loopback: Any, protocol: str, root: str) -> None:
    app: Any = build_redirecting_shop()
    with loopback(Starlette(routes=[Mount(root, app)], lifespan=app.router.lifespan_context) if root else app) as own:
        url = own.replace("127.0.0.1", "localhost")
        with connect_sync(f"{url}{root}", protocol=protocol, approve=lambda _: True, agree=lambda _: True) as remote:
            assert remote.call("orders") == Value(f"{url}{root}/orders/")
            for other in ("https://evil.example/orders", url.replace("http:", "https:"), f"http://a@{url[7:]}/orders"):
                left = remote.call("leave", {"to": other})
                assert isinstance(left, Problem), left


@pytest.mark.requirement("FU-30", "C-13")
def test_route_that_redirects_to_itself_as_its_proxy_is_called(loopback: Any) -> None:
    import httpx2

    fields = {"x-forwarded-proto": "https", "x-forwarded-host": "Shop.example"}
    with loopback(build_redirecting_shop()) as url, httpx2.Client(base_url=url, headers=fields) as client:
        for start, is_own in (("https://shop.example", True), ("https://shop.example.evil", False)):
            body = {"request": {"tool_id": "leave", "input": {"to": f"{start}/orders/"}}}
            reply = client.post("/call", json=body)
            assert (f"{url[7:]}/orders/" in reply.text) is is_own, reply.text
