"""Show one call in the words of each protocol: the request that a client of it sends, and the response it gets.

Both halves of the protocol write them: the client half the request, the server half the response to a known result. No
tool runs here, and nothing is sent.
"""
# CO-01

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from toolwire.core.catalog import Catalog
from toolwire.core.codec import (
    BlockingTask,
    CallQuery,
    Codec,
    Flow,
    Listen,
    Peer,
    Pending,
    Reading,
    Routes,
    SessionStart,
    Site,
    Streaming,
    Subscription,
)
from toolwire.core.http import Request, Response
from toolwire.core.model import Call, Json, Problem, Progress, Result

ServedProtocols: TypeAlias = Sequence[tuple[Codec, Routes]]
"""Each protocol with its paths."""

_LEFT_OUT_FIELDS = frozenset((b"host", b"user-agent", b"content-length", b"accept-encoding", b"connection"))
_MAX_BYTES = 20_000
_MAX_STEPS = 20


class ProtocolExchange(NamedTuple):
    """The request of a call on one protocol, and what writes the response to a result."""

    title: str
    name: str
    request: Request
    reading: Reading

    def write_request(self) -> str:
        """Return the request as text: its line, the header fields that matter, and the body."""
        fields = [f"{name.decode('latin-1')}: {value.decode('latin-1')}" for name, value in self._list_fields()]
        return "\n".join([f"{self.request.method} {self.request.url}", *fields, *_show_body(self.request.body)])

    def write_notices(self, progress: Sequence[Progress]) -> str:
        """Return the messages that a stream of this protocol has for ``progress``, as text; none without a stream."""
        if not isinstance(self.reading, Streaming):
            return ""
        return _cut(b"".join(self.reading.frame(one) for one in progress)).strip()

    def write_response(self, result: Result, duration_ms: float) -> str:
        """Return the response to ``result`` as text."""
        reading = self.reading
        if isinstance(reading, Streaming):
            return _cut(reading.opening + reading.closing(result, duration_ms))
        if isinstance(reading, (Subscription, CallQuery)):  # no request of the page is one
            return ""
        reading = reading.stateless if isinstance(reading, SessionStart) else reading
        response = reading.reply(result, duration_ms) if isinstance(reading, Pending) else reading
        kinds = [value.decode("latin-1") for name, value in response.headers if name == b"content-type"]
        lines = [f"HTTP {response.status}", *(f"content-type: {kind}" for kind in kinds)]
        shown = _show_body(response.body) if _is_text(kinds) else ["", f"({len(response.body):,} bytes)"]
        return "\n".join([*lines, *shown])

    def write_curl(self, *, needs_key: bool) -> str:
        """Return the request as a command; ``needs_key`` adds the key of the caller as a variable of the shell."""
        parts = ["curl", *([] if self.request.method == "GET" else ["-X", self.request.method]), self.request.url]
        command = " ".join(shlex.quote(part) for part in parts)
        for name, value in self._list_fields():
            command += " \\\n  -H " + shlex.quote(f"{name.decode('latin-1')}: {value.decode('latin-1')}")
        if needs_key:
            command += ' \\\n  -H "authorization: Bearer $KEY"'
        if self.request.body:
            command += f" \\\n  -d {shlex.quote(self.request.body.decode('utf-8', 'replace'))}"
        return command

    def _list_fields(self) -> list[tuple[bytes, bytes]]:
        return [(name, value) for name, value in self.request.headers if name.lower() not in _LEFT_OUT_FIELDS]


def write_python(url: str, name: str, arguments: Json, *, asks: bool, needs_key: bool) -> str:
    """Return a program that calls the tool ``name`` at ``url``; ``asks``: the call needs an approver."""
    options = [', api_key="..."'] if needs_key else []
    imports = ["from toolwire import connect_sync"]
    if asks:
        imports.append("from toolwire.client.approvers.browser_approver import page_approver")
        options.append(", approve=page_approver()")
    call = f"remote.call({name!r}, {arguments!r})"
    return "\n".join(
        [*imports, "", f"with connect_sync({url!r}{''.join(options)}) as remote:", f"    print({call}.unwrap())"]
    )


def build_exchanges(
    catalog: Catalog, codecs: Sequence[Codec], site: Site, base: str, call: Call
) -> list[ProtocolExchange]:
    """Return how ``call`` looks on each of ``codecs`` at ``base``; a protocol that cannot express it is left out."""
    # A catalog of one tool is read at once, whatever else is served; its unique name may be another one there.
    small = replace(catalog, tools=(call.tool,))
    shown = small if set(small.names) <= set(catalog.names) else catalog
    site = replace(site, can_offload=False)  # lists are read here at once
    found = []
    for codec in codecs:
        routes = codec.routes(shown, site)
        peer = _find_peer(codec, routes, site, base)
        tool = None if peer is None else peer.find(call.tool.id)
        if peer is None or tool is None or isinstance(tool, Problem):
            continue
        last = _run(codec.send(peer, call._replace(tool=tool)), routes, site, base)
        if isinstance(last, WireStep):
            found.append(ProtocolExchange(codec.title, codec.name, last.request, last.reading))
    return found


class WireStep(NamedTuple):
    """The request of a flow that runs a tool, and what the server reads from it."""

    request: Request
    reading: Pending | Streaming


def _find_peer(codec: Codec, routes: Routes, site: Site, base: str) -> Peer | None:
    ways = (codec.find, codec.find_explicit, codec.find_by_post)
    for find in ways:
        finding = None if find is None else _run(find(base), routes, site, base)
        peer: Peer | None = getattr(finding, "peer", None)
        if peer is not None:
            return peer
    return None


def _run(flow: Flow[Any], routes: Routes, site: Site, base: str) -> Any:
    """Return the value of ``flow``, answered by ``routes``, or the step at which it would run a tool."""
    answer: Callable[[Request], Reading | BlockingTask] = _build_server(routes, site, base)
    reply: Any = None
    steps: Generator[Any, Any, Any] = flow
    try:
        # A flow that polls would never end here: nothing runs whose result it could wait for.
        for _ in range(_MAX_STEPS):
            step = steps.send(reply)
            request = step.request if isinstance(step, Listen) else step
            if not isinstance(request, Request):
                break
            reading = answer(request)
            # The server would run a tool now, so the request that the page shows is complete.
            if isinstance(reading, (Pending, Streaming)):
                return WireStep(request, reading)
            if not isinstance(reading, Response):
                break
            reply = reading
    except StopIteration as stop:
        return stop.value
    finally:
        steps.close()
    return None


def _build_server(routes: Routes, site: Site, base: str) -> Callable[[Request], Reading | BlockingTask]:
    origin = base.removesuffix("/").removesuffix(site.root)

    def answer(request: Request) -> Reading | BlockingTask:
        target = request.url.removeprefix(origin).removeprefix(site.root)
        route = routes.get((request.method, target.partition("?")[0]))
        if route is None:
            return Response(404)
        return route.read(request._replace(url=target, headers=[(n.lower(), v) for n, v in request.headers]))

    return answer


def _show_body(body: bytes) -> list[str]:
    return ["", _cut(body)] if body else []


def _is_text(kinds: Sequence[str]) -> bool:
    """Return whether a body of these media types can be read as text."""
    return all(kind.startswith(("text/", "application/json")) or "+json" in kind for kind in kinds)


def _cut(body: bytes) -> str:
    text = body[:_MAX_BYTES].decode("utf-8", "replace")
    return text if len(body) <= _MAX_BYTES else f"{text}\n... ({len(body):,} bytes in all)"
