"""What comes at each `await` of a request, such as the same request again: a code, a token, an answer count once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from tests.interleaving import Interrupted
from toolwire.core.model import Problem

from .conftest import CALLBACK, VERIFIER, Site

pytestmark = pytest.mark.requirement("AT-58", "TE-02")


def interrupt_post(
    site: Site, number: int, path: str, form: Any, rival: Callable[[], Awaitable[object]]
) -> httpx2.Response | None:
    """Post a form, with ``rival`` where it waits for the ``number``th time; return None if there is no such place."""

    async def send() -> tuple[httpx2.Response, bool]:
        interrupted = Interrupted(site.browser.client.post(path, data=form), number, rival)
        return await interrupted, interrupted.reached

    answer, is_reached = site.runner.run(send())
    return answer if is_reached else None


def repeat_post(site: Site, prepare: Callable[[], tuple[str, Any]], check: Callable[[list[Any]], None]) -> None:
    """Post a form again at each `await` of the first time."""
    number = 0
    while True:
        number += 1
        path, form = prepare()
        again: list[httpx2.Response] = []

        async def send(path: str = path, form: Any = form, again: list[Any] = again) -> None:
            again.append(await site.browser.client.post(path, data=form))

        first = interrupt_post(site, number, path, form, send)
        if first is None:
            break
        check([first, *again])
    assert number > 1


def test_code_that_is_redeemed_twice_at_the_same_time_gives_tokens_once(site: Site) -> None:
    def prepare() -> tuple[str, Any]:
        form = {"grant_type": "authorization_code", "client_id": "app", "code_verifier": VERIFIER}
        return "/oauth/token", {**form, "redirect_uri": CALLBACK, "code": site.code()}

    def check(answers: list[Any]) -> None:
        assert sorted(answer.status_code for answer in answers) == [200, 400]
        [given] = [answer.json() for answer in answers if answer.status_code == 200]
        # RFC 6749, 4.1.2: a code that comes again was stolen, so its tokens end.
        assert isinstance(site.caller(given["access_token"]), Problem)

    repeat_post(site, prepare, check)


def test_refresh_token_that_comes_twice_at_the_same_time_has_one_successor_which_ends(site: Site) -> None:
    def prepare() -> tuple[str, Any]:
        form = {"grant_type": "refresh_token", "client_id": "app"}
        return "/oauth/token", {**form, "refresh_token": site.tokens()["refresh_token"]}

    def check(answers: list[Any]) -> None:
        assert sorted(answer.status_code for answer in answers) == [200, 400]
        [given] = [answer.json() for answer in answers if answer.status_code == 200]
        assert site.refresh(given["refresh_token"]).status_code == 400

    repeat_post(site, prepare, check)


def ask(site: Site) -> dict[str, Any]:
    """Return the form of the question whether an app may have scopes."""
    site.browser.sign_in()
    page = site.browser.get(site.ask(prompt="consent"))
    return {**site.browser.fields(page), "scope": ["tasks:read"], "decision": "allow"}


def test_question_that_is_answered_twice_at_the_same_time_gives_one_code(site: Site) -> None:
    def check(answers: list[Any]) -> None:
        assert sorted(answer.status_code for answer in answers) == [303, 404]

    repeat_post(site, lambda: ("/oauth/consent", ask(site)), check)


def test_account_that_is_removed_while_its_user_allows_an_app_gives_no_tokens(site: Site) -> None:
    async def remove() -> None:
        account = site.people.find_by_name("Ada")
        assert account is not None
        site.people.remove(account)

    number = 0
    while True:
        number += 1
        answer = interrupt_post(site, number, "/oauth/consent", ask(site), remove)
        if answer is None:
            break
        if answer.status_code == 303:
            assert site.redeem(site.answer(answer)["code"]).status_code == 400
        site.people.add("Ada", "correct horse")
    assert number > 1
