"""The typed context of a call: what a tool author asks for, and what a caller sends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator

import pytest

from toolwire import (
    Authorization,
    Context,
    DefinitionError,
    Kind,
    Problem,
    Requirements,
    Secret,
    Toolkit,
    Value,
    connect,
    connect_sync,
)
from toolwire.core.check import Question
from toolwire.core.model import Call, Json, Progress, Result, Tool
from toolwire.define import FunctionKind
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.server.run.tool_context import ProgressReporter
from toolwire.testing.loopback import background
from toolwire.validation import GrantPage, GrantPages, find_missing

GOOGLE = Requirements(
    authorization=(Authorization(id="google", scopes=("mail.read",)),), secrets=("TWILIO_API_KEY",), user_id=True
)
FULL = Context(
    tokens={"google": Secret("g-token"), "github": Secret("h-token")},
    secrets={"TWILIO_API_KEY": Secret("t-key"), "OTHER": Secret("o-key")},
    user_id="ada@example.com",
)

KIT = Toolkit("Needs")


@KIT.tool(approval="auto", requirements=GOOGLE)
async def mail(subject: str, context: Context) -> dict[str, str | None]:
    return {
        "token": context.token("google").reveal(),
        "secret": context.secret("TWILIO_API_KEY").reveal(),
        "user": context.user_id,
        "call": context.call_id,
        "others": ", ".join([*context.tokens, *context.secrets]),
    }


@KIT.tool(approval="auto")
def curious(context: Context, of: str = "token") -> str:
    return (context.token("google") if of == "token" else context.secret("KEY")).reveal()


@KIT.tool(approval="auto")
async def counts(context: Context) -> str:
    for number in range(3):
        await context.progress(number)
    return "counted"


@KIT.tool(approval="auto")
def counts_in_a_thread(context: Context | None = None) -> str:
    assert context is not None
    for number in range(3):
        context.progress(number)
    return threading.current_thread().name


@KIT.tool(approval="auto", inline=True)
def counts_inline(context: Context) -> str:
    context.progress(1)
    return "never"


@KIT.tool(approval="auto")
async def streams(context: Context) -> AsyncGenerator[str, None]:
    await context.progress({"half": True})
    yield "a"


@KIT.tool(approval="auto")
def streams_in_a_thread(context: Context) -> Generator[str, None, None]:
    context.progress("half")
    yield "a"


@KIT.tool(approval="auto")
async def says_nonsense(context: Context) -> str:
    await context.progress(float("nan"))
    return "never"


def run_tool(name: str, context: Context = FULL) -> tuple[Result, list[Json]]:
    box, received = FunctionToolbox(KIT), list[Json]()
    tool = box.catalog().find(name)
    assert isinstance(tool, Tool)

    async def notify(progress: Progress) -> None:
        received.append(progress.value)

    arguments = {"subject": "x"} if "subject" in tool.parameters else {}
    return asyncio.run(box.run(Call(tool, arguments, "c1", context), notify)), received


@pytest.mark.requirement("OTC-023")
def test_tool_gets_only_the_context_it_declared() -> None:
    result, _ = run_tool("mail")
    assert result == Value(
        {
            "token": "g-token",
            "secret": "t-key",
            "user": "ada@example.com",
            "call": "c1",
            "others": "google, TWILIO_API_KEY",
        }
    )
    (described,) = [tool for tool in KIT.catalog().tools if tool.name == "mail"]
    assert [*described.parameters] == ["subject"]


@pytest.mark.parametrize(
    ("of", "advice"),
    [
        ("token", "requirements=Requirements(authorization=(Authorization(id='google'),))"),
        ("secret", "requirements=Requirements(secrets=('KEY',))"),
    ],
)
def test_undeclared_context_access_is_refused_with_advice(of: str, advice: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Context().token("google") if of == "token" else Context().secret("KEY")
    assert advice in str(caught.value)
    result, _ = run_tool("curious")
    assert isinstance(result, Problem)
    assert (result.kind, "g-token" in repr(result)) == (Kind.TOOL_FAILED, False)


@pytest.mark.parametrize("name", ["counts", "counts_in_a_thread"])
def test_progress_is_sent_from_coroutines_and_threads_alike(name: str) -> None:
    result, received = run_tool(name)
    assert isinstance(result, Value)
    assert received == [0, 1, 2]


@pytest.mark.parametrize(("name", "half"), [("streams", {"half": True}), ("streams_in_a_thread", "half")])
def test_progress_is_sent_between_generator_items_and_is_not_an_item(name: str, half: Json) -> None:
    assert run_tool(name) == (Value(["a"]), [half, "a"])


@pytest.mark.parametrize("name", ["counts_inline", "says_nonsense"])
def test_unserializable_progress_is_a_failure_of_the_tool(name: str) -> None:
    result, received = run_tool(name)
    assert isinstance(result, Problem)
    assert (result.kind, received) == (Kind.TOOL_FAILED, [])


def test_progress_without_a_listener_is_dropped() -> None:
    async def within() -> None:
        await Context().progress(1)
        await Context().progress(2)

    asyncio.run(within())


def test_abandoned_thread_sends_no_progress() -> None:
    received: list[Progress] = []

    async def notify(progress: Progress) -> None:
        received.append(progress)

    (function,) = [each for each in KIT.functions if each.tool.name == "counts_in_a_thread"]
    assert function.kind is FunctionKind.SYNC

    async def story() -> None:
        reporting = ProgressReporter(function, notify)
        reporting.over = True
        await asyncio.to_thread(reporting.report, Progress(1))

    asyncio.run(story())
    assert received == []


@pytest.mark.requirement("OTC-015", "OTC-016", "OXP-014", "A-44", "A-45", "C-10")
def test_client_sends_a_tool_only_what_it_requires() -> None:
    from toolwire import asgi

    seen: list[bytes] = []
    app = asgi(KIT)

    class Watching:
        active_calls = 0
        drain = app.drain

        async def __call__(self, scope: object, receive: object, send: object) -> None:
            async def heard() -> object:
                message = await receive()  # type: ignore[operator]  # an ASGI callable
                seen.append(message.get("body", b""))
                return message

            await app(scope, heard, send)  # type: ignore[arg-type]  # an ASGI application

    with background(Watching()) as url, connect_sync(url, protocol="otc", agree=lambda _: True, context=FULL) as remote:
        sent = remote.call("mail", {"subject": "x"})
        remote.call("counts")
        replaced = remote.call("mail", {"subject": "x"}, context=Context(user_id="bob"))
    assert isinstance(sent, Value)
    assert (sent.value["token"], sent.value["user"], sent.value["others"]) == (
        "g-token",
        "ada@example.com",
        "google, TWILIO_API_KEY",
    )
    assert not any(other in body for body in seen for other in (b"h-token", b"o-key"))
    assert sum(b"g-token" in body for body in seen) == 1
    assert isinstance(replaced, Problem)
    assert "token for google, the secret TWILIO_API_KEY" in replaced.message


@pytest.mark.requirement("OXP-011", "C-10")
def test_missing_requirement_is_returned_with_its_grant_page() -> None:
    from toolwire import asgi

    pages = GrantPages({"google": GrantPage("https://example.com/grant", "https://example.com/granted")})
    with background(asgi(KIT, authorizer=pages)) as url:

        async def within() -> Result:
            given = Context(secrets=FULL.secrets, user_id="ada@example.com")
            async with connect(url, protocol="otc", agree=lambda _: True, context=given) as remote:
                return await remote.call("mail", {"subject": "x"})

        problem = asyncio.run(within())
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.MISSING_REQUIREMENTS
    assert problem.details["missing_requirements"] == {
        "authorization": [
            {"id": "google", "url": "https://example.com/grant", "check_url": "https://example.com/granted"}
        ],
    }


@pytest.mark.requirement("I-27", "OXP-011")
@pytest.mark.parametrize("protocol", ["otc", "openapi", "opentool", "mcp"])
def test_each_protocol_carries_what_a_tool_requires(protocol: str) -> None:
    from toolwire import asgi

    with (
        background(asgi(KIT)) as url,
        connect_sync(url, protocol=protocol, agree=lambda _: True, context=FULL) as remote,
    ):
        (tool,) = [one for one in remote.tools if one.name == "mail"]
        assert tool.requirements == GOOGLE
        result = remote.call("mail", {"subject": "x"})
    assert isinstance(result, Value), result
    expected = ("g-token", "t-key", "ada@example.com", "google, TWILIO_API_KEY")
    assert tuple(result.value[name] for name in ("token", "secret", "user", "others")) == expected


@pytest.mark.requirement("I-27")
@pytest.mark.parametrize("protocol", ["otc", "openapi", "opentool", "mcp"])
def test_a_call_that_lacks_a_secret_is_refused_before_its_user_is_asked(protocol: str) -> None:
    from toolwire import asgi

    kit = Toolkit("Sms")

    @kit.tool(requirements=Requirements(secrets=("TWILIO_API_KEY",), user_id=True))
    def send(text: str) -> str:
        return text

    asked: list[object] = []
    with background(asgi(kit)) as url, connect_sync(url, protocol=protocol, approve=asked.append) as remote:
        problem = remote.call("send", {"text": "x"})
    assert isinstance(problem, Problem)
    assert problem.message == (
        "send needs the secret TWILIO_API_KEY, a user_id in the call's context. Pass --secret "
        "TWILIO_API_KEY --user-id ID, or in Python context=Context(...)."
    )
    assert (problem.kind, problem.details["sent"], asked) == (Kind.MISSING_REQUIREMENTS, False, [])


@pytest.mark.requirement("I-27")
@pytest.mark.parametrize("protocol", ["otc", "openapi", "opentool", "mcp"])
@pytest.mark.parametrize("token", ["", "g-token"])
def test_question_about_a_call_says_which_token_it_lacks(protocol: str, token: str) -> None:
    from toolwire import asgi

    kit = Toolkit("Mail")

    @kit.tool(requirements=Requirements(authorization=(Authorization(id="google", scopes=("mail",)),)))
    def mail(subject: str) -> str:
        return subject

    asked: list[str] = []

    def approve(question: Question) -> bool:
        asked.extend(one for one in question.reasons if "token" in one)
        return True

    context = Context(tokens={"google": Secret(token)}) if token else Context()
    with (
        background(asgi(kit)) as url,
        connect_sync(url, protocol=protocol, approve=approve, context=context) as remote,
    ):
        result = remote.call("mail", {"subject": "x"})
    if token:
        assert (result, asked) == (Value("x"), [])
        return
    # It was known before the user answered; the server then refuses, because it has no token and names no page.
    [reply] = asked
    assert reply == (
        "This tool needs a token for google, and this call brings none: without one, its server may "
        "refuse the call. Pass --token google, or in Python context=Context(...)."
    )
    assert isinstance(result, Problem)
    assert result.kind is Kind.MISSING_REQUIREMENTS


def test_an_authorizer_is_asked_for_the_provider_the_scopes_and_the_caller() -> None:
    asked: list[tuple[Authorization, str]] = []

    class Own:
        def find_page(self, needed: Authorization, principal: str) -> GrantPage | None:
            asked.append((needed, principal))
            return None

    tool = Tool(name="mail", requirements=GOOGLE, hints={"otc": {"authorization": {"google": {"url": "https://h"}}}})
    problem = find_missing(tool, Context(principal="ada"), Own())
    assert problem is not None
    assert asked == [(Authorization(id="google", scopes=("mail.read",)), "ada")]
    assert problem.details["missing_requirements"]["authorization"] == [{"id": "google", "url": "https://h"}]
