"""The layout of pages whatever a server says: lengths, scripts and widths, measured in a real browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from tests.console.conftest import Browser
from toolwire import Toolkit, asgi
from toolwire.consent.decision_record import Decision
from toolwire.consent.grant import GrantKey
from toolwire.consent.question_page import build_question_page
from toolwire.console import Console, ConsoleSource, OneTimeKey
from toolwire.core.check import Question
from toolwire.core.model import Approval, Call, Tool
from toolwire.testing.loopback import background

SCRIPTS = {
    "latin": "Shop of the Good Things ",
    "one word": "W",
    "small": "i",
    "han": "漢字",
    "arabic": "متجر الأشياء ",
    "emoji": "👩‍👩‍👧‍👦",
    "marks": "e\u0301\u0302\u0303",
    "stacked marks": "e" + "\u0336\u033f\u0e49\u0301\u20dd" * 4,
    "dots": "a.b/c?d=e&",
}
LENGTHS = (1, 24, 80, 600, 4_000)
WIDTHS = (320, 375, 768, 1_280)
MEASURE = """() => {
  const cards = document.querySelector('main').getBoundingClientRect().width;
  const narrow = [...document.querySelectorAll('main dd, main figure, main blockquote, main h1, main button')]
    .filter(one => one.getClientRects().length && one.getBoundingClientRect().width < 40);
  const values = [...document.querySelectorAll('main > .card > dl.facts > dd')]
    .map(one => one.getBoundingClientRect().width);
  return {
    page: document.documentElement.scrollWidth,
    narrow: narrow.map(one => one.outerHTML.slice(0, 200)),
    value: Math.min(...values, cards),
    cards,
    captions: [...document.querySelectorAll('figcaption')].map(one => one.textContent),
  };
}"""


def build_question(text: str) -> Question:
    tool = Tool(
        name="order",
        description=text,
        question=text,
        input_schema={"type": "object", "properties": {"a": {"type": "string"}, text[:200]: {"type": "string"}}},
    )
    call = Call(tool, {"a": text, text[:200]: "1", "lines": [{"sku": text[:100], "qty": 1}]})
    return Question(
        call,
        "https://shop.example",
        "POST https://shop.example/api/order",
        Approval.PER_CALL,
        always_allowed=True,
        title=text,
        credential=text[:200],
        reasons=(text[:400],),
        changes=(text[:400],),
    )


@pytest.mark.requirement("AT-52", "D-21")
@pytest.mark.parametrize("script", SCRIPTS)
def test_question_has_room_for_its_values_whatever_a_server_says(script: str, page: Any) -> None:
    for length in LENGTHS:
        text = (SCRIPTS[script] * length)[:length]
        html = build_question_page(build_question(text), "token")
        page.set_content(html)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            found = page.evaluate(MEASURE)
            assert found["page"] <= width, (script, length, width)
            assert found["narrow"] == [], (script, length, width)
            assert found["value"] >= 0.5 * (found["cards"] - 80), (script, length, width, found["value"])
            # What a server says stands in a frame, below words of ours.
            assert set(found["captions"]) <= {"The site says", "In the site's own words"}


@pytest.mark.requirement("AT-52")
def test_title_of_eighty_characters_moves_no_button(page: Any) -> None:
    places = []
    page.set_viewport_size({"width": 1_280, "height": 800})
    for title in ("Desk", "W" * 80, "A rather long name of a server that sells tea, coffee and many other good things"):
        question = build_question("Place an order.")
        page.set_content(build_question_page(Question(**{**_list_fields(question), "title": title}), "token"))
        places.append(page.get_by_role("button", name="Not now").bounding_box()["y"])
    assert max(places) - min(places) <= 100, places


def _list_fields(question: Question) -> dict[str, Any]:
    return {name: getattr(question, name) for name in Question.__dataclass_fields__}


@pytest.mark.requirement("AT-52", "D-21")
@pytest.mark.parametrize("script", SCRIPTS)
def test_console_and_page_of_a_server_are_no_wider_than_the_window(script: str, page: Any, tmp_path: Path) -> None:
    folder = tmp_path / "decisions"
    folder.mkdir(mode=0o700)
    source, key = ConsoleSource(place=folder), OneTimeKey("you")
    console = Console(source, key, own_user_only=True, find_known=key)
    for length in LENGTHS:
        text = (SCRIPTS[script] * length)[:length]
        source.approvals.ask(replace(build_question(text), binding=f"b{length}"))
        source.grants.add(GrantKey("me", text[:200], "https://shop.example", text[:200], f"d{length}"))
        source.audit.append(
            Decision(
                at=1.0,
                principal=text[:200],
                connection=text[:200],
                tool=text[:200],
                binding="b",
                decision="allowed",
                site="https://shop.example",
            )
        )
    kit = Toolkit("Desk", description=(SCRIPTS[script] * 600)[:600])
    kit.tool(lambda words="": words, name="note", description=(SCRIPTS[script] * 600)[:600], approval="per-call")
    with background(console) as url, background(asgi(kit)) as server:
        browser = Browser(url)
        assert browser.sign_in(key.key).status == 303
        found = {path: browser.get(path).text for path in ("/", "/inbox", "/permissions", "/log")}
        address = f"{server}/?tool=note&/words={quote(SCRIPTS[script] * 60)}"
        with urlopen(Request(address, headers={"accept": "text/html"})) as answer:
            found["server"] = answer.read().decode()
    console.drain()
    for path, html in found.items():
        page.set_content(html)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            measured = page.evaluate(MEASURE)
            assert measured["page"] <= width, (script, path, width)
            assert measured["narrow"] == [], (script, path, width)


@pytest.mark.requirement("FU-57")
def test_on_a_phone_the_form_and_the_question_of_a_chosen_tool_are_in_sight(page: Any) -> None:
    kit = Toolkit("Desk")
    for number in range(60):

        def note(text: str, tags: list[str] | None = None) -> str:
            """Keep a note."""
            return text

        kit.tool(name=f"note_{number}")(note)
    page.set_viewport_size({"width": 375, "height": 700})
    with background(asgi(kit)) as url:
        page.goto(url)
        page.get_by_role("link", name="note_41").click()
        heading = page.get_by_role("heading", level=1)
        assert 0 <= heading.bounding_box()["y"] < 300
        page.locator("[name='/text']").fill("hello")
        page.get_by_role("button", name="Try it", exact=True).last.click()
        asked = page.get_by_role("heading", name='Note 41: text "hello"')
        asked.wait_for()
        assert 0 <= asked.bounding_box()["y"] < 700
        # Nothing stays in front of the form.
        assert page.locator("form .bar").count() <= 1
        page.goto(f"{url}/?tool=note_3&/text=hi&/tags/0=a&/tags/1=b#tool")
        assert [one.input_value() for one in page.locator("input[name^='/tags/']").all()] == ["a", "b"]
