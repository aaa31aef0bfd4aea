"""The values: what they hold, what they refuse, what they keep to themselves."""

import asyncio
import copy
import pickle

import pytest

from toolwire.core.codec import ConnectError
from toolwire.core.errors import DefinitionError, ToolError, ToolwireError
from toolwire.core.http import STATUS_BY_KIND, get_header
from toolwire.core.model import (
    Authorization,
    Context,
    Kind,
    Problem,
    Progress,
    RateLimit,
    Requirements,
    Secret,
    Tool,
    Value,
)


@pytest.mark.requirement("OTC-001", "A-47")
def test_an_id_is_toolkit_name_and_version_without_dashes() -> None:
    assert Tool(name="get-it", toolkit="My-Kit", version="1.2.3").id == "My_Kit.get_it@1.2.3"


def test_parameters_come_from_the_schema_and_may_be_missing() -> None:
    schema = {"properties": {"b": {}, "a": {"type": "string"}}, "required": ["a"]}
    tool = Tool(name="x", input_schema=schema)
    assert list(tool.parameters) == ["b", "a"]
    assert tool.required_parameters == ("a",)
    assert dict(Tool(name="x").parameters) == {}
    assert Tool(name="x", input_schema={"properties": None, "required": None}).required_parameters == ()


def test_invalid_schema_of_a_foreign_server_yields_its_valid_parameters() -> None:
    broken = Tool(name="x", input_schema={"properties": {"a": 7, "b": {"type": "string"}}, "required": ["a", 7, None]})
    assert broken.parameters == {"a": {}, "b": {"type": "string"}}
    assert broken.required_parameters == ("a",)
    worse = Tool(name="x", input_schema={"properties": 7, "required": "abc"})
    assert worse.parameters == {}
    assert worse.required_parameters == ()


@pytest.mark.requirement("XL-060")
@pytest.mark.parametrize(
    ("window", "seconds"), [("100ms", 0.1), ("30s", 30), ("1m", 60), ("2h", 7_200), ("30d", 2_592_000)]
)
def test_a_window_is_a_number_with_a_unit(window: str, seconds: float) -> None:
    assert RateLimit(max=1, window=window).window_s == pytest.approx(seconds)


@pytest.mark.requirement("XL-060")
@pytest.mark.parametrize(
    ("most", "window"),
    [(0, "1m"), (-1, "1m"), (1_000_001, "1m"), (True, "1m"), (1.5, "1m"), (1, "99ms"), (1, "31d"), (1, "1 m"), (1, "m"),
     (1, "0s"), (1, "1w"), (1, "1m\n"), (1, "\u0661m")],
)  # fmt: skip
def test_a_rate_limit_out_of_range_cannot_be_made(most: int, window: str) -> None:
    with pytest.raises(ValueError, match="a rate limit's"):
        RateLimit(max=most, window=window)


@pytest.mark.requirement("OTC-013")
def test_requirements_are_true_when_a_call_must_bring_something() -> None:
    assert not Requirements()
    assert Requirements(secrets=("k",))
    assert Requirements(user_id=True)
    assert Requirements(authorization=(Authorization(id="github"),))


@pytest.mark.requirement("D-26")
def test_secret_prints_its_text_only_through_reveal() -> None:
    secret = Secret("hunter2")
    shown = f"{secret} {secret!r} {[secret]} {secret!s:>20}"
    assert "hunter2" not in shown
    assert secret.reveal() == "hunter2"
    with pytest.raises(TypeError, match="a Secret cannot be pickled"):
        pickle.dumps(secret)
    with pytest.raises(TypeError, match="a Secret cannot be pickled"):
        copy.copy(secret)


def test_copying_data_keeps_the_same_secret_object() -> None:
    secret = Secret("hunter2")
    assert copy.deepcopy({"a": [secret]})["a"][0] is secret


@pytest.mark.requirement("OTC-016")
def test_context_returns_required_secrets_and_names_missing_requirements() -> None:
    context = Context(tokens={"github": Secret("t")}, secrets={"KEY": Secret("s")})
    assert context.token("github").reveal() == "t"
    assert context.secret("KEY").reveal() == "s"
    with pytest.raises(DefinitionError, match=r"no token for 'gitlab'.*Authorization\(id='gitlab'\)"):
        context.token("gitlab")
    with pytest.raises(DefinitionError, match=r"no secret 'OTHER'.*secrets=\('OTHER',\)"):
        context.secret("OTHER")


def test_progress_is_ignored_without_a_listener() -> None:
    replies: list[Progress] = []

    async def report(progress: Progress) -> None:
        replies.append(progress)

    async def tell(context: Context) -> None:
        await context.progress({"done": 1})
        await context.progress({"done": 2})

    asyncio.run(tell(Context()))
    assert replies == []
    asyncio.run(tell(Context(report=report)))
    assert [one.value for one in replies] == [{"done": 1}, {"done": 2}]


def test_secrets_are_equal_by_their_text() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


def test_result_tells_success_from_failure_by_ok() -> None:
    assert Value(None).ok
    assert not Problem(kind=Kind.INTERNAL, message="No.").ok


@pytest.mark.requirement("OTC-030")
def test_problem_is_not_retryable_by_default() -> None:
    problem = Problem(kind=Kind.TOOL_FAILED, message="No.")
    assert problem.can_retry is False
    assert problem.retry_after_ms is None


@pytest.mark.requirement("OTC-040", "OTC-041")
def test_every_problem_kind_has_a_status_and_a_tool_that_ran_has_200() -> None:
    assert set(STATUS_BY_KIND) == set(Kind)
    assert {STATUS_BY_KIND[kind] for kind in (Kind.TOOL_FAILED, Kind.TIMEOUT, Kind.CANCELLED, Kind.INTERNAL)} == {200}


def test_get_header_returns_the_first_value_or_an_empty_text() -> None:
    headers = ((b"x", b"1"), (b"x", b"2"), (b"y", b"\xe9"))
    assert get_header(headers, b"x") == "1"
    assert get_header(headers, b"y") == "\xe9"
    assert get_header(headers, b"z") == ""


def test_our_exceptions_share_one_base_class_and_keep_their_fields() -> None:
    error = ToolError("No.", developer_message="why", can_retry=True, retry_after_ms=5, additional_prompt_content="hm")
    assert (str(error), error.message, error.developer_message) == ("No.", "No.", "why")
    assert (error.can_retry, error.retry_after_ms, error.additional_prompt_content) == (True, 5, "hm")
    assert ConnectError("No.").probes == ()
    assert all(issubclass(kind, ToolwireError) for kind in (ToolError, ConnectError, DefinitionError))
