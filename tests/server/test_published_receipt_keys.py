"""The keys of receipts come from the URL where they are published: fetched safely, and never waited for by a call."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from toolwire import Problem, Session, Toolkit, Value, asgi, build_key_fetcher, connect_sync
from toolwire.auth.receipt import MAX_KEYS, ReceiptKey
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Kind
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.server.asking.receipt_keys import BETWEEN_S, FRESH_S, STALE_S, PublishedKeys
from toolwire.server.asking.receipts import KEYS_PATH
from toolwire.server.options import ServerOptions
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

pytestmark = pytest.mark.requirement("CC-06")


def write_jwks(*keys: ReceiptKey) -> bytes:
    return json.dumps({"keys": [one.to_public_jwk() for one in keys]}).encode()


class Site:
    """Publishes what it is told to at every path, as an ASGI application."""

    def __init__(self, body: bytes, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.body, self.status, self.headers = body, status, headers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for phase in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{phase}.complete"})
            return
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers)})
        await send({"type": "http.response.body", "body": self.body})


def build_desk(done: list[str]) -> Toolkit:
    kit = Toolkit("Desk")

    @kit.tool(approval="per-call")
    def erase(name: str) -> str:
        """Erase something."""
        done.append(name)
        return "erased"

    return kit


def wait_for_refresh() -> None:
    for thread in threading.enumerate():
        if thread.name == "receipt keys":
            thread.join(30)


@pytest.mark.parametrize("how", ["asgi", "the command line"])
def test_a_call_runs_with_a_receipt_of_a_key_that_another_server_publishes(tmp_path: Path, how: str) -> None:
    key, done = ReceiptKey(), list[str]()
    file = tmp_path / "keys.json"
    file.write_bytes(write_jwks(key))
    kit = build_desk(done)
    with background(asgi(build_desk([]), receipts="required", receipt_keys=file)) as publisher:
        url = f"{publisher}{KEYS_PATH}"
        if how == "asgi":
            app = asgi(kit, receipts="required", receipt_keys=build_key_fetcher(url))
        else:
            app = build_app(
                ServeSettings(targets=[], server=ServerOptions(receipts="required", receipt_keys=url), consent="hints"),
                [FunctionToolbox(kit, threads=1)],
            )
        with background(app) as server:
            with connect_sync(server, approve=lambda _: True, session=Session(receipt_key=ReceiptKey)) as remote:
                assert not remote.call("erase", {"name": "by an unknown key"}).ok
            with connect_sync(server, approve=lambda _: True, session=Session(receipt_key=lambda: key)) as remote:
                assert remote.call("erase", {"name": "old"}) == Value("erased")
    assert done == ["old"]


def test_published_keys_are_fetched_again_in_time_and_lapse_if_that_fails() -> None:
    first, second = ReceiptKey(), ReceiptKey()
    answers: list[bytes | Problem] = [write_jwks(first)]
    now, fetched = [0.0], list[float]()

    def fetch() -> bytes | Problem:
        fetched.append(now[0])
        return answers[-1]

    keys = PublishedKeys(fetch, clock=lambda: now[0])

    def list_keys() -> set[str]:
        keys.get_keys()
        wait_for_refresh()
        return set(keys.get_keys().keys)

    assert list_keys() == {first.id}
    answers.append(write_jwks(first, second))
    keys.renew()  # a receipt of an unknown key
    wait_for_refresh()
    assert fetched == [0.0]  # too soon
    now[0] = BETWEEN_S
    keys.renew()
    keys.renew()
    wait_for_refresh()
    assert list_keys() == {first.id, second.id}
    assert fetched == [0.0, BETWEEN_S]
    answers.append(write_jwks(second))
    now[0] += FRESH_S
    assert list_keys() == {second.id}
    answers.append(Problem(kind=Kind.UNREACHABLE, message="No answer."))
    now[0] += STALE_S - 1
    assert list_keys() == {second.id}
    now[0] += 1
    assert list_keys() == set()


@pytest.mark.parametrize(
    "url", ["http://keys.example/keys.json", "ftp://keys.example/a", "keys.json", "https://", "http://10.0.0.1/k"]
)
def test_keys_are_fetched_over_https_only(url: str) -> None:
    with pytest.raises(DefinitionError, match="does not use https"):
        build_key_fetcher(url)


def test_a_fetch_stays_at_its_origin_and_within_its_size() -> None:
    key = ReceiptKey()
    with background(Site(write_jwks(key))) as elsewhere:
        moved = Site(b"", 302, ((b"location", elsewhere.encode()),))
        for site in (moved, Site(b"", 404), Site(b" " * 1_048_577), Site(b"{"), Site(write_jwks())):
            with background(site) as url, pytest.raises(DefinitionError, match="Cannot fetch the receipt keys"):
                asgi(build_desk([]), receipts="required", receipt_keys=build_key_fetcher(url))
    many = json.dumps({"keys": [ReceiptKey().to_public_jwk()] * (MAX_KEYS + 1)}).encode()
    with background(Site(many)) as url, pytest.raises(DefinitionError, match=r"at most 1,000"):
        asgi(build_desk([]), receipts="required", receipt_keys=build_key_fetcher(url))


def test_a_url_is_not_taken_for_a_file() -> None:
    for keys in ("https://keys.example/keys.json", Path("https://keys.example/keys.json")):
        with pytest.raises(DefinitionError, match="build_key_fetcher"):
            asgi(build_desk([]), receipts="required", receipt_keys=keys)
