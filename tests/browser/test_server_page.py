"""The page at ``/`` of a server, as somebody who wants to try its tools uses it in a real browser."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import toolwire
from tests.support.hostile_pages import PAYLOADS, SUBMIT, Watched, build_page_app
from tests.support.images import build_png
from toolwire import Audio, File, Image, ServerLimits
from toolwire.auth.receipt import ReceiptKey
from toolwire.core.model import Cost
from toolwire.framing.html_content import MAX_PAGE_BYTES
from toolwire.hosting.open_upstreams import open_toolbox
from toolwire.hosting.targets.target import UrlTarget
from toolwire.server.asking.confirmation import ask_about_destructive


class Line(BaseModel):
    """One line of an order."""

    sku: str
    qty: Annotated[int, Field(ge=1, le=99)] = 1


class Address(BaseModel):
    """Where it goes."""

    street: str
    city: str


class Desk:
    """A shop, with what was ordered and wiped."""

    def __init__(self) -> None:
        self.orders: list[Any] = []
        self.wiped: list[str] = []
        self.looked: list[str] = []
        kit = self.kit = toolwire.Toolkit("Desk", version="2.1.0", description="Orders of the office.")

        @kit.tool(approval="auto", safe=True)
        def find_goods(words: str, kind: Literal["tea", "cups"] | None = None, most: int = 10) -> list[dict[str, Any]]:
            """Find goods by words.

            Args:
                words: What to look for.
                kind: Only goods of this kind.
                most: How many at most.
            """
            self.looked.append(words)
            return [{"sku": "tea", "price": 1.5}, {"sku": "cups", "price": 12}][:most]

        @kit.tool(approval="per-call", cost=Cost.PAID)
        def place_order(lines: list[Line], ship_to: Address, gift: bool = False, note: str = "") -> dict[str, Any]:
            """Place an order."""
            self.orders.append(([line.model_dump() for line in lines], ship_to.model_dump(), gift, note))
            return {"number": len(self.orders), "by": "2027-03-01"}

        @kit.tool(approval="per-call", destructive=True)
        def wipe(folder: str) -> None:
            """Delete everything."""
            self.wiped.append(folder)

        @kit.tool(approval="auto", safe=True)
        def broken() -> str:
            """Fail."""
            raise toolwire.ToolError("The goods are not here today.")


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def site(desk: Desk, serve: Callable[..., str]) -> str:
    return serve(lambda _: toolwire.asgi(desk.kit))


def press(page: Any, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


@pytest.mark.requirement("CO-01", "CO-04", "FU-07", "FU-32")
def test_a_tool_is_found_tried_and_copied(page: Any, site: str, desk: Desk, look: Callable[[str], None]) -> None:
    page.goto(site)
    look("server")
    assert page.get_by_role("navigation", name="Tools").get_by_role("link").count() == 4
    page.get_by_label("Search the tools").fill("find goods")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="find_goods").click()
    assert page.url == f"{site}/?tool=find_goods#tool"  # a link to keep
    page.get_by_label("words").fill("warm drinks")
    page.get_by_label("kind").select_option(label="tea")
    page.get_by_label("most").fill("2")
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Answer").wait_for()
    rows = page.locator("section tbody tr").all_inner_texts()
    assert [row.split("\t") for row in rows] == [["tea", "1.5"], ["cups", "12"]]
    assert " ms" in page.locator("section").inner_text()
    assert desk.looked == ["warm drinks"]
    look("server-answer")
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    blocks = {block.get_attribute("aria-label"): block.inner_text() for block in page.locator("pre[data-copy]").all()}
    for title in ("OpenAPI + x-llm", "OpenTool 1.1.0", "Open Tool Calling", "Model Context Protocol"):
        assert "warm" in blocks[f"{title}: request"]
        assert '"cups"' in blocks[f"{title}: response"]
        # What is copied does what the page did.
        command = ["sh", "-c", f"{blocks[f'{title}: curl']} -s"]
        ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=20)
        assert '"cups"' in ran.stdout, (title, ran)
        assert "warm drinks" in shlex.join(shlex.split(blocks[f"{title}: curl"])).replace("%20", " ")
    program = blocks["Python"]
    assert f"connect_sync('{site}/')" in program
    desk.looked.clear()
    exec(compile(program, "copied", "exec"), {})
    assert desk.looked == ["warm drinks"]


@pytest.mark.requirement("CO-01", "D-19")
def test_writing_tool_is_asked_about_with_all_sent_data(
    page: Any, site: str, desk: Desk, look: Callable[[str], None]
) -> None:
    page.goto(f"{site}/?tool=place_order")
    press(page, "Add to lines")  # to the one that is there
    press(page, "Add to lines")
    for number, sku in enumerate(("tea", "wrong", "cups")):
        page.locator(f"[name='/lines/{number}/sku']").fill(sku)
    page.locator("[name='/lines/0/qty']").fill("2")
    press(page, "Remove lines 2")
    assert page.locator("[name='/lines/1/sku']").input_value() == "cups"
    page.get_by_label("street").fill("Main 1")
    page.get_by_label("city").fill("Bonn")
    page.locator("[name='/lines/0/qty']").fill("0")
    press(page, "Try it")
    page.get_by_text("lines [0].qty").first.wait_for()
    assert page.locator("[name='/ship_to/street']").input_value() == "Main 1"
    page.locator("[name='/lines/0/qty']").fill("2")
    look("server-form")
    press(page, "Try it")
    page.get_by_role("heading", name="Place order").wait_for()
    assert desk.orders == []
    text = page.locator("#tool").inner_text()
    assert [text.count(once) for once in ("Place an order.", "costs money", "changes something")] == [1, 1, 1]
    for shown in ("costs money", "changes something", "tea", "Bonn", f"POST {site}/api/place_order"):
        assert shown in text
    look("server-question")
    press(page, "Not now")
    page.get_by_role("status").get_by_text("Denied. Nothing was sent.").wait_for()
    assert desk.orders == []
    press(page, "Try it")
    press(page, "Allow this call")
    page.get_by_text("Monday, 1 March 2027").wait_for()
    assert desk.orders == [
        ([{"sku": "tea", "qty": 2}, {"sku": "cups", "qty": 1}], {"street": "Main 1", "city": "Bonn"}, False, "")
    ]


@pytest.mark.requirement("CO-01", "D-19")
def test_destructive_tool_requires_typing_and_allows_only_the_displayed_call(page: Any, site: str, desk: Desk) -> None:
    page.goto(f"{site}/?tool=wipe&/folder=/srv")  # a link can fill the form, and runs nothing
    assert page.get_by_label("folder").input_value() == "/srv"
    press(page, "Try it")
    press(page, "Allow this call")
    page.get_by_text("To allow this call, type: wipe yes").wait_for()
    page.get_by_label("Type wipe yes to allow it").fill("wipe yes")
    page.evaluate("""document.querySelector('[name=arguments]').value = '{"folder": "/"}'""")
    press(page, "Allow this call")
    page.get_by_text("This question was not asked here, or the tool has changed since. Open it again.").wait_for()
    assert desk.wiped == []
    page.get_by_label("Type wipe yes to allow it").fill("wipe yes")
    press(page, "Allow this call")
    page.get_by_role("region", name="Answer").wait_for()
    assert desk.wiped == ["/"]  # the second question showed it


@pytest.mark.requirement("CO-01", "FU-07")
def test_no_link_of_the_page_runs_a_tool_and_a_failure_is_a_sentence(page: Any, site: str, desk: Desk) -> None:
    page.goto(f"{site}/?tool=find_goods&/words=x")
    links = {page.evaluate("(a) => a.href", link) for link in page.locator("a").element_handles()}
    assert not [link for link in links if "/api/" in link]
    for link in links:
        assert page.request.get(link).ok, link
    assert desk.looked == []
    page.goto(f"{site}/?tool=broken")
    press(page, "Try it")
    page.get_by_role("alert").get_by_text("tool_failed: The goods are not here today.").wait_for()
    assert page.goto(f"{site}/?tool=nothing").status == 404


@pytest.mark.requirement("CO-01")
def test_a_key_is_typed_on_the_page_and_never_shown_again(page: Any, desk: Desk, serve: Callable[..., str]) -> None:
    site = serve(lambda _: toolwire.asgi(desk.kit, api_keys=["k-12345"]))
    page.goto(f"{site}/?tool=find_goods&/words=tea")
    press(page, "Try it")
    page.get_by_text("Send an API key").wait_for()
    page.goto(f"{site}/?tool=place_order&%23/lines=1&/lines/0/sku=tea&/ship_to/street=Main&/ship_to/city=Bonn")
    for button in ("Try it", "Allow this call"):
        page.get_by_label("Your key or token for this server").fill("k-12345")
        press(page, button)
    page.get_by_role("region", name="Answer").wait_for()
    assert len(desk.orders) == 1
    assert "k-12345" not in page.content()
    assert 'authorization: Bearer $KEY"' in page.content().replace("&quot;", '"')


@pytest.mark.requirement("CO-01")
def test_a_server_that_asks_for_a_confirmation_is_answered_on_the_page(
    page: Any, desk: Desk, serve: Callable[..., str]
) -> None:
    site = serve(lambda _: toolwire.asgi(desk.kit, require_confirmation=ask_about_destructive))
    page.goto(f"{site}/?tool=wipe&/folder=/srv")
    press(page, "Try it")
    page.get_by_label("Type wipe yes to allow it").fill("wipe yes")
    press(page, "Allow this call")
    page.get_by_text("wipe cannot be undone. Call it?").wait_for()
    assert desk.wiped == []
    press(page, "Confirm")
    page.get_by_role("region", name="Answer").wait_for()
    assert desk.wiped == ["/srv"]


@pytest.mark.requirement("CO-01", "CC-06")
def test_the_page_runs_nothing_that_needs_a_receipt_and_says_so(
    page: Any, desk: Desk, serve: Callable[..., str], tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [ReceiptKey().to_public_jwk()]}))
    site = serve(lambda _: toolwire.asgi(desk.kit, receipts="required", receipt_keys=keys))
    page.goto(f"{site}/?tool=wipe&/folder=/srv")
    press(page, "Try it")
    page.get_by_label("Type wipe yes to allow it").fill("wipe yes")
    press(page, "Allow this call")
    page.get_by_text("wipe did not run: it needs a receipt of its user's decision").first.wait_for()
    assert desk.wiped == []


@pytest.mark.requirement("CO-01")
def test_gateway_page_asks_before_calling_its_upstream(
    page: Any, site: str, desk: Desk, serve: Callable[..., str]
) -> None:
    gateway = serve(lambda _: toolwire.asgi(open_toolbox(UrlTarget(site))))
    page.goto(f"{gateway}/?tool=wipe&/folder=/srv")
    press(page, "Try it")
    page.get_by_label("Type wipe yes to allow it").fill("wipe yes")
    press(page, "Allow this call")
    page.get_by_role("heading", name="The server asks too").wait_for()
    assert desk.wiped == []
    press(page, "Confirm")
    page.get_by_role("region", name="Answer").wait_for()
    assert desk.wiped == ["/srv"]


@pytest.mark.requirement("CO-01", "D-22")
def test_page_of_another_site_cannot_run_a_tool(page: Any, desk: Desk, serve: Callable[..., str]) -> None:
    ours = serve(lambda _: toolwire.asgi(desk.kit))
    evil = serve(lambda _: build_page_app("evil"))
    for where in (evil, evil.replace("127.0.0.1", "localhost")):
        page.goto(where)
        with page.expect_navigation():
            page.evaluate(SUBMIT, [f"{ours}/", {"tool": "find_goods", "/words": "x", "step": "try"}, "_self"])
        assert "another site" in page.inner_text("body") or "other sites" in page.inner_text("body")
    assert desk.looked == []


@pytest.mark.requirement("CO-04", "D-25")
def test_thirty_payloads_in_tools_and_answers_run_no_script(
    page: Any, serve: Callable[..., str], look: Callable[[str], None]
) -> None:
    kit = toolwire.Toolkit(PAYLOADS[0], description="\n".join(PAYLOADS))

    @kit.tool(approval="auto", safe=True, description="\n".join(PAYLOADS), hint=PAYLOADS[1])
    def show(text: Annotated[str, Field(description=" ".join(PAYLOADS))] = PAYLOADS[2]) -> list[str]:
        return [*PAYLOADS, text, "\u202egpj.exe"]

    site = serve(lambda _: toolwire.asgi(kit))
    watched = Watched(page, site)
    page.goto(f"{site}/?q={PAYLOADS[0]}")
    assert watched.unharmed()
    page.goto(f"{site}/?tool=show")
    page.locator("[name='/text']").fill(PAYLOADS[20])
    press(page, "Try it")
    page.get_by_role("region", name="Answer").wait_for()
    text = page.inner_text("section")
    for payload in PAYLOADS:
        assert payload in text
    assert "<U+202E>gpj.exe" in text
    assert watched.unharmed()


@pytest.mark.requirement("CO-01")
def test_page_works_below_a_path_and_by_keyboard(page: Any, desk: Desk, serve: Callable[..., str]) -> None:
    def mount(_: str) -> Any:
        app = toolwire.asgi(desk.kit, limits=ServerLimits())

        async def mounted(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "root_path": "/desk"} if scope["type"] == "http" else scope, receive, send)

        return mounted

    page.goto(f"{serve(mount)}/desk/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    page.keyboard.press("Enter")
    for _ in range(30):
        page.keyboard.press("Tab")
        if "find_goods" in page.evaluate("document.activeElement.textContent"):
            break
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="find_goods").wait_for()
    page.get_by_label("words").focus()
    page.keyboard.type("tea")
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Answer").wait_for()
    assert desk.looked == ["tea"]
    assert json.dumps(page.url).endswith('/desk/#result"')


SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='hacked=1'><script>hacked=1</script></svg>"


def build_wav(seconds: int) -> bytes:
    """Return silence."""
    with io.BytesIO() as whole:
        with wave.open(whole, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(1)
            file.setframerate(8_000)
            file.writeframes(b"\x80" * 8_000 * seconds)
        return whole.getvalue()


@pytest.fixture
def studio(serve: Callable[..., str]) -> str:
    """A server whose tools return images, sounds and files."""
    kit = toolwire.Toolkit("Studio")

    @kit.tool(approval="auto", safe=True)
    def draw(count: int = 1) -> list[str | Image]:
        """Draw."""
        return ["drawn", *[Image(build_png(2_000, 40), "image/png", "chart.png")] * count]

    @kit.tool(approval="auto", safe=True)
    def speak() -> Audio:
        """Speak."""
        return Audio(build_wav(3), "audio/wav")

    @kit.tool(approval="auto", safe=True)
    def export() -> list[File | Image]:
        """Export."""
        page = File(b"<script>hacked=1</script>", "text/html", "\u202epage.html")
        return [File(b"a;b", "text/csv", "../../a.csv"), page, Image(SVG, "image/svg+xml", 'a"b.svg')]

    @kit.tool(approval="auto", safe=True)
    def dump() -> File:
        """Return much."""
        return File(bytes(MAX_PAGE_BYTES + 1), "application/zip")

    return serve(lambda _: toolwire.asgi(kit))


def try_tool(page: Any, url: str) -> None:
    page.goto(url)
    press(page, "Try it")
    page.get_by_role("region", name="Answer").wait_for()


@pytest.mark.requirement("MC-07", "CO-04", "FU-32")
def test_an_image_is_shown_and_can_be_downloaded(page: Any, studio: str, look: Callable[[str], None]) -> None:
    watched = Watched(page, studio)
    try_tool(page, f"{studio}/?tool=draw")
    answer = page.get_by_role("region", name="Answer")
    image = answer.get_by_role("img", name="Image: chart.png (image/png")
    assert image.evaluate("(one) => [one.complete, one.naturalWidth]") == [True, 2_000]
    assert "drawn" in answer.inner_text()
    look("server-image")
    with page.expect_download() as started:
        answer.get_by_role("link", name="Download").click()
    assert started.value.suggested_filename == "chart.png"
    assert Path(started.value.path()).read_bytes() == build_png(2_000, 40)
    assert watched.unharmed()


@pytest.mark.requirement("MC-07", "FU-32")
def test_a_sound_has_a_player(page: Any, studio: str, look: Callable[[str], None]) -> None:
    try_tool(page, f"{studio}/?tool=speak")
    player = page.locator("audio")
    assert player.evaluate("(one) => [one.controls, one.autoplay, one.paused]") == [True, False, True]
    page.wait_for_function("document.querySelector('audio').duration === 3")
    look("server-sound")


@pytest.mark.requirement("MC-07", "D-25")
def test_no_file_that_a_tool_returns_opens_as_a_page(page: Any, studio: str) -> None:
    watched = Watched(page, studio)
    try_tool(page, f"{studio}/?tool=export")
    answer = page.get_by_role("region", name="Answer")
    links = answer.get_by_role("link", name="Download")
    names = []
    for link in links.all():
        assert link.get_attribute("href").startswith("data:application/octet-stream;base64,")
        with page.expect_download() as started:
            link.click()
        names.append(started.value.suggested_filename)
    assert names[0] == "a.csv"
    assert "\u202e" not in "".join(names)
    assert "/" not in "".join(names)
    assert answer.locator("img, svg, iframe, object, embed").count() == 0
    assert "<U+202E>page.html" in answer.inner_text()
    assert watched.unharmed()


@pytest.mark.requirement("MC-07")
def test_a_page_holds_so_many_bytes_and_names_the_rest(page: Any, studio: str) -> None:
    try_tool(page, f"{studio}/?tool=dump")
    text = page.get_by_role("region", name="Answer").inner_text()
    assert f"File (application/zip, {MAX_PAGE_BYTES + 1:,} bytes), too large for this page" in text
    assert len(page.content()) < 200_000


@pytest.mark.requirement("MC-07", "D-25")
def test_only_an_answer_with_content_may_show_images(page: Any, studio: str, site: str) -> None:
    headers = page.goto(f"{studio}/?tool=draw").headers
    assert "img-src" not in headers["content-security-policy"]
    with page.expect_response(lambda response: response.request.method == "POST") as received:
        press(page, "Try it")
    policy = received.value.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "img-src data:; media-src data:;" in policy
    page.goto(f"{site}/?tool=find_goods&/words=x")
    with page.expect_response(lambda response: response.request.method == "POST") as received:
        press(page, "Try it")
    assert "data:" not in received.value.headers["content-security-policy"]


@pytest.mark.requirement("CO-01", "CO-04", "FU-32")
def test_address_of_a_protocol_and_a_wrong_one_lead_to_the_tools(
    page: Any, serve: Callable[..., str], look: Callable[[str], None]
) -> None:
    site = serve(lambda _: toolwire.asgi(toolwire.Toolkit("Shop")))
    for path, words in (("mcp", "This address is for programs"), ("nothing", "There is no such page here")):
        page.goto(f"{site}/{path}")
        page.get_by_role("heading", name=words).wait_for()
        assert page.title() == words
        look(f"refused-{path}")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the content"
        page.get_by_role("link", name="See the tools of this server").press("Enter")
        page.get_by_role("heading", name="Shop").wait_for()


LAYOUT_SHIFT = """() => new Promise((tell) => {
  let shift = 0;
  const watched = new PerformanceObserver((list) => { for (const one of list.getEntries()) shift += one.value; });
  watched.observe({type: "layout-shift", buffered: true});
  requestAnimationFrame(() => requestAnimationFrame(() => tell(shift)));
})"""
"""How much of the page has moved since it was opened: 0 is nothing."""


@pytest.mark.requirement("FD-06")
def test_on_a_phone_the_chosen_tool_comes_first_and_the_list_is_folded(page: Any, site: str) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(f"{site}/?tool=find_goods&/words=tea")
    tools = page.get_by_role("navigation", name="Tools")
    assert page.get_by_role("heading", name="find_goods").bounding_box()["y"] < 200
    assert not tools.is_visible()
    page.get_by_text("All tools (4)").click()
    assert tools.bounding_box()["y"] > page.get_by_role("button", name="Try it").bounding_box()["y"]
    page.set_viewport_size({"width": 1280, "height": 800})
    assert tools.bounding_box()["x"] < page.get_by_role("heading", name="find_goods").bounding_box()["x"]
    assert page.get_by_text("All tools (4)").count() == 1
    assert not page.get_by_text("All tools (4)").is_visible()


@pytest.mark.requirement("FD-06")
def test_page_opens_at_the_result_of_an_action_and_nothing_moves(page: Any, site: str) -> None:
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(f"{site}/?tool=place_order")
    press(page, "Add to lines")
    assert page.evaluate("document.activeElement.name") == "/lines/1/sku"
    assert 0 <= page.locator("[name='/lines/1/sku']").bounding_box()["y"] < 640
    page.get_by_label("street").fill("Main 1")
    page.get_by_label("city").fill("Bonn")
    page.locator("[name='/lines/0/sku']").fill("tea")
    page.locator("[name='/lines/1/sku']").fill("cups")
    press(page, "Try it")
    assert 0 <= page.get_by_role("heading", name="Place order").bounding_box()["y"] < 320
    press(page, "Allow this call")
    assert 0 <= page.get_by_role("heading", name="Answer").bounding_box()["y"] < 320
    assert page.evaluate(LAYOUT_SHIFT) == 0


@pytest.mark.requirement("FD-06", "D-26")
def test_last_calls_of_a_tab_are_listed_and_fill_the_form_again(
    page: Any, serve: Callable[..., str], look: Callable[[str], None]
) -> None:
    kit = toolwire.Toolkit("Desk")

    @kit.tool(approval="auto", safe=True)
    def open_door(room: str, pin: Annotated[str, Field(json_schema_extra={"writeOnly": True})]) -> str:
        """Open a door."""
        return f"{room} is open"

    @kit.tool(approval="auto", safe=True)
    def broken() -> str:
        """Fail."""
        raise toolwire.ToolError("The goods are not here today.")

    site = serve(lambda _: toolwire.asgi(kit))
    page.goto(f"{site}/?tool=open_door&/room=attic")
    assert not page.get_by_role("heading", name="Last calls").is_visible()
    page.get_by_label("pin").fill("secret-pin")
    press(page, "Try it")
    page.get_by_role("heading", name="Last calls").wait_for()
    try_tool(page, f"{site}/?tool=broken")
    page.get_by_role("heading", name="Last calls").wait_for()
    calls = page.locator("[data-history] li")
    assert calls.locator(".end").all_inner_texts() == ["tool_failed", "done"]
    look("server-history")
    assert "secret-pin" not in page.evaluate("JSON.stringify(sessionStorage)") + page.content()
    calls.get_by_role("link", name="open_door").click()
    assert page.get_by_label("room").input_value() == "attic"
    assert page.get_by_label("pin").input_value() == ""
    press(page, "Forget them")
    assert not page.get_by_role("heading", name="Last calls").is_visible()
    assert page.evaluate("sessionStorage.length") == 0
