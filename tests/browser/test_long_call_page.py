"""A long call on the page at ``/``: how far it is, with a script and without one, its end, and its cancellation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

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


@pytest.fixture
def bureau() -> Bureau:
    return Bureau()


def begin(page: Any, site: str) -> None:
    page.goto(f"{site}/?tool=build")
    page.get_by_label("rows").fill("7")
    page.get_by_role("button", name="Try it", exact=True).click()
    page.get_by_role("region", name="Call").wait_for()


@pytest.mark.requirement("LC-05", "CO-01")
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
    assert page.get_by_role("progressbar").evaluate("(one) => one.value") == 0.5
    bureau.steps.release()
    bureau.steps.release()
    page.get_by_text("ended").wait_for()
    assert "7" in page.get_by_role("region", name="Call").inner_text()
    look("long-call-ended")


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
