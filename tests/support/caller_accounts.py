"""Servers at which the callers of a gateway have accounts of their own, and the calls of these callers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from argon2 import PasswordHasher

from tests.support.served_app import serve_app
from toolwire import Context, Kind, Problem, Toolkit, asgi, connect_sync
from toolwire.oauth import authorization_server
from toolwire.stores.oauth.accounts import Accounts
from toolwire.stores.oauth.database import OAuthStore

KEYS = "key-of-ann ann\nkey-of-bob bob\n"
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def build_kit(title: str) -> Toolkit:
    kit = Toolkit(title)

    @kit.tool(name=f"who_am_i_at_{title.lower()}", safe=True, approval="auto")
    def tell(context: Context) -> str:
        """Tell who calls."""
        return context.principal

    @kit.tool(name=f"write_at_{title.lower()}")
    def write(text: str, context: Context) -> str:
        """Write a text."""
        return f"{context.principal}: {text}"

    return kit


class Site(NamedTuple):
    """A site with its own authorization server, and the header fields of all requests to it."""

    url: str
    seen: list[bytes]


@contextmanager
def serve_site(title: str, folder: Path) -> Iterator[Site]:
    """Serve tools behind an authorization server where Ada and Bob have accounts."""
    seen: list[bytes] = []
    with ExitStack() as ending:

        def make(url: str) -> Any:
            store = OAuthStore(folder / f"{title}.db")
            ending.callback(store.close)
            people = Accounts(store, hasher=QUICK)
            for name in ("Ada", "Bob"):
                people.add(name, "correct horse")
            more: Any = {"registration": True}
            scopes = {"use": "Use the tools"}
            server = authorization_server(issuer=url, store=store, users=people, scopes=scopes, **more)
            app = server.serve_before(asgi(build_kit(title), callers=server.callers))

            async def recording(scope: Any, receive: Any, send: Any) -> None:
                seen.extend(value for _, value in scope.get("headers", ()))
                await app(scope, receive, send)

            return recording

        yield Site(ending.enter_context(serve_app(make)), seen)


def call(url: str, key: str, tool: str, protocol: str = "otc", **more: Any) -> Any:
    approve = more.pop("approve", None)
    user = more.pop("user", None)
    options: dict[str, Any] = {"approve": approve, "user": user, "provide_input": more.pop("provide_input", None)}
    with connect_sync(url, protocol=protocol, api_key=key, agree=lambda _: True, retries=0, **options) as remote:
        return remote.call(tool, more)


def find_pages(problem: Any) -> list[str]:
    assert isinstance(problem, Problem), problem
    assert problem.kind is Kind.MISSING_REQUIREMENTS, problem
    missing: Any = problem.details["missing_requirements"]
    return [one["url"] for one in missing["authorization"]]
