"""A server that hears requests as another reader of OpenAPI understands them: openapi-core, on this machine only."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import unquote

from openapi_core import Config, OpenAPI
from openapi_core.contrib.werkzeug import WerkzeugOpenAPIRequest
from openapi_core.datatypes import RequestParameters
from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request

DOCUMENT = "/the-document-itself.json"
_KEPT_AS_TEXT = ("date", "date-time", "uuid", "byte", "binary", "password", "time", "duration")


class Heard(NamedTuple):
    """One request as openapi-core reads it: parameters by place and name, the body, and why not, if not."""

    parameters: dict[str, dict[str, Any]]
    body: Any
    errors: tuple[str, ...]


class _Parameters(RequestParameters):
    """Parameters whose path values are unescaped, one by one, after the path was taken apart: it may hold slashes."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "path":
            value = {key: unquote(one) for key, one in value.items()}
        super().__setattr__(name, value)


class _Asked(WerkzeugOpenAPIRequest):
    """A request whose path is as it was sent."""

    def __init__(self, request: Request, target: str) -> None:
        super().__init__(request)
        known = self.parameters
        self.parameters = _Parameters(query=known.query, header=known.header, cookie=known.cookie)
        self._target = target

    @property
    def path(self) -> str:
        return self._target.partition("?")[0]


class Echo:
    """The server: where it is, and the last request that it heard."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._reader: OpenAPI | None = None
        self.url = ""
        self.heard: Heard | None = None

    def start(self, port: int) -> None:
        """Take the document for a server at ``port``."""
        self.url = f"http://127.0.0.1:{port}"
        self._document = {**self._document, "servers": [{"url": self.url}]}
        plain = dict.fromkeys(_KEPT_AS_TEXT, lambda value: value)
        self._reader = OpenAPI.from_dict(
            self._document, config=Config(spec_validator_cls=None, extra_format_unmarshallers=plain)
        )

    @property
    def text(self) -> bytes:
        """The document as it is served."""
        return json.dumps(self._document).encode()

    def hear(self, request: Request, target: str) -> None:
        """Read ``request``."""
        assert self._reader is not None
        try:
            read = self._reader.unmarshal_request(_Asked(request, target))
        except Exception as error:  # noqa: BLE001 - whatever the other reader raises is its answer
            self.heard = Heard({}, None, (f"{type(error).__name__}: {error}"[:300],))
            return
        parameters = {place: dict(getattr(read.parameters, place)) for place in ("path", "query", "header", "cookie")}
        errors = tuple(_named(one) for one in read.errors)
        self.heard = Heard(parameters, read.body, errors)


def prepared(document: dict[str, Any]) -> dict[str, Any]:
    """Return ``document`` without other servers and without security: all of it is called here, by anybody."""
    copy = deepcopy({key: one for key, one in document.items() if key != "security"})
    if isinstance(copy.get("components"), dict):
        copy["components"].pop("securitySchemes", None)
    for item in copy.get("paths", {}).values():
        for node in (item, *item.values()) if isinstance(item, dict) else ():
            if isinstance(node, dict):
                node.pop("servers", None)
                node.pop("security", None)
    return copy


@contextmanager
def serving(document: dict[str, Any]) -> Iterator[Echo]:
    """Serve ``document`` until the block ends."""
    echo = Echo(document)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            return

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.path == DOCUMENT:
                self._say(echo.text)
                return
            echo.hear(_request(self.command, echo.url, self.path, list(self.headers.items()), body), self.path)
            self._say(b"{}")

        def _say(self, text: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _answer  # noqa: N815 - its names

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        echo.start(server.server_address[1])
        yield echo
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _request(method: str, base: str, target: str, headers: list[tuple[str, str]], body: bytes) -> Request:
    path, _, query = target.partition("?")
    builder = EnvironBuilder(
        path=path, base_url=base, query_string=query, method=method, data=body or None, headers=headers
    )
    environ = builder.get_environ()
    environ["REQUEST_URI"] = environ["RAW_URI"] = target
    return Request(environ)


def _named(error: BaseException) -> str:
    cause = error.__cause__
    return f"{type(error).__name__}: {error}"[:200] + (f" ({type(cause).__name__}: {cause})"[:300] if cause else "")
