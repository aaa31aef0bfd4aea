"""URI templates: what they match, what they give back, and how long a hostile URI may take."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.uri_template import MAX_URI, UriTemplate

pytestmark = pytest.mark.requirement("MC-08")

PLAIN = st.text(string.ascii_letters + "-.é ü", min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("config://app", "config://app", {}),
        ("config://app", "config://apps", None),
        ("notes://{name}", "notes://a%20b", {"name": "a b"}),
        ("notes://{name}", "notes://a/b", None),
        ("notes://{name}", "notes://a?b", None),
        ("files:///{+path}", "files:///a/b.txt", {"path": "a/b.txt"}),
        ("repo://{owner}/{name}/{+path}", "repo://me/it/src/a.py", {"owner": "me", "name": "it", "path": "src/a.py"}),
        ("doc://{name}.md", "doc://a.md.md", {"name": "a.md"}),
        ("pair://{a}-{b}", "pair://x-y-z", {"a": "x", "b": "y-z"}),
        ("users://{id}/posts", "users://7/posts", {"id": "7"}),
        ("users://{id}/posts", "users://7/post", None),
        ("a+b://c.d/{x}", "aXb://cYd/1", None),
    ],
)
def test_template_matches_uri(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    "text",
    ["", "app", "/app", "notes://{name", "notes://name}", "notes://{a}{?q}", "notes://{/p*}", "a://{x}/{x}", "a://b c"],
)
def test_invalid_template_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"URI|variable|expression"):
        UriTemplate(text)


@given(first=PLAIN, second=PLAIN)
def test_expanded_uri_matches_its_template(first: str, second: str) -> None:
    template = UriTemplate("notes://{folder}/{+path}")
    values = {"folder": first, "path": second.replace(" ", "/")}
    assert template.match(template.expand(values)) == values


def test_uri_that_almost_matches_many_variables_is_refused_at_once() -> None:
    names = [f"{{+v{number}}}" for number in range(200)]
    template = UriTemplate("a://" + "-".join(names) + "!")
    assert template.match("a://" + "-" * (MAX_URI - 10)) is None
    assert template.match("a://" + "-" * 199 + "!") == {f"v{number}": "" for number in range(200)}


def test_uri_above_the_limit_matches_nothing() -> None:
    template = UriTemplate("a://{+rest}")
    assert template.match("a://" + "x" * (MAX_URI - 4)) is not None
    assert template.match("a://" + "x" * (MAX_URI - 3)) is None
