"""Reading and writing ``WWW-Authenticate``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.auth.challenge import Challenge, find_bearer, read_challenges, write_challenge

CASES = [
    ("Bearer", [("bearer", {})]),
    ('Bearer realm="a, b=c \\"d\\" \\\\"', [("bearer", {"realm": 'a, b=c "d" \\'})]),
    ("BEARER Error=invalid_token", [("bearer", {"error": "invalid_token"})]),
    (
        'Basic realm="x", Bearer scope="a b" , error="e"',
        [("basic", {"realm": "x"}), ("bearer", {"scope": "a b", "error": "e"})],
    ),
    ("Negotiate dG9rZW4=, Bearer a=b", [("negotiate", {}), ("bearer", {"a": "b"})]),
    (', ,Digest a = "1" ,, b= 2', [("digest", {"a": "1", "b": "2"})]),
    (
        'Bearer resource_metadata="https://x/.well-known?a=1,Bearer b=2"',
        [("bearer", {"resource_metadata": "https://x/.well-known?a=1,Bearer b=2"})],
    ),
    ('Bearer a="1", a="2"', [("bearer", {"a": "1"})]),
    ("Newauth, Bearer a=1", [("newauth", {}), ("bearer", {"a": "1"})]),
    ('Bearer a="open', [("bearer", {})]),
    ("", []),
    ("=,=", []),
]


@pytest.mark.requirement("AC-01")
@pytest.mark.parametrize(("text", "expected"), CASES)
def test_challenges_are_parsed_by_the_http_grammar(text: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    assert [(each.scheme, dict(each.parameters)) for each in read_challenges([text])] == expected


def test_find_bearer_reads_several_www_authenticate_fields() -> None:
    found = find_bearer(["Basic realm=x", 'Bearer scope="a"'])
    assert found == Challenge(scheme="bearer", parameters={"scope": "a"})
    assert find_bearer(["Basic realm=x"]) is None


@given(
    st.dictionaries(
        st.sampled_from(["scope", "error", "realm"]), st.text(st.characters(min_codepoint=32, max_codepoint=126))
    )
)
def test_written_challenge_is_parsed_back(parameters: dict[str, str]) -> None:
    assert read_challenges([write_challenge("Bearer", parameters)]) == (
        Challenge(scheme="bearer", parameters=parameters),
    )


@given(st.text(max_size=200))
def test_any_challenge_text_is_parsed_without_error(text: str) -> None:
    assert all(each.scheme for each in read_challenges([text]))
