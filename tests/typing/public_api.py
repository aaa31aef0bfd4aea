"""The public API in use. Nobody runs this: the type checkers read it."""

from collections.abc import AsyncGenerator, Generator
from typing import Literal, assert_type

import toolwire
from toolwire import (
    Answer,
    App,
    Approval,
    Context,
    InputRequest,
    InputResponse,
    NoUserInput,
    Preferences,
    Problem,
    Question,
    RateLimit,
    Remote,
    Result,
    Secret,
    ServerLimits,
    SyncRemote,
    Tool,
    Toolbox,
    ToolError,
    Toolkit,
    Value,
    connect,
    connect_sync,
    merge_toolboxes,
)
from toolwire.core.catalog import Catalog

calculator = Toolkit("Calculator", version="1.0.0", description="Arithmetic.")


@calculator.tool(approval="auto")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@calculator.tool
async def greet(name: str, mood: Literal["warm", "cool"] = "warm") -> str:
    """Greet somebody."""
    if not name:
        raise ToolError("Say a name.", can_retry=True, retry_after_ms=100)
    return f"{mood} {name}"


class Size:
    """What is asked for."""

    inches: int


@calculator.tool
async def sew(context: Context) -> str:
    """Ask the user."""
    size = await context.ask(Size, "How large?", name="size")
    assert_type(size, Size | NoUserInput)
    assert_type(context.ask_sync(Size, "How large?"), Size | NoUserInput)
    if isinstance(size, NoUserInput):
        assert_type(size.reason, Literal["declined", "cancelled", "cannot_ask"])
        raise ToolError(size.message)
    return str(size.inches)


def enter(asked: InputRequest) -> InputResponse | dict[str, object] | None:
    """Answer what a server asks."""
    return {one.name: one.default for one in asked.fields} or None


with connect_sync("http://127.0.0.1:9600", provide_input=enter) as asked_remote:
    assert_type(asked_remote, SyncRemote)


@calculator.tool(
    name="count-up",
    approval=Approval.PER_CALL,
    destructive=False,
    hint="Slowly.",
    cost="free",
    rate_limit=RateLimit(max=3, window="1m"),
    timeout_s=5,
    inline=False,
)
async def count(to: int) -> AsyncGenerator[int, None]:
    """Count."""
    for number in range(to):
        yield number


@calculator.tool(rate_limit=(3, "1m"))
def lines(text: str) -> Generator[str, None, None]:
    """Give line by line."""
    yield from text.splitlines()


def check_decorated() -> None:
    """A decorated function keeps its type."""
    assert_type(add(1, 2), int)
    calculator.tool(approval="always")  # type: ignore[call-overload]  # pyright: ignore  # no such approval
    calculator.tool(aproval="auto")  # type: ignore[call-overload]  # pyright: ignore  # no such option


def serve() -> App:
    """An application to mount or serve."""
    assert_type(calculator.catalog().tools, tuple[Tool, ...])
    return toolwire.asgi(calculator, api_keys=["K1"], hosts=["tools.example"], limits=ServerLimits(tool_s=5.0))


def approve(question: Question) -> Answer:
    """Say yes once."""
    return Answer(allowed=question.approval is not Approval.DENY, reason=question.target)


async def approve_later(question: Question) -> bool:
    """Say yes, later."""
    return question.always_allowed is True


async def asynchronous(url: str) -> Result:
    """Connect and call."""
    async with connect(url, approve=approve_later, api_key=Secret("K1"), preferences=Preferences()) as remote:
        assert_type(remote, Remote)
        assert_type([tool.name for tool in remote.tools], list[str])
        result = await remote.call("add", {"a": 1, "b": 2})
        assert_type(result, Value | Problem)
        return result


def check_blocking(url: str) -> str:
    """Connect and call, blocking."""
    with connect_sync(url, approve=approve, protocol="otc") as remote:
        assert_type(remote, SyncRemote)
        match remote.call("add", {"a": 1, "b": 2}):
            case Value(value):
                return str(value)
            case Problem(kind=kind, message=message):
                return f"{kind}: {message}"


async def gateway(url: str, own: Toolbox) -> App:
    """A remote is a Toolbox like any other, and several are one."""
    async with connect(url) as remote:
        boxes: list[Toolbox] = [remote, own]
        assert_type(merge_toolboxes(boxes, title="Both").catalog(), Catalog)
        return toolwire.asgi(merge_toolboxes(boxes))


def narrow(result: Result) -> str:
    if result.ok is True:
        assert_type(result, Value)
        return str(result.value)
    assert_type(result, Problem)
    return result.message


def narrow_early(result: Result) -> str:
    if result.ok is False:
        return result.kind.value
    return str(result.value)


def narrow_by_truth(result: Result) -> str:
    if result.ok:
        return str(result.value)  # pyright: ignore  # it narrows by == and is, not by the truth of a member
    return result.message  # pyright: ignore  # likewise


def narrow_by_match(result: Result) -> str:
    match result:
        case Value(value=value):
            return str(value)
        case Problem(message=message):
            return message
