"""The programs of docs/how-to/oauth.md, to the letter: a user signs in, allows, and takes it back in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import read_blocks

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "oauth.md"


@pytest.fixture
def open_program(
    serve: Callable[[Callable[[str], Any]], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], str]:
    """Serve ``app`` of a program of the page, with only its issuer changed to a free port."""
    monkeypatch.chdir(tmp_path)

    def start(name: str) -> str:
        (text,) = [block.text for block in read_blocks(PAGE.read_text("utf-8")) if block.name == name]
        (issuer,) = {word for word in text.split('"') if word.startswith("http://127.0.0.1:")}

        def make(base: str) -> Any:
            names: dict[str, Any] = {}
            exec(compile(text.replace(issuer, base), name, "exec"), names)
            return names["app"]

        return serve(make)

    return start


def allow(page: Any, heading: str) -> None:
    page.get_by_role("heading", name=heading).wait_for()
    page.get_by_label("See your tasks").check()
    page.get_by_role("button", name="Allow", exact=True).click()
    page.get_by_role("heading", name="The site has answered").wait_for()


@pytest.mark.requirement("FU-31", "FU-03", "AS-19")
def test_tutorial_app_is_registered_signed_in_called_and_revoked(
    page: Any, open_program: Callable[[str], str], toolwire: Callable[..., Any], look: Callable[[str], None]
) -> None:
    site = open_program("app.py")
    call = ("call", site, "list_tasks", "--protocol", "otc", "--agree")
    assert toolwire(*call).end()[0] == 4
    login = toolwire("login", site, "--scope", "tasks:read", "--scope", "tasks:write")
    page.goto(login.address())  # it has registered itself
    page.get_by_label("Name").fill("Ada")
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Do not allow").wait_for()
    text = page.inner_text("main")
    # FU-03: how long it lasts and where it is taken back stands there, and only what reads is ticked.
    assert "at most 90 days" in text
    assert [box.is_checked() for box in page.get_by_role("checkbox").all()] == [True, False]
    where = site + str(page.get_by_role("link", name="what you allowed").get_attribute("href"))
    session = next(cookie for cookie in page.context.cookies() if "toolwire" in cookie["name"])
    assert (session["httpOnly"], session["sameSite"], session["path"]) == (True, "Lax", "/")
    allow(page, "May “toolwire” use Tasks for you?")
    assert login.end()[0] == 0
    code, out, err = toolwire(*call).end()
    assert (code, out) == (0, '[\n  "wash up"\n]\n'), err
    page.goto(where)  # the page that the consent page names
    app = page.get_by_role("region", name="toolwire")
    for shown in ("See your tasks", "Allowed\ntoday", "Last used\ntoday", "at the latest"):
        assert shown in app.inner_text()
    look("connected-apps")
    page.get_by_role("button", name="Take back: toolwire").click()
    page.get_by_text("You have not allowed any app.").wait_for()
    assert toolwire(*call).end()[0] in (3, 4)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in to Tasks").wait_for()


@pytest.mark.requirement("FU-02", "FU-31")
def test_application_user_signs_in_once_for_page_and_token(
    page: Any, open_program: Callable[[str], str], toolwire: Callable[..., Any]
) -> None:
    site = open_program("own_sessions.py")
    assert page.goto(f"{site}/mine").status == 401
    pages: list[str] = []
    page.on("request", lambda request: pages.append(request.url.removeprefix(site).partition("?")[0]))
    login = toolwire("login", site, "--scope", "tasks:read")
    page.goto(login.address())  # the application's own sign-in, without a form of ours
    allow(page, "May “toolwire” use")
    assert login.end()[0] == 0
    assert pages.count("/sign-in") == 1
    assert "/oauth/login" not in pages
    assert page.goto(f"{site}/mine").status == 200  # with the session of the application
    assert '"ada"' in page.content()
    pages.clear()
    again = toolwire("login", site, "--scope", "tasks:read")
    page.goto(again.address())
    allow(page, "May “toolwire” use")
    assert again.end()[0] == 0
    assert "/sign-in" not in pages  # who is signed in is asked at once
    assert toolwire("logout", site).end()[0] == 0
    page.goto(f"{site}/oauth/connected")
    assert page.get_by_role("region", name="toolwire").count() == 1  # the first sign-in is another permission
