"""The inbox of a caller in a real browser: signing in, deciding, live news, hostile texts, and how each page looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.console_questions import build_question
from tests.support.hostile_pages import PAYLOADS, Watched
from tests.support.listed_tools import ListedTools, list_tool
from toolwire import Toolkit, asgi
from toolwire.consent.grant import GrantKey
from toolwire.console import add_caller_inbox
from toolwire.core.check import Answer, Question
from toolwire.core.grant_bounds import GrantBounds
from toolwire.hosting import open_gateway
from toolwire.limits import CallerRules
from toolwire.server.access.api_keys import parse_api_key
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.consent.grants import StoredGrants
from toolwire.testing.loopback import background

KEYS = [parse_api_key("key-of-ann ann"), parse_api_key("key-of-bob bob")]
PAGES = ("", "/permissions", "/answers")


@dataclass
class Shown:
    """A server with inboxes, and the folder of its questions."""

    url: str
    folder: Path

    def ask(self, principal: str = "key:agent", text: str = "", **changes: Any) -> str:
        """Put a question into the inbox, and return its id."""
        question: Question = replace(build_question(text), principal=principal, **changes)
        return Approvals(self.folder).ask(question)

    def open(self, page: Any, key: str = "key-of-ann") -> None:
        """Sign in as a caller."""
        page.goto(f"{self.url}/inbox")
        page.get_by_label("Key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Questions").wait_for()


@pytest.fixture
def show(tmp_path: Path) -> Iterator[Shown]:
    folder = tmp_path / "state"
    app = add_caller_inbox(
        asgi(Toolkit("Desk"), api_keys=KEYS),
        folder,
        api_keys=KEYS,
        caller_rules={"agent": CallerRules(answered_by=frozenset({"ann"}))},
    )
    with ExitStack() as ending:
        url = ending.enter_context(background(app))
        ending.callback(app.drain)
        yield Shown(url, folder)


def give_permission(folder: Path, text: str = "") -> None:
    bounds = GrantBounds(conditions=[("/sku", "eq", text or "tea"), ("/price", "le", 50)], uses=3)
    key = GrantKey("key:agent", "inbox", text or "https://shop.example", text or "Shop.place_order@1.0.0", "d" * 64)
    StoredGrants(folder).add(key, bounds)


@pytest.mark.requirement("GW-04", "CO-04", "FU-32")
def test_each_page_of_the_inbox_looks_like_one_product(page: Any, show: Shown, look: Callable[[str], None]) -> None:
    page.goto(f"{show.url}/inbox")
    look("caller-sign-in")
    show.open(page)
    assert "No pending questions." in page.inner_text("main")
    look("caller-empty")
    show.ask()
    give_permission(show.folder)
    page.goto(f"{show.url}/inbox")
    look("caller-inbox")
    page.get_by_role("button", name="Not now").click()
    for path in PAGES[1:]:
        page.goto(f"{show.url}/inbox{path}")
        look(f"caller{path.replace('/', '-')}")
    assert "not allowed" in page.inner_text("main")


@pytest.mark.requirement("GW-04", "CO-04", "D-19")
def test_question_is_answered_by_keyboard_and_no_key_is_in_the_address(page: Any, show: Shown) -> None:
    show.ask()
    page.goto(f"{show.url}/inbox")
    page.keyboard.type("key-of-ann")  # the field has the focus
    page.keyboard.press("Enter")
    page.get_by_text("May place_order be called").wait_for()
    assert "key" not in page.url
    page.get_by_role("button", name="Not now").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("Allowed. The call can run now").wait_for()
    answer = Approvals(show.folder).take(Approvals(show.folder).find("order") or "", "order")
    assert answer is not None
    assert (answer.allowed, answer.always) == (True, False)


@pytest.mark.requirement("QF-05", "CO-04")
def test_questions_of_one_task_stand_together_and_say_what_differs(
    page: Any, show: Shown, look: Callable[[str], None]
) -> None:
    order = build_question().call
    calls = [order._replace(arguments={**order.arguments, "by": by}) for by in ("2027-03-01", "2027-04-01")]
    wipe = replace(build_question("wipe"), title="", target="", reasons=())
    show.ask(call=calls[0], binding="first")
    show.ask(call=wipe.call, binding="other", connection="archive")
    show.ask(call=calls[1], binding="second")
    show.open(page)
    look("caller-tasks")
    headings = page.get_by_role("heading", level=2).all_inner_texts()
    assert headings == [
        "2 calls at http://127.0.0.1:9723, for key:agent",
        "1 call at http://127.0.0.1:9723, by the connection archive, for key:agent",
    ]
    marked = [page.locator("article").nth(number).locator("dt[data-differs]") for number in range(3)]
    assert [one.all_inner_texts() for one in marked] == [["by\ndiffers"]] * 2 + [[]]
    assert (
        page.locator("article")
        .nth(0)
        .get_by_text("Other questions of this task are about the same tool. The differences are marked.")
        .count()
        == 1
    )
    # Each is answered by itself, and the one that destroys something needs its words.
    page.locator("article").nth(1).get_by_role("button", name="Allow this call").click()
    page.locator("article").nth(2).wait_for(state="detached")
    page.locator("article").nth(1).get_by_role("button", name="Allow this call").click()
    page.get_by_text("To allow this call, type: wipe yes").wait_for()
    waiting = Approvals(show.folder)
    assert [waiting.take(waiting.find(one) or "", one) is not None for one in ("first", "second", "other")] == [
        False,
        True,
        False,
    ]


@pytest.mark.requirement("GW-04")
def test_own_questions_come_live_and_those_of_others_do_not(page: Any, show: Shown) -> None:
    show.open(page)
    events: list[str] = []
    page.on("request", lambda request: events.append(request.url))
    with page.expect_response(lambda response: response.url.endswith("/events")):
        page.reload()
    show.ask("key:bob", binding="bobs")
    show.ask("key:agent", binding="anns")
    page.locator("article").first.wait_for()
    assert page.locator("article").count() == 1
    assert page.get_by_role("link", name="Questions (1)").count() == 1
    id_ = Approvals(show.folder).find("anns") or ""
    assert Approvals(show.folder).answer(id_, Answer(allowed=False))
    page.get_by_text("This question is over").wait_for()
    assert page.get_by_role("button", name="Allow this call").is_disabled()


@pytest.mark.requirement("GW-04", "CO-04")
def test_inbox_works_without_script(chromium: Any, show: Shown) -> None:
    show.ask()
    give_permission(show.folder)
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    show.open(page)
    page.get_by_role("button", name="Not now").click()
    assert "Denied." in page.inner_text("main")
    page.get_by_role("link", name="Permissions").click()
    page.get_by_role("button", name="Take back").click()
    assert "Revoked. The next call asks again." in page.inner_text("main")
    page.get_by_role("link", name="Your answers").click()
    assert "not allowed" in page.inner_text("main")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in to your inbox").wait_for()
    context.close()


@pytest.mark.requirement("GW-04", "CO-04", "D-25", "D-03", "D-23")
@pytest.mark.parametrize("text", [" ".join(PAYLOADS), "\u202egpj.exe\x1b[2J\U000e0041\u200b", "long" * 5_000])
def test_hostile_texts_do_nothing_in_the_inbox(text: str, page: Any, show: Shown) -> None:
    show.ask(text=text)
    give_permission(show.folder, text)
    watched = Watched(page, show.url)
    show.open(page)
    for path in PAGES:
        page.goto(f"{show.url}/inbox{path}")
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert not {"\u202e", "\x1b", "\U000e0041", "\u200b"} & set(page.inner_text("body"))
        assert page.locator("iframe, object, embed, main img, main svg, main script").count() == 0
        assert watched.unharmed(), path
    page.set_viewport_size({"width": 360, "height": 800})
    for path in PAGES:
        page.goto(f"{show.url}/inbox{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


@pytest.mark.requirement("AT-50", "D-22", "D-39")
def test_link_of_another_site_signs_nobody_in_with_its_key(page: Any, show: Shown) -> None:
    show.open(page)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    link = f'<a id="go" href="{show.url}/inbox#key=key-of-bob">look</a>'
    page.goto("about:blank")
    page.set_content(link)
    page.click("#go")
    page.get_by_label("Key").wait_for()
    page.evaluate("location.hash = '#key=key-of-bob&again'")
    assert page.get_by_label("Key").input_value() == ""
    assert "POST" not in sent
    # The sign-in of before is still there.
    page.goto(f"{show.url}/inbox/answers")
    assert "Your answers" in page.inner_text("h1")


@pytest.mark.requirement("QF-01", "QF-03", "CO-04")
def test_list_of_tools_is_allowed_at_once_or_one_by_one(page: Any, tmp_path: Path, look: Callable[[str], None]) -> None:
    server = ListedTools(
        list_tool("find", about="Find <b>notes</b>.", names=("text",), readOnlyHint=True),
        list_tool("get", about="Get a note.", names=("id",), readOnlyHint=True),
        list_tool("load", about="Load a file.", names=("path",), readOnlyHint=True),
        list_tool("count", about="Count notes.", readOnlyHint=True),
        list_tool("browse", about="Browse.", readOnlyHint=True, openWorldHint=True),
        list_tool("note", about="Write a note.", names=("text",)),
    )
    with background(server) as far:
        (tmp_path / "keys.txt").write_text("key-of-ann ann\nkey-of-app app\n")
        file = tmp_path / "toolwire.toml"
        file.write_text(
            'api-key-file = "keys.txt"\nconsent = "inbox"\nstate = "state"\npublic-url = "http://127.0.0.1:9"\n'
            '[callers.app]\nanswered-by = ["ann"]\n'
            f'[upstreams.far]\ntarget = "{far}/mcp"\nprotocol = "mcp"\n'
        )
        with background(open_gateway(file)) as url:

            def call(name: str, **arguments: str) -> bool:
                with ThreadPoolExecutor(1) as other:  # this thread runs the loop of the browser
                    return other.submit(asyncio.run, _call_as_host(url, name, arguments)).result()

            assert not call("find", text="rose")
            Shown(url, tmp_path).open(page)
            page.get_by_text("Later calls", exact=True).click()
            page.get_by_label("Do not ask again within the bounds below").check()
            page.get_by_label("text now").select_option("any value")
            page.get_by_label("How many later calls").fill("*")
            listed = page.get_by_role("group", name="Other tools with the same effect")
            assert [one.split()[0] for one in listed.locator("label").all_inner_texts()] == [
                "All", "count", "get", "load",
            ]  # fmt: skip
            look("caller-similar")
            listed.get_by_label("get").check()
            page.get_by_role("button", name="Allow this call").click()
            page.get_by_text("Allowed, and").wait_for()
            assert call("find", text="rose")
            assert [call("find", text="tulip"), call("get", id="1"), call("count"), call("browse")] == [
                True, True, False, False,
            ]  # fmt: skip
            # The list of the next question has only what is not covered yet.
            page.reload()
            card = page.get_by_role("article", name="count", exact=True)
            card.get_by_text("Later calls", exact=True).click()
            others = card.get_by_role("group", name="Other tools with the same effect").locator("label")
            assert [one.split()[0] for one in others.all_inner_texts()] == ["All", "load"]
            # One row, which is taken back as one.
            page.goto(f"{url}/inbox/permissions")
            row = page.get_by_role("row").nth(1)
            assert "2 calls" in row.inner_text()
            look("caller-permission-of-tools")
            row.get_by_role("button", name="Take back").click()
            page.get_by_text(
                "There are no permissions: each call that needs consent asks. To allow later calls, use "
                "“Later calls” in a question"
            ).wait_for()
            assert [call("find", text="tulip"), call("get", id="1")] == [False, False]
    assert [name for name, _ in server.called] == ["find", "find", "get"]


async def _call_as_host(url: str, name: str, arguments: dict[str, str]) -> bool:
    http = httpx2.AsyncClient(headers={"authorization": "Bearer key-of-app"})
    async with http, Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
        return not (await client.call_tool(name, arguments)).is_error
