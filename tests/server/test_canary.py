"""A secret that is pushed through every protocol, good and bad, turns up in nothing that anybody can read."""

from __future__ import annotations

import asyncio
import base64
import html
import io
import json
import logging
import urllib.parse
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.wire import HERE, AppTransport
from toolwire import Authorization, Context, Requirements, Secret, ToolError, Toolkit, asgi
from toolwire.auth.caller_token import ExpectedClaims, read_secret
from toolwire.core.codec import Codec, Site
from toolwire.core.http import Request, Response
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.access.signed_tokens import SignedTokenCallers
from toolwire.telemetry.calls import Telemetry
from toolwire.telemetry.logs import JsonLines

CANARY = "canary-81f2c9d4e7"
KEY, TOKEN, SECRET = f"key-{CANARY}", f"token-{CANARY}", f"secret-{CANARY}"
SIGNING = f"signing secret of the server, {CANARY}".encode()
NEEDS = Requirements(authorization=(Authorization(id="google"),), secrets=("KEY",))


def leaky() -> Toolkit:
    """Tools that do with their secrets what nobody should."""
    tools = Toolkit("Leaky")

    @tools.tool(approval="auto", safe=False, requirements=NEEDS)
    async def works(context: Context) -> str:
        return f"{context} {context.secret('KEY')} {context.token('google')!r}"

    @tools.tool(approval="auto", safe=False, requirements=NEEDS)
    def says(context: Context) -> str:
        raise ToolError(
            f"The provider refused {context.secret('KEY').reveal()}.",
            developer_message=f"sent {context.token('google').reveal()}",
            additional_prompt_content=f"try {context.token('google').reveal()}",
        )

    @tools.tool(approval="auto", safe=False, requirements=NEEDS)
    def crashes(context: Context) -> str:
        try:
            raise KeyError(context.secret("KEY").reveal())
        except KeyError as error:
            raise RuntimeError(f"no {context.token('google').reveal()}") from error

    @tools.tool(approval="auto", safe=False, requirements=NEEDS)
    async def logs(context: Context) -> str:
        logging.getLogger("toolwire").warning("calling with %s", context.secret("KEY").reveal())
        return "done"

    @tools.tool(approval="auto", scopes=("admin",))
    def hidden() -> str:
        return "admin"

    return tools


class Watched:
    """An application with everything on that writes down, and all that was written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spans = InMemorySpanExporter()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.metrics = InMemoryMetricReader()
        self.plain, self.lines = io.StringIO(), io.StringIO()
        self.handlers = [logging.StreamHandler(self.plain), logging.StreamHandler(self.lines)]
        self.handlers[1].setFormatter(JsonLines())
        self.app = asgi(
            leaky(),
            api_keys=[ApiKey(key=Secret(KEY), name="ada", scopes=frozenset())],
            callers=SignedTokenCallers(read_secret(SIGNING), ExpectedClaims()),
            ledger=folder / "ledger.db",
            telemetry=Telemetry(tracer_provider=tracers, meter_provider=MeterProvider([self.metrics])),
        )
        self.answers: list[Response] = []

    def ask(self, requests: list[Request]) -> None:
        async def within() -> None:
            transport = AppTransport(self.app)
            await self.app.begin()
            for request in requests:
                self.answers.append(await transport.send(request))
            await self.app.end()

        asyncio.run(within())

    def written(self) -> dict[str, str]:
        data = self.metrics.get_metrics_data()
        return {
            "answers": "\n".join(repr(answer) for answer in self.answers),
            "log": self.plain.getvalue(),
            "json log": self.lines.getvalue(),
            "spans": "\n".join(span.to_json() for span in self.spans.get_finished_spans()),
            "metrics": "" if data is None else data.to_json(),
            "ledger": "\n".join(repr(file.read_bytes()) for file in self.folder.iterdir()),
        }


@pytest.fixture
def watched_outputs(tmp_path: Path) -> Generator[Watched]:
    found = Watched(tmp_path)
    log = logging.getLogger("toolwire")
    level = log.level
    log.setLevel(logging.INFO)
    for handler in found.handlers:
        log.addHandler(handler)
    yield found
    for handler in found.handlers:
        log.removeHandler(handler)
    log.setLevel(level)


def sign_token() -> str:
    return jwt.encode({"alg": "HS256"}, {"sub": "ada"}, OctKey.import_key(SIGNING), algorithms=["HS256"])


def otc(name: str, path: str, call_id: str, key: str, context: Mapping[str, Any] | None) -> Request:
    body: dict[str, Any] = {"request": {"tool_id": f"Leaky.{name}", "call_id": call_id, "input": {}}}
    if context is not None:
        body["request"]["context"] = context
    fields = ((b"content-type", b"application/json"), (b"authorization", f"Bearer {key}".encode()))
    return Request("POST", HERE + path, fields, json.dumps(body).encode())


def contexts() -> list[Mapping[str, Any] | None]:
    whole = {"authorization": [{"id": "google", "token": TOKEN}], "secrets": [{"id": "KEY", "value": SECRET}]}
    return [
        whole,
        {"secrets": {"KEY": SECRET}},
        {"secrets": [{"id": "KEY", "value": SECRET}, {"id": 7, "value": SECRET}]},
        {"authorization": TOKEN},
        None,
    ]


@pytest.mark.requirement("R20", "D-26", "A-45")
@pytest.mark.parametrize("path", ["/call", "/tools/call", "/uts/tools/call"])
def test_secrets_of_a_call_are_never_written_anywhere(watched_outputs: Watched, path: str) -> None:
    names = ("works", "says", "crashes", "logs", "hidden", "nothing")
    requests = [
        otc(name, path, f"{name}-{number}", KEY, context) for name in names for number, context in enumerate(contexts())
    ]
    watched_outputs.ask([*requests, *requests])  # and once more, from the ledger
    written = watched_outputs.written()
    assert [name for name, text in written.items() if CANARY in text] == []
    statuses = [answer.status for answer in watched_outputs.answers]
    assert {200, 400, 403} <= set(statuses)
    assert b"The provider refused ***." in watched_outputs.answers[len(contexts())].body
    assert "RuntimeError: no ***" in written["log"]
    assert "calling with ***" in written["json log"]
    assert "execute_tool works" in written["spans"]
    assert "The provider refused ***." in written["ledger"]


@pytest.mark.requirement("R20", "D-26", "S-7")
def test_credentials_are_never_written_in_any_protocol(watched_outputs: Watched, codec: Codec) -> None:
    credentials = [KEY, f"wrong-{CANARY}", sign_token() + CANARY, sign_token(), f"a.b.{CANARY}"]
    routes = codec.routes(leaky().catalog(), Site(keys=True))
    bodies = (b"", b"{", b"{}", b'{"request":{"tool_id":"x"}}')
    requests = [
        Request(method, HERE + path, ((b"content-type", b"application/json"), field), body)
        for method, path in routes
        for credential in credentials
        for field in (
            (b"authorization", f"Bearer {credential}".encode()),
            (b"authorization", f"Basic {credential}".encode()),
            (b"x-api-key", credential.encode()),
        )
        for body in (bodies if method == "POST" else (b"",))
    ]
    watched_outputs.ask(requests)
    written = watched_outputs.written()
    good = sign_token()
    assert [name for name, text in written.items() if CANARY in text or good in text] == []
    assert 401 in {answer.status for answer in watched_outputs.answers} or all(
        each.is_public for each in routes.values()
    )
    assert CANARY not in repr(vars(watched_outputs.app))


@pytest.mark.requirement("D-26")
def test_repr_and_str_of_a_value_hide_its_secrets() -> None:
    context = Context(tokens={"google": Secret(CANARY)}, secrets={"KEY": Secret(CANARY)})
    texts = [repr(context), str(context), f"{context}", repr(Secret(CANARY)), f"{Secret(CANARY)}", str(Secret(CANARY))]
    assert CANARY not in "".join(texts)
    assert CANARY not in repr(ApiKey(key=Secret(CANARY)))
    assert CANARY not in repr(read_secret(SIGNING))


ODD = "odd-zebra\"'\nö\\<&>%+ 日本=end"
WAYS: dict[str, Any] = {
    "as it is": str,
    "repr": repr,
    "ascii": ascii,
    "bytes": lambda text: repr(text.encode()),
    "json": json.dumps,
    "json, not ascii": lambda text: json.dumps({"k": [text]}, ensure_ascii=False),
    "url": urllib.parse.quote,
    "url, all of it": lambda text: urllib.parse.quote(text, safe=""),
    "form": lambda text: urllib.parse.urlencode({"k": text}),
    "html": html.escape,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
}


@pytest.fixture
def own_log() -> Generator[io.StringIO]:
    """The log of an application, which knows nothing of toolwire."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    root.addHandler(handler)
    yield stream
    root.removeHandler(handler)


@pytest.mark.reveals_secrets  # at its end, to show that nothing is kept of them
@pytest.mark.requirement("R20", "D-26", "AT-11")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("secret", [ODD, "plain-zebra-81f2"])
def test_secret_is_removed_from_every_log_in_any_notation(own_log: io.StringIO, way: str, secret: str) -> None:
    write = WAYS[way]
    tools = Toolkit("Own")

    def tell(context: Context) -> None:
        text = write(context.secret("KEY").reveal())
        log = logging.getLogger("my.application.part")
        log.warning("plain %s", text)
        log.warning(f"formatted {text}")
        log.warning("mapped %(key)s", {"key": text})
        log.warning(*("fits not %s %s", text))
        logging.getLogger().error("the root logger: %s", text)
        try:
            raise ValueError(text)
        except ValueError:
            log.exception("raised")
        raise ToolError(f"It said: {text}")

    @tools.tool(safe=False, requirements=NEEDS)
    def in_a_thread(context: Context) -> None:
        tell(context)

    @tools.tool(safe=False, requirements=NEEDS)
    async def on_the_loop(context: Context) -> None:
        await asyncio.gather(asyncio.to_thread(tell, context))

    transport = AppTransport(asgi(tools))
    context = {"authorization": [{"id": "google", "token": TOKEN}], "secrets": [{"id": "KEY", "value": secret}]}
    answers = []
    for name in ("in_a_thread", "on_the_loop"):
        body = {"request": {"tool_id": f"Own.{name}", "call_id": name, "input": {}, "context": context}}
        fields = ((b"content-type", b"application/json"),)
        answers.append(asyncio.run(transport.send(Request("POST", HERE + "/call", fields, json.dumps(body).encode()))))
    written = own_log.getvalue() + "".join(answer.body.decode() for answer in answers)
    assert "zebra" not in written
    assert write(secret) not in written
    assert written.count("***") >= 2 * 5
    logging.getLogger("my.application.part").warning("later %s", secret)
    assert "zebra" in own_log.getvalue(), "only while the call runs: nothing is kept of it"
