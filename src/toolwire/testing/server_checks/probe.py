"""Send single requests to the server under test, with and without the key. Redirects are not followed.

Rules:
- The key goes to the origin of the server only, and only in requests that should have it.
- Each request returns a ``ProbeAnswer``. Its status is 0 if the server cannot be reached.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from toolwire.client.transport.drivers import SyncTransport
from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.network import NetworkAccess, SyncNetwork
from toolwire.client.transport.request_headers import read_site_headers
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Json, Problem, Secret
from toolwire.core.url_origin import get_origin
from toolwire.framing import jsontext

WAIT_S = 20.0
JSON_TYPE = "application/json"


class ProbeTool(NamedTuple):
    """A tool that the checks may call, and valid arguments for it."""

    tool: str
    arguments: Mapping[str, Json]


class ProbeAnswer(NamedTuple):
    """An answer of the server.

    ``data`` is None if the body is not JSON. ``text`` is the start of the body, or the reason why there is none.
    """

    status: int
    data: Json
    text: str
    response: Response

    def get_header(self, name: str) -> str:
        """Return the first value of a header field, or an empty string."""
        return get_header(self.response.headers, name.encode())

    @property
    def members(self) -> Mapping[str, Json]:
        """The body as a JSON object; empty if the body is anything else."""
        return self.data if isinstance(self.data, dict) else {}

    def __str__(self) -> str:
        body = self.text if len(self.text) <= 120 else self.text[:120] + "..."
        return f"{self.status} {body}" if self.status else body


class ServerProbe:
    """Sends requests to one server.

    ``base`` is its URL without a slash at the end. Equal GET requests are sent once.
    """

    def __init__(
        self, base: str, keyed: SyncTransport, bare: SyncTransport, *, has_key: bool, call: ProbeTool | None
    ) -> None:
        self.base = base
        self.call = call
        self.has_key = has_key
        self._keyed = keyed
        self._bare = bare
        self._answers: dict[tuple[str, bool], ProbeAnswer] = {}
        self._computed: dict[str, Any] = {}

    def get(self, path: str, *, keyed: bool = True, headers: Mapping[str, str] | None = None) -> ProbeAnswer:
        """Return the answer to GET ``path``. The key is sent, if there is one, unless ``keyed`` is False."""
        if headers:
            return self._send("GET", path, headers, b"", keyed=keyed)
        if (path, keyed) not in self._answers:
            self._answers[path, keyed] = self._send("GET", path, {"accept": JSON_TYPE}, b"", keyed=keyed)
        return self._answers[path, keyed]

    def post(
        self, path: str, body: Json | bytes, *, keyed: bool = True, headers: Mapping[str, str] | None = None
    ) -> ProbeAnswer:
        """Return the answer to POST ``path``. Bytes are sent unchanged, other data as JSON."""
        fields = {"accept": JSON_TYPE, "content-type": JSON_TYPE, **(headers or {})}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._send("POST", path, fields, data, keyed=keyed)

    def send(self, method: str, path: str) -> ProbeAnswer:
        """Return the answer to ``method`` without a body."""
        return self._send(method, path, {}, b"", keyed=True)

    def compute_once(self, name: str, find: Callable[[], Any]) -> Any:
        """Return the result of ``find``, which runs once for all checks."""
        if name not in self._computed:
            self._computed[name] = find()
        return self._computed[name]

    def close(self) -> None:
        """Close every connection."""
        self._keyed.close()
        self._bare.close()

    def _send(self, method: str, path: str, headers: Mapping[str, str], body: bytes, *, keyed: bool) -> ProbeAnswer:
        fields = tuple((name.encode(), value.encode("latin-1")) for name, value in headers.items())
        transport = self._keyed if keyed else self._bare
        return _build_answer(transport.send(Request(method, self.base + path, fields, body)))


def open_probe(
    url: str,
    *,
    key: str | Secret | None = None,
    call: ProbeTool | None = None,
    access: NetworkAccess | None = None,
    headers: Mapping[str, str | Secret] | None = None,
    wait_s: float = WAIT_S,
) -> ServerProbe:
    """Return a probe of the server at ``url``. ``access`` is what the user allows beyond the public internet.

    Each answer may take ``wait_s`` seconds.
    """
    url = url if "://" in url else f"http://{url}"
    origin = get_origin(url)
    base = origin + urlsplit(url).path.rstrip("/")
    limits = TransportLimits(total_s=wait_s)
    text = key.reveal() if isinstance(key, Secret) else key
    signed = {origin: (("authorization", Secret(f"Bearer {text}")),)} if text is not None else {}
    allowed = NetworkAccess(**(access or {}))
    allowed["allow_private"] = [*allowed.get("allow_private", ()), origin]  # the user named this server
    added = {origin: read_site_headers(headers or {})}
    keyed = SyncNetwork(limits=limits, credentials=signed, headers=added, **allowed)
    bare = SyncNetwork(limits=limits, headers=added, **allowed)
    return ServerProbe(base, keyed, bare, has_key=text is not None, call=call)


def _build_answer(reply: Response | Problem) -> ProbeAnswer:
    if isinstance(reply, Problem):
        return ProbeAnswer(0, None, reply.message, Response(0))
    data = jsontext.read(reply.body)
    text = reply.body[:2_000].decode("utf-8", "replace").strip()
    return ProbeAnswer(reply.status, None if isinstance(data, Problem) else data, text, reply)
