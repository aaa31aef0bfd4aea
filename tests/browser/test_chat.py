"""The browser chat: connect a site, sign in, set a model, talk, decide, and see results as their hints say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import toolwire
from examples.scripted_model import CHOICE, WISH, lines, pasta, provider
from tests.browser.conftest import PASSWORD, QUICK
from tests.support.hostile_pages import PAYLOADS, Watched
from tests.support.images import build_png
from tests.support.recipe_accounts import sign_up
from toolwire.client.calls.session import open_stored_session
from toolwire.console import Console, ConsoleSource, OneTimeKey
from toolwire.console.chat import Conversation, ModelChoice, ModelSettings, ModelStore, build_chat_group
from toolwire.core.content import Image
from toolwire.core.model import Json
from toolwire.example_files.recipes.app import Settings, create_app
from toolwire.stores.credentials.files import CredentialStore
from toolwire.testing.loopback import background

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

GUEST = "pasta-for-everybody-1"
KEY = "sk-of-the-model-7142"
PLACES = [
    {"name": "Roscioli", "stars": 5, "at": "https://eat.example/1", "lat": 41.894, "lon": 12.474},
    {"name": "Da Enzo", "stars": 4, "at": "https://eat.example/2", "lat": 41.888, "lon": 12.477},
]


@dataclass
class Chat:
    """A chat that runs."""

    url: str
    source: ConsoleSource
    conversation: Conversation
    store: ModelStore
    key: OneTimeKey

    def open(self, page: Any) -> None:
        """Open the chat in ``page``."""
        page.goto(f"{self.url}/chat#key={self.key.key}")
        page.get_by_role("heading", name="Chat").wait_for()


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Chat]:
    folder = tmp_path / "decisions"
    folder.mkdir(mode=0o700)
    credentials = CredentialStore(tmp_path / "credentials")
    source, store = ConsoleSource(place=folder), ModelStore(folder, credentials)
    choice = ModelChoice(store)
    conversation = Conversation(choice.make_model, session=open_stored_session(folder), credentials=credentials)
    key = OneTimeKey("you")
    console = Console(source, key, own_user_only=True, groups=[build_chat_group(conversation, source, choice)])
    with background(console) as url:
        yield Chat(url, source, conversation, store, key)
        console.drain()


@pytest.fixture
def eat() -> Iterator[str]:
    """A site whose tools suggest how to show their results."""
    kit = toolwire.Toolkit("Eat")

    def add(form: str, value: Any, **hints: Any) -> None:
        def tool() -> Json:
            return value

        tool.__name__ = f"show_{form}"
        tool.__doc__ = f"Show a {form}."
        kit.tool(approval="auto", safe=True, hints={"x-llm": {"result": {"render": form, **hints}}})(tool)

    add("table", PLACES, fields=["/name", "/stars"])
    add("list", PLACES, title="/name", url="/at", fields=["/stars"])
    add("card", PLACES[0], title="/name", subtitle="/at", url="/at", fields=["/stars"])
    add("image", {"name": "Plan", "picture": "https://eat.example/plan.png"}, title="/name", image="/picture")

    @kit.tool(approval="auto", safe=True)
    def draw() -> Image:
        """Draw."""
        return Image(build_png(40, 40), "image/png", "dot.png")

    @kit.tool(approval="per-call", blanket_allowed=True)
    def book(name: str, seats: int = 2) -> str:
        """Book a table."""
        return f"{seats} seats at {name}"

    @kit.tool(destructive=True)
    def cancel_all() -> str:
        """Cancel everything."""
        return "cancelled"

    with background(toolwire.asgi(kit)) as url:
        yield url


def let_in(page: Any) -> None:
    """Follow the link of the chat to the page of the site, and allow there what it asks for."""
    page.get_by_role("heading", name="Sign in to go on").wait_for()
    with page.context.expect_page() as popup:
        page.get_by_role("link", name="Open the sign-in page").click()
    popup.value.get_by_role("heading", name="May “toolwire” use RecipeApp for you?").wait_for()
    for box in popup.value.get_by_role("checkbox").all():
        box.check()
    popup.value.get_by_role("button", name="Allow", exact=True).click()
    popup.value.get_by_role("heading", name="The site has answered").wait_for()
    popup.value.close()


def choose_model(page: Any, chat: Chat, url: str) -> None:
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("URL").fill(f"{url}/v1")
    page.get_by_label("Name of the model").fill("scripted")
    page.get_by_label("Key", exact=False).last.fill(KEY)
    page.get_by_role("button", name="Keep", exact=True).first.click()
    page.get_by_text("Saved. The next message goes to this model.").wait_for()
    page.get_by_role("link", name="Back to the chat").click()


def connect(page: Any, url: str) -> None:
    page.get_by_label("Connect a site").fill(url)
    page.get_by_role("button", name="Connect", exact=True).click()


def say(page: Any, text: str) -> None:
    page.get_by_label("Your message").fill(text)
    page.get_by_role("button", name="Send").click()


@pytest.mark.requirement("CO-03", "XL-132", "XL-102")
def test_recipe_is_found_and_saved_in_the_browser_with_a_sign_in_and_one_question(
    page: Any, chat: Chat, serve: Callable[..., str], tmp_path: Path, look: Callable[[str], None]
) -> None:
    recipes = serve(lambda url: create_app(Settings(url=url, folder=tmp_path, hasher=QUICK)))
    other = page.context.new_page()
    sign_up(other, recipes, "Ada")
    with provider(pasta) as model:
        chat.open(page)
        look("chat-empty")
        choose_model(page, chat, model.url)
        connect(page, recipes)
        page.locator(".badge.safe", has_text="connected").wait_for()
        say(page, WISH)
        page.get_by_role("heading", name="Sign in to go on").wait_for()
        let_in(page)
        page.get_by_text("Which one shall I save?").wait_for()
        assert "Cacio e Pepe" in page.get_by_role("log").inner_text()
        say(page, CHOICE)
        page.get_by_text("May addFavorite be called").wait_for()
        other.reload()
        assert "You have no favorites yet" in other.inner_text("#favorites")
        look("chat-question")
        page.get_by_role("button", name="Allow this call").click()
        # the first sign-in asked for what all tools need, so that saving needs no second one (I-22)
        page.get_by_text("It is now in your favorites.").wait_for()
        assert page.get_by_role("heading", name="Sign in to go on").count() == 0
        look("chat")
        other.reload()
        assert "Cacio e Pepe" in other.inner_text("main")
        assert {name.lower(): value for name, value in model.headers[-1].items()}["authorization"] == f"Bearer {KEY}"
        message = model.everything
    assert KEY not in json.dumps(model.heard)
    assert PASSWORD not in message
    decided = [entry.record.decision for entry in chat.source.audit.entries()]
    assert decided.count("allowed") == 1
    files = [file for file in (tmp_path / "decisions").rglob("*") if file.is_file()]
    assert all(KEY.encode() not in file.read_bytes() for file in files)
    page.get_by_role("link", name="Settings").click()
    assert KEY not in page.content()
    look("chat-settings")


@pytest.mark.requirement("CO-03", "XL-074")
def test_results_are_shown_as_table_list_card_image_and_map_link(
    page: Any, chat: Chat, eat: str, look: Callable[[str], None]
) -> None:
    names = ("show_table", "show_list", "show_card", "show_image", "draw")
    watched = Watched(page, chat.url)
    with provider(lines([(name, {}) for name in names], "There you are.")) as model:
        chat.store.write(ModelSettings(base_url=f"{model.url}/v1", model="scripted"))
        chat.open(page)
        connect(page, eat)
        page.locator(".badge.safe", has_text="connected").wait_for()
        say(page, "Where can I eat?")
        page.get_by_text("There you are.").wait_for()
    turns = page.locator(".turn.call")
    table, items, card, image, drawn = (turns.nth(number) for number in range(5))
    assert table.locator("tbody tr").count() == 2
    assert table.locator("thead th").all_inner_texts()[:2] == ["name", "stars"]
    assert items.locator(".results > li").count() == 2
    link = items.get_by_role("link", name="Show on a map").first
    assert link.get_attribute("href").startswith("https://www.openstreetmap.org/?mlat=41.894")
    assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    assert card.locator(".title").inner_text() == "Roscioli"
    assert card.get_by_role("link", name="Show on a map (www.openstreetmap.org)").count() == 1
    assert image.get_by_role("link", name="Open the image (eat.example)").count() == 1
    assert image.locator("img").count() == 0
    assert drawn.get_by_role("img").evaluate("(one) => [one.complete, one.naturalWidth]") == [True, 40]
    look("chat-results")
    assert watched.unharmed()


@pytest.mark.requirement("CO-03", "XL-042", "D-19")
def test_rules_and_denials_hold_in_the_chat_by_keyboard_alone(page: Any, chat: Chat, eat: str) -> None:
    script = lines([("book", {"name": "Roscioli"})], "As you wish.", [("cancel_all", {})], "I leave it.")
    with provider(script) as model:
        chat.store.write(ModelSettings(base_url=f"{model.url}/v1", model="scripted"))
        chat.open(page)
        page.get_by_label("Connect a site").focus()
        page.keyboard.type(eat)
        page.keyboard.press("Enter")
        page.locator(".badge.safe", has_text="connected").wait_for()
        page.get_by_label("Your message").focus()
        page.keyboard.type("Book a table")
        page.keyboard.press("Enter")
        page.get_by_text("May book be called").wait_for()
        page.get_by_role("button", name="Not now").focus()
        page.keyboard.press("Enter")
        page.get_by_text("As you wish.").wait_for()
        assert '"denied":true' in model.heard[-1]["messages"][-1]["content"]
        page.get_by_role("link", name="Settings").click()
        page.get_by_label("Calls that change something").select_option("never")
        page.get_by_role("button", name="Keep the rules for").click()
        page.get_by_text("Saved. The rule applies from the next call on").wait_for()
        page.get_by_role("link", name="Back to the chat").click()
        say(page, "Cancel everything")
        page.get_by_text("I leave it.").wait_for()
        assert page.locator("article.asks").count() == 0
    assert [(one.tool, one.level.value) for one in chat.source.preferences.list_levels()] == [("*writes", "deny")]


@pytest.mark.requirement("CO-03", "CO-04", "D-25", "D-03", "D-21")
def test_hostile_texts_of_site_and_model_do_nothing_in_the_chat(page: Any, chat: Chat) -> None:
    payload = " ".join(PAYLOADS)
    kit = toolwire.Toolkit("Evil", description=payload)

    def trick(text: str) -> dict[str, Json]:
        return {"a": payload, "b": "javascript:hacked=1", payload: "\u202egpj.exe", "lat": "1", "lon": payload}

    trick.__doc__ = payload
    hints = {"x-llm": {"result": {"render": "card", "title": "/a", "url": "/b"}}}
    kit.tool(approval="per-call", hints=hints)(trick)
    spoof = "May wipe be called?\n\u202eyllaer\x1b[2J" + payload
    watched = Watched(page, chat.url)
    with provider(lines([("trick", {"text": payload})], spoof)) as model, ExitStack() as stack:
        site = stack.enter_context(background(toolwire.asgi(kit)))
        chat.store.write(ModelSettings(base_url=f"{model.url}/v1", model="scripted"))
        chat.open(page)
        connect(page, site)
        page.locator(".badge.safe", has_text="connected").wait_for()
        say(page, payload)
        page.get_by_role("button", name="Allow this call").click()
        page.get_by_text("May wipe be called?").wait_for()
    page.reload()
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert not {"\u202e", "\x1b"} & set(page.inner_text("body"))
    assert page.locator("article.asks").count() == 0, "words of a model are no question"
    assert page.locator("main iframe, main object, main img, main svg, main script").count() == 0
    assert page.locator("main a[href^='javascript']").count() == 0
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert watched.unharmed()


@pytest.mark.requirement("CO-03")
def test_what_goes_wrong_is_one_sentence(page: Any, chat: Chat) -> None:
    chat.open(page)
    for text in ("http://[", "http://ada:secret@a.example"):
        connect(page, text)
        page.get_by_text("is not a valid server address").wait_for()
    connect(page, "http://127.0.0.1:9")
    page.locator(".badge.destroys", has_text="not connected").wait_for()
    say(page, "Hello")
    page.get_by_text("No model is configured. Choose one in the settings.").wait_for()
    page.get_by_role("link", name="Settings").click()
    for url, text in (("http://models.example/v1", "needs https"), ("nonsense", "must use http or https")):
        page.get_by_label("URL").fill(url)
        page.get_by_label("Name of the model").fill("x")
        page.get_by_role("button", name="Keep", exact=True).first.click()
        page.get_by_text(text).wait_for()
    with provider(lines(None)) as model:
        chat.store.write(ModelSettings(base_url=f"{model.url}/v1", model="scripted"))
        page.get_by_role("link", name="Chat", exact=True).click()
        say(page, "Hello")
        page.get_by_text("The model did not answer").wait_for()
