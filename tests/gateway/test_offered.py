"""Resources and prompts of several toolboxes as one, each under the name of its connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import httpx2
import pytest
from pydantic import AnyUrl, TypeAdapter

from tests.support.upstreams import connect_without_user
from toolwire import DefinitionError, Kind, Problem, Session, Toolkit, Value, asgi, connect_sync, merge_toolboxes
from toolwire.core.health import list_health
from toolwire.core.model import RateLimit
from toolwire.core.toolbox import Toolbox
from toolwire.gateway import UpstreamLimits
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

pytestmark = pytest.mark.requirement("MC-08", "D-32")


def build_shop(said: str) -> Toolkit:
    kit = Toolkit("Shop")

    @kit.tool(approval="auto")
    def tell() -> str:
        return said

    @kit.resource("config://app")
    def config() -> str:
        return said

    @kit.resource("notes://{name}")
    def note(name: str) -> str:
        return f"{said} {name}"

    @kit.prompt
    def greet(name: str) -> str:
        return f"{said} says hello to {name}"

    return kit


def list_published(toolbox: Toolbox) -> tuple[list[str], list[str]]:
    offered = toolbox.catalog().features
    return [one.public_uri for one in offered.resources], [one.name for one in offered.prompts]


def test_gateway_passes_on_resources_and_prompts_under_the_names_of_connections() -> None:
    session = Session()
    own = Toolkit("Own")

    @own.resource("config://app")
    def config() -> str:
        return "own"

    with background(asgi(build_shop("one"))) as first, background(asgi(build_shop("two"))) as second:
        upstreams = [
            connect_without_user(url, session, protocol="mcp", agree=lambda _: True) for url in (first, second)
        ]
        merged = merge_toolboxes([*upstreams, FunctionToolbox(own)], names={0: "east", 1: "west"})
        assert list_published(merged) == (
            [
                "config://app",
                "east+config://app",
                "east+notes://{name}",
                "west+config://app",
                "west+notes://{name}",
            ],
            ["east_greet", "west_greet"],
        )
        with background(asgi(merged)) as url, connect_sync(url, protocol="mcp") as remote:
            assert remote.read_resource("config://app") == Value("own")
            assert remote.read_resource("east+config://app") == Value("one")
            assert remote.read_resource("west+notes://a%20b") == Value("two a b")
            assert isinstance(remote.read_resource("notes://a"), Problem)
            assert isinstance(remote.read_resource("north+config://app"), Problem)
            reply = remote.get_prompt("west_greet", {"name": "Ada"})
            assert isinstance(reply, Value)
            assert reply.value["messages"] == [{"role": "user", "content": "two says hello to Ada"}]


def test_uris_of_connections_of_any_name_are_uris_that_clients_take() -> None:
    with background(asgi(build_shop("one"))) as url:
        session = Session()
        upstreams = [connect_without_user(url, session, protocol="mcp", agree=lambda _: True) for _ in range(4)]
        merged = merge_toolboxes(upstreams, names=dict(enumerate(("My_Shop", "2nd", "x2nd", "mcp_server_9"))))
        uris = [uri for uri in list_published(merged)[0] if "{" not in uri]
        assert uris == ["my-shop+config://app", "x2nd+config://app", "x2nd2+config://app", "mcp-server-9+config://app"]
        # The Python SDK 1.x reads URIs by pydantic, and refuses the whole list for one that is none.
        assert [str(TypeAdapter(AnyUrl).validate_python(uri)) for uri in uris] == uris
        with background(asgi(merged)) as gateway, connect_sync(gateway, protocol="mcp") as remote:
            assert [remote.read_resource(uri) for uri in uris] == [Value("one")] * 4


def test_refreshed_upstream_keeps_its_resources() -> None:
    async def use(url: str) -> None:
        remote = await asyncio.to_thread(
            lambda: connect_without_user(url, Session(), protocol="mcp", agree=lambda _: True)
        )
        assert len(remote.catalog().features.resources) == 2
        assert await remote.refresh() == ()
        assert len(remote.catalog().features.resources) == 2
        assert await remote.read_resource("config://app") == Value("one")

    with background(asgi(build_shop("one"))) as url:
        asyncio.run(use(url))


def test_upstream_prompt_cannot_take_a_local_name() -> None:
    own = Toolkit("Own")

    @own.prompt(name="shop_greet")
    def mine() -> str:
        return "mine"

    with background(asgi(build_shop("theirs"))) as url:
        upstream = connect_without_user(url, Session(), protocol="mcp", agree=lambda _: True)
        merged = merge_toolboxes([upstream, FunctionToolbox(own)], names={0: "shop"})
        with background(asgi(merged)) as served, connect_sync(served, protocol="mcp") as remote:
            reply = remote.get_prompt("shop_greet")
            assert isinstance(reply, Value)
            assert reply.value["messages"][0]["content"] == "mine"


def test_two_local_toolkits_cannot_offer_the_same_prompt() -> None:
    first, second = FunctionToolbox(build_shop("one")), Toolkit("Other")

    @second.prompt
    def greet() -> str:
        return "again"

    with pytest.raises(DefinitionError, match="two of them offer the prompt 'greet'"):
        merge_toolboxes([first, FunctionToolbox(second)])


@pytest.mark.requirement("AT-51", "GW-05")
def test_resources_prompts_and_completions_count_against_the_limits_of_their_upstream() -> None:
    began, may_end = threading.Event(), threading.Event()
    kit = Toolkit("Shop")

    @kit.tool(safe=True, approval="auto")
    def tell() -> str:
        return "told"

    @kit.resource("slow://app")
    def slow() -> str:
        began.set()
        assert may_end.wait(20)
        return "slow"

    @kit.resource("notes://{name}")
    def note(name: Literal["ada", "bob"]) -> str:
        return name

    @kit.prompt
    def greet(name: str) -> str:
        return name

    def use(url: str) -> list[Kind | None]:
        """Return what became of a call, a reading and a prompt, each from a client of its own."""
        found: list[Kind | None] = []
        uses: list[Callable[[Any], Any]] = [
            lambda remote: remote.call("tell"),
            lambda remote: remote.read_resource("shop+notes://ada"),
            lambda remote: remote.get_prompt("shop_greet", {"name": "Ada"}),
        ]
        for one in uses:
            with connect_sync(url, protocol="mcp", agree=lambda _: True, retries=0) as remote:
                result = one(remote)
                found.append(result.kind if isinstance(result, Problem) else None)
        return found

    def read_slowly(url: str) -> Any:
        with connect_sync(url, protocol="mcp", agree=lambda _: True) as remote:
            return remote.read_resource("shop+slow://app")

    with background(asgi(kit)) as site:
        upstream = connect_without_user(site, Session(), protocol="mcp", agree=lambda _: True)
        limits = UpstreamLimits(rate=RateLimit.parse("5/1h"), running=1)
        merged = merge_toolboxes([upstream], names={0: "shop"}, limits={0: limits})
        with background(asgi(merged)) as url:
            with ThreadPoolExecutor(1) as pool:
                running = pool.submit(read_slowly, url)
                assert began.wait(20)
                assert use(url) == [Kind.OVERLOADED] * 3  # its one place is taken
                assert "is already running its maximum of" in str(ask_completion(url))
                may_end.set()
                assert running.result(20) == Value("slow")
            assert use(url) == [None] * 3
            assert "ada" in str(ask_completion(url))  # the fifth
            assert use(url) == [Kind.RATE_LIMITED] * 3
            assert "as often as its limit allows" in str(ask_completion(url))
            health = list_health(merged)[0]
            assert (health.calls, health.running) == (5, 0)


def ask_completion(url: str) -> Any:
    """Return what an MCP client gets for the beginning of a variable."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    }
    params = {
        "ref": {"type": "ref/resource", "uri": "shop+notes://{name}"},
        "argument": {"name": "name", "value": "a"},
        "_meta": meta,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "completion/complete", "params": params}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "completion/complete"}
    return httpx2.post(f"{url}/mcp", json=body, headers={**headers, "accept": "application/json"}).json()
