"""Our client signs in to a site that binds tokens to a key (RFC 9449), and how a site may try to bend that."""

from __future__ import annotations

import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from starlette.applications import Starlette
from starlette.requests import Request as SiteRequest
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse
from starlette.responses import Response as SiteResponse
from starlette.routing import Route

from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.credential import Credential
from toolwire.client.login import (
    CredentialAuth,
    SignInOptions,
    TokenRefresher,
    find_sign_in,
    sign_in,
    step_up,
)
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem, Secret
from toolwire.stores.credentials.files import CredentialStore

from .conftest import Walker

ME = SignInOptions(identity=ClientIdentity(client_id="native"))


@dataclass
class BindingSite:
    """A site with its authorization server. It checks each proof with PyJWT, and says why it refused one.

    ``nonces`` and ``token_nonces`` give the nonce that the next proof must have; empty means none.
    """

    base: str = ""
    challenge: str = "DPoP"
    token_type: str = "DPoP"
    algorithms: tuple[str, ...] = ("ES256",)
    nonces: Iterator[str] | None = None
    token_nonces: Iterator[str] | None = None
    is_closed: bool = False
    keys: dict[str, str] = field(default_factory=dict)
    refresh_keys: dict[str, str] = field(default_factory=dict)
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    wanted: dict[str, str] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)

    def build_app(self, base: str) -> Starlette:
        self.base = base
        return Starlette(
            routes=[
                Route("/.well-known/oauth-protected-resource", self.describe_resource),
                Route("/.well-known/oauth-authorization-server", self.describe_server),
                Route("/authorize", self.authorize),
                Route("/token", self.give_token, methods=["POST"]),
                Route("/tools", self.answer, methods=["GET", "POST"]),
            ]
        )

    async def describe_resource(self, _: SiteRequest) -> SiteResponse:
        return JSONResponse({"resource": self.base, "authorization_servers": [self.base], "scopes_supported": ["a"]})

    async def describe_server(self, _: SiteRequest) -> SiteResponse:
        return JSONResponse(
            {
                "issuer": self.base,
                "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": f"{self.base}/token",
                "code_challenge_methods_supported": ["S256"],
                "dpop_signing_alg_values_supported": list(self.algorithms),
            }
        )

    async def authorize(self, request: SiteRequest) -> SiteResponse:
        asked = request.query_params
        return RedirectResponse(f"{asked['redirect_uri']}?code=c&state={asked['state']}")

    async def give_token(self, request: SiteRequest) -> SiteResponse:
        form = await request.form()
        proof = self.read_proof(request, "")
        self.seen.append(("token", str(form["grant_type"]), proof.get("nonce", "")))
        fresh = self.refuse_nonce(proof, self.token_nonces, "token")
        if fresh:
            return JSONResponse({"error": "use_dpop_nonce"}, 400, {"DPoP-Nonce": fresh})
        key = proof.get("key", "")
        if form["grant_type"] == "refresh_token" and key != self.refresh_keys.get(str(form["refresh_token"])):
            return JSONResponse({"error": "invalid_grant"}, 400)
        token = f"canary-{len(self.refresh_keys)}"
        self.keys[token] = self.refresh_keys[f"r-{token}"] = key
        reply = {"access_token": token, "token_type": self.token_type, "expires_in": 600, "refresh_token": f"r-{token}"}
        return JSONResponse(reply)

    async def answer(self, request: SiteRequest) -> SiteResponse:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        self.seen.append(("tools", scheme, request.headers.get("dpop", "") and "proof"))
        if self.is_closed or scheme != "DPoP" or token not in self.keys:
            return PlainTextResponse("no", 401, {"WWW-Authenticate": self.challenge})
        proof = self.read_proof(request, token)
        fresh = self.refuse_nonce(proof, self.nonces, "tools")
        if fresh:
            headers = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": fresh}
            return PlainTextResponse("no", 401, headers)
        if proof.get("key") != self.keys[token]:
            return PlainTextResponse("no", 401, {"WWW-Authenticate": 'DPoP error="invalid_dpop_proof"'})
        return PlainTextResponse("wash up")

    def refuse_nonce(self, proof: dict[str, str], nonces: Iterator[str] | None, where: str) -> str:
        """Return the nonce that is wanted instead of that in ``proof``, or nothing."""
        if nonces is None or (where in self.wanted and proof.get("nonce") == self.wanted[where]):
            return ""
        self.wanted[where] = next(nonces)
        return self.wanted[where]

    def read_proof(self, request: SiteRequest, token: str) -> dict[str, str]:
        text = request.headers.get("dpop", "")
        if not text:
            self.faults.append(f"no proof at {request.url.path}")
            return {}
        key = jwt.get_unverified_header(text)["jwk"]
        claims = jwt.decode(text, jwt.PyJWK(key, algorithm="ES256").key, algorithms=["ES256"])
        digest = urlsafe_b64encode(sha256(token.encode()).digest()).decode().rstrip("=")
        here = (request.method, f"{self.base}{request.url.path}", digest if token else None)
        if (claims["htm"], claims["htu"], claims.get("ath")) != here or abs(claims["iat"] - time.time()) > 60:
            self.faults.append(f"{claims} is not for {here}")
        if claims["jti"] in self.ids:
            self.faults.append("a proof came twice")
        self.ids.add(claims["jti"])
        return {"key": f"{key['x']} {key['y']}", "nonce": claims.get("nonce", "")}


class Program:
    """A program of ours with its own store of credentials, which asks ``walker`` to sign in."""

    def __init__(self, site: BindingSite, folder: Path, walker: Walker | None) -> None:
        self.store = CredentialStore(folder)
        network = SyncNetwork()
        refresher = TokenRefresher(site.base, self.store, self.store.find_covering(site.base), network)
        ask = None if walker is None else step_up(ME, walker.person(), network)
        self.door = SyncNetwork(signer=CredentialAuth(site.base, refresher, ask))
        self.url = f"{site.base}/tools"

    def call(self, method: str = "POST", url: str = "") -> int | str:
        answer = self.door.send(Request(method, url or self.url, (), b"x" if method == "POST" else b""))
        return answer.status if isinstance(answer, Response) else answer.message


class PassingWalker(Walker):
    """A person whose browser is sent on at once."""

    def open(self, url: str) -> bool:
        self.pages.append(url)
        threading.Thread(target=lambda: httpx2.get(url, follow_redirects=True), daemon=True).start()
        return True


Serve = Callable[[Callable[[str], Any]], str]


def open_site(serve: Serve, **settings: Any) -> BindingSite:
    site = BindingSite(**settings)
    serve(site.build_app)
    return site


@pytest.mark.requirement("MC-11", "AC-10")
def test_bound_token_works_with_a_proof_and_still_after_a_restart_and_a_refresh(serve: Serve, tmp_path: Path) -> None:
    site, walker, folder = open_site(serve), PassingWalker(), tmp_path / "credentials"
    first = Program(site, folder, walker)
    assert [first.call(), first.call("GET", f"{first.url}?q=1"), first.call("GET")] == [200, 200, 200]
    assert len(walker.pages) == 1
    (stored,) = first.store.list_all()
    assert stored.proof_key is not None
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    again = Program(site, folder, None)
    assert again.call() == 200
    del site.keys["canary-0"]  # the site ends the token, and takes a refresh with the same key alone
    assert again.call() == 200
    assert [seen[1] for seen in site.seen if seen[0] == "token"] == ["authorization_code", "refresh_token"]
    assert site.faults == []


@pytest.mark.requirement("MC-11", "AC-10")
def test_key_of_a_bound_token_is_encrypted_with_it(serve: Serve, tmp_path: Path) -> None:
    site, network = open_site(serve), SyncNetwork()
    place = find_sign_in(f"{site.base}/tools", network)
    assert not isinstance(place, Problem), place
    found = sign_in(place, ME, PassingWalker().person(), network)
    assert isinstance(found, Credential), found
    store = CredentialStore(tmp_path / "c", passphrase=Secret("open sesame"))
    store.put(found)
    (path,) = (tmp_path / "c").iterdir()
    assert "PRIVATE KEY" not in path.read_text()
    assert store.list_all() == [found]


@pytest.mark.requirement("MC-11")
def test_nonces_of_both_servers_are_used_once_each_and_remembered(serve: Serve, tmp_path: Path) -> None:
    site = open_site(serve, nonces=map("n{}".format, count()), token_nonces=map("t{}".format, count()))
    program = Program(site, tmp_path / "c", PassingWalker())
    assert program.call() == 200
    assert [seen for seen in site.seen if seen[0] == "token"] == [
        ("token", "authorization_code", ""),
        ("token", "authorization_code", "t0"),
    ]
    before = len(site.seen)
    assert [program.call(), program.call("GET")] == [200, 200]
    assert len(site.seen) == before + 2
    assert site.faults == []


@pytest.mark.requirement("MC-11", "D-08")
@pytest.mark.parametrize("challenge", ["Bearer", 'Bearer error="invalid_token"', 'Bearer scope="b", Basic realm="x"'])
def test_challenge_for_a_bearer_token_gets_no_bound_token_without_a_proof(
    challenge: str, serve: Serve, tmp_path: Path
) -> None:
    site, walker = open_site(serve), PassingWalker()
    program = Program(site, tmp_path / "c", walker)
    assert program.call() == 200
    site.challenge, site.is_closed = challenge, True
    for _ in range(3):
        assert program.call() == 401
    assert {seen[1:] for seen in site.seen if seen[0] == "tools"} == {("", ""), ("DPoP", "proof")}
    assert all(one.proof_key is not None for one in program.store.list_all())
    assert len(walker.pages) <= 3
    assert site.faults == []


@pytest.mark.requirement("MC-11", "D-08")
def test_bearer_token_is_refused_where_a_bound_one_was_asked_for(serve: Serve, tmp_path: Path) -> None:
    site = open_site(serve, token_type="Bearer")
    program = Program(site, tmp_path / "c", PassingWalker())
    reply = program.call()
    assert reply == "The authorization server returned a token that is not bound to this sign-in's key."
    assert program.store.list_all() == []


@pytest.mark.requirement("MC-11")
def test_server_without_our_algorithm_is_told_so_before_a_browser_opens(serve: Serve, tmp_path: Path) -> None:
    site, walker = open_site(serve, algorithms=("RS256",)), PassingWalker()
    reply = Program(site, tmp_path / "c", walker).call()
    assert reply == f"{site.base} does not accept proofs signed with ES256, so it cannot bind a token."
    assert walker.pages == []


class Restless(BindingSite):
    """A site that wants another nonce each time."""

    def refuse_nonce(self, proof: dict[str, str], nonces: Iterator[str] | None, where: str) -> str:
        return "" if nonces is None else next(nonces)


@pytest.mark.requirement("MC-11")
def test_a_server_that_changes_its_nonce_forever_gets_two_requests(serve: Serve, tmp_path: Path) -> None:
    site, walker = Restless(), PassingWalker()
    serve(site.build_app)
    program = Program(site, tmp_path / "c", walker)
    assert program.call() == 200
    site.nonces = map("n{}".format, count())
    for _ in range(3):
        before = len(site.seen)
        assert program.call() == 401
        assert len(site.seen) == before + 2
    assert len(walker.pages) == 1
    site.token_nonces = map("n{}".format, count())
    other = Program(site, tmp_path / "d", PassingWalker())
    assert other.call() == "The authorization server refused the request: use_dpop_nonce."
    assert [seen[2] for seen in site.seen if seen[0] == "token"][1:] == ["", "n0"]


@pytest.mark.requirement("MC-11", "D-08")
def test_another_origin_gets_neither_the_bound_token_nor_a_proof(serve: Serve, tmp_path: Path) -> None:
    site, other = open_site(serve), open_site(serve)
    program = Program(site, tmp_path / "c", PassingWalker())
    assert program.call() == 200
    assert program.call("POST", f"{other.base}/tools") == 401
    assert other.seen == [("tools", "", "")]
