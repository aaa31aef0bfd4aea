# ruff: noqa: F811 - fixtures are imported
"""A PostgreSQL that is killed while apps refresh their tokens: none is lost, none has two successors."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

import httpx2
import pytest

from tests.postgres import PATIENCE_S, Postgres, postgres, wait_until_answering  # noqa: F401 - the fixture
from tests.process.amounts import report
from tests.support.waiting import wait_until_async
from toolwire.core.model import Kind, Problem

from .conftest import ISSUER, Site

psycopg = pytest.importorskip("psycopg", reason="psycopg is not here: install toolwire[postgres] to prove this")
APPS, SOON_S = 4, 5.0
KILLS = int(os.environ.get("TOOLWIRE_KILLS", "0")) // 50 or 3


@dataclass
class Calls:
    refreshed: int = 0
    refused: int = 0
    stopping: bool = False


@pytest.mark.requirement("R11")
def test_killed_database_loses_no_token_and_issues_no_second_successor(
    postgres: Postgres, open_site: Callable[..., Site]
) -> None:
    async def app(client: httpx2.AsyncClient, token: str) -> None:
        while not calls.stopping:
            form = {"client_id": "app", "grant_type": "refresh_token", "refresh_token": token}
            answer = await client.post("/oauth/token", data=form)
            if answer.status_code == 200:
                token = answer.json()["refresh_token"]
                calls.refreshed += 1
            else:
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), answer.text
                assert answer.json()["error"] == "temporarily_unavailable"
                calls.refused += 1
                await asyncio.sleep(0.02)

    async def story() -> None:
        transport = httpx2.ASGITransport(site.server)
        async with httpx2.AsyncClient(transport=transport, base_url=ISSUER) as client, asyncio.TaskGroup() as group:
            for token in tokens:
                group.create_task(app(client, token))
            for _ in range(KILLS):
                seen = calls.refreshed
                await wait_until_async(lambda seen=seen: calls.refreshed >= seen + 2 * APPS)  # type: ignore[misc]  # a default
                postgres.kill()
                seen = calls.refused
                await wait_until_async(lambda seen=seen: calls.refused >= seen + APPS)  # type: ignore[misc]  # likewise
                shown = {b"authorization": b"Bearer somebody's"}
                reply = await site.server.callers.verify(shown)
                assert isinstance(reply, Problem)
                assert (reply.kind, reply.can_retry) == (Kind.OVERLOADED, True)
                postgres.start()
                await wait_until_async(postgres.answers)
                seen = calls.refreshed
                await wait_until_async(lambda seen=seen: calls.refreshed >= seen + 2 * APPS, within=SOON_S)  # type: ignore[misc]  # likewise
            calls.stopping = True

    asyncio.run(wait_until_async(postgres.answers))
    site, calls = open_site(where=postgres.url, grace_s=60.0), Calls()
    tokens = [site.tokens()["refresh_token"] for _ in range(APPS)]
    site.runner.run(story())
    with postgres.connection() as connection:
        alive = connection.execute(
            "SELECT \"grant\", count(*) FROM oauth_tokens WHERE kind = 'refresh' AND used IS NULL GROUP BY 1"
        ).fetchall()
    assert [count for _, count in alive] == [1] * APPS
    assert not any("reused" in event.kind for event in site.events)
    report("R11", "kills", kills_of_PostgreSQL=KILLS, refreshes=calls.refreshed, refused_and_sent_again=calls.refused)


@pytest.mark.requirement("ST-05", "R11")
def test_hanging_database_is_refused_within_the_deadline_on_every_route(
    postgres: Postgres, open_site: Callable[..., Site]
) -> None:
    wait_until_answering(postgres)
    site = open_site(where=postgres.url, store_s=600.0)  # no other wait ends within the patience of this test
    token = site.tokens()["access_token"]

    async def story() -> None:
        with postgres.stopped():
            async with asyncio.timeout(PATIENCE_S):
                asked = [site.browser.client.get(site.ask()) for _ in range(40)]
                answers = await asyncio.gather(*asked)
                assert {(answer.status_code, answer.headers["retry-after"]) for answer in answers} == {(503, "1")}
                form = {"grant_type": "refresh_token", "refresh_token": "somebody's", "client_id": "app"}
                for path in ("/oauth/token", "/oauth/revoke"):
                    refused = await site.browser.client.post(path, data={**form, "token": "somebody's"})
                    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1"), path
                reply = await site.server.callers.verify({b"authorization": b"Bearer somebody's"})
                assert isinstance(reply, Problem)
                assert (reply.kind, reply.can_retry) == (Kind.OVERLOADED, True)
        shown = {b"authorization": f"Bearer {token}".encode()}

        async def is_known() -> bool:
            return not isinstance(await site.server.callers.verify(shown), Problem)

        await wait_until_async(is_known, within=PATIENCE_S)

    site.runner.run(story())


@pytest.mark.requirement("R11", "R13")
def test_hanging_database_delays_only_requests_that_need_it(postgres: Postgres, open_site: Callable[..., Site]) -> None:
    asyncio.run(wait_until_async(postgres.answers))
    site = open_site(where=postgres.url, store_s=0.3)
    token = site.tokens()["access_token"]

    async def story() -> None:
        with postgres.stopped():
            asked = [site.browser.client.get(site.ask()) for _ in range(40)]
            answers = await asyncio.wait_for(asyncio.gather(*asked), PATIENCE_S)
            assert {(answer.status_code, answer.headers["retry-after"]) for answer in answers} == {(503, "1")}
            assert 0 < site.server._context.threads.threads <= 16, "what was given up still holds its threads"
            reply = await site.server.callers.verify({b"authorization": b"Bearer somebody's"})
            assert isinstance(reply, Problem)
            assert (reply.kind, reply.can_retry) == (Kind.OVERLOADED, True)
            document = await site.browser.client.get("/.well-known/oauth-authorization-server")
            assert document.status_code == 200
        await wait_until_async(postgres.answers)
        await wait_until_async(lambda: not site.server._context.threads.active_jobs)
        shown = {b"authorization": f"Bearer {token}".encode()}

        async def is_known() -> bool:
            return not isinstance(await site.server.callers.verify(shown), Problem)

        await wait_until_async(is_known, within=PATIENCE_S)

    site.runner.run(story())
