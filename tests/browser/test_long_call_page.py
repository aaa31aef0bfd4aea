"""A long call on the page at ``/`` and on its own: how far it is, what it asks, its end, and its cancellation."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

import toolwire
from toolwire import Context
from toolwire.core.model import Secret
from toolwire.server.access.api_keys import ApiKey


class Bureau:
    """A tool that takes long, one step at a time: a test lets it take each."""

    def __init__(self) -> None:
        self.steps = threading.Semaphore(0)
        self.cancelled = threading.Event()
        kit = self.kit = toolwire.Toolkit("Bureau")

        @kit.tool(approval="auto", safe=True, long=True)
        def build(rows: int, context: Context) -> dict[str, int]:
            """Build a report."""
            for row in range(4):
                context.progress({"progress": row, "total": 4, "message": f"part <b>{row}</b>"})
                while not self.steps.acquire(timeout=0.05):
                    if context.is_cancelled:
                        self.cancelled.set()
                        return {}
            return {"rows": rows}


@dataclass
class Seats:
    """Where somebody wants to sit."""

    row: Literal["front", "back"]
    seats: int
    extras: list[Literal["blanket", "cushion"]] = field(default_factory=list)


class Counter:
    """A long tool that asks its user in the middle, in words that could be those of an upstream."""

    def __init__(self, words: str = "Which <img src=x onerror=alert(1)> seats?") -> None:
        kit = self.kit = toolwire.Toolkit("Counter")
        self.runs = 0

        @kit.tool(approval="auto", safe=True, long=True)
        async def book(context: Context) -> str:
            """Book a seat."""
            self.runs += 1
            answer = await context.ask(Seats, words)
            return f"{answer.seats} in {answer.row} {answer.extras}" if isinstance(answer, Seats) else "nothing booked"


@pytest.fixture
def bureau() -> Bureau:
    return Bureau()


def begin(page: Any, site: str) -> None:
    page.goto(f"{site}/?tool=build")
    page.get_by_label("rows").fill("7")
    page.get_by_role("button", name="Try it", exact=True).click()
    page.get_by_role("region", name="Call").wait_for()


@pytest.mark.requirement("LC-05", "CO-01", "FD-06")
def test_a_page_shows_how_far_a_long_call_is_until_its_end(
    page: Any, bureau: Bureau, serve: Callable[..., str], look: Callable[[str], None]
) -> None:
    site = serve(lambda _: toolwire.asgi(bureau.kit))
    begin(page, site)
    page.get_by_text("running: part <b>0</b>").wait_for()
    look("long-call")
    bureau.steps.release()
    bureau.steps.release()
    page.get_by_text("running: part <b>2</b>").wait_for()
    assert page.get_by_role("progressbar").evaluate("(one) => one.value") == 50
    bureau.steps.release()
    bureau.steps.release()
    page.get_by_text("ended:").wait_for()
    assert "7" in page.get_by_role("region", name="Call").inner_text()
    look("long-call-ended")
    listed = page.locator("[data-history] li")
    assert (listed.locator(".end").inner_text(), listed.get_by_role("link").inner_text()) == ("ended", "build")
    assert "/calls/" in listed.get_by_role("link").get_attribute("href")


@pytest.mark.requirement("LC-05", "LC-04")
def test_a_long_call_is_cancelled_on_the_page(page: Any, bureau: Bureau, serve: Callable[..., str]) -> None:
    begin(page, serve(lambda _: toolwire.asgi(bureau.kit)))
    page.get_by_role("button", name="Cancel it", exact=True).click()
    page.get_by_text("cancelled").first.wait_for()
    assert bureau.cancelled.wait(10)


@pytest.mark.requirement("LC-05")
def test_the_page_of_a_long_call_works_without_a_script_and_with_a_key(
    chromium: Any, bureau: Bureau, serve: Callable[..., str]
) -> None:
    keys = tuple(ApiKey(key=Secret(f"{name}-key-of-a-caller"), name=name) for name in ("ada", "bob"))
    site = serve(lambda _: toolwire.asgi(bureau.kit, api_keys=keys))
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site}/?tool=build")
    page.get_by_label("rows").fill("7")
    page.get_by_label("Your key or token").fill("ada-key-of-a-caller")
    page.get_by_role("button", name="Try it", exact=True).click()
    page.get_by_text("It goes on if you leave this page.").wait_for()
    call_id = page.locator("section code").first.inner_text()
    for key, status in (("bob-key-of-a-caller", 404), ("ada-key-of-a-caller", 200), ("wrong", 401)):
        fields = {"tool": "build", "call": call_id, "step": "call", "key": key}
        assert page.request.post(f"{site}/", form=fields).status == status
    for _ in range(4):
        bureau.steps.release()
    for _ in range(50):
        page.get_by_label("Your key or token").fill("ada-key-of-a-caller")
        page.get_by_role("button", name="Look again", exact=True).click()
        if page.get_by_text("ended").count():
            break
    assert "7" in page.get_by_role("region", name="Call").inner_text()
    context.close()


def begin_booking(page: Any, site: str, key: str = "") -> None:
    page.goto(f"{site}/?tool=book")
    if key:
        page.get_by_label("Your key or token").fill(key)
    page.get_by_role("button", name="Try it", exact=True).click()
    page.get_by_role("form", name="Question").wait_for()


@pytest.mark.requirement("LC-05", "MC-09", "CO-01")
def test_what_a_long_call_asks_in_its_midst_is_answered_on_the_page(
    page: Any, serve: Callable[..., str], look: Callable[[str], None]
) -> None:
    counter = Counter()
    begin_booking(page, serve(lambda _: toolwire.asgi(counter.kit)))
    form = page.get_by_role("form", name="Question")
    assert "Which <img src=x onerror=alert(1)> seats?" in form.inner_text()
    assert page.locator("img").count() == 0
    look("long-call-question")
    form.get_by_role("button", name="Add").click()
    form.get_by_label("extras").last.select_option("cushion")
    form.get_by_label("row").select_option("back")
    form.get_by_label("seats").fill("3")
    form.get_by_role("button", name="Send the answer", exact=True).click()
    page.get_by_text("3 in back ['cushion']").first.wait_for()


@pytest.mark.requirement("LC-05", "MC-09", "D-22")
def test_question_of_a_call_is_answered_without_a_script_by_its_caller_alone(
    chromium: Any, serve: Callable[..., str]
) -> None:
    counter = Counter()
    keys = tuple(ApiKey(key=Secret(f"{name}-key-of-a-caller"), name=name) for name in ("ada", "bob"))
    site = serve(lambda _: toolwire.asgi(counter.kit, api_keys=keys))
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    begin_booking(page, site, "ada-key-of-a-caller")
    form = page.get_by_role("form", name="Question")
    hidden = {one.get_attribute("name"): one.get_attribute("value") for one in form.locator("[type=hidden]").all()}
    filled = {**hidden, "step": "decline", "key": "ada-key-of-a-caller"}
    send = page.request.post
    assert send(f"{site}/", form={**filled, "key": "bob-key-of-a-caller"}).status == 404
    assert send(f"{site}/", form={**filled, "key": ""}).status == 401
    assert send(f"{site}/", form=filled, headers={"origin": "https://evil.example"}).status == 403
    foreign = {"sec-fetch-site": "cross-site", "origin": site}
    assert send(f"{site}/", form=filled, headers=foreign).status == 403
    assert send(f"{site}/", form={**filled, "step": "accept", "question": "[" * 9_000}).status == 422
    form.get_by_label("Your key or token").fill("ada-key-of-a-caller")
    form.get_by_label("seats").fill("")
    form.evaluate("(one) => one.noValidate = true")
    form.get_by_role("button", name="Send the answer", exact=True).click()
    assert "is needed" in page.get_by_role("form", name="Question").inner_text()
    form.get_by_label("Your key or token").fill("ada-key-of-a-caller")
    form.get_by_role("button", name="Do not answer", exact=True).click()
    for _ in range(50):
        if page.get_by_text("nothing booked").count():
            break
        page.get_by_label("Your key or token").last.fill("ada-key-of-a-caller")
        page.get_by_role("button", name="Look again", exact=True).click()
    assert "nothing booked" in page.get_by_role("region", name="Call").inner_text()
    context.close()


def open_call(page: Any, site: str) -> str:
    """Begin a call on the page of its tool, follow the link to its own page, and return the address."""
    begin(page, site)
    page.get_by_role("link", name="page of its own").click()
    page.get_by_role("heading", name="build is running").wait_for()
    address: str = page.url
    assert re.fullmatch(rf"{site}/calls/[0-9a-f]{{40}}", address)
    return address


@pytest.mark.requirement("LC-05", "CO-04")
def test_address_of_a_call_is_a_page_that_follows_it_to_its_end(
    page: Any, bureau: Bureau, serve: Callable[..., str], look: Callable[[str], None]
) -> None:
    site = serve(lambda _: toolwire.asgi(bureau.kit))
    address = open_call(page, site)
    page.get_by_text("part <b>0</b>").wait_for()
    look("call")
    bureau.steps.release()
    bureau.steps.release()
    page.get_by_text("part <b>2</b>").wait_for()
    assert page.get_by_role("progressbar").evaluate("(one) => one.value") == 50
    for _ in range(2):
        bureau.steps.release()
    page.get_by_role("heading", name="build has ended").wait_for()
    assert page.title() == "build has ended"
    assert "rows\n7" in page.get_by_role("region", name="Call").inner_text()
    look("call-ended")
    page.reload()
    page.get_by_role("heading", name="build has ended").wait_for()
    # a program gets data from the same address, as ever
    answer = page.request.get(address, headers={"accept": "application/json"})
    assert answer.json()["result"] == {"rows": 7}


@pytest.mark.requirement("LC-05", "LC-04")
def test_call_is_cancelled_on_its_own_page(page: Any, bureau: Bureau, serve: Callable[..., str]) -> None:
    open_call(page, serve(lambda _: toolwire.asgi(bureau.kit)))
    page.get_by_role("button", name="Cancel it", exact=True).click()
    page.get_by_role("heading", name="build was cancelled").wait_for()
    assert bureau.cancelled.wait(10)


@pytest.mark.requirement("LC-05", "MC-09", "D-22", "CO-04")
def test_call_asks_on_its_own_page_whoever_has_the_key(
    page: Any, serve: Callable[..., str], look: Callable[[str], None]
) -> None:
    counter = Counter("Which seats do you want?")
    keys = tuple(ApiKey(key=Secret(f"{name}-key-of-a-caller"), name=name) for name in ("ada", "bob"))
    site = serve(lambda _: toolwire.asgi(counter.kit, api_keys=keys))
    begin_booking(page, site, "ada-key-of-a-caller")
    address = f"{site}{page.get_by_role('link', name='page of its own').get_attribute('href')}"
    # a stranger and a caller with another key learn nothing, not even whether there is such a call
    page.goto(address)
    page.get_by_role("heading", name="A call, shown to its caller").wait_for()
    assert "book" not in page.content()
    look("call-key")
    sign_in(page, "a-wrong-key")
    page.get_by_role("alert").wait_for()
    sign_in(page, "bob-key-of-a-caller")
    page.get_by_role("heading", name="There is no such call here").wait_for()
    look("call-not-there")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Your calls").wait_for()
    page.goto(address)
    sign_in(page, "ada-key-of-a-caller")
    page.get_by_role("heading", name="book asks you something").wait_for()
    # the key is needed once: it is in no page, address or storage, and no script reads the cookie
    assert page.get_by_label("Your key or token").count() == 0
    assert "ada-key" not in page.content() + page.url + str(page.context.storage_state())
    assert page.evaluate("document.cookie") == ""
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    look("call-asks")
    form = page.get_by_role("form", name="Question")
    form.get_by_label("row").select_option("back")
    form.get_by_label("seats").fill("3")
    form.get_by_role("button", name="Send the answer", exact=True).click()
    page.get_by_role("heading", name="book has ended").wait_for()
    assert "3 in back []" in page.get_by_role("region", name="Call").inner_text()
    page.goto(f"{site}/calls")
    page.get_by_role("link", name="book").wait_for()
    look("calls")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Your key or token").wait_for()
    assert page.context.cookies() == []


def sign_in(page: Any, key: str) -> None:
    page.get_by_label("Your key or token").fill(key)
    page.get_by_role("button", name="Sign in").click()
