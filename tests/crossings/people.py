"""What a person does in a browser to sign in, and what a program then gets: the code flow of OAuth, step by step."""

from __future__ import annotations

import html
import re
import secrets
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from toolwire.auth.pkce import compute_challenge

NAME, PASSWORD = "ann", "correct horse"
CALLBACK = "http://127.0.0.1:9/callback"


def read_form(page: httpx2.Response) -> tuple[str, dict[str, Any]]:
    """Return where the form of a page leads, and the fields that it has already."""
    fields = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page.text)
    action = re.findall(r'action="([^"]*)"', page.text)[0]
    return str(page.url.join(html.unescape(action))), {name: html.unescape(value) for name, value in fields}


def walk(browser: httpx2.Client, url: str, end: str) -> httpx2.Response:
    """Sign in and allow what is asked from ``url`` on, until an address begins with ``end``."""
    answer = browser.get(url)
    for _ in range(12):
        location = answer.headers.get("location", "")
        if str(answer.url).startswith(end) or location.startswith(end):
            return answer
        if location:
            answer = browser.get(str(answer.url.join(location)))
            continue
        action, form = read_form(answer)
        if 'name="password"' in answer.text:
            form |= {"name": NAME, "password": PASSWORD}
        else:
            form |= {"scope": re.findall(r'name="scope" value="([^"]*)"', answer.text), "decision": "allow"}
        answer = browser.post(action, data=form)
    raise AssertionError(answer.text)


def get_token(browser: httpx2.Client, issuer: str, resource: str) -> str:
    """Return the access token that a program gets which the person allows to use ``resource``."""
    metadata = browser.get(f"{issuer}/.well-known/oauth-authorization-server").json()
    about = {"client_name": "A program", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    client = browser.post(metadata["registration_endpoint"], json=about).json()["client_id"]
    verifier = secrets.token_urlsafe(48)
    asked = {
        "response_type": "code",
        "client_id": client,
        "redirect_uri": CALLBACK,
        "code_challenge": compute_challenge(verifier),
        "code_challenge_method": "S256",
        "state": "crossings",
        "resource": resource,
    }
    done = walk(browser, f"{metadata['authorization_endpoint']}?{urlencode(asked)}", CALLBACK)
    code = parse_qs(urlsplit(done.headers["location"]).query)["code"][0]
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        "client_id": client,
        "code_verifier": verifier,
        "resource": resource,
    }
    answer = browser.post(metadata["token_endpoint"], data=form)
    return str(answer.json()["access_token"])


def open_account(browser: httpx2.Client, page: str, key: str) -> None:
    """Give the gateway the key that the person has at the upstream, on the gateway's page for it."""
    answer = browser.get(page)
    for _ in range(2):  # who is signed in, and then the key
        action, form = read_form(answer)
        answer = browser.post(action, data={**form, "key": "", "site_key": key})
    assert "You are signed in to crossings" in answer.text, answer.text
