"""What a person approved is what is sent, whoever holds on to the arguments; a closed connection stays closed."""

from collections.abc import Iterator
from typing import Any

import pytest

import toolwire
from toolwire import Kind, Problem, Question, Toolkit, Value, connect_sync
from toolwire.testing.loopback import background


@pytest.fixture
def url() -> Iterator[str]:
    kit = Toolkit("Files")

    @kit.tool
    def remove(files: list[dict[str, str]]) -> list[dict[str, str]]:
        """Remove files."""
        return files

    with background(toolwire.asgi(kit)) as base:
        yield base


PROTOCOLS = ["openapi", "opentool", "otc", "mcp"]


@pytest.mark.requirement("D-20")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arguments_changed_by_the_caller_during_the_question_are_not_sent(url: str, protocol: str) -> None:
    arguments: dict[str, Any] = {"files": [{"path": "/tmp/a"}]}

    def approve(question: Question) -> bool:
        assert question.call.arguments == {"files": [{"path": "/tmp/a"}]}
        arguments["files"][0]["path"] = "/etc/passwd"
        return True

    with connect_sync(url, protocol=protocol, approve=approve) as remote:
        assert remote.call("remove", arguments) == Value([{"path": "/tmp/a"}])


@pytest.mark.requirement("D-20")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arguments_changed_by_the_approver_are_not_sent(url: str, protocol: str) -> None:
    def approve(question: Question) -> bool:
        question.call.arguments["files"][0]["path"] = "/etc/passwd"
        return True

    with connect_sync(url, protocol=protocol, approve=approve) as remote:
        assert remote.call("remove", {"files": [{"path": "/tmp/a"}]}) == Value([{"path": "/tmp/a"}])


def test_closed_connection_refuses_calls(url: str) -> None:
    with connect_sync(url, approve=lambda _: True) as remote:
        pass
    result = remote.call("remove", {"files": []})
    assert isinstance(result, Problem)
    assert (result.kind, result.message) == (Kind.UNREACHABLE, "This connection is closed. Connect again.")
