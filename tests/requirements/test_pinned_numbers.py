"""The numbers that rows of the ledger state are those of the code: each fails on the other side of its limit."""

from __future__ import annotations

import pytest

from toolwire import DefinitionError, GrantBounds, InputRequest
from toolwire.consent.input_display import describe_asker
from toolwire.core.model import Condition
from toolwire.protocols.openapi.request.path_template import _is_plain
from toolwire.server.limits import ServerLimits
from toolwire.stores.sessions.session_rows import SessionBounds
from toolwire.validation.patterns import is_pattern

pytestmark = pytest.mark.requirement("FU-63")


@pytest.mark.requirement("D-15")
def test_a_pattern_has_at_most_2000_characters() -> None:
    assert is_pattern("a" * 2_000)
    assert not is_pattern("a" * 2_001)


@pytest.mark.requirement("MC-10")
def test_sessions_are_1000_and_50_of_one_caller_for_30_minutes_and_24_hours() -> None:
    limits = ServerLimits()
    bounds = SessionBounds(limits.sessions, limits.sessions_each, limits.session_idle_s, limits.session_s)
    assert bounds == (1_000, 50, 30 * 60, 24 * 3_600)
    assert limits.resume_s == 30


@pytest.mark.requirement("D-10")
def test_a_path_value_is_decoded_up_to_ten_times() -> None:
    def encode(text: str, times: int) -> str:
        return text.replace("%", "%" + "25" * (times - 1)) if times else text

    for times in range(1, 12):
        assert not _is_plain(encode("%2e%2e", times)), times
    assert _is_plain(encode("%41", 9))
    assert not _is_plain(encode("%41", 10)), "it is not known what a server would make of it"


@pytest.mark.requirement("CC-01", "CC-03")
def test_a_permission_has_at_most_16_conditions_and_1000000_calls() -> None:
    one = Condition("/amount", "le", 5)
    GrantBounds(conditions=(one,) * 16, uses=1_000_000)
    with pytest.raises(DefinitionError, match="only 16 are read"):
        GrantBounds(conditions=(one,) * 17)
    with pytest.raises(DefinitionError, match="from 1 to 1,000,000"):
        GrantBounds(uses=1_000_001)


@pytest.mark.requirement("AT-41")
def test_what_a_server_calls_itself_has_at_most_80_characters() -> None:
    def ask(title: str) -> str:
        return describe_asker(InputRequest(message="", site="https://a.example", title=title, tool="sew"))

    assert f"'{'x' * 80}'" in ask("x" * 80)
    assert f"'{'x' * 77}...'" in ask("x" * 81)
