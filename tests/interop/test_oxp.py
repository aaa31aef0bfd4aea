"""The official OXP SDK on loopback: its client on our server, synchronous and asynchronous."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import anyio
import oxp
import pytest

from toolwire import Requirements, ToolError, Toolkit


def calculator(runs: list[str]) -> Toolkit:
    toolkit = Toolkit("Calculator", version="1.2.0", description="Arithmetic.")

    @toolkit.tool
    def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        return a + b

    @toolkit.tool
    def divide(a: float, b: float) -> dict[str, float]:
        """Divide one number by another."""
        runs.append("divide")
        if b == 0:
            raise ToolError(
                "Nothing is divided by zero.",
                developer_message="ZeroDivisionError",
                can_retry=True,
                retry_after_ms=5,
                additional_prompt_content="Ask for another divisor.",
            )
        return {"quotient": a / b}

    @toolkit.tool
    def clear() -> None:
        """Forget everything."""

    @toolkit.tool(requirements=Requirements(secrets=("PIN",), user_id=True))
    def secret_sum(a: int) -> int:
        """Add a number to the secret sum."""
        runs.append("secret_sum")
        return a

    return toolkit


@pytest.fixture
def runs() -> list[str]:
    return []


@pytest.fixture
def client(serve: Callable[..., str], runs: list[str]) -> Iterator[oxp.Oxp]:
    url = serve(calculator(runs), api_keys=("K1",))
    with oxp.Oxp(base_url=url, bearer_token="K1", _strict_response_validation=True) as client:
        yield client


@pytest.mark.requirement("OXP-003", "OXP-004", "OXP-005", "OXP-012", "S-9")
def test_the_sdk_lists_our_tools(client: oxp.Oxp) -> None:
    client.health.check()
    items = {item.name: item for item in client.tools.list().items}
    assert items["add"].id == "Calculator.add@1.2.0"
    assert items["add"].version == "1.2.0"
    assert items["add"].input_schema is not None
    assert items["add"].input_schema["required"] == ["a", "b"]
    needs = items["secret_sum"].requirements
    assert needs is not None
    assert needs.secrets is not None
    assert ([secret.id for secret in needs.secrets], needs.user_id) == (["PIN"], True)


@pytest.mark.requirement("OXP-001", "OXP-002", "OXP-007", "OTC-026", "A-43")
def test_the_sdk_calls_our_tools(client: oxp.Oxp) -> None:
    for tool_id in ("Calculator.add@1.2.0", "Calculator.add", "add"):
        answer = client.tools.call(request={"tool_id": tool_id, "call_id": "c1", "input": {"a": 1, "b": 2}})
        assert (answer.schema_, answer.result.call_id, answer.result.success) == ("urn:oxp:1.0", "c1", True)
        assert answer.result.value == 3
    answer = client.tools.call(request={"tool_id": "divide", "input": {"a": 1, "b": 4}}, schema="urn:oxp:1.0")
    assert answer.result.value == {"quotient": 0.25}
    assert answer.result.call_id
    assert client.tools.call(request={"tool_id": "clear"}).result.value is None


@pytest.mark.requirement("OTC-041", "OTC-029", "OXP-015", "A-41")
def test_sdk_reads_a_tool_failure_and_the_tool_runs_once(client: oxp.Oxp, runs: list[str]) -> None:
    result = client.tools.call(request={"tool_id": "divide", "input": {"a": 1, "b": 0}}).result
    assert result.success is False
    assert result.error.message == "Nothing is divided by zero."
    assert (result.error.can_retry, result.error.retry_after_ms) == (True, 5)
    assert result.error.additional_prompt_content == "Ask for another divisor."
    assert result.error.developer_message is None
    assert runs == ["divide"]


@pytest.mark.requirement("OXP-008", "OXP-009", "OXP-010", "OXP-013", "S-12")
def test_the_sdk_raises_the_right_error_for_each_refusal(client: oxp.Oxp) -> None:
    with pytest.raises(oxp.BadRequestError) as unknown:
        client.tools.call(request={"tool_id": "Calculator.subtract"})
    assert "Calculator.add@1.2.0" in unknown.value.body["message"]
    with pytest.raises(oxp.UnprocessableEntityError) as invalid:
        client.tools.call(request={"tool_id": "add", "input": {"a": 1, "b": "two"}})
    assert list(invalid.value.body["parameter_errors"]) == ["b"]
    with pytest.raises(oxp.BadRequestError):
        client.tools.call(request={"tool_id": "add", "input": {"a": 1, "b": 2}}, schema="urn:oxp:99.0")
    with pytest.raises(oxp.AuthenticationError):
        client.with_options(bearer_token="K2").tools.list()
    client.with_options(bearer_token="K2").health.check()


@pytest.mark.requirement("OXP-011", "OXP-014")
def test_sdk_sends_the_requirements_of_a_tool(client: oxp.Oxp, runs: list[str]) -> None:
    with pytest.raises(oxp.BadRequestError) as missing:
        client.tools.call(request={"tool_id": "secret_sum", "input": {"a": 1}})
    assert missing.value.body["missing_requirements"] == {"secrets": [{"id": "PIN"}], "user_id": True}
    assert runs == []
    context = {"secrets": [{"id": "PIN", "value": "1234"}], "user_id": "ann"}
    answer = client.tools.call(request={"tool_id": "secret_sum", "input": {"a": 1}, "context": context})
    assert answer.result.value == 1


@pytest.mark.requirement("OXP-001", "OXP-003")
def test_the_asynchronous_client_lists_and_calls(serve: Callable[..., str], runs: list[str]) -> None:
    url = serve(calculator(runs))

    async def talk() -> None:
        async with oxp.AsyncOxp(base_url=url, bearer_token="not looked at", _strict_response_validation=True) as client:
            assert len((await client.tools.list()).items) == 4
            answer = await client.tools.call(request={"tool_id": "add", "input": {"a": 1, "b": 2}})
            assert answer.result.value == 3

    anyio.run(talk)
