"""A server somebody else runs: connect, look at its tools, call them with consent."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from toolwire import (
    Answer,
    App,
    Approval,
    ConnectError,
    Kind,
    Preferences,
    Problem,
    Question,
    Secret,
    Toolkit,
    Value,
    asgi,
    connect,
    connect_sync,
)
from toolwire.client.connection.connection import explain_failure, open_connection
from toolwire.client.connection.connection_factory import ConnectionFactory
from toolwire.client.connection.options import ConnectOptions
from toolwire.client.discovery.discover import Discovery
from toolwire.core.check import KnownResult
from toolwire.core.codec import Probe
from toolwire.core.model import Call, Json, Result
from toolwire.protocols import BUILTIN
from toolwire.testing.loopback import background

KEY = "correct horse battery staple"
Visit = Callable[..., Result]


class Served:
    """An application that counts its calls and the keys that it was shown."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.posts = 0
        self.keys: list[tuple[str, bool]] = []

    @property
    def active_calls(self) -> int:
        return self._app.active_calls

    def drain(self) -> None:
        self._app.drain()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.posts += scope["method"] == "POST"
            self.keys.append((scope["path"], b"authorization" in dict(scope["headers"])))
        await self._app(scope, receive, send)


def desk() -> Toolkit:
    tools = Toolkit("Desk")

    @tools.tool(approval="auto")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tools.tool(approval="per-call", blanket_allowed=True)
    async def note(text: str) -> str:
        """Write something down."""
        return text

    @tools.tool(approval="per-call", destructive=True, blanket_allowed=True)
    async def burn(text: str) -> str:
        """Destroy something."""
        return text

    return tools


@pytest.fixture(scope="module")
def app() -> Served:
    return Served(asgi(desk()))


@pytest.fixture(scope="module")
def url(app: Served) -> Iterator[str]:
    with background(app) as base:
        yield base


@pytest.fixture(scope="module")
def locked_app() -> Served:
    return Served(asgi(desk(), api_keys=[KEY]))


@pytest.fixture(scope="module")
def locked_url(locked_app: Served) -> Iterator[str]:
    with background(locked_app) as base:
        yield base


@pytest.fixture(params=["async", "sync"])
def visit(request: pytest.FixtureRequest) -> Visit:
    """Connect, make the calls in order, and return the last result."""

    def blocking(url: str, *calls: tuple[str, Mapping[str, Json] | None], **options: Any) -> Any:
        with connect_sync(url, agree=lambda _: True, **options) as remote:
            assert remote.catalog().tools == remote.tools
            assert remote.protocol in [codec.name for codec in BUILTIN]
            assert remote.probes[-1].accepted
            results = [remote.call(*call) for call in calls]
        return results[-1]

    async def visited(url: str, *calls: tuple[str, Mapping[str, Json] | None], **options: Any) -> Any:
        async with connect(url, agree=lambda _: True, **options) as remote:
            assert remote.catalog().tools == remote.tools
            assert remote.protocol in [codec.name for codec in BUILTIN]
            assert remote.probes[-1].accepted
            results = [await remote.call(*call) for call in calls]
        return results[-1]

    def asynchronous(url: str, *calls: tuple[str, Mapping[str, Json] | None], **options: Any) -> Any:
        return asyncio.run(visited(url, *calls, **options))

    return blocking if request.param == "sync" else asynchronous


@pytest.mark.requirement("XL-089")
@pytest.mark.parametrize("protocol", [None, *(codec.name for codec in BUILTIN)])
def test_one_url_gives_tools_that_can_be_called(visit: Visit, url: str, protocol: str | None) -> None:
    assert visit(url, ("add", {"a": 1, "b": 2}), protocol=protocol) == Value(3)


def test_tool_can_be_called_by_name_or_id(visit: Visit, url: str) -> None:
    names = ("Desk.add", "Desk.add@1.0.0", "add@1") if visit(url, ("add", {"a": 0, "b": 0})) == Value(0) else ()
    for name in names:
        found = visit(url, (name, {"a": 1, "b": 2}), protocol="otc")
        assert found == Value(3)


@pytest.mark.requirement("XL-043", "XL-053")
def test_call_without_an_approver_sends_nothing(visit: Visit, url: str, app: Served) -> None:
    before = app.posts
    problem = visit(url, ("note", {"text": "x"}))
    assert isinstance(problem, Problem)
    assert (problem.kind, problem.details["denied"]) == (Kind.DENIED, True)
    assert "no approver is configured" in problem.message
    assert app.posts == before


@pytest.mark.requirement("XL-052", "XL-043")
def test_denial_is_a_result_with_the_reason_of_the_user(visit: Visit, url: str, app: Served) -> None:
    before = app.posts
    problem = visit(url, ("note", {"text": "x"}), approve=lambda _: Answer(allowed=False, reason="not today"))
    assert isinstance(problem, Problem)
    assert problem.message == "note was not called: not today."
    assert problem.details == {"denied": True, "reason": "not today"}
    plain = visit(url, ("note", {"text": "x"}), approve=lambda _: False)
    assert isinstance(plain, Problem)
    assert plain.details == {"denied": True}
    assert app.posts == before


def test_a_yes_is_asked_for_each_call(visit: Visit, url: str) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    assert visit(url, ("note", {"text": "a"}), ("note", {"text": "b"}), approve=approve) == Value("b")
    assert [question.call.arguments for question in asked] == [{"text": "a"}, {"text": "b"}]
    assert all(question.site == url.rstrip("/") for question in asked)


@pytest.mark.requirement("XL-045")
def test_allow_always_covers_later_calls_if_the_site_permits_it(visit: Visit, url: str) -> None:
    asked: list[str] = []

    def approve(question: Question) -> Answer:
        asked.append(question.call.tool.name)
        return Answer(allowed=True, always=True)

    calls = [("note", {"text": "a"}), ("note", {"text": "b"}), ("burn", {"text": "a"}), ("burn", {"text": "b"})]
    assert visit(url, *calls, approve=approve) == Value("b")
    assert asked == ["note", "burn", "burn"]


@pytest.mark.requirement("XL-042")
def test_preference_can_deny_a_tool(visit: Visit, url: str) -> None:
    strict = Preferences(tools={"add": Approval.DENY})
    problem = visit(url, ("add", {"a": 1, "b": 2}), preferences=strict, approve=lambda _: True)
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.DENIED


def test_invalid_call_is_refused_without_the_server(visit: Visit, url: str, app: Served) -> None:
    before = app.posts
    unknown = visit(url, ("nothing", None))
    wrong = visit(url, ("note", {"text": 7}), approve=lambda _: True)
    assert isinstance(unknown, Problem)
    assert isinstance(wrong, Problem)
    assert (unknown.kind, wrong.kind) == (Kind.UNKNOWN_TOOL, Kind.INVALID_ARGUMENTS)
    assert list(wrong.parameter_errors) == ["text"]
    assert app.posts == before


# Keys


@pytest.mark.requirement("D-08", "XL-014", "C-8")
@pytest.mark.parametrize("key", [KEY, Secret(KEY)])
def test_key_is_sent_only_after_the_server_asks_for_it(
    visit: Visit, locked_url: str, locked_app: Served, key: str | Secret
) -> None:
    locked_app.keys.clear()
    assert visit(locked_url, ("add", {"a": 1, "b": 2}), api_key=key, protocol="opentool") == Value(3)
    first = locked_app.keys[0][0]
    assert [shown for path, shown in locked_app.keys if path == first][:2] == [False, True]


def test_missing_key_is_reported_at_connect(visit: Visit, locked_url: str) -> None:
    with pytest.raises(ConnectError, match="requires a key to list its tools") as failed:
        visit(locked_url, ("add", None), protocol="opentool")
    assert any(probe.status == 401 for probe in failed.value.probes)


def test_host_name_is_compared_case_insensitively(visit: Visit, locked_url: str) -> None:
    shouted = locked_url.replace("http://127.0.0.1", "HTTP://LOCALHOST")
    assert visit(shouted, ("add", {"a": 1, "b": 2}), api_key=KEY, protocol="opentool") == Value(3)


def test_repr_of_options_hides_the_key() -> None:
    options = ConnectOptions(url="https://a.example", api_key=Secret(KEY))
    assert KEY not in repr(options)
    assert KEY not in repr(ConnectionFactory(options).credentials())
    assert ConnectionFactory(ConnectOptions(url="https://a.example")).credentials() == {}


# What goes wrong


def test_unreachable_server_is_reported(visit: Visit) -> None:
    with pytest.raises(ConnectError, match=r"http://127\.0\.0\.1:9 could not be reached"):
        visit("127.0.0.1:9", ("add", None))


@pytest.mark.parametrize("bad", ["https://[", "https://", "", "ftp://a.example", "https://user:pw@a.example"])
@pytest.mark.parametrize("key", [None, KEY])
def test_invalid_url_raises_connect_error(visit: Visit, bad: str, key: str | None) -> None:
    with pytest.raises(ConnectError):
        visit(bad, ("add", None), api_key=key)


def test_server_without_a_known_protocol_is_reported() -> None:
    probes = (Probe("otc", "https://a.example/tools", 404, "not there"),)
    found = Discovery(url="https://a.example", peer=None, probes=probes)
    assert "does not speak a supported protocol. `toolwire explain" in explain_failure(found)
    with pytest.raises(ConnectError, match="does not speak a supported protocol") as failed:
        open_connection(found, Preferences())
    assert failed.value.probes == probes


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("http://127.0.0.1:8931/mcp", "or localhost in place of its address"),
        ("http://localhost:8931/mcp", "or a sign-in (`toolwire login"),
        ("https://a.example/mcp", "or a sign-in (`toolwire login"),
    ],
)
def test_server_that_only_answers_403_is_said_to_refuse_access(url: str, hint: str) -> None:
    found = Discovery(url=url, peer=None, probes=(Probe("mcp", url, 403, "needs a key"),))
    sentence = explain_failure(found)
    assert sentence.startswith(f"{url} denied access with status 403: it may want a key")
    assert hint in sentence
    assert explain_failure(found, keyed=True) == f"{url} rejected this API key."


@pytest.mark.parametrize("path", ["/sse", "/mcp/sse/", "/sse?x=1"])
def test_url_of_the_old_sse_transport_without_a_stream_is_said_to_have_none(path: str) -> None:
    url = f"https://a.example{path}"
    found = Discovery(url=url, peer=None, probes=(Probe("mcp", url, 404, "shows no mark of MCP"),))
    assert "HTTP+SSE transport" in explain_failure(found)
    assert "opens no stream of events there" in explain_failure(found)


def test_unknown_protocol_is_refused_before_connecting(url: str) -> None:
    for connecting in (connect, connect_sync):
        with pytest.raises(ValueError, match="Unknown protocol 'gopher'"):
            connecting(url, protocol="gopher")


def test_closing_an_unopened_connection_does_nothing(url: str) -> None:
    connect_sync(url).__exit__(None, None, None)
    asyncio.run(connect(url).__aexit__())


def test_check_can_end_a_call_with_a_known_result(url: str) -> None:
    with connect_sync(url) as remote:
        connection = remote._connection

    connection.pipeline.checks = (lambda _: KnownResult(Value("before")),)
    with pytest.raises(StopIteration) as stop:
        next(connection.run(Call(connection.peer.catalog.names["add"], {})))
    assert stop.value.value == Value("before")


@pytest.mark.parametrize(
    ("meaning", "sentence"),
    [
        ("https://a.example refuses connections.", "could not be reached: it refuses connections."),
        ("This URL is not valid.", "could not be reached: this URL is not valid."),
        ("https://a.example could not be reached safely: no.", "could not be reached safely: no."),
    ],
)
def test_connect_failure_is_explained_in_one_sentence(meaning: str, sentence: str) -> None:
    probes = (Probe("openapi", "https://a.example/llm.json?key=k", None, meaning),)
    found = Discovery(url="https://a.example", peer=None, probes=probes)
    assert explain_failure(found) == f"https://a.example {sentence}"
