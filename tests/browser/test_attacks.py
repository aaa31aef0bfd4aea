"""What a hostile page, and hostile text, can do to our pages in a real browser: nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from html import escape
from typing import Any

import pytest

import toolwire
from examples.tasks.store import Store
from tests.support.hostile_pages import PAYLOADS, SUBMIT, Watched, build_page_app
from toolwire.client.approvers.browser_approver import page_approver
from toolwire.core.check import Answer, Question
from toolwire.core.model import Approval, Call, Tool


def test_payloads_run_scripts_on_a_careless_page(page: Any, serve: Callable[..., str]) -> None:
    careless = serve(lambda _: build_page_app("".join(PAYLOADS[:3])))
    watched = Watched(page, careless)
    page.goto(careless)
    page.wait_for_function("typeof hacked === 'number'")
    assert not watched.unharmed()


@pytest.mark.requirement("D-25")
def test_thirty_payloads_in_names_and_texts_run_no_script_on_the_pages(
    page: Any, tasks: str, store: Store, enter: Callable[..., str], picture: Callable[..., None]
) -> None:
    assert len(PAYLOADS) == 30
    owner = enter(page, tasks, PAYLOADS[0])
    for payload in PAYLOADS:
        store.add(owner, {"name": payload, "description": payload, "status": "todo"})
    for payload in PAYLOADS[:20]:
        store.add_key(owner, payload, payload)
    watched = Watched(page, tasks)
    page.goto(tasks)
    assert page.locator(".tasks h2").all_inner_texts() == list(reversed(PAYLOADS))
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert sorted(page.locator("textarea").evaluate_all("all => all.map(one => one.value)")) == sorted(PAYLOADS)
    picture(page, "payloads")
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = false)")
    store.add(owner, {"name": PAYLOADS[1], "description": PAYLOADS[1], "status": "todo"})
    page.locator(".fresh").wait_for()
    assert page.inner_text("#news") == f"Added: {PAYLOADS[1]}"
    assert watched.unharmed()
    for path in (
        f"/{PAYLOADS[0]}",
        f"/oauth/login?next={PAYLOADS[20]}",
        f"/oauth/authorize?client_id={PAYLOADS[1]}",
        "/connected",
    ):
        page.goto(tasks + path)
        assert page.locator("h1").count() == 1
        assert watched.unharmed(), path


@pytest.mark.requirement("D-25", "D-03")
def test_thirty_payloads_in_a_question_run_no_script_and_are_displayed(page: Any, serve: Callable[..., str]) -> None:
    arguments = {f"a{number}": payload for number, payload in enumerate(PAYLOADS)}
    names = ", ".join(PAYLOADS)
    tool = Tool(name=PAYLOADS[1], description=names, hint=names, destructive=True)
    spoof = "\u202egpj.exe\x1b[2J\U000e0041"
    question = Question(
        Call(tool, {**arguments, "spoof": spoof}),
        "https://xn--80ak6aa92e.com",
        f"POST https://xn--80ak6aa92e.com/{PAYLOADS[20]}",
        Approval.PER_CALL,
        reasons=PAYLOADS,
        title=PAYLOADS[0],
    )
    answers: list[Answer] = []
    opened: list[str] = []
    shown = threading.Event()
    approve = page_approver(lambda url: (opened.append(url), shown.set()), within_s=60)
    asking = threading.Thread(target=lambda: answers.append(approve(question)), daemon=True)
    asking.start()
    assert shown.wait(10)
    watched = Watched(page, opened[0].rpartition("/")[0])
    page.goto(opened[0])
    text = page.inner_text("main")
    for payload in PAYLOADS:
        assert json.dumps(payload)[1:-1] in text or payload in text
    assert "xn--80ak6aa92e.com" in text
    content = page.content()
    assert not {"\u202e", "\x1b", "\U000e0041"} & set(content)
    assert page.evaluate("document.activeElement.tagName") == "BODY"
    page.get_by_role("button", name="Allow this call").click()
    page.get_by_text("To allow this call, type: ").wait_for()
    assert watched.unharmed()
    page.get_by_role("button", name="Not now").click()
    page.get_by_role("heading", name="Denied. Nothing was sent.").wait_for()
    asking.join(10)
    assert [answer.allowed for answer in answers] == [False]


@pytest.mark.requirement("D-23", "AS-17")
def test_our_pages_cannot_be_framed(
    page: Any, tasks: str, serve: Callable[..., str], enter: Callable[..., str], client_id: str
) -> None:
    enter(page, tasks)
    ours = serve(lambda _: toolwire.asgi(toolwire.Toolkit("Empty")))
    harmless = serve(lambda _: build_page_app("seen"))
    paths = (
        "/",
        "/connected",
        "/sign-up",
        "/nothing",
        "/static/tasks.css",
        "/oauth/login",
        "/oauth/consent",
        "/oauth/nothing",
        "/api/tasks",
        consent_path(client_id),
    )
    framed = [*(tasks + path for path in paths), f"{ours}/"]
    body = "".join(
        f'<iframe name="f{number}" src="{escape(url)}"></iframe>' for number, url in enumerate([*framed, harmless])
    )
    evil = serve(lambda _: build_page_app(body))
    page.goto(evil.replace("127.0.0.1", "localhost"))
    page.wait_for_load_state("networkidle")
    seen = [page.frame(f"f{number}").evaluate("document.body?.innerText ?? ''") for number in range(len(framed) + 1)]
    assert seen.pop() == "seen"
    blank = [page.frame(f"f{number}").url for number in range(len(framed))]
    assert set(blank) == {"chrome-error://chromewebdata/"}, dict(zip(framed, blank, strict=True))


@pytest.mark.requirement("D-22")
def test_another_site_cannot_act_for_a_signed_in_user(
    page: Any, tasks: str, store: Store, serve: Callable[..., str], enter: Callable[..., str], client_id: str
) -> None:
    owner = enter(page, tasks)
    task = store.add(owner, {"name": "Hers", "description": "", "status": "todo"})
    page.goto(tasks + consent_path(client_id))
    asked = page.locator("input[name=request]").get_attribute("value")
    # Even the token of her session does not help another site: it may have leaked.
    token = page.locator("input[name=token]").first.get_attribute("value")
    account = {"name": "Eve", "password": "correct horse"}
    forms = {
        "/tasks": {"name": "Evil"},
        f"/tasks/{task.id}": {"name": "Evil"},
        f"/tasks/{task.id}/delete": {},
        "/keys": {"name": "evil"},
        "/sign-up": account,
        "/oauth/login": account,
        "/oauth/logout": {},
        "/oauth/consent": {"request": asked, "decision": "allow", "scope": "tasks:read"},
    }
    evil = serve(lambda _: build_page_app("evil"))
    for where in (
        evil,
        evil.replace("127.0.0.1", "localhost"),
    ):  # of the same site in a browser's sense, and of another
        statuses: dict[str, list[int]] = {path: [] for path in forms}
        other = page.context.new_page()
        other.on("response", lambda answer, seen=statuses: note(answer, seen, tasks))
        other.goto(where)
        other.evaluate(ATTACK, [[tasks + path, {**fields, "token": token}] for path, fields in forms.items()])
        other.wait_for_load_state("networkidle")
        other.close()
        assert {path: set(seen) for path, seen in statuses.items()} == {path: {403} for path in forms}, where
        assert min(map(len, statuses.values())) >= 2, statuses  # the form, and the script
    assert [one.name for one in store.tasks(owner)] == ["Hers"]
    assert store.keys(owner) == []
    page.goto(f"{tasks}/connected")
    assert page.get_by_text("You have not allowed any app.").count() == 1


def note(answer: Any, seen: dict[str, list[int]], site: str) -> None:
    path = answer.url.removeprefix(site)
    if answer.request.method == "POST" and path in seen:
        seen[path].append(answer.status)


@pytest.mark.requirement("D-22")
def test_another_site_cannot_answer_a_question(page: Any, serve: Callable[..., str]) -> None:
    question = Question(Call(Tool(name="wipe"), {}), "https://a.example", "POST /wipe", Approval.PER_CALL)
    answers: list[Answer] = []
    opened: list[str] = []
    shown = threading.Event()
    approve = page_approver(lambda url: (opened.append(url), shown.set()), within_s=60)
    asking = threading.Thread(target=lambda: answers.append(approve(question)), daemon=True)
    asking.start()
    assert shown.wait(10)
    evil = serve(lambda _: build_page_app("evil"))
    page.goto(evil)
    with page.expect_popup() as popup:
        page.evaluate(SUBMIT, [opened[0], {"answer": "allow", "token": "guess"}, "_blank"])
    popup.value.get_by_text("This page accepts requests only at its own address.").wait_for()
    assert answers == []
    page.goto(opened[0])
    page.get_by_role("button", name="Not now").click()
    asking.join(10)
    assert [answer.allowed for answer in answers] == [False]


ATTACK = (
    """
async (targets) => {
  const submit = """
    + SUBMIT
    + """;
  const done = [];
  for (const [number, [url, fields]] of targets.entries()) {
    const frame = document.createElement("iframe"); frame.name = "f" + number; document.body.append(frame);
    submit([url, fields, frame.name]);
    new Image().src = url;
    const body = new URLSearchParams(fields);
    done.push(fetch(url, { method: "POST", mode: "no-cors", credentials: "include", body }).catch(() => 0));
  }
  await Promise.all(done);
}
"""
)


def consent_path(client_id: str) -> str:
    return (
        f"/oauth/authorize?response_type=code&client_id={client_id}&redirect_uri=http%3A%2F%2F127.0.0.1%2Fcallback"
        f"&scope=tasks:read&state=s&code_challenge={'A' * 43}&code_challenge_method=S256"
    )
