"""The console in a real browser: signing in, deciding, live news, hostile texts, and how each page looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.console_questions import build_question
from tests.support.hostile_pages import PAYLOADS, Watched, build_page_app
from toolwire.consent.decision_record import Decision
from toolwire.consent.grant import GrantKey
from toolwire.console import (
    CallRow,
    ConnectionRow,
    Console,
    ConsoleSource,
    LimitRow,
    OneTimeKey,
    ToolRow,
)
from toolwire.core.check import Answer
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.health import UpstreamHealth
from toolwire.core.model import Approval
from toolwire.testing.loopback import background

SHOP = "https://shop.example"
NOW = 1_795_500_000.0
PAGES = ("", "inbox", "connections", "permissions", "rules", "log", "lock", "upstreams", "calls", "limits")


@dataclass
class Shown:
    """A console that runs, and what it shows."""

    url: str
    source: ConsoleSource
    key: OneTimeKey

    def open(self, page: Any, path: str = "") -> None:
        """Open the link of the terminal in ``page``, then the page at ``path``."""
        page.goto(f"{self.url}/#key={self.key.key}")
        page.get_by_role("heading", name="Overview").wait_for()
        if path:
            page.goto(f"{self.url}/{path}")


@pytest.fixture
def show(tmp_path: Path) -> Iterator[Callable[..., Shown]]:
    with ExitStack() as ending:

        def started(text: str = "", **given: Any) -> Shown:
            source = ConsoleSource(place=tmp_path / "decisions", **{**build_parts(text), **given})
            (tmp_path / "decisions").mkdir(mode=0o700)
            fill(source, text)
            key = OneTimeKey(text or "you")
            console = Console(source, key, own_user_only=True)
            url = ending.enter_context(background(console))
            ending.callback(console.drain)
            return Shown(url, source, key)

        yield started


def build_parts(text: str) -> dict[str, Any]:
    """What a console of a gateway shows beside its stores; each text of a site is ``text``, if there is one."""
    return {
        "list_connections": lambda: [
            ConnectionRow(url=SHOP, access="signed in", scopes=(text or "orders:write", "orders:read")),
            ConnectionRow(url=f"stdio:npx -y {text or 'server-files'}", access="a program that you agreed to run"),
        ],
        "list_site_tools": lambda _: [
            ToolRow(name=text or "find_goods", description=text or "Find goods.", effect="reads", level="auto"),
            ToolRow(
                name="browse", description=text or "Browse.", effect="changes", level="per-call", untrusted="ab12",
                notes=(text or "takes a destination: url", "changed since you trusted or approved it: new argument to"),
            ),
            ToolRow(name="place_order", description="Place an order.", effect="changes", cost="paid"),
            ToolRow(name="close_account", description="Close it.", effect="destroys", level="per-call"),
        ],
        "trust_tools": lambda *_: "",
        "list_locked": lambda: [(SHOP, 12)],
        "find_differences": lambda _: [text or "Shop.place_order@1.0.0: changed, wider", 'cost: null -> "paid"'],
        "list_upstreams": lambda: [
            UpstreamHealth(name=text or "shop", state="ok", tools=12, calls=140, latency_ms=31.0),
            UpstreamHealth(
                name="books", state="failing", tools=0, failures=3, last_failure=text or "It refuses."
            ),
        ],
        "list_calls": lambda: [
            CallRow(
                id="1", tool=text or "render_film", caller=text or "ada", state="running", started_at=NOW,
                progress=0.42, message=text or "Frame 420 of 1,000", can_cancel=True,
            ),
            CallRow(id="2", tool="export", caller="bob", state="ended", started_at=NOW - 500.0, progress=1.0),
        ],
        "cancel_call": lambda _: True,
        "list_limits": lambda: [LimitRow(what=text or "ada, place_order", used=48, most=60, per="a minute")],
        "limit_notes": (text or "You are asked at most 10 questions per minute.",),
    }  # fmt: skip


def fill(source: ConsoleSource, text: str) -> None:
    """Store decisions, permissions, rules and questions."""
    words = ("allowed", "denied", "allowed", "timeout", text or "changed")
    for number in range(14):
        source.audit.append(
            Decision(
                at=NOW + 311 * number,
                principal=text or "me",
                connection=text or "shop",
                tool=text or ("Shop.place_order@1.0.0" if number % 3 else "Shop.find_goods@1.0.0"),
                binding="ab12" * 16,
                decision=words[number % 5],
                channel=text or "page",
                always=number == 6,
                shown_ms=1_300,
                site=text or SHOP,
            )
        )
    bounds = GrantBounds(conditions=[("/sku", "eq", text or "tea"), ("/price", "le", 50)], uses=3)
    source.grants.add(GrantKey("me", text or "shop", text or SHOP, text or "Shop.place_order@1.0.0", "d" * 64), bounds)
    source.preferences.set(SHOP, text or "close_account", Approval.DENY)
    source.approvals.ask(build_question(text))


@pytest.mark.requirement("CO-02", "CO-04", "FU-32")
def test_each_page_of_the_console_looks_like_one_product(
    page: Any, show: Callable[..., Shown], look: Callable[[str], None]
) -> None:
    console = show()
    page.goto(console.url)
    look("console-sign-in")
    console.open(page)
    for path in PAGES:
        page.goto(f"{console.url}/{path}")
        look(f"console-{path or 'overview'}")
    page.goto(f"{console.url}/connections")
    page.get_by_role("button", name="Look at what").click()
    look("console-offers")
    page.goto(f"{console.url}/lock")
    page.get_by_role("button", name="Compare").click()
    look("console-lock-differences")
    page.goto(f"{console.url}/log?verify=chain&tool=order")
    assert "14 records are as written" in page.inner_text("main")


@pytest.mark.requirement("CO-02", "CO-04")
def test_empty_pages_say_what_to_do(page: Any, tmp_path: Path, look: Callable[[str], None]) -> None:
    source = ConsoleSource(place=tmp_path / "new", list_connections=list, list_locked=list)
    key = OneTimeKey("you")
    with background(Console(source, key, own_user_only=True)) as url:
        page.goto(f"{url}/#key={key.key}")
        page.get_by_text("No question waits for you.").wait_for()
        look("console-empty")
        for path, text in (
            ("inbox", "No pending questions."),
            (
                "permissions",
                (
                    "There are no permissions: each call that needs consent asks. To allow later calls, use "
                    "“Later calls” in a question"
                ),
            ),
            ("rules", "You have no rule"),
            ("log", "No decisions yet."),
            ("connections", "toolwire login URL"),
            ("lock", "toolwire lock URL"),
        ):
            page.goto(f"{url}/{path}")
            assert text in page.inner_text("main")


@pytest.mark.requirement("CO-02", "CO-04", "D-19")
def test_question_is_answered_by_keyboard_and_the_key_leaves_the_address(page: Any, show: Callable[..., Shown]) -> None:
    console = show()
    key = console.key.key
    console.open(page)
    assert "key" not in page.url
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # to the content
    page.get_by_role("link", name="Decide: 1 question waits").focus()
    page.keyboard.press("Enter")
    page.get_by_text("May place_order be called").wait_for()
    page.get_by_role("button", name="Not now").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("Allowed. The call can run now").wait_for()
    answer = console.source.approvals.take(console.source.approvals.find("order") or "", "order")
    assert answer is not None
    assert (answer.allowed, answer.always) == (True, False)
    page.goto(f"{console.url}/#key={key}")
    assert "Overview" in page.inner_text("h1"), "a session goes on, whatever key is in the address"


@pytest.mark.requirement("CO-02")
def test_news_comes_to_an_open_page_and_moves_nothing_that_is_in_use(page: Any, show: Callable[..., Shown]) -> None:
    console = show()
    console.open(page, "inbox")
    cards = page.locator("article")
    assert cards.count() == 1
    page.get_by_text("Say why not").first.click()
    page.get_by_label("Why not").first.fill("Too dear")
    before = cards.first.bounding_box()
    console.source.approvals.ask(replace(build_question(), binding="second"))
    page.locator("article").nth(1).wait_for()
    assert page.get_by_role("link", name="Inbox (2)").count() == 1
    assert cards.first.bounding_box() == before
    assert page.get_by_label("Why not").first.input_value() == "Too dear"
    # A question that is answered elsewhere stays where it was, and cannot be pressed any more.
    first = console.source.approvals.find("order") or ""
    assert console.source.approvals.answer(first, Answer(allowed=False))
    page.get_by_text("This question is over").wait_for()
    assert cards.count() == 2
    assert cards.first.get_by_role("button", name="Allow this call").is_disabled()
    assert cards.nth(1).get_by_role("button", name="Allow this call").is_enabled()


@pytest.mark.requirement("CO-02")
def test_news_keeps_what_was_wrong_with_an_entry_and_the_entry(page: Any, show: Callable[..., Shown]) -> None:
    console = show()
    console.source.approvals.ask(replace(build_question(), binding="pay", always_allowed=None))
    console.open(page, "inbox")
    card = page.locator("article").last
    card.get_by_text("Later calls", exact=True).click()
    card.get_by_label("Do not ask again within the bounds below").check()
    card.get_by_label("How many later calls").fill("many")
    with page.expect_response(lambda one: one.url.endswith("/inbox") and one.request.method == "GET"):
        card.get_by_role("button", name="Allow this call").click()
    refused = page.locator("article").nth(1)
    assert page.get_by_role("alert").count() == 1
    console.source.approvals.ask(replace(build_question(), binding="third"))
    page.locator("article").nth(2).wait_for()
    assert page.get_by_role("alert").is_visible()
    assert refused.get_by_label("How many later calls").input_value() == "many"


@pytest.mark.requirement("CO-02", "CO-04")
def test_console_works_without_script(chromium: Any, show: Callable[..., Shown]) -> None:
    console = show()
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(console.url)
    page.get_by_label("Key").fill(console.key.key)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Inbox (1)").click()
    page.get_by_role("button", name="Not now").click()
    assert "Denied." in page.inner_text("main")
    page.get_by_role("link", name="Log", exact=True).click()
    page.get_by_label("Decision").select_option("denied")
    page.get_by_role("button", name="Filter").click()
    assert page.locator("tbody tr").count() == 3
    context.close()


@pytest.mark.requirement("CO-04", "D-25", "D-03", "D-23")
@pytest.mark.parametrize("text", [" ".join(PAYLOADS), "\u202egpj.exe\x1b[2J\U000e0041\u200b", "long" * 5_000])
def test_hostile_texts_do_nothing_on_any_page_of_the_console(text: str, page: Any, show: Callable[..., Shown]) -> None:
    console = show(text)
    watched = Watched(page, console.url)
    console.open(page)
    for path in PAGES:
        page.goto(f"{console.url}/{path}")
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert not {"\u202e", "\x1b", "\U000e0041", "\u200b"} & set(page.inner_text("body"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 1_000
        assert page.locator("h1").count() == 1
        assert page.locator("iframe, object, embed, main img, main svg, main script").count() == 0
        assert page.locator("main a[href^='javascript']").count() == 0
        assert watched.unharmed(), path
    for path, name in (("connections", "Look at what"), ("lock", "Compare")):
        page.goto(f"{console.url}/{path}")
        page.get_by_role("button", name=name).first.click()
        assert watched.unharmed(), path
    page.set_viewport_size({"width": 360, "height": 800})
    for path in PAGES:
        page.goto(f"{console.url}/{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


@pytest.mark.requirement("CO-04", "D-22", "D-23")
def test_another_site_cannot_frame_the_console_or_act_in_it(
    page: Any, show: Callable[..., Shown], serve: Callable[..., str]
) -> None:
    console = show()
    console.open(page, "inbox")
    token = page.locator("input[name=token]").first.get_attribute("value")
    id_ = page.locator("input[name=id]").first.get_attribute("value")
    evil = serve(lambda _: build_page_app(f'<iframe name="f" src="{console.url}/inbox"></iframe>'))
    for where in (evil, evil.replace("127.0.0.1", "localhost")):
        other = page.context.new_page()
        other.goto(where)
        other.wait_for_load_state("networkidle")
        assert other.frame("f").url == "chrome-error://chromewebdata/"
        status = other.evaluate(
            """async ([url, fields]) => {
              const body = new URLSearchParams(fields);
              await fetch(url, { method: "POST", mode: "no-cors", credentials: "include", body }).catch(() => 0);
              const form = document.createElement("form");
              Object.assign(form, { method: "post", action: url, target: "f" });
              for (const [name, value] of Object.entries(fields)) {
                const input = document.createElement("input");
                input.name = name; input.value = value; form.append(input);
              }
              document.body.append(form); form.submit();
              return 1;
            }""",
            [f"{console.url}/inbox", {"token": token, "id": id_, "answer": "allow"}],
        )
        assert status == 1
        other.wait_for_load_state("networkidle")
        other.close()
    assert [one.id for one in console.source.approvals.list_pending()] == [id_]


@pytest.mark.requirement("CO-02", "CO-04")
def test_times_are_in_the_zone_of_the_reader_and_in_utc_without_a_script(
    chromium: Any, show: Callable[..., Shown]
) -> None:
    shown = show()
    context = chromium.new_context(timezone_id="Asia/Tokyo")
    page = context.new_page()
    shown.open(page, "calls")
    began = page.locator("time").first
    assert began.get_attribute("title") == "2026-11-24T06:00:00Z"
    assert began.inner_text().endswith("15:00:00")
    # news does not bring the other zone back
    shown.source.audit.append(
        Decision(at=NOW, principal="me", connection="shop", tool="T", binding="", decision="denied")
    )
    page.goto(f"{shown.url}/log")
    before = page.locator("tbody tr").count()
    shown.source.audit.append(
        Decision(at=NOW, principal="me", connection="shop", tool="N", binding="", decision="denied")
    )
    page.locator("tbody tr").nth(before).wait_for()
    assert all(text[-5:].count(":") == 1 for text in page.locator("time").all_inner_texts())
    state = context.storage_state()
    context.close()
    bare = chromium.new_context(java_script_enabled=False, storage_state=state, timezone_id="Asia/Tokyo")
    plain = bare.new_page()
    plain.goto(f"{shown.url}/calls")
    assert plain.locator("time").first.inner_text() == "24 Nov 2026, 06:00:00 UTC"
    bare.close()


@pytest.mark.requirement("CO-04", "FU-32")
def test_badges_and_places_are_told_apart_where_the_system_chooses_the_colours(
    page: Any, show: Callable[..., Shown]
) -> None:
    shown = show()
    page.emulate_media(forced_colors="active")
    shown.open(page, "calls")

    def read_style(selector: str, name: str) -> str:
        # In one step: news may replace the element between finding it and reading it.
        return str(page.evaluate(f"() => getComputedStyle(document.querySelector('{selector}')).{name}"))

    assert read_style(".badge", "borderTopWidth") == "1px"
    assert "underline" in read_style("nav a[aria-current]", "textDecorationLine")
    page.emulate_media(forced_colors="none", media="print")
    assert not page.get_by_role("navigation", name="Pages").is_visible()
    assert page.get_by_text("render_film").is_visible()


@pytest.mark.requirement("FU-57")
def test_on_a_phone_the_navigation_is_one_row_and_no_bar_covers_what_has_the_focus(
    page: Any, show: Callable[..., Shown]
) -> None:
    console = show()
    console.open(page)
    for width in (320, 375):
        page.set_viewport_size({"width": width, "height": 640})
        for path in PAGES:
            page.goto(f"{console.url}/{path}")
            assert page.evaluate(_ROWS) == 1, (width, path)
            assert page.locator("nav").first.bounding_box()["height"] <= 64, (width, path)
            assert page.evaluate(_COVERED) == [], (width, path)


# How many rows the links of the navigation take that are in sight.
_ROWS = """() => new Set([...document.querySelectorAll('nav a')].map(one => one.getBoundingClientRect())
    .filter(box => box.width && box.height).map(box => Math.round(box.top))).size"""
# The fields and buttons of the page that something in front covers while they have the focus.
_COVERED = """() => {
    const covered = [];
    const found = document.querySelectorAll('main input:not([type=hidden]), main select, main textarea, main button');
    for (const one of found) {
        if (!one.checkVisibility()) continue;
        one.focus();
        const box = one.getBoundingClientRect();
        const front = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
        const isInSight = box.bottom > 0 && box.top < innerHeight;
        if (!isInSight || !(one.contains(front) || front?.closest('label')?.control === one))
            covered.push(`${one.tagName} ${one.name} ${one.textContent}`);
    }
    return covered;
}"""
