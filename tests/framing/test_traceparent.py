"""The traceparent of W3C Trace Context, and the trace ids of others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.framing import traceparent
from toolwire.framing.traceparent import Traceparent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEX = "0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [(f"00-{TRACE}-{SPAN}-01", True), (f"00-{TRACE}-{SPAN}-00", False), (f"00-{TRACE}-{SPAN}-fe", False)],
)
def test_traceparent_is_read_as_trace_span_and_sampled_flag(text: str, sampled: bool) -> None:
    assert traceparent.read(text) == Traceparent(TRACE, SPAN, sampled)


def test_traceparent_of_a_later_version_may_have_more_fields() -> None:
    assert traceparent.read(f"cc-{TRACE}-{SPAN}-01-what-comes") == Traceparent(TRACE, SPAN, True)


@pytest.mark.parametrize(
    "text",
    ["", "00", f"00-{TRACE}-{SPAN}", f"00-{TRACE}-{SPAN}-01-more", f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01",
     f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-{SPAN}-01", f"00-{TRACE}-{SPAN}-0g", f" 00-{TRACE}-{SPAN}-01",
     f"00-{TRACE}-{SPAN}-01\n", f"cc-{TRACE}-{SPAN}-01-" + "x" * 600, f"00-{TRACE}-{SPAN}-٠١"],
)  # fmt: skip
def test_invalid_traceparent_is_ignored(text: str) -> None:
    assert traceparent.read(text) is None


@given(
    st.builds(
        Traceparent,
        st.text(HEX, min_size=32, max_size=32).filter(lambda text: set(text) != {"0"}),
        st.text(HEX, min_size=16, max_size=16).filter(lambda text: set(text) != {"0"}),
        st.booleans(),
    )
)
def test_written_traceparent_is_read_back(parent: Traceparent) -> None:
    assert traceparent.read(traceparent.write(parent)) == parent


@pytest.mark.requirement("OTC-020")
@pytest.mark.parametrize(
    ("text", "id_"),
    [
        (TRACE, TRACE),
        (TRACE.upper(), TRACE),
        ("4bf92f35-77b3-4da6-a3ce-929d0e0e4736", TRACE),
        ("0" * 32, ""),
        ("trace-7", ""),
        ("", ""),
        ("4bf92f3577b34da6a3ce929d0e0e473", ""),
        ("-" * 36, ""),
    ],
)
def test_a_trace_id_of_a_caller_is_32_digits_or_a_uuid(text: str, id_: str) -> None:
    assert traceparent.parse_trace_id(text) == id_
