"""A decision is bound to exactly what was shown and will be sent."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.consent.binding import NO_CREDENTIAL, CredentialRef, compute_binding, compute_identity, is_covered
from toolwire.core.http import Request
from toolwire.core.model import Call, Tool

SENT = Request("POST", "https://a.example/x?q=1", ((b"x-a", b"1"),), b'{"a": 1}')
FACTS: dict[str, Any] = {
    "call": Call(Tool(name="x"), {"a": 1}),
    "request": SENT,
    "connection": "https://a.example",
    "principal": "ada",
    "definition": "d1",
    "credential": CredentialRef("bearer", compute_identity("k"), ("read",)),
}


def compute_decision_binding(**change: Any) -> str:
    facts = FACTS | change
    call, request = facts.pop("call"), facts.pop("request")
    return compute_binding(call, request, **facts)


@pytest.mark.requirement("XL-050", "D-20")
@pytest.mark.parametrize(
    "change",
    [
        {"call": Call(Tool(name="y"), {"a": 1})},
        {"call": Call(Tool(name="x"), {"a": 2})},
        {"request": SENT._replace(method="PUT")},
        {"request": SENT._replace(url="https://a.example/x?q=2")},
        {"request": SENT._replace(body=b'{"a": 2}')},
        {"request": SENT._replace(headers=((b"x-a", b"2"),))},
        {"connection": "https://b.example"},
        {"principal": "bob"},
        {"definition": "d2"},
        {"credential": NO_CREDENTIAL},
        {"credential": CredentialRef("bearer", compute_identity("other"), ("read",))},
        {"credential": CredentialRef("bearer", compute_identity("k"), ("read", "write"))},
    ],
)
def test_decision_binding_differs_if_any_bound_fact_differs(change: dict[str, Any]) -> None:
    assert compute_decision_binding(**change) != compute_decision_binding()
    assert compute_decision_binding() == compute_decision_binding()


def test_credential_displays_scheme_and_scopes_but_no_secret() -> None:
    signed = CredentialRef("bearer", compute_identity("hunter2"), ("read", "write"))
    assert str(signed) == "bearer (read, write)"
    assert str(NO_CREDENTIAL) == "none"
    assert "hunter2" not in repr(signed)
    assert compute_identity("\ud800") != compute_identity("hunter2") == compute_identity("hunter2")


@pytest.mark.requirement("D-20")
@pytest.mark.parametrize(
    ("following", "belongs"),
    [
        (SENT, True),
        (SENT._replace(url="https://a.example/later"), True),
        (Request("GET", "https://a.example/later"), True),
        (Request("GET", "https://a.example/later", (), b"x"), False),
        (SENT._replace(body=b"other"), False),
        (SENT._replace(body=b"other", opens_session=True), True),
        (SENT._replace(body=b"other", opens_session=True, url="https://a.example/later"), False),
        (SENT._replace(method="PUT"), False),
        (SENT._replace(url="https://b.example/x?q=1"), False),
        (SENT._replace(url="http://a.example/x?q=1"), False),
        (Request("GET", "https://a.example:8443/later"), False),
    ],
)
def test_decision_covers_only_the_same_request_or_its_follow_up_on_the_origin(
    following: Request, belongs: bool
) -> None:
    assert is_covered(SENT, following) is belongs
