"""Find an MCP server at a URL, and call its tools."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from toolwire.core.codec import Finding, Flow, Peer, Probe, add_confirmation, fetch
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import NO_REQUIREMENTS, Call, Json, Kind, Problem, Result, Tool
from toolwire.core.url_display import show_url
from toolwire.core.user_input import InputAction, InputRequest, InputResponse
from toolwire.framing import call_context, jsontext
from toolwire.framing.jsontext import get_object

from . import client_stream_resumption, document, elicitation, post_message, result, task_client
from .elicitation import WantedInput
from .handshake import SESSION_ENDED, list_tools, open_session, reopen_session
from .header_arguments import Mirror
from .headers import write_mirrored
from .post_message import Conversation, McpClientSession, Refused, is_message
from .revision import (
    CONFIRMATION_META,
    CONSENT_META,
    HANDSHAKE,
    LOG_LEVEL_META,
    RECEIPT_META,
    SESSION_HEADER,
    STATELESS,
)
from .stream_reader import fetch_answer

_FIRST_ID = "call"
_NOT_THERE = (404, 405)


def find(url: str, *, can_ask: bool = False) -> Flow[Finding]:
    """Return the MCP server at ``url`` or ``url``/mcp, if the response to a GET looks like one.

    Only then is the handshake made. It changes nothing except the server's own list of sessions.
    """
    # XL-005
    endpoint = _build_endpoint(url)
    if endpoint is None:
        return Finding(None, (Probe("mcp", url[:200], None, "is not a URL"),))
    probes: list[Probe] = []
    if not (yield from _looks_like_mcp(endpoint, probes)):
        return Finding(None, tuple(probes))
    return (yield from _open_endpoint(endpoint, probes, can_ask=can_ask))


def find_named(url: str, *, can_ask: bool = False) -> Flow[Finding]:
    """Return the MCP server at ``url`` or ``url``/mcp, if the user says that there is one.

    Many servers answer a GET with 404, or require credentials only for a POST. Not all have a path that ends with /mcp.
    """
    endpoint = _build_endpoint(url)
    if endpoint is None:
        return Finding(None, (Probe("mcp", url[:200], None, "is not a URL"),))
    probes: list[Probe] = []
    finding = yield from _open_endpoint(endpoint, probes, can_ask=can_ask)
    written = url.partition("#")[0]
    if finding.peer is not None or probes[-1].status not in _NOT_THERE or written.rstrip("/") == endpoint:
        return finding
    return (yield from _open_endpoint(written, probes, can_ask=can_ask))


def find_by_post(url: str, *, can_ask: bool = False) -> Flow[Finding]:
    """Return the MCP server at ``url`` or ``url``/mcp that only the response to a POST reveals.

    POST is used only for a path that ends with /mcp, and only if the GET before got a response. The message asks what
    the server is and changes nothing.
    """
    # XL-005
    endpoint = _build_endpoint(url)
    probes: list[Probe] = []
    if endpoint is None:
        return Finding(None)
    return (yield from _open_endpoint(endpoint, probes, can_ask=can_ask))


def _open_endpoint(endpoint: str, probes: list[Probe], *, can_ask: bool) -> Flow[Finding]:
    opened = yield from open_session(endpoint, probes, can_ask=can_ask)
    if opened is None:
        return Finding(None, tuple(probes))
    left_out: list[str] = []
    entries = yield from list_tools(opened.session, probes, left_out)
    if entries is None:
        return Finding(None, tuple(probes))
    catalog, findings = document.read(opened.server, opened.instructions, entries)
    peer = Peer(
        protocol="mcp",
        url=endpoint,
        catalog=catalog,
        site=catalog.title,
        memo=Conversation(opened.session),
        findings=lambda: (*left_out, *findings),
    )
    return Finding(peer, tuple(probes))


def send(peer: Peer, call: Call) -> Flow[Result]:
    """Return how ``call`` ended at ``peer``. This is one POST. If its stream ends early, the answer is fetched.

    If the server has ended the session, it did not accept the call. The call is then sent once more, in a new session.
    """
    conversation: Conversation = peer.memo
    used = conversation.find_session(call.tool) if conversation.asking_tools else conversation.session
    result = yield from _send(used, call)
    if result is None:
        if used in (conversation.session, conversation.asking):
            problem = yield from renew_session(conversation, used)
            if problem is not None:
                return problem
        return (yield from _send(conversation.find_session(call.tool), call)) or SESSION_ENDED
    if used.version == STATELESS and used.can_ask and call.context.takes_input and _is_failed_question(result):
        return (yield from _send_where_it_can_ask(conversation, call, result))
    return result


_WANTED_TO_ASK: Final = re.compile(
    r"(?=.*\belicitation\b).*\b(?:back-?channel|server-(?:initiated|to-client) requests?)\b", re.IGNORECASE | re.DOTALL
)
"""How the Python SDK 2, FastMCP and the TypeScript SDK 2 report that a tool asked in a way that 2026-07-28 removed."""

_PARTLY_DONE: Final = "Some of its work may be done already."
_RUN_AGAIN: Final = (
    "{} tried to ask you something before this connection allowed that, so it ended early. "
    f"{_PARTLY_DONE} Run it again?"
)


def _is_failed_question(result: Result) -> bool:
    return isinstance(result, Problem) and _WANTED_TO_ASK.match(result.message[:1_000]) is not None


def _send_where_it_can_ask(conversation: Conversation, call: Call, refused: Result) -> Flow[Result]:
    """Call a tool that asks its user in a call's stream, in a 2025-11-25 session with the same server.

    The server began to run the tool before it noticed that it cannot ask. The tool can have changed something, so the
    user decides whether to call it again.
    """
    tool = call.tool
    if conversation.asking is None:
        opened = yield from reopen_session(replace(conversation.session, version=HANDSHAKE[0], id=b""))
        if isinstance(opened, Problem):
            return refused
        if conversation.asking is None:
            conversation.asking = opened
        else:  # another call was faster
            yield from _end_surplus(opened)
    conversation.asking_tools.add(tool.id)
    if not tool.safe:
        # The bare action, if a user was asked: who was not (too many questions) has not declined.
        answer: InputAction | InputResponse = yield InputRequest(
            message=_RUN_AGAIN.format(tool.name), respond=lambda response: response.action
        )
        if answer in (InputAction.DECLINE, InputAction.CANCEL):
            text = f"{tool.name} was not run again, because the user did not allow it. {_PARTLY_DONE}"
            return Problem(kind=Kind.DENIED, message=text, details={"denied": True})
        if answer is not InputAction.ACCEPT:
            text = f"{tool.name} could not ask its user, so it ended early. Call it again: it can ask now."
            return Problem(kind=Kind.BAD_ANSWER, message=text, can_retry=True)
    return (yield from _send(conversation.asking, call)) or SESSION_ENDED


def renew_session(conversation: Conversation, ended: McpClientSession) -> Flow[Problem | None]:
    """Open a new session in place of ``ended``. Return why that failed, or None."""
    renewed = yield from reopen_session(ended)
    if isinstance(renewed, Problem):
        return renewed
    if conversation.session is ended:
        conversation.session = renewed
    elif conversation.asking is ended:
        conversation.asking = renewed
    else:  # another call was faster
        yield from _end_surplus(renewed)
    return None


def _end_surplus(session: McpClientSession) -> Flow[None]:
    """End ``session``, because one session is enough."""
    ending = post_message.write_end(session)
    if ending is not None:
        yield from fetch(ending)


def reuse_session(before: Peer, after: Peer) -> Flow[Peer]:
    """Return ``after``, found where ``before`` was. If the session of ``before`` has an open stream, it is kept.

    On that stream, the server asks and announces changes, so calls stay in its session. The session that was opened to
    fetch the lists ends. If requests need no session, the session for tools that ask is kept, together with their
    names.
    """
    # MC-06, MC-09
    earlier: Conversation = before.memo
    opened: Conversation = after.memo
    new = opened.session
    if (earlier.session.endpoint, earlier.session.version) != (new.endpoint, new.version):
        return after
    if new.version == STATELESS:
        earlier.session = new
        return replace(after, memo=earlier)
    if not earlier.has_listener:
        return after
    if new.id != earlier.session.id:
        yield from _end_surplus(new)
    return replace(after, memo=earlier)


def _send(session: McpClientSession, call: Call) -> Flow[Result | None]:
    """Return how ``call`` ended in ``session``, or None if the server does not know the session.

    If the server needs input, the user is asked, and the call is sent again with the answers.
    """
    tool, added = call.tool, dict[str, Json]()
    for number in range(elicitation.MAX_ROUNDS + 1):
        answer = yield from _post(session, call, added, number)
        if answer is None or isinstance(answer, Problem):
            return answer
        if not isinstance(answer, WantedInput) and answer.get("resultType") == "task":
            return task_client.read_started(session, tool, answer)
        wanted = answer if isinstance(answer, WantedInput) else None
        if not isinstance(answer, WantedInput):
            asked = elicitation.read_wanted(answer) if session.can_ask and session.version == STATELESS else None
            if asked is None or isinstance(asked, Problem):
                return asked or result.read(tool, answer)
            wanted = asked
        if wanted is None or number == elicitation.MAX_ROUNDS:
            break
        given = yield from elicitation.ask_user(wanted, tool.name)
        if isinstance(given, Problem):
            return given
        added = given
    return elicitation.build_endless(tool.name)


def _post(
    session: McpClientSession, call: Call, added: dict[str, Json], number: int
) -> Flow[dict[str, Json] | WantedInput | Problem | None]:
    """Send ``call`` with the parameters ``added``, as attempt ``number``, and return the result in the response."""
    id_ = call.call_id or _FIRST_ID
    if number:
        id_ = f"{id_}-{number}"  # another request of the same call, and so another id
    request, level = _build_request(session, call, added, id_), call.context.log_level
    response = yield from fetch_answer(request, session, id_, log_level=level)
    if isinstance(response, Problem):
        return response
    if response.status == 404 and session.id:
        return None
    if session.version != STATELESS:
        response = yield from client_stream_resumption.complete_stream(session, response, id_)
        if isinstance(response, Problem):
            return response
    answer = post_message.read(response, id_)
    if isinstance(answer, Refused):
        if answer.code == elicitation.URL_REQUIRED and session.can_ask:
            return elicitation.read_visits(answer.data)
        return post_message.build_problem(response, answer)
    return answer


def _build_request(session: McpClientSession, call: Call, added: dict[str, Json], id_: str) -> Request:
    tool = call.tool
    facts = get_object(tool.hints, "mcp")
    name = facts.get("name")
    params: dict[str, Json] = {
        "name": name if isinstance(name, str) else tool.name,
        "arguments": dict(call.arguments),
        **added,
    }
    meta: dict[str, Json] = {}
    if call.context.traceparent:
        meta["traceparent"] = call.context.traceparent
    if call.context.report is not None:  # the caller wants progress
        meta["progressToken"] = id_
    if call.context.log_level and session.version == STATELESS:
        meta[LOG_LEVEL_META] = call.context.log_level
    has_needs = tool.requirements is not NO_REQUIREMENTS
    if has_needs and (brought := call_context.write(call)):
        meta[call_context.META] = brought  # I-27
    if session.can_ask:
        meta[CONSENT_META] = True  # our user is asked for consent before the call is sent
    if meta:
        params["_meta"] = meta
    mirror: Mirror = facts.get("mirror", ()) if session.version == STATELESS else ()
    extra = write_mirrored(mirror, call.arguments) if mirror else ()
    # CR-01: the tool reports that it cannot ask, not that the user declined.
    can_ask = session.can_ask and call.context.takes_input
    request = post_message.write(session, "tools/call", params, id_, extra, can_ask=can_ask)
    return request._replace(credentials=call_context.list_credentials(call)) if has_needs else request


def cancel(peer: Peer, request: Request) -> Request | None:
    """Return the notification that ``request`` is cancelled, or None if closing its connection is enough.

    Up to 2025-11-25, a server must not treat a closed connection as a cancellation.
    """
    conversation: Conversation = peer.memo
    id_ = get_header(request.headers, SESSION_HEADER)
    session = conversation.asking if id_ and conversation.asking is not None else conversation.session
    message = jsontext.read(request.body)
    if session.version == STATELESS or not isinstance(message, dict) or message.get("method") != "tools/call":
        return None
    params: dict[str, Json] = {"requestId": message.get("id"), "reason": "The caller is no longer waiting."}
    session = replace(session, id=id_.encode())  # another call can have renewed it
    return post_message.write(session, "notifications/cancelled", params, None)


def confirm(request: Request, word: str, receipt: str) -> Request:
    """Return ``request`` with the token that confirms its call, and with a receipt. For a tool, they are in ``_meta``.

    The token is also in a header field, because servers of earlier versions look there.
    """
    # CC-06: a program on standard input and output sees no header fields.
    message = jsontext.read(request.body)
    if not isinstance(message, dict) or message.get("method") != "tools/call":
        return add_confirmation(request, word, receipt)
    params = get_object(message, "params")
    added: dict[str, Json] = {CONFIRMATION_META: word} | ({RECEIPT_META: receipt} if receipt else {})
    params = {**params, "_meta": {**get_object(params, "_meta"), **added}}
    return add_confirmation(request, word, "")._replace(body=jsontext.write({**message, "params": params}))


def end_session(peer: Peer) -> Request | None:
    """Return the request that ends the session at ``peer``, or None if the server has no sessions."""
    conversation: Conversation = peer.memo
    return post_message.write_end(conversation.asking or conversation.session)


def describe_target(peer: Peer, _: Call) -> str:
    """Return a call's method and URL. Every call of an MCP server is a POST to its single endpoint."""
    return f"POST {show_url(peer.url)}"


def describe_places(peer: Peer, call: Call) -> Mapping[str, str]:
    """Return where each argument is sent: in the body, and some also in a header."""
    # XL-049
    found = dict.fromkeys(call.arguments, "in the body")
    conversation: Conversation = peer.memo
    session = conversation.find_session(call.tool)
    for path, name in _get_mirror(call.tool) if session.version == STATELESS else ():
        if path and path[0] in found:
            found[path[0]] += f" and in the header {name.decode('latin-1')}"
    return found


def _looks_like_mcp(endpoint: str, probes: list[Probe]) -> Flow[bool]:
    """Send a GET that does not accept events, so that a server refuses instead of opening an endless stream."""
    response = yield from fetch(Request("GET", endpoint, ((b"accept", b"application/json"),)))
    if isinstance(response, Problem):
        probes.append(Probe("mcp", show_url(endpoint), None, response.message))
        return False
    mark = _find_mark(response)
    missing = "needs a key" if response.status in (401, 403) else "shows no mark of MCP"
    probes.append(Probe("mcp", show_url(endpoint), response.status, mark or missing))
    return mark is not None


def _find_mark(response: Response) -> str | None:
    """Return the part of a GET response that indicates MCP, or None."""
    if response.status == 405 and "POST" in get_header(response.headers, b"allow").upper():
        return "accepts only POST, as an MCP endpoint can"
    if response.status == 200 and get_header(response.headers, b"content-type").startswith("text/event-stream"):
        return "offers server-sent events, as an MCP endpoint may"
    if response.status in (400, 405, 406):
        text = response.body[:2_000].lower()
        if is_message(response):
            return "refuses a GET in JSON-RPC's words"
        if b"text/event-stream" in text or b"session id" in text:
            return "refuses a GET in MCP's words"
    return None


def _build_endpoint(url: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    path = parts.path.rstrip("/")
    # MC-13: a URL that ends with /sse is already an endpoint, of the older transport.
    if not path.endswith(("/mcp", "/sse")):
        path += "/mcp"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _get_mirror(tool: Tool) -> Mirror:
    fields: Mirror = get_object(tool.hints, "mcp").get("mirror", ())
    return fields
