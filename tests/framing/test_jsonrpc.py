"""JSON-RPC messages as real clients send them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.model import Kind, Problem
from toolwire.framing import jsonrpc

ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.none()) | st.just({})
MEMBERS = st.sampled_from(["jsonrpc", "method", "params", "id", "other"])


@pytest.mark.requirement("S-4", "A-18")
@pytest.mark.parametrize("version", [{"jsonrpc": "2.0"}, {"jsonrpc": "2.0.0"}, {}])
def test_jsonrpc_version_is_accepted_as_real_clients_write_it(version: dict[str, Any]) -> None:
    found = jsonrpc.read({**version, "method": "add", "params": {"a": 1}, "id": 7})
    assert found == jsonrpc.Message("add", {"a": 1}, 7, expects_answer=True)


def test_jsonrpc_message_without_id_expects_no_answer() -> None:
    assert jsonrpc.read({"method": "add"}) == jsonrpc.Message("add", None, None, expects_answer=False)
    assert jsonrpc.read({"method": "add", "id": None}) == jsonrpc.Message("add", None, None, expects_answer=True)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"jsonrpc": "1.0", "method": "x"}, '"jsonrpc" must be'),
        ({"jsonrpc": 2.0, "method": "x"}, '"jsonrpc" must be'),
        ({}, '"method" must be'),
        ({"method": ""}, '"method" must be'),
        ({"method": 7}, '"method" must be'),
        ({"method": "x", "id": True}, '"id" must be a string or a number, not a boolean'),
        ({"method": "x", "id": [1]}, '"id" must be a string or a number, not an array'),
    ],
)
def test_invalid_jsonrpc_request_is_refused_by_the_faulty_member(data: dict[str, Any], said: str) -> None:
    found = jsonrpc.read(data)
    assert isinstance(found, Problem)
    assert found.kind is Kind.MALFORMED
    assert said in found.message


@given(st.dictionaries(MEMBERS, ANYTHING))
def test_any_object_is_a_message_or_a_problem(data: dict[str, Any]) -> None:
    found = jsonrpc.read(data)
    assert isinstance(found, Problem) or found.method == data["method"]


@pytest.mark.parametrize(
    ("data", "id_"),
    [
        ({"id": 1}, 1),
        ({"id": "a"}, "a"),
        ({"id": 1.5}, 1.5),
        ({"id": True}, None),
        ({"id": {}}, None),
        ({}, None),
        ([], None),
    ],
)
def test_error_for_an_invalid_jsonrpc_message_carries_its_valid_id(data: Any, id_: Any) -> None:
    assert jsonrpc.get_id(data) == id_
