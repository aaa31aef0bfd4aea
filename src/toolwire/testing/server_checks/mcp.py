"""The basic checks of MCP over streamable HTTP, by its handshake of 2025-11-25."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from toolwire.core.model import Json
from toolwire.framing.jsontext import describe_type, get_object

from .check import Check, Skip
from .probe import ProbeAnswer, ServerProbe

_VERSION: Final = "2025-11-25"
_ACCEPT: Final = {"accept": "application/json, text/event-stream", "mcp-protocol-version": _VERSION}
NOBODY: Final = "toolwire_no_such_tool"


def _path(ask: ServerProbe) -> str:
    return "" if urlsplit(ask.base).path.endswith("/mcp") else "/mcp"


def _greeted(ask: ServerProbe) -> ProbeAnswer:
    about = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": {"name": "toolwire", "version": "0"}}
    answer: ProbeAnswer = ask.once("initialize", lambda: _send(ask, "initialize", about, {}))
    return answer


def _send(ask: ServerProbe, method: str, params: Mapping[str, Json], headers: Mapping[str, str]) -> ProbeAnswer:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}
    return _heard(ask.post(_path(ask), message, headers={**_ACCEPT, **headers}))


def _rpc(ask: ServerProbe, method: str, params: Mapping[str, Json] | None = None) -> ProbeAnswer:
    session = _greeted(ask).header("mcp-session-id")
    return _send(ask, method, params or {}, {"mcp-session-id": session} if session else {})


def _heard(answer: ProbeAnswer) -> ProbeAnswer:
    """Return the one message of a stream of events as if it had come whole."""
    if not answer.header("content-type").startswith("text/event-stream"):
        return answer
    body = answer.response.body.decode("utf-8", "replace")
    lines = [line[5:].strip() for line in body.splitlines() if line.startswith("data:") and line[5:].strip()]
    try:
        return answer._replace(data=json.loads(lines[-1]), text=lines[-1])
    except (IndexError, ValueError):
        return answer


def _result(answer: ProbeAnswer) -> Mapping[str, Json]:
    return get_object(answer.members, "result")


def _initializes(ask: ServerProbe) -> str | None:
    answer = _greeted(ask)
    good = answer.status == 200 and isinstance(_result(answer).get("protocolVersion"), str)
    return None if good else f"initialize: {answer}"


def _says_who(ask: ServerProbe) -> str | None:
    info = get_object(_result(_greeted(ask)), "serverInfo")
    return None if isinstance(info.get("name"), str) and isinstance(info.get("version"), str) else "no serverInfo"


def _has_tools(ask: ServerProbe) -> str | None:
    able = get_object(_result(_greeted(ask)), "capabilities")
    return None if "tools" in able else "its capabilities name no tools"


def _pings(ask: ServerProbe) -> str | None:
    answer = _rpc(ask, "ping")
    return None if answer.status == 200 and "result" in answer.members else f"ping: {answer}"


def _lists(ask: ServerProbe) -> str | None:
    tools = _result(_rpc(ask, "tools/list")).get("tools")
    if not isinstance(tools, list):
        return f'"tools" is {describe_type(tools)}'
    for tool in tools:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            return f"a tool without a name: {tool!r}"
        if get_object(tool, "inputSchema").get("type") != "object":
            return f'{tool["name"]}: its inputSchema is not of the type "object"'
    names = [tool["name"] for tool in tools]
    return None if len(set(names)) == len(names) else "two tools have one name"


def _echoes(ask: ServerProbe) -> str | None:
    said = _rpc(ask, "ping").members
    return None if (said.get("jsonrpc"), said.get("id")) == ("2.0", 1) else f"a reply: {said}"


def _unknown_method(ask: ServerProbe) -> str | None:
    code = get_object(_rpc(ask, "toolwire/nothing").members, "error").get("code")
    return None if code == -32601 else f"an unknown method has the code {code!r}"


def _unknown_tool(ask: ServerProbe) -> str | None:
    answer = _rpc(ask, "tools/call", {"name": NOBODY, "arguments": {}})
    failed = _result(answer).get("isError") is True or get_object(answer.members, "error").get("code") == -32602
    return None if failed and answer.status < 500 else f"an unknown tool: {answer}"


def _malformed(ask: ServerProbe) -> str | None:
    answer = ask.post(_path(ask), b"{not json", headers=_ACCEPT)
    return None if 400 <= answer.status < 500 else f"no JSON: {answer}"


def _notified(ask: ServerProbe) -> str | None:
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    session = _greeted(ask).header("mcp-session-id")
    headers = {**_ACCEPT, **({"mcp-session-id": session} if session else {})}
    answer = ask.post(_path(ask), message, headers=headers)
    return None if answer.status == 202 else f"a notification: {answer}"


def _other_site(ask: ServerProbe) -> str | None:
    headers = {**_ACCEPT, "origin": "https://elsewhere.example"}
    answer = ask.post(_path(ask), {"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)
    return None if answer.status == 403 else f"a page of another site: {answer}"


def _needs_key(ask: ServerProbe) -> str | Skip | None:
    if not ask.has_key:
        return Skip("it is asked without a key")
    answer = ask.post(_path(ask), {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, keyed=False, headers=_ACCEPT)
    return None if answer.status == 401 else f"without a key: {answer}"


def _calls(ask: ServerProbe) -> str | None:
    tool, arguments = ask.call or (NOBODY, {})
    answer = _rpc(ask, "tools/call", {"name": tool, "arguments": dict(arguments)})
    result = _result(answer)
    if not isinstance(result.get("content"), list):
        return f'there is no "content": {answer}'
    return None if result.get("isError") is not True else f"it did not succeed: {answer}"


CHECKS: Final = (
    Check("R17", "initialize answers with a version of the protocol.", _initializes),
    Check("R17", "The server says its name and version.", _says_who),
    Check("R17", "The server says that it has tools.", _has_tools),
    Check("R17", "A notification is answered 202.", _notified),
    Check("R17", "ping is answered.", _pings),
    Check("R17", "A reply has the id of its request.", _echoes),
    Check("R17", "tools/list gives each tool a name of its own, and a schema of an object.", _lists),
    Check("R17", "An unknown method has the code -32601.", _unknown_method),
    Check("R17", "An unknown tool is an error, and no failure of the server.", _unknown_tool),
    Check("R17", "A body that is no JSON is a 4xx.", _malformed),
    Check("D-24", "A page of another site is answered 403.", _other_site),
    Check("R17", "The tools need the key.", _needs_key),
    Check("R17", "The call succeeds, with content.", _calls, needs_call=True),
)
