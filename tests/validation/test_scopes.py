"""What a caller may see and call, by the scopes of their credentials."""

from __future__ import annotations

import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.check import ALLOW, Deny
from toolwire.core.model import Call, Context, Kind, Tool
from toolwire.validation.requirements import check_scopes, filter_visible, has_scopes, permits

OPEN, MAIL = Tool(name="look"), Tool(name="mail", scopes=("mail:read", "mail:send"))
CATALOG = Catalog(title="Kit", tools=(OPEN, MAIL))
BOTH = frozenset({"mail:read", "mail:send", "more"})


@pytest.mark.requirement("OTC-042")
@pytest.mark.parametrize(
    ("scopes", "allowed"), [(None, True), (BOTH, True), (frozenset({"mail:read"}), False), (frozenset(), False)]
)
def test_a_call_needs_every_scope_of_its_tool(scopes: frozenset[str] | None, allowed: bool) -> None:
    verdict = check_scopes(Call(MAIL, {}, "c", Context(scopes=scopes)))
    assert permits(scopes, MAIL) is allowed
    assert permits(scopes, OPEN)
    if allowed:
        assert verdict is ALLOW
        return
    assert isinstance(verdict, Deny)
    assert verdict.problem.kind is Kind.FORBIDDEN
    assert verdict.problem.details == {"scopes": ["mail:read", "mail:send"]}  # with what the caller has already


def test_caller_sees_only_tools_allowed_by_their_scopes() -> None:
    assert has_scopes(CATALOG)
    assert filter_visible(CATALOG, frozenset()).tools == (OPEN,)
    assert filter_visible(CATALOG, BOTH) is CATALOG
    assert filter_visible(CATALOG, None) is CATALOG
    assert not has_scopes(Catalog(title="Kit", tools=(OPEN,)))
