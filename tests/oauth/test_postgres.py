"""The authorization server on a real PostgreSQL, started here; skipped, with the reason, where it is not installed."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar
from urllib.parse import quote

import pytest

from tests.postgres import empty_database, shared_postgres  # noqa: F401 - the fixtures
from toolwire.auth.clients import Client
from toolwire.auth.grants import CodeExchange, TokenRefresh
from toolwire.auth.request_parameters import OAuthError
from toolwire.server.oauth.token_issuing import redeem_code, refresh_tokens, revoke_token
from toolwire.stores.oauth.database import OAuthStore

from .conftest import CALLBACK, VERIFIER, Site

APP = Client(id="app", name="The App", redirect_uris=(CALLBACK,))
_T = TypeVar("_T")


@pytest.fixture
def site(open_site: Callable[..., Site], empty_database: str) -> Site:  # noqa: F811 - the fixture
    return open_site(where=empty_database)


def at_once(work: Callable[[int], _T], number: int = 4) -> list[_T]:
    """Return what ``work`` gives in each of so many threads that begin together."""
    gate = Barrier(number)

    def one(each: int) -> _T:
        gate.wait(10)
        return work(each)

    with ThreadPoolExecutor(number) as pool:
        return [future.result(30) for future in [pool.submit(one, each) for each in range(number)]]


@pytest.mark.requirement("AS-11", "D-28")
def test_concurrent_uses_of_a_refresh_token_give_one_successor_and_end_its_family(site: Site) -> None:
    desk = site.server._context  # the race is below HTTP
    wish = TokenRefresh(client_id="app")
    for _ in range(3):
        token = site.tokens()["refresh_token"]
        answers = at_once(lambda _, token=token: refresh_tokens(desk, APP, token, wish))  # type: ignore[misc]  # a default
        won = [answer for answer in answers if not isinstance(answer, OAuthError)]
        assert len(won) == 1
        assert site.caller(str(won[0]["access_token"])).kind == "unauthorized"
        assert site.refresh(str(won[0]["refresh_token"])).json()["error"] == "invalid_grant"


@pytest.mark.requirement("AS-11", "AS-12")
def test_concurrent_refresh_replay_and_revocation_never_deadlock(site: Site) -> None:
    desk, wish = site.server._context, CodeExchange(client_id="app", verifier=VERIFIER, redirect_uri=CALLBACK)
    for _ in range(4):
        code = site.code()
        tokens = site.redeem(code).json()
        works = (
            lambda token=tokens["refresh_token"]: refresh_tokens(desk, APP, token, TokenRefresh(client_id="app")),
            lambda code=code: redeem_code(desk, APP, code, wish),
            lambda token=tokens["access_token"]: revoke_token(desk, APP, token),
            lambda token=tokens["refresh_token"]: revoke_token(desk, APP, token),
        )
        at_once(lambda each, works=works: works[each]())  # type: ignore[misc]  # a deadlock is an error of the database
        assert site.caller(tokens["access_token"]).kind == "unauthorized"
        assert site.refresh(tokens["refresh_token"]).status_code == 400


def test_processes_that_start_together_create_the_tables_once(empty_database: str) -> None:  # noqa: F811 - the fixture
    stores = at_once(lambda _: OAuthStore(empty_database))
    for store in stores:
        with store.write_transaction() as rows:
            assert rows.list_events() == []
        store.close()


@pytest.mark.requirement("D-34")
@pytest.mark.parametrize("odd", ["a\0b", "x" * 5_000, "\ud7ff\U0010ffff"], ids=["null", "long", "far"])
def test_unusual_texts_from_the_network_cause_no_server_error(site: Site, odd: str) -> None:
    page = site.browser.sign_in(name=odd, password=odd)
    asked = [site.browser.get(site.ask(client_id=odd)), site.browser.get(f"/oauth/consent?request={quote(odd)}")]
    texts = [site.redeem(odd), site.refresh(odd), site.token(client_id=odd, grant_type="refresh_token")]
    revoked = site.browser.post("/oauth/revoke", {"client_id": "app", "token": odd})
    pair = b64encode(quote(odd).encode() + b":x").decode()
    texts.append(site.redeem("x", client_id="", headers={"authorization": f"Basic {pair}"}))
    assert all(answer.status_code < 500 for answer in [page, *asked, *texts, revoked])
