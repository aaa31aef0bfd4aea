"""Any bytes to any reader are answered."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.conformance import build_kit, find_reading_faults, find_replying_faults, open_session
from tests.support.wire import HERE
from toolwire.core.codec import Codec, Site
from toolwire.core.http import Request, Response
from toolwire.core.model import Call, Kind, Problem

MEMBERS = (
    b"jsonrpc method params id request tool_id input tools result error items output paths openapi functions name code"
    b" $schema"
).split()
JSON_LIKE = st.recursive(
    st.sampled_from([b"null", b"1", b'"x"', b"true", b'"2.0"', b'"add"', b"1e999", b'"\\ud800"', b"9" * 30]),
    lambda inner: st.lists(inner, max_size=4).map(lambda items: b"[" + b",".join(items) + b"]")
    | st.dictionaries(
        st.sampled_from(MEMBERS),
        inner,
        max_size=6,
    ).map(lambda members: b"{" + b",".join(b'"%s":%s' % pair for pair in members.items()) + b"}"),
    max_leaves=12,
)  # fmt: skip
BODIES = st.binary(max_size=50) | JSON_LIKE
TYPES = st.sampled_from([b"application/json", b"text/html", b"text/event-stream", b"\xff", b""])
EACH_FEW = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
KIT = build_kit()


@pytest.mark.requirement("R5", "S-16")
@EACH_FEW
@given(body=BODIES, media=TYPES, query=st.text("ab=&%[]\xe9", max_size=20))
def test_any_bytes_to_any_path_are_answered(codec: Codec, body: bytes, media: bytes, query: str) -> None:
    routes = codec.routes(KIT.catalog(), Site())
    for method, path in routes:
        request = Request(method, f"{path}?{query}", ((b"content-type", media),), body, "r1")
        assert list(find_reading_faults(routes, request)) == []


@pytest.mark.requirement("R5")
@EACH_FEW
@given(body=BODIES, media=TYPES, status=st.integers(100, 599))
def test_any_response_to_discovery_is_read(codec: Codec, body: bytes, media: bytes, status: int) -> None:
    answer = Response(status, ((b"content-type", media), (b"retry-after", b"\xb2")), body)
    assert list(find_replying_faults(codec, HERE, lambda _: answer)) == []


@pytest.mark.requirement("R5")
@EACH_FEW
@given(body=BODIES, media=TYPES, status=st.integers(100, 599))
def test_any_response_to_a_call_is_read(codec: Codec, body: bytes, media: bytes, status: int) -> None:
    with open_session(codec, KIT) as joined:
        call = (joined.peer, Call(joined.peer.catalog.names["greet"], {"name": "Ada"}, "c1"))
    answer = Response(status, ((b"content-type", media), (b"retry-after", b"9" * 30)), body)
    assert list(find_replying_faults(codec, HERE, lambda _: answer, call)) == []


def test_unreachable_server_is_a_problem(codec: Codec) -> None:
    nobody = Problem(kind=Kind.UNREACHABLE, message="Nobody is there.")
    assert list(find_replying_faults(codec, HERE, lambda _: nobody)) == []
