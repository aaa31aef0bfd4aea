"""The numbers that rows of the ledger state are those of the code: each fails on the other side of its limit."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from spec.ledger import read_requirements
from toolwire import DefinitionError, GrantBounds, InputRequest
from toolwire.auth import client_metadata
from toolwire.client.calls.file_arguments import MAX_FILE_BYTES
from toolwire.client.discovery import cache
from toolwire.client.login.sign_in import SignInUser
from toolwire.client.transport import event_stream_server, server_program
from toolwire.consent.data_flow import MIN_MATCH
from toolwire.consent.input_display import describe_asker
from toolwire.core import interpreter
from toolwire.core.long_call import LongCallLimits
from toolwire.core.model import Condition
from toolwire.core.selection import DOCUMENT_BYTES
from toolwire.define.options import MAX_KEEP_S
from toolwire.framing.tool_description import BUDGET_TOKENS
from toolwire.gateway import personal_toolbox
from toolwire.protocols.mcp import elicitation, foreign_members
from toolwire.protocols.openapi import discovery
from toolwire.protocols.openapi.document import inheritance
from toolwire.protocols.openapi.request.path_template import _is_plain
from toolwire.protocols.openapi.schema import schema_size
from toolwire.protocols.openapi.tools import declared_examples
from toolwire.server.limits import QUESTION_WAIT_S, ServerLimits
from toolwire.server.long_calls import long_calls
from toolwire.server.run.function_toolbox import YIELD_S
from toolwire.stores.consent import audit, ended_sessions
from toolwire.stores.consent.memory import MemoryAudit
from toolwire.stores.ledger import postgres, sql_calls
from toolwire.stores.sessions.session_rows import SessionBounds
from toolwire.testing import tool_checks
from toolwire.validation.patterns import is_pattern

pytestmark = pytest.mark.requirement("FU-63")
_REQUIREMENTS: Final = read_requirements((Path(__file__).parents[2] / "spec/requirements.toml").read_text("utf-8"))
_SECONDS: Final = {"ms": 0.001, "minute": 60, "minutes": 60, "h": 3_600, "hours": 3_600, "days": 86_400}
_UNITS: Final = {"KiB": 1 << 10, "MiB": 1 << 20, **_SECONDS}
_LIMITS: Final = (
    ("XL-012", "64 KiB", discovery._LLM_JSON_BYTES),
    ("XL-012 P-05", "64 MiB", DOCUMENT_BYTES),
    ("XL-012 D-17", "250,000", schema_size.MAX_VALUES),
    ("XL-016 OQ-4", "24 h", cache.DAY_S),
    ("XL-055", "64 MiB", audit.FILE_BYTES),
    ("XL-055", "100,000", MemoryAudit()._entries.maxlen),
    ("AS-16", "5 KiB", client_metadata.MAX_DOCUMENT_BYTES),
    ("AS-16", "1 minute", client_metadata._MIN_S),
    ("AS-16", "24 hours", client_metadata._MAX_S),
    ("AC-05", "5 minutes", SignInUser.__dataclass_fields__["wait_s"].default),
    ("MC-02", "60 s", server_program.MAX_BACK_OFF_S),
    ("MC-02", "16 MiB", server_program.MAX_LINE),
    ("MC-02", "8 KiB", server_program.MAX_ERRORS),
    ("MC-13", "10 s", event_stream_server.OPENING_S),
    ("MC-13", "16 MiB", event_stream_server.MAX_EVENT),
    ("MC-13", "100 requests", event_stream_server.MAX_PENDING),
    ("LC-03", "30 days", MAX_KEEP_S),
    ("LC-03", "1,000 calls", LongCallLimits().each),
    ("LC-03", "64 MiB", LongCallLimits().each_bytes),
    ("LC-03", "100 that are not over", LongCallLimits().open_each),
    ("GW-04", "300 seconds", QUESTION_WAIT_S),
    ("GW-04", "-32042", elicitation.URL_REQUIRED),
    ("FU-17", "32 MiB", MAX_FILE_BYTES),
    ("AT-42", "1,000", ended_sessions.MAX_EACH),
    ("AT-57", "60 s", personal_toolbox._EARLY_S),
    ("O-23", "100 kinds", inheritance._MAX_KINDS),
    ("O-27", "2,000 bytes", declared_examples._MAX_BYTES),
    ("I-24", "2,000 parts", foreign_members.MAX_DEFINITION_PARTS),
    ("I-24", "20,000", foreign_members.MAX_RESULT_PARTS),
    ("GR-01", "5 ms", YIELD_S),
    ("GR-03", "2,048", postgres._SWEEPS_AT_ONCE * sql_calls._MAX_REMOVED),
    ("GR-03", "64 long calls", long_calls._READY_AT_ONCE),
    ("GR-06", "200,000", interpreter._RARELY),
    ("QF-06", "24 characters", MIN_MATCH),
    ("FI-01", "8,000 tokens", BUDGET_TOKENS),
    ("FD-05", "400 tokens", tool_checks.MAX_TOOL_TOKENS),
    ("FD-05", "10,000 tokens", tool_checks.MAX_LIST_TOKENS),
)


@pytest.mark.parametrize(("rows", "words", "limit"), _LIMITS)
def test_a_limit_is_what_the_requirement_says(rows: str, words: str, limit: float) -> None:
    number, _, unit = words.partition(" ")
    for row in rows.split():
        assert words in _REQUIREMENTS[row].sentence, f"{row} states another limit"
    assert limit == pytest.approx(float(number.replace(",", "")) * _UNITS.get(unit, 1))


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
