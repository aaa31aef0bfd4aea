"""The page of connected apps: which app it is, what it may do, for how long, and the way out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.core.http import Response
from toolwire.stores.oauth.accounts import StoredAccount

from .conftest import CALLBACK, Site, document

URL = "https://desk.example/oauth-client.json"


def list_regions(text: str) -> dict[str, str]:
    """Return the card of each app by its heading."""
    cards = re.findall(r'<section aria-label="([^"]*)">(.*?)</section>', text, re.DOTALL)
    assert len(dict(cards)) == len(cards), "two apps have one name"
    return dict(cards)


def register(site: Site) -> str:
    described = {"client_name": "Desk", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    return str(site.browser.post("/oauth/register", json=described).json()["client_id"])


@pytest.mark.requirement("AO-03")
def test_apps_with_one_name_are_told_apart_and_taken_back_one_by_one(open_site: Callable[..., Site]) -> None:
    site = open_site(registration=True)
    body = json.dumps(document(URL, client_name="Desk")).encode()
    site.internet.pages[URL] = Response(200, ((b"content-type", b"application/json"),), body)
    first, second = register(site), register(site)
    tokens = {id_: site.redeem(site.code(client_id=id_), client_id=id_).json() for id_ in (first, second, URL, "app")}
    site.clock.now += 1
    again = site.redeem(site.code(client_id=first), client_id=first).json()
    cards = list_regions(site.browser.get("/oauth/connected").text)
    assert len(cards) == 5
    assert {"The App", "Desk (desk.example)", f"Desk ({second[-6:]})"} < set(cards)
    assert [name for name in cards if name.startswith(f"Desk ({first[-6:]}, 2027-")]
    assert "desk.example" in cards["Desk (desk.example)"]
    assert f"registered itself, as …{second[-6:]}" in cards[f"Desk ({second[-6:]})"]
    assert "set up at Tasks" in cards["The App"]
    fields = dict(re.findall(r'name="([^"]*)" value="([^"]*)"', cards[f"Desk ({second[-6:]})"]))
    assert site.browser.post("/oauth/connected", fields).status_code == 303
    assert site.caller(tokens[second]["access_token"]).kind == "unauthorized"
    for stored in (again, tokens[first], tokens[URL], tokens["app"]):
        assert site.caller(stored["access_token"]).scopes


@pytest.mark.requirement("AO-03")
def test_page_says_what_an_app_may_do_and_for_how_long_in_words(site: Site) -> None:
    site.tokens()
    (card,) = list_regions(site.browser.get("/oauth/connected").text).values()
    assert "See your tasks" in card
    assert "Change your tasks" in card
    assert re.search(r"20\d\d at the latest, or after 30 days without use", card)


class OwnUsers:
    """The users of an application, who sign in and out there."""

    def find(self, user_id: str) -> StoredAccount:
        return StoredAccount(user_id, "Ada")


@pytest.mark.requirement("AO-03")
@pytest.mark.parametrize("settings", [{"logout_url": "/sign-out"}, {}])
def test_sign_out_leads_to_the_place_that_ends_the_session(
    open_site: Callable[..., Site], settings: dict[str, Any]
) -> None:
    site = open_site(users=OwnUsers(), login_url="/sign-in", identify_user=lambda _: "ada", **settings)
    links = re.findall(r'<a [^>]*href="([^"]*)"[^>]*>Sign out</a>', site.browser.get("/oauth/connected").text)
    assert links == list(settings.values())


@pytest.mark.requirement("AO-03")
def test_sign_out_ends_the_session(site: Site) -> None:
    site.browser.sign_in()
    page = site.browser.get("/oauth/connected")
    assert site.browser.post("/oauth/logout", {**site.browser.fields(page), "next": "/"}).status_code == 303
    assert site.browser.get("/oauth/connected").headers["location"].startswith("/oauth/login")
