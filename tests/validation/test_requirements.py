"""A call that does not bring what its tool requires does not run, whatever the protocol."""

import pytest

from toolwire.core.check import ALLOW, Deny
from toolwire.core.model import Authorization, Call, Context, Kind, Requirements, Secret, Tool
from toolwire.validation import check_requirements
from toolwire.validation.requirements import GrantPage, GrantPages, build_requirements_check

NEEDY = Tool(
    name="mail",
    requirements=Requirements(authorization=(Authorization(id="google"),), secrets=("KEY",), user_id=True),
    hints={"otc": {"authorization": {"google": {"url": "https://example.com/grant", "check_url": 7}}}},
)


def test_tool_without_requirements_is_allowed() -> None:
    assert check_requirements(Call(Tool(name="x"), {})) is ALLOW


@pytest.mark.requirement("OXP-011")
def test_refusal_names_each_missing_requirement_and_where_to_get_it() -> None:
    verdict = check_requirements(Call(NEEDY, {}))
    assert isinstance(verdict, Deny)
    assert verdict.problem.kind is Kind.MISSING_REQUIREMENTS
    assert verdict.problem.details["missing_requirements"] == {
        "authorization": [{"id": "google", "url": "https://example.com/grant"}],
        "secrets": [{"id": "KEY"}],
        "user_id": True,
    }


def test_call_with_all_required_credentials_is_allowed() -> None:
    context = Context(tokens={"google": Secret("t")}, secrets={"KEY": Secret("s")}, user_id="u")
    assert check_requirements(Call(NEEDY, {}, "c", context)) is ALLOW


@pytest.mark.parametrize("hints", [{}, {"otc": 7}, {"otc": {"authorization": {"google": "https://example.com"}}}])
def test_missing_requirement_has_an_empty_url_without_a_grant_page(hints: dict[str, object]) -> None:
    tool = Tool(name="mail", requirements=Requirements(authorization=(Authorization(id="google"),)), hints=hints)
    verdict = check_requirements(Call(tool, {}))
    assert isinstance(verdict, Deny)
    assert verdict.problem.details["missing_requirements"] == {"authorization": [{"id": "google"}]}


@pytest.mark.requirement("OXP-011")
def test_grant_page_of_the_site_takes_precedence_over_that_of_the_tool() -> None:
    check = build_requirements_check(
        GrantPages({"google": GrantPage("https://site.example/grant", "https://site.example/done"), "x": "/x"})
    )
    verdict = check(Call(NEEDY, {}))
    assert isinstance(verdict, Deny)
    assert verdict.problem.details["missing_requirements"]["authorization"] == [
        {"id": "google", "url": "https://site.example/grant", "check_url": "https://site.example/done"}
    ]
    context = Context(tokens={"google": Secret("t")}, secrets={"KEY": Secret("s")}, user_id="u")
    assert check(Call(NEEDY, {}, "c", context)) is ALLOW
    assert check(Call(Tool(name="x"), {})) is ALLOW


def test_grant_page_of_the_tool_is_used_if_the_site_has_none() -> None:
    pages = GrantPages({"github": "https://site.example"})
    assert pages.find_page(Authorization(id="github"), "ada") == GrantPage("https://site.example")
    verdict = build_requirements_check(pages)(Call(NEEDY, {}))
    assert isinstance(verdict, Deny)
    (reply,) = verdict.problem.details["missing_requirements"]["authorization"]
    assert reply["url"] == "https://example.com/grant"


def test_refusal_includes_the_check_url_of_the_tool() -> None:
    hints = {"otc": {"authorization": {"google": {"url": "https://a.example", "check_url": "https://b.example"}}}}
    tool = Tool(name="mail", requirements=Requirements(authorization=(Authorization(id="google"),)), hints=hints)
    verdict = check_requirements(Call(tool, {}))
    assert isinstance(verdict, Deny)
    (reply,) = verdict.problem.details["missing_requirements"]["authorization"]
    assert reply == {"id": "google", "url": "https://a.example", "check_url": "https://b.example"}
