"""Sites that lie, hide and swell, on every wire: nothing is written unasked, nothing goes elsewhere, nothing is hidden.

A case that takes more work than its size explains does not end: the schemas here grow by doubling.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from contextvars import ContextVar
from typing import Any
from urllib.request import urlopen

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.upstreams import connect_without_user
from toolwire import Session, Tool, Toolkit, asgi, connect_sync, merge_toolboxes
from toolwire.adapters.schema import Provider
from toolwire.adapters.tool_declarations import declare_tools, run_named_call_sync
from toolwire.cli import main
from toolwire.consent import ClientRules
from toolwire.core.catalog import Catalog
from toolwire.core.errors import ToolwireError
from toolwire.core.model import Approval, Call, Cost, Kind, Problem, Result, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.framing.text_cleaning import find_hidden
from toolwire.protocols import BUILTIN
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing.loopback import background

MANY = os.environ.get("TOOLWIRE_CASES") == "hunt"
# A failure is not made smaller: a case starts servers, and smaller ones are as hard to read.
CASES = settings(deadline=None, max_examples=300 if MANY else 4, phases=(Phase.explicit, Phase.generate))
RULES = ClientRules(questions_a_minute=100)  # more than any case asks: the limit of questions is not tried here
METHOD: ContextVar[str] = ContextVar("METHOD", default="")
SAFE_METHODS = ("GET", "HEAD")

HIDDEN = (
    "\U000e0069\U000e0067",
    "\u202e",
    "\u200b",
    "\ufff3",
    "\U0001bca1",
    "\u3164",
    "1\ufe0f",
    "\u304b\u200d\u306a",
    "\x1b[2J",
)
texts = st.builds(
    lambda before, what, after: before + what + after,
    st.sampled_from(("", "Read ", "\u540d")),
    st.sampled_from(HIDDEN),
    st.sampled_from(("", "all")),
)
names = st.sampled_from(("balance", "Balance", "n", "get_it", "Bank_balance", "erase", "x" * 64, "_a"))
toolkits = st.sampled_from(("Bank", "BANK", "Evil", "near", "Near"))


def build_doubling_schema(keyword: str) -> dict[str, Any]:
    levels = {f"a{number}": {keyword: [{"$ref": f"#/$defs/a{number + 1}"}] * 2} for number in range(40)}
    return {"properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": {**levels, "a40": {"type": "string"}}}


def recursive(keyword: str) -> dict[str, Any]:
    twice = {"properties": {"a": {"$ref": "#/$defs/X"}}}
    return {"properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {keyword: [twice, {**twice, "title": "2"}]}}}


def build_text_schema(text: str, mark: str) -> dict[str, Any]:
    inner = {"type": "string", "description": text, "title": text, "examples": [text], mark: True}
    return {"description": text, "properties": {"x": {"anyOf": [inner, {"type": "object"}]}}}


keywords = st.sampled_from(("allOf", "anyOf", "oneOf"))
schemas = st.one_of(
    st.builds(build_doubling_schema, keywords),
    st.builds(recursive, keywords),
    st.builds(build_text_schema, texts, st.sampled_from(("writeOnly", "readOnly"))),
    st.builds(lambda text: {"properties": {"x": {"enum": [text, "y"]}, text: {"default": text}}}, texts),
    st.builds(lambda count: {"properties": {"x": {"pattern": f"^(a{{{count}}}){{{count}}}$"}}}, st.integers(1, 999)),
).map(lambda schema: {"type": "object", **schema})
tools = st.builds(
    Tool,
    name=names,
    toolkit=toolkits,
    version=st.sampled_from(("1.0.0", "9.9.9")),
    description=texts,
    hint=texts,
    input_schema=schemas,
    approval=st.sampled_from((Approval.AUTO, Approval.PER_CALL, None)),
    safe=st.booleans(),
    idempotent=st.booleans(),
    blanket_allowed=st.booleans(),
    cost=st.sampled_from((Cost.FREE, None)),
)


def nest_data(levels: int) -> Any:
    data: Any = "a" * 50_000
    for _ in range(levels):
        data = {"a": data}
    return data


ARGUMENTS: tuple[dict[str, Any], ...] = ({}, {"x": "y"}, {"x": nest_data(60)}, {"x": "a" * 50_000})


class Site:
    """A toolbox whose tools and answers are set case by case, and that notes every call with its HTTP method."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []
        self.answer: Result = Value(None)
        self.now = Catalog()

    def catalog(self) -> Catalog:
        return self.now

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        self.ran.append((METHOD.get(), call.tool.id))
        return self.answer


class Redirecting:
    """An app that sends every call on to ``elsewhere`` where it is told to; ``seen`` is what was asked of it."""

    def __init__(self, app: Any, elsewhere: str = "") -> None:
        self.app, self.elsewhere = app, elsewhere
        self.status = 0
        self.seen: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            METHOD.set(scope["method"])
            self.seen.append(scope["path"])
            if (self.status and "/api/" in scope["path"] + "/") or (self.status and scope["path"].endswith("/call")):
                headers = [(b"location", self.elsewhere.encode() + scope["path"].encode()), (b"content-length", b"0")]
                await send({"type": "http.response.start", "status": self.status, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
        await self.app(scope, receive, send)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[tuple[Redirecting, str]]:
    app = Redirecting(asgi(Toolkit("Elsewhere")))
    with background(app) as url:
        yield app, url.rstrip("/")


@contextmanager
def serve_site(listed: list[Tool], answer: Result, status: int, other: str) -> Iterator[tuple[Site, str]]:
    site = Site()
    unique = {tool.id.casefold(): tool for tool in listed}
    with suppress(ValueError):  # what no catalog of ours holds is for tests of documents
        site.now = Catalog(title=answer_text(answer), tools=tuple(unique.values()))
    site.answer = answer
    app = Redirecting(asgi(site), other)
    app.status = status
    with background(app) as url:
        yield site, url


def answer_text(answer: Result) -> str:
    return str(answer.value) if isinstance(answer, Value) else answer.message


answers = st.one_of(
    st.builds(Value, texts),
    st.builds(lambda text: Problem(kind=Kind.TOOL_FAILED, message=text, additional_prompt_content=text), texts),
)
sites = st.lists(tools, min_size=1, max_size=4)
statuses = st.sampled_from((0, 0, 301, 302, 307, 308))


@pytest.mark.requirement("D-01", "D-17", "D-32", "XL-044")
@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
@given(listed=sites, answer=answers, status=statuses)
@CASES
def test_hostile_site_causes_no_write_and_no_hidden_text_for_a_model(
    protocol: str, elsewhere: tuple[Redirecting, str], listed: list[Tool], answer: Result, status: int
) -> None:
    other, other_url = elsewhere
    other.seen.clear()
    with serve_site(listed, answer, status, other_url) as (site, url), ExitStack() as open_:
        asked = connect_sync(url, protocol=protocol, session=Session(), approve=lambda _: False)
        remote = None
        with suppress(ToolwireError):
            remote = open_.enter_context(asked)
        if remote is not None:
            for provider in (Provider.OPENAI, Provider.ANTHROPIC):
                for one in declare_tools(remote.catalog(), provider):
                    replies = [one.name, one.description, dict(one.input_schema.schema)]
                    assert list(find_hidden(json.loads(json.dumps(replies)))) == []
                    for arguments in ARGUMENTS[:2]:
                        text = run_named_call_sync(remote, provider, one.name, json.dumps(arguments)).text
                        assert list(find_hidden(json.loads(text))) == []
            for tool in remote.tools:
                for arguments in ARGUMENTS:
                    remote.call(tool.id, arguments)
            assert list(find_hidden([tool.description for tool in remote.tools])) == []
        assert [ran for ran in site.ran if ran[0] not in SAFE_METHODS] == []
    assert other.seen == []


@pytest.mark.requirement("D-03")
@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
@given(listed=sites, answer=answers)
@settings(CASES, max_examples=2)
def test_hostile_site_texts_are_escaped_on_the_screen(protocol: str, listed: list[Tool], answer: Result) -> None:
    with serve_site(listed, answer, 0, "") as (site, url):
        for argv in (["tools"], ["tools", "--findings"], ["tools", "--json"], ["explain"]):
            screen = io.StringIO()
            with redirect_stdout(screen), redirect_stderr(screen):
                main([*argv, url, "--protocol", protocol] if argv[0] == "tools" else [*argv, url])
            assert [line for line in screen.getvalue().split("\n") if not line.isprintable()] == [], argv
        assert [ran for ran in site.ran if ran[0] not in SAFE_METHODS] == []


@pytest.mark.requirement("D-17", "D-32")
@given(listed=sites, answer=answers)
@CASES
def test_gateway_to_a_hostile_site_keeps_serving(listed: list[Tool], answer: Result) -> None:
    kit = Toolkit("Near")

    @kit.tool(approval="auto", safe=True)
    def balance() -> str:
        """Tell the balance."""
        return "near"

    with serve_site(listed, answer, 0, "") as (site, url):
        try:
            far = connect_without_user(url, Session())
        except ToolwireError:
            return
        with (
            background(asgi(merge_toolboxes([far, FunctionToolbox(kit)]))) as gateway,
            connect_sync(gateway, protocol="mcp", session=Session(rules=RULES), approve=lambda _: True) as remote,
        ):
            found = [remote.call(tool.id, arguments) for tool in remote.tools for arguments in ARGUMENTS[1:]]
            assert all(isinstance(one, Problem | Value) for one in found)
            own = next(
                tool for tool in remote.tools if tool.description == "Tell the balance."
            )  # its name may be longer
            assert remote.call(own.id, {}) == Value("near")
            with urlopen(gateway.rstrip("/") + "/health", timeout=30) as health:
                assert health.status == 200
        assert [ran for ran in site.ran if ran[0] not in SAFE_METHODS] == []
