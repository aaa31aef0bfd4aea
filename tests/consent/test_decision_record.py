"""A chain of decisions shows what somebody changed afterwards."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.consent.decision_record import (
    FIRST_DIGEST,
    ChainedDecision,
    Decision,
    compute_chain_digest,
    find_chain_fault,
)
from toolwire.consent.tool_definition import compute_digest


def chain(*decisions: str) -> list[ChainedDecision]:
    entries: list[ChainedDecision] = []
    for number, decision in enumerate(decisions, 1):
        record = Decision(at=1.0, principal="ada", connection="c", tool="x", binding="b", decision=decision)
        before = entries[-1].digest if entries else FIRST_DIGEST
        entries.append(ChainedDecision(number, record, compute_chain_digest(before, number, record)))
    return entries


@pytest.mark.requirement("XL-055")
def test_chain_check_reports_where_decision_records_were_changed() -> None:
    whole = chain("allow", "deny", "allow")
    assert find_chain_fault(whole) == find_chain_fault([]) == ""
    changed = whole[1]._replace(record=replace(whole[1].record, decision="allow"))
    assert find_chain_fault([whole[0], changed, whole[2]]) == "Record 2 was changed after it was written."
    assert find_chain_fault([whole[0], whole[2]]) == "Record 2 is missing."
    assert find_chain_fault([whole[1], whole[0], whole[2]]) == "Record 1 is missing."
    moved = [whole[0], ChainedDecision(2, whole[2].record, whole[2].digest)]
    assert find_chain_fault(moved) == "Record 2 was changed after it was written."


@pytest.mark.requirement("XL-055")
def test_record_of_an_earlier_version_keeps_its_digest() -> None:
    # Earlier versions had neither site, receipt nor caller: their digest is that of the other members.
    record = Decision(at=1.0, principal="ada", connection="c", tool="x", binding="b", decision="allow")
    others = {each.name: getattr(record, each.name) for each in fields(Decision)}
    for name in ("site", "receipt", "caller"):
        del others[name]
    expected = compute_digest({"before": FIRST_DIGEST, "number": 1, **others})
    assert compute_chain_digest(FIRST_DIGEST, 1, record) == expected
    for name in ("site", "receipt", "caller"):
        assert compute_chain_digest(FIRST_DIGEST, 1, replace(record, **{name: "s"})) == compute_digest(
            {"before": FIRST_DIGEST, "number": 1, **others, name: "s"}
        )


_TEXTS = st.text() | st.text(alphabet='\ud800é\x1f\u2028"\\/', max_size=5)


@pytest.mark.requirement("XL-055", "GR-04")
@given(
    record=st.builds(
        Decision,
        at=st.floats(allow_nan=False) | st.floats(1.0, 1e12) | st.integers(),
        principal=_TEXTS,
        connection=_TEXTS,
        tool=_TEXTS,
        binding=_TEXTS,
        decision=_TEXTS,
        always=st.booleans(),
        shown_ms=st.integers(),
        site=_TEXTS,
    ),
    number=st.integers(1),
)
def test_digest_of_a_record_is_that_of_its_canonical_text(record: Decision, number: int) -> None:
    members = {each.name: getattr(record, each.name) for each in fields(Decision)}
    for name in ("site", "receipt", "caller"):
        if not members[name]:
            del members[name]
    expected = compute_digest({"before": FIRST_DIGEST, "number": number, **members})
    assert compute_chain_digest(FIRST_DIGEST, number, record) == expected
