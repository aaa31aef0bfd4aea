"""An application whose people sign in at the application: nobody signs in twice, and its own pages keep working."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from toolwire.core.errors import DefinitionError
from toolwire.oauth import authorization_server
from toolwire.server.oauth import protect_app
from toolwire.stores.oauth.accounts import Accounts, StoredAccount

from .conftest import ISSUER, SCOPES, Browser, Site


class OwnPeople:
    """The accounts of an application: no passwords that anybody here could check."""

    def find(self, user_id: str) -> StoredAccount | None:
        return StoredAccount(user_id, user_id.title()) if user_id in ("ada", "bob") else None


def identify_user(scope: Mapping[str, Any]) -> str | None:
    cookies = SimpleCookie(dict(scope["headers"]).get(b"cookie", b"").decode())
    return cookies["session"].value.removeprefix("signed-") if "session" in cookies else None


async def identify_user_async(scope: Mapping[str, Any]) -> str | None:
    return identify_user(scope)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """The application: a page to sign in on, and its own data for whoever is signed in."""
    if scope["path"] == "/sign-in":
        name, onward = (parse_qs(scope["query_string"].decode()).get(each, [""])[0] for each in ("name", "next"))
        headers = [(b"location", onward.encode()), (b"set-cookie", f"session=signed-{name}; Path=/".encode())]
        await send({"type": "http.response.start", "status": 303 if name else 200, "headers": headers if name else []})
        await send({"type": "http.response.body", "body": b""})
        return
    caller = scope["state"]["caller"]
    text = f"{caller.name} {sorted(caller.scopes) if caller.scopes is not None else 'everything'}"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": text.encode()})


@pytest.fixture(params=[identify_user, identify_user_async])
def own(open_site: Callable[..., Site], request: pytest.FixtureRequest) -> Site:
    site = open_site(users=OwnPeople(), login_url="/sign-in?from=apps", identify_user=request.param)

    def needs(_method: str, path: str) -> list[str] | None:
        return ["tasks:read"] if path == "/mine" else None

    app = site.server.serve_before(protect_app(application, site.server.callers, needs, request.param))
    site.browser = site.new_browser(app=app)
    return site


def enter(browser: Browser, name: str, path: str) -> Any:
    """Follow a browser through the application's own sign-in, and back to where it came from."""
    sent = browser.get(path)
    assert sent.status_code == 303, sent.text
    where = urlsplit(sent.headers["location"])
    assert where.path == "/sign-in"
    back = browser.get(f"/sign-in?{where.query}&name={name}")
    return browser.get(back.headers["location"])


@pytest.mark.requirement("AS-19", "AS-17")
def test_user_signed_in_at_the_application_sees_the_consent_page_at_once(own: Site) -> None:
    page = enter(own.browser, "ada", own.ask())
    assert (page.status_code, "<dd>Ada</dd>" in page.text) == (200, True)
    tokens = own.redeem(own.answer(own.browser.allow(page))["code"]).json()
    assert own.caller(tokens["access_token"]).name == "ada"
    headers = {"authorization": f"Bearer {tokens['access_token']}"}
    assert (
        own.new_browser(app=own.browser.app).get("/mine", headers=headers).text == "ada ['tasks:read', 'tasks:write']"
    )


@pytest.mark.requirement("AS-16")
def test_consent_request_cannot_be_answered_by_another_user_of_the_browser(own: Site) -> None:
    page = enter(own.browser, "ada", own.ask())
    own.browser.get("/sign-in?name=bob&next=/")
    assert own.browser.allow(page).status_code == 404


@pytest.mark.requirement("D-22")
def test_consent_form_requires_its_own_session(own: Site) -> None:
    page = enter(own.browser, "ada", own.ask())
    other = own.new_browser(app=own.browser.app)
    other.get("/sign-in?name=ada&next=/")
    assert other.post("/oauth/consent", {**own.browser.fields(page), "decision": "allow"}).status_code == 403


@pytest.mark.requirement("AS-15", "XL-115")
def test_application_users_can_use_protected_routes_with_their_session(own: Site) -> None:
    assert own.browser.get("/mine").status_code == 401
    own.browser.get("/sign-in?name=ada&next=/")
    assert own.browser.get("/mine").text == "ada everything"
    wrong = own.browser.get("/mine", headers={"authorization": "Bearer wrong"})
    assert wrong.status_code == 401, "a token that is shown counts, and no session makes up for it"


@pytest.mark.requirement("D-22")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "cross-site", "origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": ISSUER}, 200),
        ({"origin": ""}, 403),
        ({"origin": "http://["}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_page_of_another_site_cannot_use_the_session_to_change_data(
    own: Site, headers: dict[str, str], status: int
) -> None:
    own.browser.get("/sign-in?name=ada&next=/")
    assert own.browser.post("/mine", headers=headers).status_code == status


@pytest.mark.parametrize("setting", [{"login_url": "/sign-in"}, {"identify_user": identify_user}])
def test_login_url_without_identify_user_is_refused(site: Site, setting: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="Set both login_url and identify_user"):
        authorization_server(issuer=ISSUER, scopes=SCOPES, store=site.store, users=site.people, **setting)


def test_default_login_page_is_served_without_a_login_url(site: Site) -> None:
    assert isinstance(site.people, Accounts)
    assert site.browser.get("/oauth/login").status_code == 200


@pytest.mark.requirement("AS-19")
def test_application_can_sign_in_a_known_user(open_site: Callable[..., Site]) -> None:
    site = open_site(sign_up_url="/join?from=login")
    user = site.people.add("Bob", "correct horse")
    assert user is not None
    before = site.runner.run(site.server.find_user([]))
    name, value = site.runner.run(site.server.start_session([], user.id))
    assert (before, name) == (None, b"set-cookie")
    cookie, _, rules = value.decode().partition("; ")
    assert {"HttpOnly", "SameSite=Lax", "Secure"} <= set(rules.split("; "))
    found = site.runner.run(site.server.find_user([(b"cookie", cookie.encode())]))
    assert found is not None
    assert found.id == user.id
    with pytest.raises(ValueError, match="There is no account"):
        site.runner.run(site.server.start_session([], "nobody"))
    page = site.browser.get("/oauth/login?next=/mine").text
    assert 'href="/join?from=login&amp;next=%2Fmine"' in page


@pytest.mark.requirement("FU-31", "FU-59")
def test_page_of_apps_offers_no_sign_out_where_the_application_has_the_session(own: Site) -> None:
    page = enter(own.browser, "ada", "/oauth/connected")
    assert page.status_code == 200
    assert "Ada" in page.text
    assert "Sign out" not in page.text
    assert "/logout" not in page.text
