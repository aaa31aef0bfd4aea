# ruff: noqa: F811 - fixtures are imported
"""Two ``toolwire serve`` processes with one PostgreSQL: confirmations and decisions count once for both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.postgres import Postgres, shared_postgres  # noqa: F401 - the fixture
from tests.support.confirmed_note import send_note
from tests.support.serve_process import start_serve, url_in
from toolwire.stores.consent.open import open_decisions

SHOP = '''
    from pathlib import Path
    from toolwire import Toolkit

    kit = Toolkit("Shop")
    done = Path(__file__).with_name("done.txt")

    @kit.tool(destructive=True)
    def delete(name: str) -> str:
        """Delete something."""
        with done.open("a") as file:
            file.write(f"{name}\\n")
        return "deleted"
'''


@pytest.fixture
def shop(write: Callable[..., Path]) -> Path:
    return write("shop.py", SHOP)


def call_as_host(url: str) -> Any:
    async def story() -> Any:
        async with Client(f"{url}/mcp") as client:
            return await client.call_tool("delete", {"name": "old"})

    return anyio.run(story)


@pytest.mark.requirement("ST-01", "CC-05")
def test_a_user_decides_on_a_third_machine_and_the_call_runs_once_on_one_of_two(
    shop: Path,
    shared_postgres: Postgres,
    toolwire: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TOOLWIRE_STATE", shared_postgres.create_database())
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with start_serve(shop, "--consent", "inbox") as (_, first), start_serve(shop, "--consent", "inbox") as (_, second):
        one, two = url_in(first), url_in(second)
        texts = [call_as_host(url).content[0].text for url in (one, two)]
        assert texts[0] == texts[1], "one question for the same call on both"
        id_ = texts[0].partition("`toolwire approvals allow ")[2].partition("`")[0]
        assert f"{id_}  waits until" in toolwire("approvals").out
        assert toolwire("approvals", "allow", id_).code == 0
        assert [call_as_host(url).is_error for url in (two, one)] == [False, True]
    assert shop.with_name("done.txt").read_text() == "old\n"
    assert not (tmp_path / "state").exists(), "nothing was kept on this machine"


@pytest.mark.requirement("ST-01", "XL-056")
def test_a_confirmation_word_of_one_gateway_is_valid_once_on_another(site: str, shared_postgres: Postgres) -> None:
    environment = {"TOOLWIRE_STATE": shared_postgres.create_database()}
    with (
        start_serve(site, environment=environment) as (_, first),
        start_serve(site, environment=environment) as (_, second),
    ):
        urls = [url_in(first), url_in(second)]
        answers = []
        for number in range(6):
            word = send_note(urls[number % 2], str(number))[1]
            sent_to = (urls[(number + 1) % 2], urls[number % 2], urls[(number + 1) % 2])
            answers.append([send_note(url, str(number), word)[0] for url in sent_to])
    assert answers == [[200, 428, 428]] * 6


@pytest.mark.requirement("ST-01", "XL-055", "CC-07")
def test_decisions_in_a_database_are_listed_and_verified(
    shared_postgres: Postgres, toolwire: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = shared_postgres.create_database()
    monkeypatch.setenv("TOOLWIRE_STATE", url)
    assert toolwire("approvals", "set", "https://a.example", "--every", "deny").code == 0
    assert "https://a.example" in toolwire("approvals").out
    assert toolwire("approvals", "log", "--verify").out.startswith("1 record, each")
    assert toolwire("approvals", "--path", url).code == 0
    assert [entry.record.decision for entry in open_decisions(url).entries()] == ["rule: deny"]
    refused = toolwire("approvals", "--path", "postgresql://ada:canary-hunter2@127.0.0.1:1/shop")
    assert refused.code != 0
    assert refused.err.startswith("toolwire: The database 127.0.0.1:1/shop cannot be used: ")
    assert "canary" not in refused.err
