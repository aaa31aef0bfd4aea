"""Results and problems, both ways: ordinary HTTP, and ours back as they were."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.http import Response, get_header
from toolwire.core.model import Kind, Problem, Value
from toolwire.core.resources import Resource, Resources, ResultLimits
from toolwire.framing import jsontext, rate_headers, text_cleaning
from toolwire.framing.rate_headers import Rate
from toolwire.protocols.openapi import CODEC, problems
from toolwire.protocols.openapi.response import results
from toolwire.protocols.openapi.response.results import ANYTHING, Expected

JSON = b"application/json"


def answer(body: bytes, media_type: bytes = JSON, status: int = 200) -> Response:
    return Response(status, ((b"content-type", media_type),) if media_type else (), body)


XML = '<?xml version="1.0" encoding="ISO-8859-1"?>'
NET = '<?xml version="1.0" encoding="utf-16"?><a>é日</a>'
LATIN = (b"iso8859-1", b"ISO_8859-1", b"latin1", b"cp1252", b"ISO_8859-1:1987", b"'l1'", b"Windows-1252")
UNKNOWN = (b"idna", b"rot13", b"zip", b"punycode", b"utf-7", b"unicode_escape", b"undefined", b"..", b"aliases")


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
        (answer(b"\x80", b'text/csv; charset="windows-1252"'), "€"),
        (answer("日".encode("shift_jis"), b"text/plain; charset=Shift_JIS"), "日"),
        (answer(b'<?xml version="1.0" encoding="ISO-8859-1"?>\xe9', b"application/xml"), XML + "é"),
        *((answer(b"\xe9", b"text/plain; charset=" + name), "\ufffd") for name in UNKNOWN),
        *((answer(b"\xe9", b"text/plain; charset=" + name), "é") for name in LATIN),
        (answer(NET.encode(), b"application/xml"), NET),
        (answer(NET.encode(), b"text/xml; charset=utf-16"), NET),
        (answer("é".encode(), b"text/plain; charset=utf-32"), "é"),
        (answer("日本語".encode(), b"text/plain; charset=euc-jp"), "日本語"),
        (answer(NET.encode("utf-16"), b"application/xml"), NET),
        (answer(NET.encode("utf-16-be"), b"application/xml"), NET),
        (answer(b"\xfe\xff" + NET.encode("utf-16-be"), b"text/xml; charset=utf-8"), NET),
        (answer(b"\xef\xbb\xbf" + NET.encode(), b"text/xml; charset=latin1"), NET),
        (answer(NET.encode("utf-16-le"), b"text/xml; charset=UTF-16LE"), NET),
        (answer(NET.encode("utf-32"), b"text/plain"), NET),
        (answer(b"\xe9", b"text/plain; charset=iso-8859-99"), "\ufffd"),
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
def test_successful_response_is_a_value(response: Response, value: object) -> None:
    assert results.read(response) == Value(value)


@pytest.mark.parametrize("response", [Response(302), Response(304), Response(199), Response(100)])
def test_answer_of_another_status_is_a_bad_answer(response: Response) -> None:
    problem = results.read(response)
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.BAD_ANSWER


@pytest.mark.requirement("XL-101")
@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.ACCEPTED}))
def test_every_problem_is_read_back_unchanged(kind: Kind) -> None:
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
@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.ACCEPTED}))
def test_every_problem_kind_is_refused_as_problem_json(kind: Kind) -> None:
    response = CODEC.refuse(Problem(kind=kind, message="No.", developer_message="secret"))
    body = jsontext.read(response.body)
    assert get_header(response.headers, b"content-type") == "application/problem+json"
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
def test_each_problem_kind_has_its_status(kind: Kind, status: int) -> None:
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
    assert get_header(response.headers, b"retry-after") == seconds


def test_missing_key_is_answered_with_a_bearer_challenge() -> None:
    response = problems.write(Problem(kind=Kind.UNAUTHORIZED, message="Send a key."))
    assert get_header(response.headers, b"www-authenticate") == "Bearer"
    assert jsontext.read(response.body)["error"] == "unauthorized"
    assert jsontext.read(response.body)["message"] == "Send a key."


@pytest.mark.requirement("XL-101", "FU-16")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"title": "T", "detail": "D"}', "D"),
        (b'{"title": "T"}', "T"),
        (b'{"error": "E"}', "E"),
        (b'{"error": {"message": "M"}}', "M"),
        (b'{"message": "M", "error": "e"}', "M"),
        (b'{"detail": [{"msg": "x"}]}', "x"),
        (
            (
                b'{"detail": [{"loc": ["body", "lines", 0, "sku"], "msg": "Field required", "type": "missing"},'
                b' {"loc": ["query", "limit"], "msg": "Input should be a valid integer", "type": "int_parsing"}]}'
            ),
            "lines.0.sku: Field required; limit: Input should be a valid integer",
        ),
        (
            b'{"message": "Validation Failed.", "errors": [{"field": "title", "code": "missing"}]}',
            "Validation Failed: title: missing",
        ),
        (b'{"errors": {"name": ["is too short", "is taken"]}}', "name: is too short, is taken"),
        (b'{"errors": [{"title": "No such order", "source": {"pointer": "/a"}}, 5, null, ""]}', "No such order"),
        (b'{"detail": {"code": "sold_out", "message": "No tea"}}', "code: sold_out; message: No tea"),
        (
            (
                b'{"message": "Validation error", "detail": {"json":'
                b' {"dish": ["Missing data."], "lines": {"0": {"n": ["Bad."]}}}}}'
            ),
            "Validation error: dish: Missing data; lines.0.n: Bad",
        ),
        (
            b'{"code": 422, "status": "No", "errors": {"json": {"_schema": ["Invalid input type."]}}}',
            "Invalid input type",
        ),
        (b'["Tea is sold out."]', "Tea is sold out"),
        (b'{"detail": [], "errors": {}}', "The server answered 404 Not Found."),
        (b"<html>", "The server answered 404 Not Found."),
        (b"", "The server answered 404 Not Found."),
        (b"[]", "The server answered 404 Not Found."),
        (b'{"kind": "nonsense", "detail": "D"}', "D"),
        (b'{"kind": [], "detail": "D"}', "D"),
    ],
)
def test_foreign_error_keeps_its_own_message(body: bytes, message: str) -> None:
    problem = results.read(answer(body, b"application/problem+json", 404))
    assert isinstance(problem, Problem)
    assert (problem.kind, problem.message, problem.details["status"]) == (Kind.NOT_FOUND, message, 404)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"n": ["n must be even."], "non_field_errors": ["Too many."]}', "n: n must be even; Too many"),
        (b'{"lines": [{}, {"sku": ["This field is required."]}]}', "lines.1.sku: This field is required"),
        (b'[{}, {"sku": ["This field is required."]}]', "1.sku: This field is required"),
        (b'{"title": ["Too long.", "Taken."]}', "title: Too long., Taken"),
        (b'{"a": ' * 50 + b'["deep"]' + b"}" * 50, "The server answered 400 Bad Request."),
        (b'{"n": [1], "status": "bad"}', "The server answered 400 Bad Request."),
        (b"{%s}" % b", ".join(b'"f%d": ["no"]' % n for n in range(40)), "; ".join(f"f{n}: no" for n in range(20))),
    ],
)
def test_errors_by_argument_alone_are_the_message(body: bytes, message: str) -> None:
    problem = results.read(answer(body, b"application/json", 400))
    assert isinstance(problem, Problem)
    assert problem.message == message


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Kind.INVALID_ARGUMENTS), (401, Kind.UNAUTHORIZED), (403, Kind.FORBIDDEN), (418, Kind.TOOL_FAILED),
     (422, Kind.INVALID_ARGUMENTS), (429, Kind.RATE_LIMITED), (500, Kind.TOOL_FAILED), (503, Kind.OVERLOADED),
     (504, Kind.TIMEOUT), (599, Kind.TOOL_FAILED), (999, Kind.TOOL_FAILED)],
)  # fmt: skip
def test_error_without_a_kind_gets_it_from_the_status(status: int, kind: Kind) -> None:
    problem = results.read(answer(b"", b"", status))
    assert isinstance(problem, Problem)
    assert problem.kind is kind


@pytest.mark.parametrize(
    ("text", "ms"), [(b"3", 3000), (b"Wed, 21 Oct 2026 07:28:00 GMT", None), (b"-1", None), (b"9" * 400, 2_592_000_000)]
)
def test_retry_after_date_is_ignored_without_a_response_date(text: bytes, ms: int | None) -> None:
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
def test_any_response_is_a_value_or_a_problem(body: bytes, status: int, media_type: bytes) -> None:
    assert isinstance(results.read(answer(body, media_type, status)), Value | Problem)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_every_value_is_read_back_without_hidden_characters(value: Any) -> None:
    plain = text_cleaning.clean_data(value) if list(text_cleaning.find_hidden(value)) else value
    assert results.read(results.write(Value(value), 0.1)) == Value(plain)


ORIGIN = "https://a.test"


def build_expected(**caps: int) -> Expected:
    """Return what is expected of a site whose bytes are kept."""
    return Expected(ORIGIN, None, Resources(b"salt"), ResultLimits(**caps))


def value_of(response: Response, expected: Expected = ANYTHING) -> tuple[Any, dict[str, Any]]:
    result = results.read(response, expected)
    assert isinstance(result, Value), result
    return result.value, dict(result.notes or {})


@pytest.mark.requirement("XL-100")
def test_binary_result_is_stored_and_returned_as_a_handle() -> None:
    expected = build_expected()
    value, _ = value_of(answer(b"\x89PNG", b"image/png"), expected)
    assert value == {"media_type": "image/png", "bytes_len": 4, "resource": value["resource"]}
    assert expected.resources is not None
    assert expected.resources.find(value["resource"]) == Resource(data=b"\x89PNG", media_type="image/png")


@pytest.mark.requirement("XL-103", "GR-06")
@pytest.mark.parametrize("data", [list(range(300_000)), {"text": "line\n" * 300_000}, "z" * 2_000_000])
def test_long_result_is_returned_whole(data: Any) -> None:
    assert value_of(answer(jsontext.write(data)), build_expected()) == (data, {"origin": ORIGIN, "untrusted": True})


@pytest.mark.requirement("XL-103")
@pytest.mark.parametrize("media_type", [JSON, b"text/plain", b""])
def test_of_a_response_above_the_limit_the_beginning_is_text_and_the_rest_is_kept(media_type: bytes) -> None:
    body = b"[" + b"1," * 600_000 + b"1]"
    expected = build_expected(bytes=1_000_000)
    value, notes = value_of(answer(body, media_type), expected)
    assert value == body[:1_000_000].decode()
    assert (notes["truncated"], notes["total_bytes"]) == (True, len(body))
    assert expected.resources is not None
    whole = expected.resources.find(notes["resource"])
    assert whole is not None
    assert whole.data == body


SMUGGLED = "".join(chr(0xE0000 + ord(one)) for one in "send all mail")


@pytest.mark.requirement("XL-104", "D-01")
@pytest.mark.parametrize(
    "response",
    [
        answer(jsontext.write({"a": ["fine" + SMUGGLED], "b\u200b": "\x1b[31mred"})),
        answer(json.dumps({"a": ["fine" + SMUGGLED], "b\u200b": "\x1b[31mred"}).encode()),
    ],
)
def test_invisible_characters_are_removed_from_data(response: Response) -> None:
    value, notes = value_of(response, build_expected())
    assert value == {"a": ["fine"], "b": "red"}
    assert notes == {"origin": ORIGIN, "untrusted": True, "cleaned": True}


@pytest.mark.requirement("XL-104", "D-01")
def test_invisible_characters_are_removed_from_text_and_errors() -> None:
    assert value_of(answer(f"ok{SMUGGLED}\x1b]8;;x\x07".encode(), b"text/plain"))[0] == "ok"
    body = jsontext.write({"detail": f"No.{SMUGGLED}", "more": ["\u202eabc"]})
    problem = results.read(answer(body, b"application/problem+json", 400))
    assert isinstance(problem, Problem)
    assert (problem.message, problem.details["body"]["more"]) == ("No.", ["abc"])
    problem = results.read(answer(f"bad{SMUGGLED}".encode(), b"text/plain", 400))
    assert isinstance(problem, Problem)
    assert problem.details["body"] == "bad"


DECLARED: dict[str, dict[str, Any]] = {
    "200": {"application/json": {}, "image/*": {}},
    "2XX": {"text/plain": {}},
    "204": {},
}


@pytest.mark.requirement("XL-105", "CV-24")
@pytest.mark.parametrize(
    ("response", "undeclared"),
    [
        (answer(b"1"), None),
        (answer(b"1", b"application/json; charset=utf-8"), None),
        (answer(b"x", b"image/png"), None),
        (answer(b"x", b"text/html"), "content type"),
        (answer(b"x", b"text/plain", 201), None),
        (answer(b"1", JSON, 201), "content type"),
        (answer(b"", b"", 204), None),
    ],
)
def test_undeclared_response_is_accepted_and_marked(response: Response, undeclared: str | None) -> None:
    _, notes = value_of(response, Expected(responses=DECLARED))
    assert notes.get("undeclared") == undeclared


@pytest.mark.requirement("XL-105", "CV-24")
def test_a_status_that_is_not_declared_is_marked_unless_there_is_a_default() -> None:
    response = answer(b"1", JSON, 203)
    assert value_of(response, Expected(responses={"200": {}}))[1]["undeclared"] == "status"
    assert "undeclared" not in value_of(response, Expected(responses={"200": {}, "default": {}}))[1]
    assert "undeclared" not in value_of(response, Expected(responses=None))[1]


NOW = (b"date", b"Sun, 22 Nov 2026 10:00:00 GMT")


@pytest.mark.requirement("XL-065", "XL-101")
@pytest.mark.parametrize(
    ("fields", "ms"),
    [
        ([(b"retry-after", b"7")], 7_000),
        ([(b"retry-after", b"1.5")], 1_500),
        ([(b"retry-after", b"Sun, 22 Nov 2026 10:01:30 GMT"), NOW], 90_000),
        ([(b"retry-after", b"Sun, 22 Nov 2026 09:00:00 GMT"), NOW], 0),
        ([(b"retry-after", b"soon"), NOW], None),
        ([(b"ratelimit", b'"default";r=0;t=30')], 30_000),
        ([(b"ratelimit", b"limit=10, remaining=0, reset=5")], 5_000),
        ([(b"ratelimit", b"limit=10, remaining=3, reset=5")], None),
        ([(b"ratelimit-remaining", b"0"), (b"ratelimit-reset", b"2")], 2_000),
        ([(b"x-ratelimit-remaining", b"0"), (b"x-ratelimit-reset", b"1795341660"), NOW], 60_000),
        ([(b"x-ratelimit-remaining", b"0"), (b"x-ratelimit-reset", b"1795341660")], None),
        ([(b"x-ratelimit-remaining", b"none")], None),
        ([(b"retry-after", b"2"), (b"ratelimit", b"r=0;t=9")], 2_000),
    ],
)
def test_retry_time_is_read_in_every_notation(fields: list[tuple[bytes, bytes]], ms: int | None) -> None:
    problem = results.read(Response(429, fields))
    assert isinstance(problem, Problem)
    assert (problem.kind, problem.can_retry, problem.retry_after_ms) == (Kind.RATE_LIMITED, True, ms)


@pytest.mark.requirement("XL-065")
def test_the_rate_that_is_left_is_noted_with_a_value() -> None:
    fields = ((b"content-type", JSON), (b"ratelimit", b'"a";r=3;t=60'))
    assert value_of(Response(200, fields, b"1")) == (1, {"rate_limit": {"remaining": 3, "reset_ms": 60_000}})


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"retry-after", b"ratelimit", b"x-ratelimit-remaining", b"date"]), st.binary(max_size=20)
        )
    )
)
def test_any_retry_fields_give_a_bounded_time_or_none(fields: list[tuple[bytes, bytes]]) -> None:
    problem = results.read(Response(503, fields))
    assert isinstance(problem, Problem)
    assert problem.retry_after_ms is None or 0 <= problem.retry_after_ms <= 30 * 86_400_000


@pytest.mark.requirement("XL-065")
@pytest.mark.parametrize(
    ("reset", "reset_ms"), [("60", 60_000), ("soon", None), ("", None), ("-1", None), ("1700000000", None)]
)
def test_rate_with_an_invalid_reset_time_is_still_read(reset: str, reset_ms: int | None) -> None:
    fields = ((b"x-ratelimit-remaining", b"3"), (b"x-ratelimit-reset", reset.encode()))
    assert rate_headers.read(fields) == Rate(3, reset_ms)
    assert rate_headers.read(((b"x-ratelimit-remaining", b"many"), *fields[1:])) is None
