"""What connections of one session are called: never so that tools of two could be taken for each other's."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.client import Session
from toolwire.core.catalog import Catalog
from toolwire.core.errors import DefinitionError

EMPTY = Catalog(title="", version="", tools=())


def clashes(new: str, known: str) -> bool:
    one, other = f"{new}_".casefold(), f"{known}_".casefold()
    return one.startswith(other) or other.startswith(one)


@pytest.mark.requirement("D-32")
@given(st.lists(st.tuples(st.booleans(), st.from_regex(r"[aB][abB1_]{0,4}", fullmatch=True)), max_size=30))
def test_connection_name_is_accepted_only_if_unambiguous(steps: list[tuple[bool, str]]) -> None:
    session, names = Session(), list[str]()
    for adds, name in steps:
        if not adds:
            session.release(name)
            names = [known for known in names if known != name]
        elif any(clashes(name, known) for known in names):
            with pytest.raises(DefinitionError):
                session.admit(name, "", EMPTY)
        else:
            assert session.admit(name, "", EMPTY) == name
            names.append(name)


@pytest.mark.requirement("D-32")
def test_connections_to_one_host_have_the_lowest_free_numbers() -> None:
    session = Session()
    session.admit("host3", "", EMPTY)
    assert [session.admit("", "host", EMPTY) for _ in range(4)] == ["host", "host2", "host4", "host5"]
    for name in ("host4", "host"):
        session.release(name)
    assert [session.admit("", "host", EMPTY) for _ in range(3)] == ["host", "host4", "host6"]


@pytest.mark.requirement("FU-23")
def test_connection_number_is_separated_from_a_port() -> None:
    session = Session()
    names = [session.admit("", "127.0.0.1:9627", EMPTY) for _ in range(2)]
    assert names == ["at_127_0_0_1_9627", "at_127_0_0_1_9627x2"]


def count_calls(work: Any) -> int:
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.requirement("P-03")
def test_naming_the_thousandth_connection_costs_as_much_as_the_tenth() -> None:
    session, costs = Session(), list[int]()
    for _ in range(1_000):
        costs.append(count_calls(lambda: session.admit("", "api.example.com", EMPTY)))
    assert costs[999] <= costs[9] + 2
