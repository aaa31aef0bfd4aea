"""Find a server of Open Tool Calling and its dialect, and make one call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolwire.core.codec import Finding, Flow, Peer, Probe, fetch
from toolwire.core.http import Headers, Request, Response
from toolwire.core.model import Call, Json, Kind, Problem, Result, Tool
from toolwire.core.url_origin import get_authority
from toolwire.framing.jsontext import read as read_json
from toolwire.framing.jsontext import write as write_json

from . import call_request, call_response, document
from .dialect import Dialect

_GET: Headers = ((b"accept", b"application/json"),)
_POST: Headers = ((b"accept", b"application/json"), (b"content-type", b"application/json"))
_OWN_PATHS = ("/tools/call", "/tools", "/call", "/health")


class InputMember:
    """The member of a request that holds the arguments, as the server read it last: ``input`` or ``inputs``."""

    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name: str = "input"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memo:
    """What calls need to know about a peer: its dialect, its own id of each tool by ours, and the member for input."""

    dialect: Dialect
    ids: Mapping[str, str]
    input_member: InputMember = field(default_factory=InputMember)


def find(url: str) -> Flow[Finding]:
    """Return the server of this family at ``url``, as pasted: with or without ``/tools``."""
    # C-8
    whole = url.strip().partition("#")[0].partition("?")[0].rstrip("/")
    base = _build_base(whole)
    found = yield from _find_at(base)
    if found.peer is not None or base == whole or found.probes[0].status not in (200, 404, 405):
        return found
    # A server below a path of this name, such as one that is mounted at /tools, has its list one step further.
    further = yield from _find_at(whole)
    return Finding(further.peer, (*found.probes, *further.probes))


def _find_at(base: str) -> Flow[Finding]:
    address = f"{base}/tools"
    response = yield from fetch(Request("GET", address, _GET))
    if isinstance(response, Problem):
        return _build_not_found(address, None, response.message)
    if response.status != 200:
        return _build_not_found(address, response.status, _describe_status(response.status))
    data = read_json(response.body)
    if isinstance(data, Problem):
        return _build_not_found(address, 200, "an answer that is not JSON, so no list of tools")
    host = get_authority(base)
    listing = document.read(data, host)
    if isinstance(listing, Problem):
        return _build_not_found(address, 200, listing.message)
    memo = Memo(dialect=listing.dialect, ids=listing.ids)
    meaning = f"{listing.dialect.title}; tools: {len(listing.catalog.tools)}"
    probe = Probe("otc", address, 200, meaning, accepted=True)
    has_call_ids = listing.dialect.stores_calls
    peer = Peer(
        protocol="otc",
        url=base,
        catalog=listing.catalog,
        deduplicates_calls=has_call_ids,
        memo=memo,
        findings=lambda: listing.findings,
    )
    return Finding(peer, (probe,))


def describe_plan(peer: Peer, tool: Tool) -> dict[str, str]:
    """Return what decides the requests of ``tool`` besides its definition: the id its server knows it by."""
    memo: Memo = peer.memo
    return {"id": memo.ids.get(tool.id, tool.id), "dialect": memo.dialect.title}


def send(peer: Peer, call: Call) -> Flow[Result]:
    """Return how ``call`` ended; where a path is not served nothing ran, and the dialect's next is tried."""
    #
    memo: Memo = peer.memo
    tool_id = call.tool.id
    tool_id = memo.ids.get(tool_id, tool_id)
    try:
        data = memo.dialect.write(call, tool_id)
        body = write_json(_rename_input(data, memo.input_member.name))
    except (TypeError, ValueError, RecursionError) as error:
        text = f"Cannot send the arguments of {call.tool.name}: {error}."
        return Problem(kind=Kind.INVALID_ARGUMENTS, message=text)
    result: Result = Problem(kind=Kind.NOT_FOUND, message="This server defines no path for calls.")
    credentials = (*call.context.tokens.values(), *call.context.secrets.values())
    for path in memo.dialect.paths:
        request = Request("POST", peer.url + path, _POST, body, call.call_id, credentials=credentials)
        response: Response | Problem = yield request
        if isinstance(response, Problem):
            return response
        if response.status == 422 and (other := _find_other_input(response, memo, call)):
            again: Response | Problem = yield request._replace(body=write_json(_rename_input(data, other)))
            if isinstance(again, Problem):
                return again
            if again.status != 422:
                memo.input_member.name, response = other, again
        result = _read_result(response, memo.dialect, call.call_id)
        if response.status not in (404, 405):
            break
    return result


def _find_other_input(response: Response, memo: Memo, call: Call) -> str:
    """Return the member to send the arguments in where the server did not find them, or ``""``.

    A 422 is sent before a tool runs, so the call can be sent again: the RFC says ``inputs`` in one place and ``input``
    in all others. A server that did not name the other member could run the tool without its arguments.
    """
    # I-30, A-31
    if not call.arguments or memo.dialect.write is not call_request.write:
        return ""
    other = "inputs" if memo.input_member.name == "input" else "input"
    return other if re.search(rb"\b%s\b" % other.encode(), response.body) else ""


def _rename_input(data: Json, member: str) -> Json:
    match data:
        case {"request": {"input": given, **request}} if member != "input":
            return {**data, "request": {**request, member: given}}
        case _:
            return data


def describe_target(peer: Peer, _call: Call) -> str:
    """Return the method and address of a call."""
    # XL-049
    memo: Memo = peer.memo
    return f"POST {peer.url}{memo.dialect.paths[0]}"


def _read_result(response: Response, dialect: Dialect, call_id: str) -> Result:
    if not 200 <= response.status < 300:
        return call_response.read_refusal(response, dialect.kinds)
    data = read_json(response.body)
    if isinstance(data, Problem):
        return Problem(kind=Kind.BAD_ANSWER, message=f"Cannot read the server's answer. {data.message}")
    return dialect.read(data, call_id)


def _build_base(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    path = slash + path
    for own in _OWN_PATHS:
        if path.endswith(own):
            path = path.removesuffix(own)
            break
    return f"{scheme}{mark}{host}{path.rstrip('/')}"


def _describe_status(status: int) -> str:
    if status in (401, 403):
        return "needs a key"
    if 300 <= status < 400:
        return "sends elsewhere"
    return "no list of tools here" if status in (404, 405) else f"answered {status}, so no list of tools"


def _build_not_found(address: str, status: int | None, meaning: str) -> Finding:
    return Finding(None, (Probe("otc", address, status, meaning),))
