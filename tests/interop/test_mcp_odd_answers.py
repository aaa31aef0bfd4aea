"""Answers that do not fit what a tool's server says of them: no client loses one after the call has run."""

from __future__ import annotations

import asyncio
import json
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs
import pytest

from tests.interop.mcp_makers import CACHE, HERE, INSTALLED, MISSING, build_environment, start_node, start_python
from tests.support.upstreams import connect_without_user
from toolwire import Answer, Selection, Session, Toolkit, Value, asgi, connect, connect_sync, merge_toolboxes
from toolwire.consent import ClientRules
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Codec
from toolwire.core.model import Approval, Call, Result, Tool
from toolwire.core.toolbox import Notify, OutputPromise, ignore_progress
from toolwire.limits import ClientRateLimits
from toolwire.protocols import BUILTIN
from toolwire.protocols.openapi.tools.operations import read_operations
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

WAIT_S = 120
JSON, TEXT = "application/json", "text/plain"

pytestmark = pytest.mark.requirement("O-21")

CLIENTS = {
    "python-sdk-1": (start_python("call_all.py", "python_sdk_1"), {}),
    "python-sdk-2-auto": (start_python("call_all.py", ""), {"mode": "auto"}),
    "python-sdk-2-legacy": (start_python("call_all.py", ""), {"mode": "legacy"}),
    "typescript-sdk-1": (start_node(HERE / "call_all.mjs"), {"packages": str(CACHE), "sdk": "sdk"}),
    "typescript-sdk-2-auto": (
        start_node(HERE / "call_all.mjs"),
        {"packages": str(CACHE), "sdk": "client", "mode": "auto"},
    ),
    "typescript-sdk-2-legacy": (
        start_node(HERE / "call_all.mjs"),
        {"packages": str(CACHE), "sdk": "client", "mode": "legacy"},
    ),
}
needs_clients = pytest.mark.skipif(not INSTALLED, reason=MISSING)
each_client = pytest.mark.parametrize("client", CLIENTS)


def call_all(client: str, url: str, home: Path) -> dict[str, Any]:
    """Return what each tool of the server at ``url`` answered to ``client``, by name."""
    command, message = CLIENTS[client]
    done = subprocess.run(
        [*command, json.dumps({"url": f"{url}/mcp", **message})],
        env=build_environment(home),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


ORDER: dict[str, Any] = {
    "type": "object",
    "required": ["id", "note"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": "string"},
        "state": {"enum": ["open", "paid"]},
        "lines": {
            "type": "array",
            "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
        },
    },
}
FITTING: dict[str, Any] = {"id": 7, "note": "n", "state": "open", "lines": [{"n": 1}]}
SCHEMAS: dict[str, tuple[Any, Any]] = {
    "object": (ORDER, FITTING),
    "list": ({"type": "array", "items": ORDER}, [FITTING]),
    "text": ({"type": "string"}, "text"),
    "number": ({"type": "integer", "minimum": 1}, 3),
    "choice": ({"oneOf": [ORDER, {"type": "string", "enum": ["none"]}]}, "none"),
}


class Response(NamedTuple):
    """One answer of an API."""

    status: int
    media_type: str
    body: bytes


def edit(value: Any) -> Iterator[Any]:
    """Yield ``value`` with one edit: a part gone, added, null, or of another kind."""
    yield from (None, [], {}, "other", "7", 7, True, -0.5)
    if isinstance(value, dict):
        yield {**value, "more": {"deep": [1]}}
        for name, inner in value.items():
            yield {key: one for key, one in value.items() if key != name}
            for changed in edit(inner):
                yield {**value, name: changed}
    elif isinstance(value, list):
        yield [*value, *value]
        for number, inner in enumerate(value):
            for changed in edit(inner):
                yield [*value[:number], changed, *value[number + 1 :]]


def list_answers(fitting: Any) -> Iterator[Response]:
    """Yield the answers that are one edit away from ``fitting``: in the value, the status or the media type."""
    for value in edit(fitting):
        yield Response(200, JSON, json.dumps(value).encode())
    yield Response(202, JSON, b'{"job":"x"}')
    yield Response(204, "", b"")
    yield Response(200, JSON, b"")
    yield Response(200, TEXT, b"OK")
    yield Response(200, TEXT, b"7")
    yield Response(200, "text/html", b"<p>OK</p>")
    yield Response(200, JSON, b"{not json")


class Api:
    """An API whose document promises a schema for each operation, and whose answers differ. ``calls`` counts them."""

    def __init__(self) -> None:
        self.answers: dict[str, Response] = {}
        self.calls = dict[str, int]()
        paths: dict[str, Any] = {}
        for kind, (schema, fitting) in SCHEMAS.items():
            for number, answer in enumerate(list_answers(fitting)):
                name = f"{kind}_{number}"
                self.answers[f"/{name}"] = answer
                reply = {"200": {"description": "ok", "content": {JSON: {"schema": schema}}}}
                paths[f"/{name}"] = {"post": {"operationId": name, "responses": reply}}
        self.document = {"openapi": "3.1.0", "info": {"title": "Odd", "version": "1"}, "paths": paths}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        answer = self.answers.get(path)
        if path == "/openapi.json":
            answer = Response(200, JSON, json.dumps(self.document).encode())
        elif answer is not None:
            self.calls[path] = self.calls.get(path, 0) + 1
        status, media_type, body = answer or Response(404, TEXT, b"")
        headers = [(b"content-type", media_type.encode())] if media_type else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def api() -> Api:
    return Api()


@pytest.fixture(scope="module")
def document(api: Api) -> Iterator[str]:
    with background(api) as there:
        yield f"{there}/openapi.json"


@pytest.fixture(scope="module")
def direct(document: str) -> dict[str, Any]:
    """What our own client gets from the API by each tool, as data."""
    with connect_sync(document, session=UNLIMITED, selection=EVERYTHING, approve=allow) as remote:
        return {tool.name: to_data(remote.call(tool.name, {})) for tool in remote.tools}


@pytest.fixture(scope="module")
def front(document: str) -> Iterator[str]:
    """A server in front of the API."""
    with background(asgi(connect_without_user(document, UNLIMITED, selection=EVERYTHING, approve=allow))) as url:
        yield url


UNLIMITED = Session(limits=ClientRateLimits(tool=None, connection=None), rules=ClientRules(questions_a_minute=100_000))
EVERYTHING = Selection(include="all")


def allow(_: object) -> Answer:
    return Answer(True)


def to_data(result: Result) -> Any:
    return result.value if isinstance(result, Value) else {"problem": result.message}


@needs_clients
@each_client
def test_no_client_loses_an_odd_answer_of_an_api(
    client: str, api: Api, direct: dict[str, Any], front: str, tmp_path: Path
) -> None:
    api.calls.clear()
    reply = call_all(client, front, tmp_path)
    assert reply.keys() == direct.keys()
    assert api.calls == dict.fromkeys(api.answers, 1)
    assert [name for name, result in reply.items() if "lost" in result] == []
    for name, result in reply.items():
        text = result["content"][0]["text"]
        if isinstance(direct[name], dict) and "problem" in direct[name]:
            assert (result["isError"], text) == (True, direct[name]["problem"])
            continue
        assert not result.get("isError")
        value = direct[name]
        assert text == value if isinstance(value, str) else json.loads(text) == value
        assert result.get("structuredContent") == (value if isinstance(value, dict) else None)


@pytest.mark.parametrize("codec", BUILTIN, ids=lambda codec: codec.name)
def test_each_protocol_brings_an_odd_answer_of_an_api(codec: Codec, direct: dict[str, Any], front: str) -> None:
    with connect_sync(front, protocol=codec.name, session=UNLIMITED, approve=allow) as remote:
        reply = {tool.name: to_data(remote.call(tool.name, {})) for tool in remote.tools}
    wanted = dict(direct)
    if codec.name == "opentool":  # its results are objects, and a tool of objects does not say that one is made up
        odd = {name: value for name, value in direct.items() if name[:7] == "object_" and not isinstance(value, dict)}
        wanted |= {name: {} if value is None else {"result": value} for name, value in odd.items()}
    assert reply == wanted


def list_results() -> Iterator[dict[str, Any]]:
    """Yield results of an MCP tool that promises ``ORDER``, each one edit away from it."""
    for value in edit(FITTING):
        result = {"content": [{"type": "text", "text": json.dumps(value)}]}
        yield {**result, "structuredContent": value} if isinstance(value, dict) else result
    yield {"content": []}
    yield {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}


CIRCLE = {"type": "object", "anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}


class Upstream:
    """An MCP server whose tools break their own output schemas. ``calls`` are the names of the tools that ran."""

    def __init__(self, results: dict[str, Any] | None = None) -> None:
        self.results: dict[str, Any] = results or {
            **{f"order_{number}": result for number, result in enumerate(list_results())},
            "fits": {"content": [{"type": "text", "text": "Done."}], "structuredContent": FITTING},
            "circle": {"content": [{"type": "text", "text": "{}"}], "structuredContent": {}},
        }
        self.calls: list[str] = []

    def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        if method == "initialize":
            server = {"name": "odd", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
        if method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}, "outputSchema": ORDER} for name in self.results]
            schemas = {"circle": {"outputSchema": CIRCLE}, "unpromised": {"outputSchema": None}}
            return {"tools": [tool | schemas.get(tool["name"], {}) for tool in tools]}
        self.calls.append(params["name"])
        return self.results[params["name"]]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            piece = await receive()
            body += piece.get("body", b"")
            if not piece.get("more_body"):
                break
        asked = json.loads(body) if body else {}
        known = asked.get("method") in ("initialize", "tools/list", "tools/call")
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.get("id")}
        if known:
            answer["result"] = self.answer(asked["method"], asked.get("params", {}))
        else:
            answer["error"] = {"code": -32601, "message": "no"}
        status = 405 if scope["method"] != "POST" else 200 if "id" in asked else 202
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", JSON.encode())]})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode() if status == 200 else b""})


@needs_clients
@each_client
def test_no_client_loses_what_breaks_the_schema_of_an_upstream(client: str, tmp_path: Path) -> None:
    upstream = Upstream()
    with background(upstream) as there:
        toolbox = connect_without_user(f"{there}/mcp", UNLIMITED, protocol="mcp", approve=allow)
        with background(asgi(toolbox)) as url:
            reply = call_all(client, url, tmp_path)
    assert sorted(upstream.calls) == sorted(upstream.results)
    assert [name for name, result in reply.items() if "lost" in result] == []
    assert reply["fits"]["structuredContent"] == FITTING
    assert not reply["fits"].get("isError")
    assert reply["circle"]["structuredContent"] == {}
    for name, result in reply.items():
        if result.get("isError"):
            assert result["content"][0]["text"].startswith("The call has run. Its result does not fit the schema")
            assert "structuredContent" not in result or result["structuredContent"] is None
            assert len(result["content"]) == 2
        assert result.get("isError") or jsonschema_rs.is_valid(ORDER, result["structuredContent"]) or name == "circle"


def test_what_is_promised_and_what_is_a_hint() -> None:
    kit = Toolkit("Own")

    @kit.tool(approval="auto")
    def read() -> dict[str, int]:
        """Read."""
        return {"a": 1}

    @kit.tool(approval="auto")
    def say() -> str:
        """Say a text."""
        return "7"

    upstream = Upstream()
    upstream.results = {"fits": upstream.results["fits"]}
    with background(upstream) as there, background(Api()) as api:
        boxes = [
            FunctionToolbox(kit),
            connect_without_user(f"{there}/mcp", UNLIMITED, protocol="mcp", approve=allow),
            connect_without_user(f"{api}/openapi.json", UNLIMITED, selection=EVERYTHING, approve=allow),
        ]
        with background(asgi(merge_toolboxes(boxes))) as url, connect_sync(f"{url}/mcp", session=UNLIMITED) as remote:
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            request = urllib.request.Request(f"{url}/mcp", json.dumps(asked).encode(), {"content-type": JSON})
            with urllib.request.urlopen(request) as response:
                listed = {tool["name"]: tool for tool in json.load(response)["result"]["tools"]}
            reply = remote.call("say", {})
            known = {tool.name: tool.output_schema for tool in remote.tools}
    assert {name for name, tool in listed.items() if "outputSchema" in tool} == {"read", "fits"}
    assert listed["fits"]["outputSchema"] == ORDER
    assert known["object_0"]["properties"] == ORDER["properties"]
    assert reply == Value("7")


class ShapeToolbox:
    """A tool of a document whose answer is a parent with branches that extend it, or extends itself."""

    def __init__(self) -> None:
        reference = "#/components/schemas/"
        branches = {
            name: {
                "allOf": [
                    {"$ref": f"{reference}Shape"},
                    {"type": "object", "required": [side], "properties": {side: {"type": "number"}}},
                ]
            }
            for name, side in (("Circle", "r"), ("Square", "side"))
        }
        shape = {
            "type": "object",
            "required": ["kind"],
            "properties": {"kind": {"type": "string"}},
            "oneOf": [{"$ref": f"{reference}{name}"} for name in branches],
            "discriminator": {"propertyName": "kind"},
        }
        own = {"type": "object", "allOf": [{"$ref": f"{reference}Own"}], "properties": {"kind": {"type": "string"}}}
        paths = {}
        for name in ("Shape", "Own"):
            content = {JSON: {"schema": {"$ref": f"{reference}{name}"}}}
            responses = {"200": {"description": "ok", "content": content}}
            paths[f"/{name}"] = {"get": {"operationId": name.lower(), "responses": responses}}
        document = {
            "openapi": "3.0.3",
            "info": {"title": "Shapes", "version": "1"},
            "servers": [{"url": "https://shapes.test"}],
            "paths": paths,
            "components": {"schemas": {"Shape": shape, "Own": own, **branches}},
        }
        offer = read_operations(document, "https://shapes.test/openapi.json", Selection(include="all"))
        tools = [replace(one, safe=True, approval=Approval.AUTO) for one in offer.catalog.tools]
        self._catalog = Catalog(title="Shapes", tools=tuple(tools))

    def catalog(self) -> Catalog:
        """Return the two tools."""
        return self._catalog

    def judge_output(self, _tool: Tool) -> OutputPromise:
        """Return what a connection to an API returns."""
        return OutputPromise.FOREIGN

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Return a circle."""
        return Value({"kind": "circle", "r": 1})


@needs_clients
@pytest.mark.requirement("O-26")
@each_client
def test_no_client_loses_an_answer_whose_schema_leads_back_to_itself(client: str, tmp_path: Path) -> None:
    with background(asgi(ShapeToolbox())) as url:
        reply = call_all(client, url, tmp_path)
    assert sorted(reply) == ["own", "shape"]
    for one in reply.values():
        assert "lost" not in one, one
        assert json.loads(one["content"][0]["text"]) == {"kind": "circle", "r": 1}


IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
LONG = "x" * 5_000
FAILURES: dict[str, dict[str, Any]] = {
    "text": {"content": [{"type": "text", "text": "No."}]},
    "data_too": {"content": [{"type": "text", "text": "No."}], "structuredContent": {"code": 7}},
    "unpromised": {"content": [{"type": "text", "text": "No."}], "structuredContent": {"code": 7}},
    "image": {"content": [IMAGE]},
    "both": {"content": [{"type": "text", "text": "No."}, IMAGE]},
    "long": {"content": [{"type": "text", "text": LONG}]},
    "meta": {"content": [{"type": "text", "text": "No."}], "_meta": {"vendor/x": [1]}},
}


@needs_clients
@each_client
def test_no_client_loses_what_came_with_a_failure_of_an_upstream(client: str, tmp_path: Path) -> None:
    upstream = Upstream({name: {**one, "isError": True} for name, one in FAILURES.items()})
    with background(upstream) as there:
        toolbox = connect_without_user(f"{there}/mcp", UNLIMITED, protocol="mcp", approve=allow)
        with background(asgi(toolbox)) as url:
            reply = call_all(client, url, tmp_path)
    for name, sent in FAILURES.items():
        assert reply[name]["isError"]
        blocks = [{key: one for key, one in block.items() if one is not None} for block in reply[name]["content"]]
        promised = [{"type": "text", "text": '{"code":7}'}] if name == "data_too" else []
        assert blocks == sent["content"] + promised
        if name == "unpromised":
            assert reply[name]["structuredContent"] == {"code": 7}
        assert sent.get("_meta", {}).items() <= (reply[name].get("_meta") or {}).items()


ODD_BLOCKS: dict[str, list[Any]] = {
    "no_text": [{"type": "text"}],
    "null_text": [{"type": "text", "text": None}],
    "no_data": [{"type": "image"}],
    "nothing": [{}],
    "no_type": [{"text": "No."}],
    "no_objects": ["No.", 7, None, [1]],
    "mixed": [{"type": "text", "text": "No."}, {"type": "text"}, "more", {"type": "resource"}],
    "number": [{"type": "text", "text": 7}],
}


def list_odd_results() -> dict[str, dict[str, Any]]:
    """Return results, by name, whose blocks lack what their type needs: failed, complete, and with an object."""
    results: dict[str, dict[str, Any]] = {}
    for name, content in ODD_BLOCKS.items():
        results[f"failed_{name}"] = {"content": content, "isError": True}
        results[f"plain_{name}"] = {"content": content}
        results[f"structured_{name}"] = {"content": content, "structuredContent": FITTING}
    return results


@needs_clients
@each_client
def test_no_client_loses_a_result_of_incomplete_blocks(client: str, tmp_path: Path) -> None:
    upstream = Upstream(list_odd_results())
    with background(upstream) as there:
        toolbox = connect_without_user(f"{there}/mcp", UNLIMITED, protocol="mcp", approve=allow)
        with background(asgi(toolbox)) as url:
            reply = call_all(client, url, tmp_path)
    assert sorted(upstream.calls) == sorted(upstream.results)
    assert [name for name, result in reply.items() if "lost" in result] == []
    for name in ODD_BLOCKS:
        assert reply[f"failed_{name}"]["isError"]
        assert not reply[f"structured_{name}"].get("isError")
        assert reply[f"structured_{name}"]["structuredContent"] == FITTING


def call_each_async(url: str, names: Iterable[str]) -> dict[str, Any]:
    async def call_each() -> dict[str, Any]:
        async with connect(f"{url}/mcp", protocol="mcp", session=UNLIMITED, approve=allow) as remote:
            return {name: await remote.call(name) for name in names}

    return asyncio.run(call_each())


def call_each(url: str, names: Iterable[str]) -> dict[str, Any]:
    with connect_sync(f"{url}/mcp", protocol="mcp", session=UNLIMITED, approve=allow) as remote:
        return {name: remote.call(name) for name in names}


@pytest.mark.parametrize("through_gateway", [False, True])
@pytest.mark.parametrize("call", [call_each, call_each_async])
def test_our_client_reads_incomplete_blocks(call: Any, *, through_gateway: bool) -> None:
    upstream = Upstream(list_odd_results())
    with background(upstream) as url, ExitStack() as stack:
        if through_gateway:
            toolbox = connect_without_user(f"{url}/mcp", UNLIMITED, protocol="mcp", approve=allow)
            url = stack.enter_context(background(asgi(toolbox)))  # noqa: PLW2901
        found = call(url, upstream.results)
    failed = {name: found[f"failed_{name}"].message for name in ODD_BLOCKS}
    assert failed["no_text"] == "failed_no_text failed without a reason."
    assert failed["null_text"] == "failed_null_text failed without a reason."
    assert (failed["no_type"], failed["no_objects"]) == ("No.", "No.\n7\nnull\n[1]")
    assert failed["mixed"].startswith("No.\n\nmore")
    assert failed["no_data"] == "failed_no_data failed without a reason."
    assert all(found[f"structured_{name}"].unwrap() == FITTING for name in ODD_BLOCKS)
    assert all(isinstance(found[f"plain_{name}"], Value) or through_gateway for name in ODD_BLOCKS)


def test_our_client_reads_failures_and_results_of_any_form() -> None:
    text = [{"type": "text", "text": "Done."}]
    failures = {"data": {"structuredContent": {"code": 7}}, "image": FAILURES["image"], "text": FAILURES["text"]}
    odd = {
        "no_list": {"content": text[0]},
        "plain": {"content": "Done."},
        "null": {"content": None, "structuredContent": {"a": 1}},
        "not_an_object": "Done.",
    }
    upstream = Upstream({**{name: {**one, "isError": True} for name, one in failures.items()}, **odd})
    with background(upstream) as url, connect_sync(f"{url}/mcp", protocol="mcp", approve=allow) as remote:
        found: dict[str, Any] = {name: remote.call(name) for name in upstream.results}
    assert [found[name] for name in ("no_list", "plain", "not_an_object")] == [Value("Done.")] * 3
    assert found["null"] == Value({"a": 1})
    assert found["data"].message == 'data failed: {"code":7}'
    assert found["data"].details == {"mcp": {"structuredContent": {"code": 7}}}
    assert found["image"].details == {"mcp": {"content": [IMAGE]}}
    assert (found["text"].message, found["text"].details) == ("No.", {})
