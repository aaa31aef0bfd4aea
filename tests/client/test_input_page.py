"""The page on which a user answers what a server asks while a call runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import anyio
import pytest

from tests.client.page_visitor import Visitor
from toolwire import InputRequest, InputResponse
from toolwire.client.approvers.browser_approver import apage_input_provider, page_input_provider
from toolwire.consent.input_display import describe_field
from toolwire.core.user_input import CANCELLED, DECLINED, InputAction
from toolwire.framing.form_schema import read_fields

FIELDS = read_fields(
    {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 1, "title": "<b>Size</b>"},
            "color": {"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}], "default": "#f00"},
            "extras": {"type": "array", "items": {"type": "string", "enum": ["bow", "belt"]}},
            "gift": {"type": "boolean"},
        },
        "required": ["size"],
    }
)
ASKED = InputRequest(message="How <i>large</i>?", fields=FIELDS, site="https://a.example", title="Shop", tool="sew")
VISIT = InputRequest(
    message="Pay.", url="https://pay.example/1?a=b", host="pay.example", site="https://a.example", tool="sew"
)


def ask(asked: InputRequest, visit: Callable[[Visitor], object], within_s: float = 30.0) -> InputResponse:
    visits: list[threading.Thread] = []

    def show(url: str) -> None:
        visits.append(threading.Thread(target=visit, args=(Visitor(url),)))
        visits[0].start()

    response = page_input_provider(show, within_s=within_s)(asked)
    visits[0].join(10)
    return response


@pytest.mark.requirement("MC-09")
def test_user_can_fill_and_send_an_input_form() -> None:
    pages: list[str] = []

    def visit(one: Visitor) -> None:
        pages.append(one.get()[2])
        wrong = one.post(**{"token": one.token(), "answer": "accept", "field size": "0", "field gift": "yes"})
        pages.append(wrong[2])
        assert wrong[0] == 400
        given = {"field size": "4", "field color": "#f00", "field extras": "bow", "field gift": "no"}
        assert one.post(token=one.token(), answer="accept", **given)[0] == 200

    content = {"size": 4, "color": "#f00", "extras": ["bow"], "gift": False}
    assert ask(ASKED, visit) == InputResponse(InputAction.ACCEPT, content)
    for words in ("https://a.example, which calls itself", "Never enter a password", "&lt;b&gt;Size", "&lt;i&gt;large"):
        assert words in pages[0]
    assert "<script" not in pages[0]
    assert "size: must be at least 1" in pages[1]
    assert '<option value="yes" selected>' in pages[1]


@pytest.mark.requirement("MC-09")
def test_a_field_says_all_that_it_takes() -> None:
    properties = {
        "name": {"type": "string", "format": "email", "minLength": 3, "maxLength": 20},
        "count": {"type": "integer", "maximum": 9},
    }
    name, count = read_fields({"type": "object", "properties": properties, "required": ["name"]})
    assert describe_field(name).endswith(", email, at least 3 characters, at most 20 characters, required")
    assert describe_field(count).endswith(", at most 9, may be left empty")


@pytest.mark.requirement("MC-09")
@pytest.mark.parametrize(("answer", "response"), [("decline", DECLINED), ("cancel", CANCELLED)])
def test_decline_and_cancel_are_different_answers(answer: str, response: InputResponse) -> None:
    assert ask(ASKED, lambda one: one.post(token=one.token(), answer=answer)) == response


@pytest.mark.requirement("MC-09")
def test_only_the_input_page_can_answer_and_a_timeout_cancels() -> None:
    def visit(one: Visitor) -> None:
        assert one.post(**{"token": "other", "answer": "accept", "field size": "4"})[0] == 400
        origin = {"Origin": "https://evil.example"}
        assert one.post_as(origin, **{"token": one.token(), "answer": "accept", "field size": "4"})[0] == 403

    assert ask(ASKED, visit, within_s=1.0) == CANCELLED


@pytest.mark.requirement("MC-09")
def test_input_page_of_a_site_is_a_link_with_its_host() -> None:
    pages: list[str] = []

    async def run() -> InputResponse:
        visits: list[threading.Thread] = []

        def visit(one: Visitor) -> None:
            pages.append(one.get()[2])
            one.post(token=one.token(), answer="accept")

        def show(url: str) -> None:
            visits.append(threading.Thread(target=visit, args=(Visitor(url),)))
            visits[0].start()

        response: InputResponse = await apage_input_provider(show)(VISIT)
        visits[0].join(10)
        return response

    assert anyio.run(run).action is InputAction.ACCEPT
    assert 'href="https://pay.example/1?a=b" target="_blank" rel="noopener noreferrer"' in pages[0]
    assert "The page is at pay.example. That is not the server that asks." in pages[0]
