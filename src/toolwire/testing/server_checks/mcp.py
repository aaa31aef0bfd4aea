"""The basic checks of MCP over streamable HTTP, by its handshake of 2025-11-25."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from toolwire.core.model import Json
from toolwire.framing.jsontext import describe_type, get_object

from .check import Check
from .probe import ProbeAnswer, ServerProbe

_VERSION: Final = "2025-11-25"
_ACCEPT: Final = {"accept": "application/json, text/event-stream", "mcp-protocol-version": _VERSION}
UNKNOWN_TOOL: Final = "toolwire_no_such_tool"


def _find_path(probe: ServerProbe) -> str:
    return "" if urlsplit(probe.base).path.endswith("/mcp") else "/mcp"


def _initialize(probe: ServerProbe) -> ProbeAnswer:
    about = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": {"name": "toolwire", "version": "0"}}
    answer: ProbeAnswer = probe.compute_once("initialize", lambda: _send(probe, "initialize", about, {}))
    return answer


def _send(probe: ServerProbe, method: str, params: Mapping[str, Json], headers: Mapping[str, str]) -> ProbeAnswer:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}
    return _read_event(probe.post(_find_path(probe), message, headers={**_ACCEPT, **headers}))


def _request(probe: ServerProbe, method: str, params: Mapping[str, Json] | None = None) -> ProbeAnswer:
    session = _initialize(probe).get_header("mcp-session-id")
    return _send(probe, method, params or {}, {"mcp-session-id": session} if session else {})


def _read_event(answer: ProbeAnswer) -> ProbeAnswer:
    """Return ``answer`` with the last message of its event stream as data; other answers are unchanged."""
    if not answer.get_header("content-type").startswith("text/event-stream"):
        return answer
    body = answer.response.body.decode("utf-8", "replace")
    lines = [line[5:].strip() for line in body.splitlines() if line.startswith("data:") and line[5:].strip()]
    try:
        return answer._replace(data=json.loads(lines[-1]), text=lines[-1])
    except (IndexError, ValueError):
        return answer


def _get_result(answer: ProbeAnswer) -> Mapping[str, Json]:
    return get_object(answer.members, "result")


def _check_initialize(probe: ServerProbe) -> str | None:
    answer = _initialize(probe)
    good = answer.status == 200 and isinstance(_get_result(answer).get("protocolVersion"), str)
    return None if good else f"initialize: {answer}"


def _check_server_info(probe: ServerProbe) -> str | None:
    info = get_object(_get_result(_initialize(probe)), "serverInfo")
    return None if isinstance(info.get("name"), str) and isinstance(info.get("version"), str) else "no serverInfo"


def _check_capabilities(probe: ServerProbe) -> str | None:
    able = get_object(_get_result(_initialize(probe)), "capabilities")
    return None if "tools" in able else 'its capabilities have no "tools"'


def _check_ping(probe: ServerProbe) -> str | None:
    answer = _request(probe, "ping")
    return None if answer.status == 200 and "result" in answer.members else f"ping: {answer}"


def _check_list(probe: ServerProbe) -> str | None:
    tools = _get_result(_request(probe, "tools/list")).get("tools")
    if not isinstance(tools, list):
        return f'"tools" is {describe_type(tools)}'
    for tool in tools:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            return f"a tool without a name: {tool!r}"
        if get_object(tool, "inputSchema").get("type") != "object":
            return f'{tool["name"]}: its inputSchema is not of the type "object"'
    names = [tool["name"] for tool in tools]
    return None if len(set(names)) == len(names) else "two tools have one name"


def _check_reply_id(probe: ServerProbe) -> str | None:
    reply = _request(probe, "ping").members
    return None if (reply.get("jsonrpc"), reply.get("id")) == ("2.0", 1) else f"the reply to ping: {reply}"


def _check_unknown_method(probe: ServerProbe) -> str | None:
    code = get_object(_request(probe, "toolwire/nothing").members, "error").get("code")
    return None if code == -32601 else f"an unknown method has the code {code!r}"


def _check_unknown_tool(probe: ServerProbe) -> str | None:
    answer = _request(probe, "tools/call", {"name": UNKNOWN_TOOL, "arguments": {}})
    failed = _get_result(answer).get("isError") is True or get_object(answer.members, "error").get("code") == -32602
    return None if failed and answer.status < 500 else f"an unknown tool: {answer}"


def _check_malformed_body(probe: ServerProbe) -> str | None:
    answer = probe.post(_find_path(probe), b"{not json", headers=_ACCEPT)
    return None if 400 <= answer.status < 500 else f"a body that is not JSON: {answer}"


def _check_notification(probe: ServerProbe) -> str | None:
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    session = _initialize(probe).get_header("mcp-session-id")
    headers = {**_ACCEPT, **({"mcp-session-id": session} if session else {})}
    answer = probe.post(_find_path(probe), message, headers=headers)
    return None if answer.status == 202 else f"a notification: {answer}"


def _check_other_origin(probe: ServerProbe) -> str | None:
    headers = {**_ACCEPT, "origin": "https://elsewhere.example"}
    answer = probe.post(_find_path(probe), {"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)
    return None if answer.status == 403 else f"a page of another site: {answer}"


def _check_key(probe: ServerProbe) -> str | None:
    answer = probe.post(
        _find_path(probe), {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, keyed=False, headers=_ACCEPT
    )
    return None if answer.status == 401 else f"without a key: {answer}"


def _check_call(probe: ServerProbe) -> str | None:
    tool, arguments = probe.call or (UNKNOWN_TOOL, {})
    answer = _request(probe, "tools/call", {"name": tool, "arguments": dict(arguments)})
    result = _get_result(answer)
    if not isinstance(result.get("content"), list):
        return f'there is no "content": {answer}'
    return None if result.get("isError") is not True else f"the call failed: {answer}"


CHECKS: Final = (
    Check("R17", "initialize returns a protocol version.", _check_initialize),
    Check("R17", "The server reports its name and version.", _check_server_info),
    Check("R17", 'The server declares the capability "tools".', _check_capabilities),
    Check("R17", "A notification gets 202.", _check_notification),
    Check("R17", "ping is answered.", _check_ping),
    Check("R17", "A response has the id of its request.", _check_reply_id),
    Check("R17", 'In tools/list, each tool has a unique name and an input schema of type "object".', _check_list),
    Check("R17", "An unknown method returns the error code -32601.", _check_unknown_method),
    Check("R17", "An unknown tool returns an error, but no 5xx.", _check_unknown_tool),
    Check("R17", "A body that is not JSON gets 4xx.", _check_malformed_body),
    Check("D-24", "A request from another origin gets 403.", _check_other_origin),
    Check("R17", "tools/list requires the key.", _check_key, needs_key=True),
    Check("R17", "The call succeeds, with content.", _check_call, needs_call=True),
)
