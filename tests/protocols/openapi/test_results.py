"""Results and problems, both ways: ordinary HTTP, and ours back as they were."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.http import Response, header
from toolwire.core.model import Kind, Problem, Value
from toolwire.framing import jsontext
from toolwire.protocols.openapi import CODEC, problems, results

JSON = b"application/json"


def answer(body: bytes, media_type: bytes = JSON, status: int = 200) -> Response:
    return Response(status, ((b"content-type", media_type),) if media_type else (), body)


@pytest.mark.requirement("XL-100")
@pytest.mark.parametrize(
    ("response", "value"),
    [
        (answer(b'{"a": 1}'), {"a": 1}),
        (answer(b"null"), None),
        (answer(b"[1]", b"application/hal+json; charset=utf-8", 201), [1]),
        (answer(b"12345678901234567890123"), 12345678901234567890123),
        (answer("é".encode(), b"text/plain"), "é"),
        (answer(b"\xe9", b"text/plain; charset=ISO-8859-1"), "é"),
        (answer(b"\xff", b"text/plain"), "\ufffd"),
        (answer(b"<a/>", b"application/xml"), "<a/>"),
        (answer(b"", b"", 204), {"ok": True, "status": 204}),
        (answer(b"", b"", 205), {"ok": True, "status": 205}),
        (answer(b"", JSON, 202), {"ok": True, "status": 202}),
        (answer(b"\x89PNG", b"image/png"), {"media_type": "image/png", "bytes_len": 4}),
        (answer(b"[2]", b""), [2]),
        (answer(b"plain", b""), "plain"),
        (answer(b"\xff\xfe", b""), {"media_type": "application/octet-stream", "bytes_len": 2}),
        (answer(b"\xef\xbb\xbf[1]"), [1]),
    ],
)
def test_success_is_a_value(response: Response, value: object) -> None:
    assert results.read(response) == Value(value)


@pytest.mark.parametrize(
    "response", [answer(b"{", JSON), answer(b"NaN", JSON), Response(302), Response(304), Response(199), Response(100)]
)
def test_an_answer_that_is_no_result_is_a_bad_answer(response: Response) -> None:
    problem = results.read(response)
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.BAD_ANSWER


@pytest.mark.requirement("XL-101")
@pytest.mark.parametrize("kind", list(Kind))
def test_every_problem_comes_back_as_it_was(kind: Kind) -> None:
    problem = Problem(
        kind=kind,
        message="No.",
        can_retry=True,
        retry_after_ms=1500,
        additional_prompt_content="Try another.",
        parameter_errors={"a": "is wrong"},
        details={"n": [1]},
    )
    assert results.read(results.write(problem, 0.1)) == problem


@pytest.mark.requirement("XL-101")
@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_can_be_refused_in_words_of_http(kind: Kind) -> None:
    response = CODEC.refuse(Problem(kind=kind, message="No.", developer_message="secret"))
    body = jsontext.read(response.body)
    assert header(response.headers, b"content-type") == "application/problem+json"
    assert response.status >= 400
    assert (body["status"], body["type"], body["detail"], body["kind"]) == (response.status, "about:blank", "No.", kind)
    assert b"secret" not in response.body


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (Kind.MALFORMED, 400), (Kind.UNAUTHORIZED, 401), (Kind.FORBIDDEN, 403), (Kind.DENIED, 403),
        (Kind.NOT_FOUND, 404), (Kind.UNKNOWN_TOOL, 404), (Kind.WRONG_METHOD, 405), (Kind.TOO_SLOW, 408),
        (Kind.TOO_LARGE, 413), (Kind.UNSUPPORTED_TYPE, 415), (Kind.INVALID_ARGUMENTS, 422), (Kind.RATE_LIMITED, 429),
        (Kind.TOOL_FAILED, 500), (Kind.INTERNAL, 500), (Kind.BAD_ANSWER, 502), (Kind.OVERLOADED, 503),
        (Kind.TIMEOUT, 504),
    ],
)  # fmt: skip
def test_the_status_says_what_went_wrong(kind: Kind, status: int) -> None:
    assert problems.write(Problem(kind=kind, message="No.")).status == status


@pytest.mark.parametrize(
    ("kind", "after_ms", "seconds"),
    [
        (Kind.OVERLOADED, None, "1"),
        (Kind.OVERLOADED, 1001, "2"),
        (Kind.RATE_LIMITED, 2000, "2"),
        (Kind.RATE_LIMITED, None, ""),
    ],
)
def test_retry_after_is_in_whole_seconds_rounded_up(kind: Kind, after_ms: int | None, seconds: str) -> None:
    response = problems.write(Problem(kind=kind, message="Wait.", retry_after_ms=after_ms))
    assert header(response.headers, b"retry-after") == seconds


def test_a_missing_key_is_asked_for() -> None:
    response = problems.write(Problem(kind=Kind.UNAUTHORIZED, message="Send a key."))
    assert header(response.headers, b"www-authenticate") == "Bearer"
    assert jsontext.read(response.body)["error"] == "unauthorized"
    assert jsontext.read(response.body)["message"] == "Send a key."


@pytest.mark.requirement("XL-101")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"title": "T", "detail": "D"}', "D"),
        (b'{"title": "T"}', "T"),
        (b'{"error": "E"}', "E"),
        (b'{"error": {"message": "M"}}', "M"),
        (b'{"message": "M", "error": "e"}', "M"),
        (b'{"detail": [{"msg": "x"}]}', "The server answered 404 Not Found."),
        (b"<html>", "The server answered 404 Not Found."),
        (b"", "The server answered 404 Not Found."),
        (b"[]", "The server answered 404 Not Found."),
        (b'{"kind": "nonsense", "detail": "D"}', "D"),
        (b'{"kind": [], "detail": "D"}', "D"),
    ],
)
def test_a_foreign_error_is_said_in_its_own_words(body: bytes, message: str) -> None:
    problem = results.read(answer(body, b"application/problem+json", 404))
    assert isinstance(problem, Problem)
    assert (problem.kind, problem.message, problem.details["status"]) == (Kind.NOT_FOUND, message, 404)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Kind.INVALID_ARGUMENTS), (401, Kind.UNAUTHORIZED), (403, Kind.FORBIDDEN), (418, Kind.TOOL_FAILED),
     (422, Kind.INVALID_ARGUMENTS), (429, Kind.RATE_LIMITED), (500, Kind.TOOL_FAILED), (503, Kind.OVERLOADED),
     (504, Kind.TIMEOUT), (599, Kind.TOOL_FAILED), (999, Kind.TOOL_FAILED)],
)  # fmt: skip
def test_without_a_kind_the_status_says_it(status: int, kind: Kind) -> None:
    problem = results.read(answer(b"", b"", status))
    assert isinstance(problem, Problem)
    assert problem.kind is kind


@pytest.mark.parametrize(
    ("text", "ms"), [(b"3", 3000), (b"Wed, 21 Oct 2026 07:28:00 GMT", None), (b"-1", None), (b"9" * 400, 2_592_000_000)]
)
def test_the_retry_after_field_is_read_where_it_is_seconds(text: bytes, ms: int | None) -> None:
    problem = results.read(Response(429, ((b"retry-after", text),)))
    assert isinstance(problem, Problem)
    assert (problem.retry_after_ms, problem.can_retry) == (ms, True)


def test_a_huge_error_is_cut_and_not_kept() -> None:
    body = jsontext.write({"detail": "x" * 100_000})
    problem = results.read(answer(body, JSON, 500))
    assert isinstance(problem, Problem)
    assert len(problem.message) < 1_100
    assert problem.details == {"status": 500}


@given(
    st.binary(max_size=80),
    st.integers(100, 599),
    st.sampled_from([b"", JSON, b"text/plain", b"application/problem+json", b"\xff;"]),
)
def test_any_answer_is_a_result(body: bytes, status: int, media_type: bytes) -> None:
    assert isinstance(results.read(answer(body, media_type, status)), Value | Problem)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_every_value_comes_back_as_it_was(value: Any) -> None:
    assert results.read(results.write(Value(value), 0.1)) == Value(value)
