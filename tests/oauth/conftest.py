"""An authorization server in this process, a browser for a person, and an app that wants in."""

from __future__ import annotations

import asyncio
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from argon2 import PasswordHasher

from tests.support.clock import Clock
from tests.support.served_app import serve  # noqa: F401 - a fixture
from toolwire.auth.clients import Client, hash_secret
from toolwire.auth.pkce import compute_challenge
from toolwire.client.login import SignInUser
from toolwire.core.http import Response
from toolwire.core.model import Kind, Problem
from toolwire.oauth import authorization_server
from toolwire.server.oauth import AuthorizationServer
from toolwire.stores.oauth.accounts import Accounts
from toolwire.stores.oauth.database import GrantEvent, OAuthStore

ISSUER = "https://tasks.example"
COOKIE = f"__Host-toolwire-session-{sha256(ISSUER.encode()).hexdigest()[:12]}"
SCOPES = {"tasks:read": "See your tasks", "tasks:write": "Change your tasks", "tasks:delete": "Delete your tasks"}
CALLBACK = "https://app.example/callback"
CLIENTS = (
    Client(id="app", name="The App", redirect_uris=(CALLBACK,)),
    Client(id="native", name="Native", redirect_uris=("http://127.0.0.1/callback",)),
    Client(
        id="web app",
        name="Web",
        redirect_uris=(CALLBACK,),
        method="client_secret_basic",
        secret_digest=hash_secret("p:w/d %"),
    ),
    Client(
        id="poster",
        name="Poster",
        redirect_uris=(CALLBACK,),
        method="client_secret_post",
        secret_digest=hash_secret("pw"),
    ),
)
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@dataclass
class Internet:
    """What other sites answer, by URL, and who was asked."""

    pages: dict[str, Response] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def fetch(self, url: str) -> Response | Problem:
        self.asked.append(url)
        return self.pages.get(url) or Problem(kind=Kind.UNREACHABLE, message="There is nobody.")


class Browser:
    """A browser with cookies that follows nothing by itself."""

    def __init__(self, app: Any, origin: str, runner: asyncio.Runner, address: str = "127.0.0.1") -> None:
        self._runner = runner
        self.app = app
        self.origin = origin
        self.client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app, client=(address, 40_000)), base_url=origin, headers={"origin": origin}
        )

    def get(self, url: str, **options: Any) -> httpx2.Response:
        return self._runner.run(self.client.get(url, **options))

    def post(self, url: str, data: Any = None, **options: Any) -> httpx2.Response:
        return self._runner.run(self.client.post(url, data=data, **options))

    def request(self, method: str, url: str, **options: Any) -> httpx2.Response:
        return self._runner.run(self.client.request(method, url, **options))

    @property
    def cookies(self) -> httpx2.Cookies:
        return self.client.cookies

    def fields(self, page: httpx2.Response) -> dict[str, str]:
        """The hidden fields of a page's form."""
        return dict(
            re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', page.text.replace("&amp;", "&"))
        )

    def sign_in(self, name: str = "Ada", password: str = "correct horse", onward: str = "/") -> httpx2.Response:
        page = self.get("/oauth/login", params={"next": onward})
        return self.post("/oauth/login", {**self.fields(page), "name": name, "password": password})

    def allow(self, page: httpx2.Response, *scopes: str, decision: str = "allow") -> httpx2.Response:
        """Press a button of the consent page, with these scopes ticked; without any, all of them."""
        ticked = list(scopes) or re.findall(r'name="scope" value="([^"]*)"', page.text)
        return self.post("/oauth/consent", {**self.fields(page), "scope": ticked, "decision": decision})


@dataclass
class Site:
    """One authorization server with a person, Ada, and a clock that can be moved."""

    server: AuthorizationServer
    store: OAuthStore
    people: Accounts
    clock: Clock
    internet: Internet
    events: list[GrantEvent]
    browser: Browser
    new_browser: Callable[..., Browser]
    path: Path
    runner: asyncio.Runner

    def ask(self, client_id: str = "app", **more: Any) -> str:
        """The path and query an app sends a person to; a parameter that is None is left out."""
        asked: dict[str, Any] = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": CALLBACK,
            "state": "s t&a=te",
            "code_challenge": compute_challenge(VERIFIER),
            "code_challenge_method": "S256",
            "scope": "tasks:read tasks:write",
            **more,
        }
        return "/oauth/authorize?" + urlencode(
            {name: value for name, value in asked.items() if value is not None}, True
        )

    def answer(self, response: httpx2.Response) -> dict[str, str]:
        """What a redirect back to the app carries."""
        assert response.status_code == 303, response.text
        return {name: values[0] for name, values in parse_qs(urlsplit(response.headers["location"]).query).items()}

    def code(self, *scopes: str, client_id: str = "app", **more: Any) -> str:
        """A code that Ada granted."""
        self.browser.sign_in()
        page = self.browser.get(self.ask(client_id, **more))
        return self.answer(page if page.status_code == 303 else self.browser.allow(page, *scopes))["code"]

    def token(self, **form: Any) -> httpx2.Response:
        """Send a form to the token endpoint."""
        headers = form.pop("headers", {})
        return self.browser.post("/oauth/token", {"client_id": "app", **form}, headers=headers)

    def redeem(self, code: str, /, **more: Any) -> httpx2.Response:
        """Redeem a code as the app does."""
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER, "redirect_uri": CALLBACK}
        return self.token(**{**form, **more})

    def refresh(self, token: str, **more: Any) -> httpx2.Response:
        """Use a refresh token as the app does."""
        return self.token(grant_type="refresh_token", refresh_token=token, **more)

    def tokens(self, *scopes: str, **more: Any) -> dict[str, Any]:
        """The tokens of a fresh grant."""
        found: dict[str, Any] = self.redeem(self.code(*scopes, **more)).json()
        return found

    def caller(self, token: str) -> Any:
        """Who a request with this token is from, asked of the store and of no memory."""
        return self.runner.run(self.server.callers.verify({b"authorization": f"Bearer {token}".encode()}))


VERIFIER = secrets.token_urlsafe(48)


@pytest.fixture
def open_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Make a site: ``open_site(**settings)``."""
    with ExitStack() as ending:

        def make(*, issuer: str = ISSUER, where: str = "oauth.db", **settings: Any) -> Site:
            path = tmp_path / where
            store = OAuthStore(where if "://" in where else path)
            ending.callback(store.close)
            people = settings.pop("users", None) or Accounts(store, hasher=QUICK)
            if isinstance(people, Accounts):
                people.add("Ada", "correct horse")
            clock, internet, events = Clock(1_800_000_000.0), Internet(), list[GrantEvent]()
            settings = {"name": "Tasks", "clients": CLIENTS, "default_scopes": ("tasks:read",), **settings}
            settings.setdefault("fetch", internet.fetch)
            server = authorization_server(
                issuer=issuer,
                store=store,
                users=people,
                scopes=SCOPES,
                audit=events.append,
                now=clock,
                **settings,
            )
            runner = ending.enter_context(asyncio.Runner())

            def browser(address: str = "127.0.0.1", app: Any = server) -> Browser:
                return Browser(app, f"{urlsplit(issuer).scheme}://{urlsplit(issuer).netloc}", runner, address)

            return Site(server, store, people, clock, internet, events, browser(), browser, path, runner)

        yield make


@pytest.fixture
def site(request: pytest.FixtureRequest, open_site: Callable[..., Site]) -> Site:
    """A site with an SQLite file, or with the database of ``EACH_DATABASE``."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return open_site()
    return open_site(where=request.getfixturevalue("empty_database"))


EACH_DATABASE = pytest.mark.parametrize("site", ["sqlite", "postgresql"], indirect=True)
"""A test that holds for both databases; its module imports the fixtures of PostgreSQL."""


def document(client_id: str, /, **more: Any) -> Mapping[str, Any]:
    """A client metadata document."""
    return {"client_id": client_id, "client_name": "Docs", "redirect_uris": [CALLBACK], **more}


class Walker:
    """A person at a real browser on this machine: signs in, allows, and follows the redirect back to the program."""

    def __init__(self, *, scopes: tuple[str, ...] = (), decision: str = "allow") -> None:
        self.scopes = scopes
        self.decision = decision
        self.pages: list[str] = []
        self.told: list[str] = []

    def person(self, **more: Any) -> SignInUser:
        return SignInUser(show=self.told.append, open_page=self.open, **more)

    def open(self, url: str) -> bool:
        """Do what the pages ask; the way back is walked in a thread, as the program begins to listen only then."""
        self.pages.append(url)
        with httpx2.Client() as client:
            back = self._walked(client, url)
        threading.Thread(target=lambda: httpx2.get(back), daemon=True).start()
        return True

    def _walked(self, client: httpx2.Client, url: str) -> str:
        answer = client.get(url)
        for _ in range(8):
            if answer.has_redirect_location:
                location = str(answer.url.join(answer.headers["location"]))
                if "/callback?" in location:
                    return location
                answer = client.get(location)
                continue
            answer = self._filled(client, answer)
        raise AssertionError(answer.text)

    def _filled(self, client: httpx2.Client, page: httpx2.Response) -> httpx2.Response:
        fields = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page.text.replace("&amp;", "&")))
        assert page.is_success, f"{page.request.url}: {page.status_code} {page.text}"
        action = re.findall(r'action="([^"]*)"', page.text)[0]
        if "password" in page.text:
            form: dict[str, Any] = {**fields, "name": "Ada", "password": "correct horse"}
        else:
            ticked = list(self.scopes) or re.findall(r'name="scope" value="([^"]*)"', page.text)
            form = {**fields, "scope": ticked, "decision": self.decision}
        return client.post(str(page.url.join(action)), data=form)
