"""A real Chromium without a window, servers on loopback to look at, and pictures of what was seen.

Without Chromium every test here is skipped, and the end of the run says so. Pictures are kept in ``.cache/browser``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from argon2 import PasswordHasher

try:
    from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
except ImportError:  # the tests are skipped, and say why
    sync_playwright = None  # type: ignore[assignment]  # there is no such function then

try:
    from axe_playwright_python.sync_playwright import Axe
except ImportError:  # as above
    Axe = None

from examples.tasks.app import Settings, create_app
from examples.tasks.store import Store
from tests.programs import ON_DEBIAN
from tests.support.served_app import serve  # noqa: F401 - a fixture
from tests.support.small_pictures import shrink_picture
from toolwire.stores.oauth.accounts import Accounts
from toolwire.stores.oauth.database import OAuthStore

PICTURES = Path(__file__).parents[2] / ".cache" / "browser"
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
PASSWORD = "correct horse"
WAIT_S = 20.0
WIDTHS = (360, 1280)
THEMES = ("light", "dark")
IS_DARK = """() => {
  const ground = getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number);
  return ground[0] + ground[1] + ground[2] < 200;
}"""
"""Whether the ground of a page is dark: rgb(16, 19, 23) and not rgb(246, 247, 249)."""
DOCS = Path(__file__).parents[2] / "docs" / "pictures"
SAY_THE_SAME = r"""() => {
  const parts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  window.before = [];
  for (let part = parts.nextNode(); part; part = parts.nextNode()) {
    const text = part.data.replace(/(127\.0\.0\.1|localhost):\d+/g, "$1:9627").replace(/\d+(\.\d+)? ms/g, "2.0 ms")
      .replace(/\d\d:\d\d:\d\d/g, "09:41:00").replace(/(waits since) \S+/g, "$1 0:12")
      .replace(/\b\d\d?( (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sept?|Oct|Nov|Dec))( \d{4})?\b/g,
        (_, day, month, year) => "24 Nov" + (year ? " 2026" : "")).replace(/\b20\d\d-\d\d-\d\d\b/g, "2026-11-24");
    if (text !== part.data) { window.before.push([part, part.data]); part.data = text; }
  }
}"""
"""Gives ports, durations, days and times the values that they have in each picture of the documentation."""
SAY_AS_BEFORE = "() => window.before.forEach(([part, text]) => { part.data = text; })"
IN_DOCS = {
    "question",
    "consent",
    "server-answer",
    "console-overview",
    "console-inbox",
    "console-log",
    "caller-inbox",
    "call-asks",
    "chat",
    "sign-in",
    "connected",
    "callback",
    "error",
}
CHROMIUM = next(filter(None, map(which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = f"there is no Chromium: {ON_DEBIAN.format('chromium')}" if CHROMIUM is None else "there is no playwright"
SKIPPED = CHROMIUM is None or sync_playwright is None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if SKIPPED and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of one file: while it runs, its event loop is that of the thread."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A profile of its own: no cookies yet."""
    context = chromium.new_context(viewport={"width": 1000, "height": 800}, locale="en-GB")
    context.set_default_timeout(WAIT_S * 1_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[Page, str], None]:
    """Keep a picture of a page under a name."""
    PICTURES.mkdir(parents=True, exist_ok=True)

    def keep(page: Page, name: str) -> None:
        page.screenshot(path=PICTURES / f"{name}.png", full_page=True)

    return keep


@pytest.fixture
def look(page: Any, picture: Callable[[Any, str], None]) -> Callable[[str], None]:
    """Look at the open page in both themes and widths: nothing for axe-core to find, and nothing wider than it."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    # Chromium reports the status of a page that says what is wrong with a form as an error too.
    known = "Failed to load resource: the server responded with a status of 4"
    page.on(
        "console",
        lambda message: (
            errors.append(message.text) if message.type == "error" and not message.text.startswith(known) else None
        ),
    )

    def looked(name: str) -> None:
        for theme in THEMES:
            for width in WIDTHS:
                page.emulate_media(color_scheme=theme)
                page.set_viewport_size({"width": width, "height": 800})
                found = Axe().run(page, options={"resultTypes": ["violations"]})
                texts = [
                    (one["id"], one["nodes"][0]["html"], one["nodes"][0]["failureSummary"])
                    for one in found.response["violations"]
                ]
                assert texts == [], (name, theme, width)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, theme, width)
                assert page.evaluate(IS_DARK) == (theme == "dark"), (name, theme, width)
                page.evaluate("scrollTo(0, 0)")  # a list that stays in sight is at the top, as at first
                picture(page, f"{name}-{theme}-{width}")
                if name in IN_DOCS and os.environ.get("TOOLWIRE_PICTURES"):
                    DOCS.mkdir(exist_ok=True)
                    page.evaluate(SAY_THE_SAME)
                    blank = page.context.browser.new_page()
                    small = shrink_picture(blank, page.screenshot(full_page=True))
                    blank.close()
                    (DOCS / f"{name}-{theme}-{width}.png").write_bytes(small)
                    page.evaluate(SAY_AS_BEFORE)
        assert errors == []

    return looked


@pytest.fixture
def tasks(tmp_path: Path, serve: Callable[[Callable[[str], Any]], str]) -> str:  # noqa: F811 - the fixture
    """The sample product, with an empty database of its own."""
    return serve(lambda url: create_app(Settings(url=url, database=database(tmp_path), api_keys=True, hasher=QUICK)))


@pytest.fixture
def sign_up() -> Callable[..., None]:
    """Make an account in a browser, from the sign-in page on; who makes one is signed in."""

    def entered(page: Page, site: str, name: str = "Ada") -> None:
        page.goto(f"{site}/oauth/login?next=%2F")
        page.get_by_role("link", name="Make an account").click()
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Make the account").click()
        page.wait_for_url(f"{site}/")

    return entered


@pytest.fixture
def enter(tmp_path: Path) -> Callable[..., str]:
    """Sign somebody up and in without the pages for it, and return the id of their account."""

    def entered(page: Page, site: str, name: str = "Ada") -> str:
        own, form = {"origin": site}, {"name": name, "password": PASSWORD}
        assert page.request.post(f"{site}/sign-up", form=form, headers=own).ok
        login = page.request.get(f"{site}/oauth/login").text()
        hidden = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', login))
        assert page.request.post(f"{site}/oauth/login", form={**form, **hidden}, headers=own).ok
        person = Accounts(OAuthStore(database(tmp_path)), hasher=QUICK).check(name, PASSWORD)
        assert person is not None
        return person.id

    return entered


@pytest.fixture
def store(tmp_path: Path, tasks: str) -> Store:
    """What the sample product remembers, for looking behind its back."""
    return Store(database(tmp_path))


@pytest.fixture
def client_id(page: Page, tasks: str) -> str:
    """An app that has registered itself."""
    described = {"client_name": "An app", "redirect_uris": ["http://127.0.0.1/callback"]}
    found: str = page.request.post(f"{tasks}/oauth/register", data=described).json()["client_id"]
    return found


def database(folder: Path) -> str:
    return f"sqlite:///{folder / 'tasks.db'}"


@pytest.fixture
def add_task() -> Callable[[Page, str], None]:
    """Add a task on the page, as a person does."""

    def added(page: Page, name: str) -> None:
        page.get_by_label("What is there to do?").fill(name)
        page.get_by_role("button", name="Add").click()

    return added


class Program:
    """A command of toolwire that somebody started on this machine; it has no window to open a browser in."""

    def __init__(self, home: Path, *argv: str) -> None:
        away = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
        environment = {name: value for name, value in os.environ.items() if name not in away}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "toolwire", *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "XDG_STATE_HOME": str(home), "NO_COLOR": "1"},
        )

    def address(self) -> str:
        """Return the address it says to open."""
        assert self._process.stderr is not None
        reply = ""
        for line in self._process.stderr:
            reply += line
            if found := re.search(r"Open this page in a browser on this machine: (\S+)", line):
                return found[1]
        raise AssertionError(f"the program ended: {reply}")

    def end(self) -> tuple[int, str, str]:
        """Return its exit code, and what it printed and said."""
        out, err = self._process.communicate(timeout=WAIT_S)
        return self._process.returncode, out, err

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def toolwire(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start a command of toolwire, whose sign-ins and decisions are kept below the test's own folder."""
    with ExitStack() as ending:

        def start(*argv: str) -> Program:
            program = Program(tmp_path, *argv)
            ending.callback(program.close)
            return program

        yield start
