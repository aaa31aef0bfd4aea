"""The sample product from the first visit to the last, with a person at a real browser and an assistant beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire import Answer, Kind, Problem, Question, connect_sync
from toolwire.client import Session
from toolwire.stores.credentials.files import CredentialStore

SCOPES = ("tasks:read", "tasks:write", "tasks:delete")


class Ada:
    """A person who allows every call, and remembers what she was asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(allowed=True)


def allow(page: Any, address: str, picture: Callable[..., None]) -> None:
    """Open the consent page, add one scope to what is ticked beforehand, and allow that."""
    page.goto(address)
    page.get_by_role("heading", name="May “toolwire” use Tasks for you?").wait_for()
    assert "Ada" in page.inner_text("dl")
    assert [box.is_checked() for box in page.get_by_role("checkbox").all()] == [True, False, False]
    page.get_by_label("Add and change your tasks").check()
    assert "at most 90 days" in page.inner_text("main")
    assert page.get_by_role("link", name="what you allowed").get_attribute("href") == "/connected"
    picture(page, "consent")
    page.get_by_role("button", name="Allow", exact=True).click()
    page.wait_for_url("http://127.0.0.1:*/callback**")


@pytest.mark.requirement(
    "XL-110", "XL-111", "XL-115", "XL-116", "XL-117", "XL-130", "XL-133", "XL-134", "XL-137", "AS-07", "FU-03", "FU-31"
)
def test_user_connects_an_assistant_watches_it_and_revokes_it(
    page: Any,
    tasks: str,
    toolwire: Callable[..., Any],
    sign_up: Callable[..., None],
    add_task: Callable[..., None],
    picture: Callable[..., None],
    tmp_path: Path,
) -> None:
    page.goto(tasks)
    picture(page, "welcome")
    sign_up(page, tasks)
    add_task(page, "Water the plants")
    page.get_by_role("heading", name="Water the plants").wait_for()
    # The site cannot see whether an assistant asks, and does not say that it can.
    assert "asks assistants to ask you before each change, and cannot see whether they do" in page.inner_text("aside")

    before = toolwire("call", tasks, "listTasks").end()
    assert before[0] in (3, 4), before
    login = toolwire("login", tasks, *(word for scope in SCOPES for word in ("--scope", scope)))
    other = page.context.new_page()
    allow(other, login.address(), picture)
    code, out, err = login.end()
    assert (code, out) == (0, f"Signed in to {tasks}, for tasks:read, tasks:write.\n"), err
    other.close()

    page.evaluate("window.sameDocument = true")
    ada = Ada()
    signed_in = CredentialStore(tmp_path / "toolwire" / "credentials")
    with connect_sync(tasks, approve=ada, credential_store=signed_in, session=Session()) as remote:
        listed = remote.call("listTasks")
        assert not isinstance(listed, Problem), listed
        assert [task["name"] for task in listed.value] == ["Water the plants"]
        assert ada.asked == []
        made = remote.call("createTask", {"name": "Buy flour", "dueDate": "2027-03-01", "description": "For Sunday"})
        assert not isinstance(made, Problem), made
        (question,) = ada.asked
        assert question.target == f"POST {tasks}/api/tasks"

        page.get_by_role("heading", name="Buy flour").wait_for()
        assert page.inner_text("#news") == "Added: Buy flour"
        picture(page, "tasks")
        changed = remote.call("updateTask", {"taskId": made.value["id"], "status": "done"})
        assert not isinstance(changed, Problem), changed
        page.locator(f"#task-{made.value['id']}.done").wait_for()
        assert page.evaluate("window.sameDocument") is True

        refused = remote.call("deleteTask", {"taskId": made.value["id"]})
        assert isinstance(refused, Problem)
        assert refused.kind is Kind.FORBIDDEN
        assert len(ada.asked) == 3

        page.get_by_role("link", name="Connected apps").click()
        assert page.locator(".scopes li").all_inner_texts() == [
            "See your tasks tasks:read",
            "Add and change your tasks tasks:write",
        ]
        assert page.locator("main .marks").inner_text().startswith("Allowed today Last used today Ends ")
        picture(page, "connected")
        page.get_by_role("button", name="Revoke: toolwire").click()
        page.get_by_text("You have not allowed any app.").wait_for()
        after = remote.call("listTasks")
        assert isinstance(after, Problem)
        assert after.kind in (Kind.UNAUTHORIZED, Kind.DENIED)


@pytest.mark.requirement("XL-133", "FU-31")
def test_wrong_password_keeps_the_typed_name(
    page: Any, tasks: str, sign_up: Callable[..., None], picture: Callable[..., None]
) -> None:
    sign_up(page, tasks)
    page.get_by_role("button", name="Sign out").click()
    page.goto(f"{tasks}/connected")
    page.get_by_label("Name").fill("Ada")
    page.get_by_label("Password").fill("wrong horse")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("Wrong name or password.").wait_for()
    picture(page, "sign-in")
    assert page.get_by_label("Name").input_value() == "Ada"
    page.get_by_label("Password").fill("correct horse")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{tasks}/connected")


@pytest.mark.requirement("XL-112", "XL-134")
def test_key_made_on_the_page_works_until_revoked(
    page: Any, tasks: str, enter: Callable[..., str], picture: Callable[..., None]
) -> None:
    enter(page, tasks)
    page.goto(tasks)
    page.goto(f"{tasks}/connected")
    page.get_by_label("What is it for?").fill("backup")
    page.get_by_role("button", name="Make a key").click()
    key = page.locator("[role=status] code").inner_text()
    picture(page, "keys")
    with connect_sync(tasks, api_key=key) as remote:
        assert remote.call("listTasks").ok
        page.goto(f"{tasks}/connected")
        assert key not in page.content()
        page.get_by_role("button", name="Revoke: backup").click()
        page.wait_for_url(f"{tasks}/connected")
        assert not remote.call("listTasks").ok


@pytest.mark.requirement("XL-135")
def test_two_users_on_one_server_see_nothing_of_each_other(
    chromium: Any, tasks: str, enter: Callable[..., str], add_task: Callable[..., None]
) -> None:
    ada, bob = (chromium.new_context() for _ in range(2))
    first, second = ada.new_page(), bob.new_page()
    enter(first, tasks, "Ada")
    first.goto(tasks)
    add_task(first, "Hers")
    enter(second, tasks, "Bob")
    second.goto(tasks)
    add_task(second, "His")
    first.reload()
    assert first.locator(".tasks h2").all_inner_texts() == ["Hers"]
    assert second.locator(".tasks h2").all_inner_texts() == ["His"]
    task = first.locator(".tasks li").get_attribute("id").removeprefix("task-")
    token = second.locator("input[name=token]").first.get_attribute("value")
    # Bob's browser, on Bob's own page, with Bob's own token: and still no way to what is hers.
    script = """async ([path, body]) => (await fetch(path, {method: "POST", body: new URLSearchParams(body)})).status"""
    assert second.evaluate(script, [f"/tasks/{task}/delete", {"token": token}]) == 200
    first.reload()
    assert first.locator(".tasks h2").all_inner_texts() == ["Hers"]
    ada.close()
    bob.close()


@pytest.mark.requirement("XL-133")
def test_live_update_does_not_discard_typed_text(
    page: Any, tasks: str, enter: Callable[..., str], add_task: Callable[..., None], picture: Callable[..., None]
) -> None:
    enter(page, tasks)
    page.goto(tasks)
    add_task(page, "Old name")
    page.get_by_label("Change: Old name").click()
    page.locator("details input[name=name]").fill("New na")
    page.set_viewport_size({"width": 360, "height": 740})
    picture(page, "phone")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    other = page.context.new_page()
    other.goto(tasks)
    add_task(other, "Another")
    page.get_by_role("heading", name="Another").wait_for()
    assert page.locator("details[open] input[name=name]").input_value() == "New na"
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="New na").wait_for()


@pytest.mark.requirement("XL-133")
def test_every_page_is_usable_by_keyboard_and_screen_reader(
    page: Any, tasks: str, enter: Callable[..., str], add_task: Callable[..., None]
) -> None:
    enter(page, tasks)
    page.goto(tasks)
    add_task(page, "Read")
    for path in ("/", "/connected", "/sign-up", "/oauth/login", "/nothing"):
        page.goto(tasks + path)
        unnamed = page.evaluate(UNNAMED)
        assert unnamed == [], path
        assert page.locator("html").get_attribute("lang") == "en"
        assert page.locator("h1").count() == 1
        assert page.evaluate(FAINT) == [], path
    page.goto(tasks)
    reached = []
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('name') || document.activeElement.innerText"))
    assert [
        name
        for name in ("To the content", "Connected apps", "Sign out", "name", "dueDate", "Add", "Done", "Change")
        if name not in reached
    ] == [], json.dumps(reached)


UNNAMED = """
[...document.querySelectorAll('input:not([type=hidden]),select,textarea,button,a')]
  .filter(one => !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim()))
  .map(one => one.outerHTML)
"""
FAINT = """
(() => {
  const numbers = text => text.match(/[0-9.]+/g).map(Number);
  const linear = v => v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
  const light = rgb => { const [r, g, b] = rgb.map(linear);
    return .2126 * r + .7152 * g + .0722 * b };
  const behind = one => { for (; one; one = one.parentElement) {
    const c = numbers(getComputedStyle(one).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c.slice(0, 3) } return [255, 255, 255] };
  return [...document.querySelectorAll('h1,h2,p,a,button,label,summary,span,small,dt,dd')]
    .filter(one => one.innerText.trim() && one.offsetParent).filter(one => {
      const a = light(numbers(getComputedStyle(one).color).slice(0, 3)), b = light(behind(one));
      return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5 }).map(one => one.outerHTML);
})()
"""
