"""The status document of a long call: written and read back, and read from anything that a server may send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.call_status import CallStatus, LongCallState
from toolwire.core.http import Response
from toolwire.core.model import Kind, Problem, Value
from toolwire.framing import calls_resource
from toolwire.framing.call_document import MAX_ID, is_call_id, read_part, read_status, read_time, write_status

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
STATES = [state.value for state in LongCallState]
MEMBERS = ["tool", "progress", "message", "created_at", "updated_at", "expires_at", "result", "error", "input"]
DOCUMENTS = st.fixed_dictionaries(
    {"id": st.just("a1") | JSON, "state": st.sampled_from(STATES) | JSON},
    optional=dict.fromkeys([*MEMBERS, "cancel_asked"], JSON),
)
RESULTS = st.one_of(
    st.builds(Value, st.integers() | st.text(max_size=5)),
    st.builds(
        Problem,
        kind=st.sampled_from([kind for kind in Kind if kind is not Kind.ACCEPTED]),
        message=st.text("abc ", min_size=1, max_size=9),
        can_retry=st.booleans(),
    ),
)
SECONDS = st.integers(0, 4_000_000_000).map(float)


@st.composite
def statuses(draw: Any) -> CallStatus:
    state = draw(st.sampled_from(list(LongCallState)))
    return CallStatus(
        id=draw(st.text("abc0-", min_size=1, max_size=40)),
        tool="Kit.tool@1.0.0",
        state=state,
        progress=draw(st.none() | st.floats(0, 1)),
        message=draw(st.text("abc ", max_size=20)).strip(),
        created_at=draw(SECONDS),
        updated_at=draw(SECONDS),
        expires_at=draw(st.none() | SECONDS),
        result=draw(RESULTS) if state.is_final else None,
        cancel_asked=draw(st.booleans()),
    )


@pytest.mark.requirement("LC-02", "LC-05")
@given(statuses())
def test_status_is_read_back_as_it_was_written(status: CallStatus) -> None:
    assert read_status(json.loads(json.dumps(write_status(status)))) == status


@pytest.mark.requirement("LC-05")
@given(JSON | DOCUMENTS)
def test_any_data_is_a_bounded_status_or_none(data: Any) -> None:
    status = read_status(data)
    if status is not None:
        assert is_call_id(status.id)
        assert status.progress is None or 0 <= status.progress <= 1
        assert len(status.message) <= 1_000
        assert (status.result is not None) == status.is_over
        assert not isinstance(status.result, Problem) or status.result.kind is not Kind.ACCEPTED


@pytest.mark.requirement("LC-05")
@given(st.integers(200, 599), st.binary(max_size=60) | DOCUMENTS.map(lambda data: json.dumps(data).encode()))
def test_any_response_is_a_reading_or_a_problem(status: int, body: bytes) -> None:
    read = calls_resource.read_status_response(Response(status, (), body))
    assert isinstance(read, (calls_resource.CallReading, Problem))


@pytest.mark.requirement("LC-05")
@pytest.mark.parametrize(
    ("data", "part"),
    [(0, 0.0), (1, 1.0), (0.5, 0.5), (-1, 0.0), (10**400, 1.0), (-(10**400), 0.0), (float("nan"), None), (True, None)],
)
def test_progress_is_a_part_from_0_to_1(data: Any, part: float | None) -> None:
    assert read_part(data) == part


@pytest.mark.requirement("LC-05")
def test_ids_and_times_are_plain_and_bounded() -> None:
    assert [one for one in ("a", "x" * MAX_ID, "/jobs/7?x=1") if not is_call_id(one)] == []
    assert [one for one in ("", "a b", "é", "a\n", "x" * (MAX_ID + 1), 7, None) if is_call_id(one)] == []
    assert read_time("2026-11-24T06:00:00.500Z") == 1_795_500_000.5
    assert [read_time(one) for one in ("2026-11-24", "9" * 50, "0001-01-01T00:00:00+23:59", 7)][0::3] == [None, None]
