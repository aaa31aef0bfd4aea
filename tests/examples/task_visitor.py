"""Somebody with an account at the sample product, in a browser without a window."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from argon2 import PasswordHasher
from fastapi.testclient import TestClient

from toolwire.auth.pkce import compute_challenge

SITE = "http://127.0.0.1:9627"
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
VERIFIER = "v" * 43
CALLBACK = "http://127.0.0.1/callback"


class Visitor:
    """A person with a browser that has no window."""

    def __init__(self, app: Any, name: str) -> None:
        self.http = TestClient(app, base_url=SITE, follow_redirects=False, headers={"origin": SITE})
        account = {"name": name, "password": "correct horse"}
        assert self.http.post("/sign-up", data=account).status_code == 303
        assert self.http.post("/oauth/login", data={**account, **self.hidden("/oauth/login")}).status_code == 303

    def hidden(self, path: str) -> dict[str, str]:
        return dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', self.http.get(path).text))

    def key(self) -> dict[str, str]:
        """A key of theirs, as a header."""
        made = self.http.post("/keys", data={"name": "k", "token": self.hidden("/")["token"]})
        return {"x-api-key": re.findall(r"<code>(tsk_[^<]*)</code>", made.text)[0]}

    def token(self, *scopes: str) -> dict[str, str]:
        """An access token that they allowed an app, as a header."""
        described = {"client_name": "App", "redirect_uris": [CALLBACK]}
        client = self.http.post("/oauth/register", json=described).json()["client_id"]
        asked = (
            f"/oauth/authorize?response_type=code&client_id={client}&redirect_uri={CALLBACK}&state=s"
            f"&scope={'+'.join(scopes)}&code_challenge={compute_challenge(VERIFIER)}&code_challenge_method=S256"
        )
        form = {**self.hidden(asked), "scope": list(scopes), "decision": "allow"}
        answer = parse_qs(urlsplit(self.http.post("/oauth/consent", data=form).headers["location"]).query)
        redeemed = {"grant_type": "authorization_code", "code": answer["code"][0], "client_id": client}
        more = {"redirect_uri": CALLBACK, "code_verifier": VERIFIER}
        token = self.http.post("/oauth/token", data={**redeemed, **more}).json()["access_token"]
        return {"authorization": f"Bearer {token}"}
