"""Each page as people see it: on a phone and on a wide screen, light and dark, and with what axe-core finds there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.support.orders import build_order
from toolwire.client.approvers.browser_approver import page_approver
from toolwire.client.login.redirect_listener import RedirectListener
from toolwire.core.check import Answer, Question
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import Approval, Call, Condition, Tool


@contextmanager
def ask_on_page(question: Question) -> Iterator[tuple[str, list[Answer]]]:
    """Ask ``question`` on a page; give its address and the list of answers."""
    answers: list[Answer] = []
    opened: list[str] = []
    shown = threading.Event()
    approve = page_approver(lambda url: (opened.append(url), shown.set()), within_s=60)
    thread = threading.Thread(target=lambda: answers.append(approve(question)), daemon=True)
    thread.start()
    assert shown.wait(10)
    yield opened[0], answers
    thread.join(10)


@pytest.mark.requirement("FU-32")
def test_question_page_shows_the_call_as_readable_text(page: Any, look: Callable[[str], None]) -> None:
    with ask_on_page(build_order()) as (url, answers):
        page.goto(url)
        assert page.inner_text("h1") == "Place order"
        assert page.inner_text("h1 + p") == "May place_order be called at http://127.0.0.1:9723?"
        assert page.locator(".said").first.inner_text() == "The site says\nPlace an order."
        rows = page.locator("main table tbody tr").all_inner_texts()
        assert [row.split("\t") for row in rows] == [["tea", "2", "1.5"], ["cups", "6", "12"]]
        assert page.get_by_text("Monday, 1 March 2027").get_attribute("title") == "2027-03-01"
        look("question")
        page.get_by_role("button", name="Allow this call").click()
        page.get_by_role("heading", name="Allowed.").wait_for()
        look("question-allowed")
    assert [answer.allowed for answer in answers] == [True]


@pytest.mark.requirement("QF-04")
def test_question_begins_with_what_happens_and_names_the_connection(page: Any, look: Callable[[str], None]) -> None:
    tool = Tool(name="send_money", description="Send money to an account.", hints={"mcp": {"annotations": {}}})
    call = Call(tool, {"amount": 40, "currency": "EUR", "to": "Ada <b>Lovelace</b>", "note": "rent\u202e" * 20})
    question = replace(build_order(), call=call, connection="bank", reasons=(), program="npx -y @bank/server /home/ann")
    with ask_on_page(question) as (url, _):
        page.goto(url)
        heading = page.locator("h1")
        assert heading.inner_text() == 'Send money: 40 EUR to "Ada <b>Lovelace</b>"'
        assert "npx -y @bank/server /home/ann" in page.inner_text("h1 + p")
        assert page.locator("dt", has_text="Connection").locator("+ dd").inner_text() == "bank"
        assert page.get_by_text("may change something: not declared").is_visible()
        size = "element => parseFloat(getComputedStyle(element).fontSize)"
        assert heading.evaluate(size) >= 20
        look("question-money")
        page.get_by_role("button", name="Not now").click()


@pytest.mark.requirement("FU-32", "CC-03")
def test_later_calls_are_allowed_within_bounds_on_the_page(page: Any, look: Callable[[str], None]) -> None:
    call = Call(Tool(name="pay", description="Pay somebody."), {"to": "Ada", "amount": 20})
    with ask_on_page(replace(build_order(), call=call)) as (url, answers):
        page.goto(url)
        page.get_by_text("Later calls", exact=True).click()
        page.get_by_label("Do not ask again within the bounds below").check()
        page.get_by_label("to now").select_option("one of")
        page.get_by_label("The bound of to").fill("Ada, Bob")
        page.get_by_label("amount now").select_option("at most")
        page.get_by_label("The bound of amount").fill("50")
        page.get_by_label("How many later calls").fill("3")
        look("question-bounds")
        page.get_by_role("button", name="Allow this call").click()
        page.get_by_text("/amount is at most 50 and /amount is at least 0; 3 more calls").wait_for()
    conditions = (
        Condition("/to", "in", ["Ada", "Bob"]),
        Condition("/amount", "le", 50),
        Condition("/amount", "ge", 0),
    )
    assert [answer.bounds for answer in answers] == [GrantBounds(conditions=conditions, uses=3)]


@pytest.mark.requirement("FU-32", "D-19", "AT-08")
def test_destructive_call_is_allowed_by_keyboard_with_the_typed_words(page: Any, look: Callable[[str], None]) -> None:
    tool = Tool(name="wipe", description="Delete everything.", destructive=True)
    question = Question(
        Call(tool, {"folder": "/srv"}), "https://files.example", "POST https://files.example/wipe", Approval.PER_CALL
    )
    with ask_on_page(question) as (url, answers):
        page.goto(url)
        look("question-destroys")
        page.get_by_label("Type wipe yes to allow it").focus()
        page.keyboard.type("wipe yes")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Not now"
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Allowed.").wait_for()
    assert [answer.allowed for answer in answers] == [True]


@pytest.mark.requirement("FU-32")
def test_pages_of_the_sample_and_its_authorization_server_share_one_design(
    page: Any,
    tasks: str,
    enter: Callable[..., str],
    add_task: Callable[[Any, str], None],
    client_id: str,
    look: Callable[[str], None],
) -> None:
    page.goto(tasks)
    look("welcome")
    page.goto(f"{tasks}/sign-up")
    look("sign-up")
    page.goto(f"{tasks}/oauth/login")
    look("sign-in")
    enter(page, tasks)
    page.goto(tasks)
    add_task(page, "Water the plants")
    page.get_by_role("heading", name="Water the plants").wait_for()
    look("tasks")
    page.goto(
        f"{tasks}/oauth/authorize?response_type=code&client_id={client_id}"
        "&redirect_uri=http%3A%2F%2F127.0.0.1%2Fcallback&scope=tasks:read%20tasks:write%20tasks:delete&state=s"
        f"&code_challenge={'A' * 43}&code_challenge_method=S256"
    )
    page.get_by_role("button", name="Do not allow").wait_for()
    look("consent")
    page.goto(f"{tasks}/connected")
    look("connected")
    page.goto(f"{tasks}/nothing")
    look("error")
    page.goto(f"{tasks}/oauth/consent")
    page.get_by_role("heading", name="This did not work").wait_for()


@pytest.mark.requirement("FU-32")
def test_final_sign_in_page_has_the_same_design(page: Any, look: Callable[[str], None]) -> None:
    listener = RedirectListener()
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(listener.wait(30)), daemon=True)
    waiting.start()
    page.goto(f"{listener.redirect_uri}?code=c&state=s")
    look("callback")
    waiting.join(10)
    assert found == ["code=c&state=s"]
