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
def test_what_the_caller_changes_while_the_person_looks_is_not_sent(url: str, protocol: str) -> None:
    arguments: dict[str, Any] = {"files": [{"path": "/tmp/a"}]}

    def approve(question: Question) -> bool:
        assert question.call.arguments == {"files": [{"path": "/tmp/a"}]}
        arguments["files"][0]["path"] = "/etc/passwd"
        return True

    with connect_sync(url, protocol=protocol, approve=approve) as remote:
        assert remote.call("remove", arguments) == Value([{"path": "/tmp/a"}])


@pytest.mark.requirement("D-20")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_the_approver_changes_is_not_sent(url: str, protocol: str) -> None:
    def approve(question: Question) -> bool:
        question.call.arguments["files"][0]["path"] = "/etc/passwd"
        return True

    with connect_sync(url, protocol=protocol, approve=approve) as remote:
        assert remote.call("remove", {"files": [{"path": "/tmp/a"}]}) == Value([{"path": "/tmp/a"}])


def test_a_connection_that_was_left_calls_nothing(url: str) -> None:
    with connect_sync(url, approve=lambda _: True) as remote:
        pass
    result = remote.call("remove", {"files": []})
    assert isinstance(result, Problem)
    assert (result.kind, result.message) == (Kind.UNREACHABLE, "This connection is closed: connect again.")
