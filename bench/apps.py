"""The applications that are measured: the limit (raw ASGI), ours, and peers where they are installed."""

from __future__ import annotations

import os
from typing import Any

RAW_ANSWER = b'{"jsonrpc":"2.0","result":{"result":3},"error":null,"id":"c1"}'
RAW_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(RAW_ANSWER))]


async def raw(scope: Any, receive: Any, send: Any) -> None:
    """The limit: read the body, answer fixed bytes."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": RAW_HEADERS})
    await send({"type": "http.response.body", "body": RAW_ANSWER})


def calculator(tools: int = 1, style: str = "async") -> Any:
    """A toolkit with ``add`` and as many more tools as asked for."""
    from toolwire import Toolkit

    kit = Toolkit("Calculator", version="1.0.0", description="Arithmetic.")

    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def add_sync(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    if style == "async":
        kit.add(add, name="add", approval="auto", safe=None if "BENCH_LEDGER" not in os.environ else False)
    else:
        kit.add(add_sync, name="add", approval="auto", inline=style == "inline")
    for number in range(1, tools):
        kit.add(add, name=f"add_{number}", approval="auto")
    return kit


def ours() -> Any:
    """Toolwire, as the environment says: BENCH_TOOLS, BENCH_STYLE, BENCH_KEY, BENCH_LEDGER."""
    import toolwire

    kit = calculator(int(os.environ.get("BENCH_TOOLS", "1")), os.environ.get("BENCH_STYLE", "async"))
    callers = None
    if secret := os.environ.get("BENCH_JWT"):
        from toolwire.auth.caller_token import ExpectedClaims, read_secret
        from toolwire.server.access.signed_tokens import SignedTokenCallers

        callers = SignedTokenCallers(read_secret(secret.encode()), ExpectedClaims())
    keys = [key] if (key := os.environ.get("BENCH_KEY")) else []
    return toolwire.asgi(kit, api_keys=keys, callers=callers, ledger=os.environ.get("BENCH_LEDGER"))


def gateway() -> Any:
    """Toolwire in front of the server at BENCH_UPSTREAM, as ``toolwire serve URL --agree`` is."""
    import toolwire
    from tests.support.upstreams import connect_without_user
    from toolwire.client import Session
    from toolwire.gateway import merge_toolboxes
    from toolwire.limits import ClientRateLimits

    session = Session(limits=ClientRateLimits(tool=None, connection=None))
    upstream = connect_without_user(os.environ["BENCH_UPSTREAM"], session, agree=lambda _: True)
    return toolwire.asgi(merge_toolboxes([upstream]))


BUSY_S = 0.1
BUSY_RUNNING = 32


def busy() -> Any:
    """Toolwire with a tool that takes BUSY_S seconds, of which BUSY_RUNNING may run at once."""
    import asyncio

    import toolwire

    kit = toolwire.Toolkit("Calculator", version="1.0.0", description="Arithmetic, after some thought.")

    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        await asyncio.sleep(BUSY_S)
        return a + b

    kit.add(add, name="add", approval="auto")
    return toolwire.asgi(kit, limits=toolwire.ServerLimits(running=BUSY_RUNNING))


def starlette() -> Any:
    """A Starlette route that does the work by hand, without any checks."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def call(request: Request) -> JSONResponse:
        data = await request.json()
        arguments = data["params"]
        result = {"result": arguments["a"] + arguments["b"]}
        return JSONResponse({"jsonrpc": "2.0", "result": result, "error": None, "id": data["id"]})

    return Starlette(routes=[Route("/opentool/call", call, methods=["POST"])])


def starlette_sync() -> Any:
    """A Starlette route whose work is a plain function, which Starlette runs in a thread, without any checks.

    An endpoint like that has no way to read a body, so the arguments are constants: it does less than ours.
    """
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    def call(_: Request) -> JSONResponse:
        return JSONResponse({"jsonrpc": "2.0", "result": {"result": 1 + 2}, "error": None, "id": "c1"})

    return Starlette(routes=[Route("/opentool/call", call, methods=["POST"])])


def fastapi() -> Any:
    """A FastAPI route with a pydantic body."""
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Arguments(BaseModel):
        a: int
        b: int

    class Call(BaseModel):
        jsonrpc: str
        method: str
        params: Arguments
        id: str

    app = FastAPI()

    async def call(body: Any) -> dict[str, Any]:
        result = {"result": body.params.a + body.params.b}
        return {"jsonrpc": "2.0", "result": result, "error": None, "id": body.id}

    call.__annotations__["body"] = Call
    app.post("/opentool/call")(call)
    return app


def mcp_sdk() -> Any:
    """The official MCP SDK's server, stateless, JSON answers."""
    from mcp.server import MCPServer

    server = MCPServer("Calculator")

    @server.tool()
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server.streamable_http_app(stateless_http=True, json_response=True)


def universal() -> Any:
    """The universal-tool-server package."""
    from universal_tool_server import Server

    server = Server()

    @server.add_tool()
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server


def fastmcp() -> Any:
    """The FastMCP package, stateless, JSON answers."""
    from fastmcp import FastMCP

    server = FastMCP("Calculator")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server.http_app(path="/mcp", stateless_http=True, json_response=True)


def full_gateway() -> Any:
    """Toolwire as ``toolwire gateway run`` serves BENCH_UPSTREAM: keys, limits, consent, ledger and kept decisions.

    BENCH_STATE is the folder of the state. With BENCH_HUNG, the URL of another upstream, which need not answer calls.
    """
    from pathlib import Path

    import toolwire
    from tests.support.upstreams import connect_without_user
    from toolwire.client import Session
    from toolwire.gateway import CallerConsent, UpstreamLimits, merge_toolboxes
    from toolwire.limits import ClientRateLimits
    from toolwire.stores.consent.open import open_decisions

    state = os.environ["BENCH_STATE"]
    urls = [os.environ["BENCH_UPSTREAM"], *filter(None, [os.environ.get("BENCH_HUNG")])]
    upstreams = [
        connect_without_user(
            url,
            Session(limits=ClientRateLimits(tool=None, connection=None)),
            approve=CallerConsent(confirmations=f"{state}/confirmations", audit=open_decisions(Path(state))),
            agree=lambda _: True,
            retries=0,
        )
        for url in urls
    ]
    merged = merge_toolboxes(
        upstreams,
        names={number: f"upstream{number}" for number in range(len(urls))},
        limits={number: UpstreamLimits() for number in range(len(urls))},
    )
    return toolwire.asgi(merged, api_keys=["bench-key"], state=state, private=True)


def hung() -> Any:
    """Toolwire with a tool that never returns."""
    import asyncio

    import toolwire

    kit = toolwire.Toolkit("Hung", version="1.0.0")

    async def hang() -> str:
        """Return never."""
        await asyncio.Event().wait()
        return ""

    kit.add(hang, name="hang", approval="auto", safe=True)
    return toolwire.asgi(kit)


def relay() -> Any:
    """The least that a hop costs: pass the body on to BENCH_UPSTREAM by our network transport, without any checks."""
    from toolwire.client.transport.network import Network
    from toolwire.core.http import Request, Response

    url, network = os.environ["BENCH_UPSTREAM"], Network()

    async def pass_on(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive()).get("body") or message.get("more_body"):
            body += message["body"]
            if not message.get("more_body"):
                break
        headers = ((b"content-type", b"application/json"),)
        response = await network.send(Request("POST", url + scope["path"], headers, body))
        if not isinstance(response, Response):
            raise TypeError(response.message)
        fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(response.body))]
        await send({"type": "http.response.start", "status": response.status, "headers": fields})
        await send({"type": "http.response.body", "body": response.body})

    return pass_on


def fastmcp_proxy() -> Any:
    """FastMCP's proxy in front of the MCP server at BENCH_UPSTREAM."""
    from fastmcp.server import create_proxy

    return create_proxy(f"{os.environ['BENCH_UPSTREAM']}/mcp").http_app(
        path="/mcp", stateless_http=True, json_response=True
    )


def mcp_proxy() -> Any:
    """The mcp-proxy package in front of the MCP server at BENCH_UPSTREAM, stateless, JSON answers.

    It is made of the package's own parts in one process: by its commands, it takes two, with a pipe between them.
    """
    import contextlib

    from mcp.client.session import ClientSession
    from mcp.client.streamable_http import streamablehttp_client
    from mcp_proxy.mcp_server import create_single_instance_routes
    from mcp_proxy.proxy_server import create_proxy_server
    from starlette.applications import Starlette

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> Any:
        async with (
            streamablehttp_client(f"{os.environ['BENCH_UPSTREAM']}/mcp") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            routes, manager = create_single_instance_routes(await create_proxy_server(session), stateless_instance=True)
            app.router.routes.extend(routes)
            async with manager.run():
                yield

    return Starlette(lifespan=lifespan)


def mcpo() -> Any:
    """Mcpo in front of the MCP server at BENCH_UPSTREAM, as ``mcpo --server-type streamable-http`` builds it."""
    from fastapi import FastAPI
    from mcpo.main import lifespan

    app = FastAPI(lifespan=lifespan)
    app.state.server_type, app.state.args = "streamable-http", f"{os.environ['BENCH_UPSTREAM']}/mcp"
    return app


def litellm() -> Any:
    """LiteLLM's gateway in front of the MCP server at BENCH_UPSTREAM, with its key, without a database."""
    import json
    import tempfile
    from pathlib import Path

    server = {"url": f"{os.environ['BENCH_UPSTREAM']}/mcp", "transport": "http", "allow_all_keys": True}
    config = Path(tempfile.mkdtemp()) / "config.yaml"
    config.write_text(json.dumps({"model_list": [], "mcp_servers": {"calculator": server}}))
    os.environ["CONFIG_FILE_PATH"] = str(config)
    os.environ["LITELLM_MASTER_KEY"] = "bench-key"
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its prices of models would be fetched
    from litellm.proxy.proxy_server import app

    return app


def console() -> Any:
    """The console of toolwire over the folder BENCH_STATE, for the operator with the key BENCH_KEY."""
    from pathlib import Path

    from toolwire.console import Console, ConsoleSource

    key = os.environ["BENCH_KEY"]
    return Console(
        ConsoleSource(place=Path(os.environ["BENCH_STATE"])), lambda given: "bench" if given == key else None
    )
