"""A caller writes an argument in another form, or under another argument, so that a rule or a permission misses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from toolwire import Answer, GrantBounds, Kind, Question, Selection, connect_sync
from toolwire.framing import jsontext
from toolwire.hosting import open_gateway
from toolwire.testing import background

FORM = "application/x-www-form-urlencoded"
SPREAD = {"style": "form", "explode": True}
OPEN = {"type": "object", "additionalProperties": True}


class Bank:
    """A server that pays, as its OpenAPI document says, and the fields of each payment."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def describe(self) -> dict[str, Any]:
        parameters = [
            {"name": "account", "in": "query", "schema": {}},
            {"name": "more", "in": "query", "schema": OPEN, **SPREAD},
            {"name": "kept", "in": "cookie", "schema": OPEN, **SPREAD},
            {"name": "who", "in": "cookie", "schema": {}},
            {"name": "piped", "in": "query", "schema": OPEN, "style": "pipeDelimited", "explode": True},
            {"name": "deep", "in": "query", "schema": OPEN, "style": "deepObject", "explode": True},
            {"name": "deep[account]", "in": "query", "schema": {}},
        ]
        form = {"type": "object", "properties": {"account": {}, "more": OPEN}, "additionalProperties": True}
        content = {FORM: {"schema": form, "encoding": {"more": SPREAD}}}
        key = {"type": "apiKey", "in": "query", "name": "api_key"}
        return {
            "openapi": "3.1.0",
            "info": {"title": "Bank", "version": "1"},
            "components": {"securitySchemes": {"key": key}},
            "paths": {
                "/pay?from=me": {
                    "post": {
                        "operationId": "pay",
                        "parameters": parameters,
                        "security": [{"key": []}, {}],
                        "x-llm": {"approval": "per-call", "blanketApprovalAllowed": True},
                    },
                },
                "/form": {"post": {"operationId": "fill", "requestBody": {"content": content}}},
            },
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"].decode() if scope["method"] == "POST" else ""
        is_document = scope["path"] == "/openapi.json"
        if not is_document:
            cookies = [value.decode() for name, value in scope["headers"] if name == b"cookie"]
            self.paid.append("&".join(filter(None, (scope["query_string"].decode(), body, *cookies))))
        answer = jsontext.write(self.describe() if is_document else {"done": True})
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


class Person:
    """Who approves the first call for later ones within ``bounds``, and no other."""

    def __init__(self, bounds: GrantBounds) -> None:
        self.bounds = bounds
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        is_first = len(self.asked) == 1
        return Answer(allowed=is_first, always=is_first, bounds=self.bounds if is_first else None)


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def url(bank: Bank) -> Iterator[str]:
    with background(bank) as served:
        yield f"{served}/openapi.json"


@contextmanager
def connect_as(url: str, person: Any) -> Iterator[Any]:
    with connect_sync(url, approve=person, selection=Selection(include="all")) as remote:
        yield remote


@pytest.mark.requirement("QF-03", "CC-03")
@pytest.mark.parametrize("disguised", ["7", " 7", "7.0", "٧", [7], [5, 7], ["7"], {"account": 7}])
def test_permission_for_all_accounts_but_one_does_not_cover_it_in_another_form(
    bank: Bank, url: str, disguised: Any
) -> None:
    person = Person(GrantBounds(conditions=[("/account", "ne", 7)]))
    with connect_as(url, person) as remote:
        assert remote.call("pay", {"account": 5}).ok
        assert remote.call("pay", {"account": "6"}).ok
        assert len(person.asked) == 1
        assert remote.call("pay", {"account": disguised}).kind is Kind.DENIED
    assert bank.paid == ["from=me&account=5", "from=me&account=6"]


@pytest.mark.requirement("QF-02")
@pytest.mark.parametrize("disguised", [7, "7", "7e0", [7], [5, 7], [[7]]])
def test_rule_of_the_operator_against_an_account_holds_in_any_form(
    bank: Bank, url: str, tmp_path: Path, disguised: Any
) -> None:
    rule = 'never = [{tools = "pay", when = [{pointer = "/account", op = "eq", value = 7}]}]'
    file = tmp_path / "toolwire.toml"
    file.write_text(
        f'consent = "refuse"\nstate = "state"\n[upstreams.bank]\ntarget = "{url}"\ninclude = "all"\n{rule}\n'
    )
    with background(open_gateway(file)) as gateway, connect_as(gateway, lambda _: True) as remote:
        refused = remote.call("pay", {"account": disguised})
        assert refused.kind is Kind.DENIED, refused
        assert "the operator does not allow it" in refused.message
        assert remote.call("pay", {"account": "77"}).ok
    assert bank.paid == ["from=me&account=77"]


@pytest.mark.requirement("D-11", "D-20")
@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("pay", {"account": 5, "more": {"account": 7}}, "account"),
        ("pay", {"account": 5, "more": {"Account": 7}}, "Account"),
        ("pay", {"account": 5, "more": {"account[]": 7}}, "account[]"),
        ("pay", {"account": 5, "more": {"from": "you"}}, "from"),
        ("pay", {"account": 5, "more": {"api_key": "mine"}}, "api_key"),
        ("pay", {"account": 5, "kept": {"who": "you"}}, "who"),
        ("pay", {"account": 5, "piped": {"account": 7}}, "account"),
        ("pay", {"deep_account": 5, "deep": {"account": 7}}, "deep[account]"),
        ("fill", {"account": 5, "more": {"account": 7}}, "account"),
        ("fill", {"account": 5, "more": {"_method": "DELETE"}}, "_method"),
        ("fill", {"account": 5, "account[]": 7}, "account[]"),
    ],
)
def test_key_of_an_open_object_cannot_become_another_argument(
    bank: Bank, url: str, tool: str, arguments: dict[str, Any], named: str
) -> None:
    with connect_as(url, lambda _: True) as remote:
        refused = remote.call(tool, arguments)
        assert refused.kind is Kind.INVALID_ARGUMENTS
        assert f"cannot have {named!r}: some servers would take it for another" in refused.message
    assert bank.paid == []


@pytest.mark.requirement("XL-077")
@pytest.mark.parametrize(
    ("tool", "arguments", "sent"),
    [
        ("pay", {"account": 5, "more": {"accounts": 7, "note[a]": "x"}}, "from=me&account=5&accounts=7&note%5Ba%5D=x"),
        ("pay", {"account": 5, "kept": {"account": 7}}, "from=me&account=5&account=7"),
        ("pay", {"account": 5, "deep": {"to": 7}}, "from=me&account=5&deep%5Bto%5D=7"),
        ("fill", {"account": 5, "more": {"note": 7}}, "account=5&note=7"),
        ("fill", {"account": {"account": 7}}, "account=%7B%22account%22%3A7%7D"),
        ("fill", {"account": 5, "note": 7}, "note=7&account=5"),
    ],
)
def test_other_keys_of_an_open_object_are_sent(
    bank: Bank, url: str, tool: str, arguments: dict[str, Any], sent: str
) -> None:
    with connect_as(url, lambda _: True) as remote:
        assert remote.call(tool, arguments).ok
    assert bank.paid == [sent]
