"""Tokens come and go: each function is one transaction, judged by the rules of ``auth.grants``."""

from __future__ import annotations

import hmac
from dataclasses import astuple
from hashlib import sha512

from toolwire.auth.authorization_request import AuthorizationRequest
from toolwire.auth.clients import Client, digest, fingerprint
from toolwire.auth.grants import (
    AuthorizationCode,
    CodeExchange,
    Grant,
    RepeatTokens,
    Token,
    TokenRefresh,
    TokenReused,
    good_at,
    judge_code,
    judge_refresh,
    reused,
)
from toolwire.auth.jwt import is_jwt
from toolwire.auth.oauth_error import OAuthError
from toolwire.auth.scopes import write_scopes
from toolwire.core.model import Json
from toolwire.stores.oauth.database import OAuthRows

from .server_context import ServerContext


def grant_code(
    desk: ServerContext, asking: AuthorizationRequest, client: Client, user: str, scopes: tuple[str, ...]
) -> str:
    """Return a code for what a person granted: kept by its digest, good once and not for long."""
    # AS-05
    now, code = desk.now(), desk.secret()
    grant = Grant(
        id=desk.secret(),
        user=user,
        client_id=client.id,
        client_name=client.shown,
        fingerprint=fingerprint(client),
        resource=asking.resource,
        scopes=scopes,
        created=now,
        until=now + desk.settings.whole_s,
    )
    with desk.store.changing() as rows:
        rows.add(grant)
        rows.add(
            AuthorizationCode(
                digest=digest(code),
                grant=grant.id,
                redirect_uri=asking.redirect_uri,
                challenge=asking.challenge,
                until=now + desk.settings.code_s,
            )
        )
        rows.keep_client(client.id)
        desk.note(rows, "granted", user=user, client_id=client.id, grant=grant.id, token=code)
    return code


def redeem(desk: ServerContext, client: Client, code_text: str, wish: CodeExchange) -> dict[str, Json] | OAuthError:
    """Return the tokens for a code, or why there are none; of two who come at once, one is first."""
    # AS-05
    with desk.store.changing() as rows:
        code = rows.code(digest(code_text))
        grant = None if code is None else rows.grant(code.grant)
        verdict = judge_code(code, grant, wish, desk.now())
        if isinstance(verdict, TokenReused):
            return _ended(desk, rows, grant, "code replayed", code_text, verdict)
        if isinstance(verdict, OAuthError) or grant is None or code is None:
            return verdict if isinstance(verdict, OAuthError) else _nothing()
        rows.spend_code(code.digest, desk.now())
        return _issued(desk, rows, grant, client, verdict.scopes, desk.secret())


def refresh(desk: ServerContext, client: Client, token_text: str, wish: TokenRefresh) -> dict[str, Json] | OAuthError:
    """Return new tokens for a refresh token, which is dead from then on, or why there are none."""
    # AS-11
    wish = TokenRefresh(client_id=wish.client_id, scopes=wish.scopes, resources=wish.resources, request=_request(wish))
    with desk.store.changing() as rows:
        token = rows.token(digest(token_text))
        grant = None if token is None else rows.grant(token.grant)
        verdict = judge_refresh(token, grant, wish, desk.now(), desk.settings.grace_s)
        if isinstance(verdict, TokenReused):
            return _ended(desk, rows, grant, "refresh token reused", token_text, verdict)
        if isinstance(verdict, OAuthError) or grant is None or token is None:
            return verdict if isinstance(verdict, OAuthError) else _nothing()
        if isinstance(verdict, RepeatTokens):
            successor = _seal(token_text, bytes.fromhex(token.sealed)).decode()
            following = rows.token(digest(successor))
            if following is None or following.used is not None:  # its answer did arrive: this is no retry
                return _ended(desk, rows, grant, "refresh token reused", token_text, reused())
            return _issued(desk, rows, grant, client, verdict.scopes, successor)
        successor = desk.secret()
        sealed = _seal(token_text, successor.encode()).hex() if desk.settings.grace_s else ""
        rows.spend_token(token.digest, desk.now(), request=wish.request, sealed=sealed)
        return _issued(desk, rows, grant, client, verdict.scopes, successor)


def revoke(desk: ServerContext, client: Client, token_text: str) -> None:
    """End what a token of ``client`` stands for: an access token alone, a refresh token with its grant."""
    # AS-12
    name = _name(desk, token_text)
    with desk.store.changing() as rows:
        token = None if name is None else rows.token(name)
        grant = None if token is None else rows.grant(token.grant)
        if token is None or grant is None or grant.client_id != client.id:
            return
        if token.kind == "refresh":
            desk.revoke(rows, grant.id)
        else:
            rows.forget_token(token.digest)
            for forget in desk.revoked:
                forget()
        desk.note(rows, "revoked", user=grant.user, client_id=client.id, grant=grant.id, token=token_text)


def look_up(desk: ServerContext, token_text: str) -> tuple[Token, Grant] | None:
    """Return an access token that is good at our resource now, and its grant."""
    # AS-08
    name = _name(desk, token_text)
    if name is None:
        return None
    with desk.store.looking() as rows:
        found = rows.look(name)
    if found is None or not good_at(*found, desk.settings.offer.resource, desk.now()):
        return None
    return found


def _issued(
    desk: ServerContext, rows: OAuthRows, grant: Grant, client: Client, scopes: tuple[str, ...], successor: str
) -> dict[str, Json]:
    now, settings = desk.now(), desk.settings
    access, name = _access(desk, grant, scopes, now)
    until = min(now + settings.access_s, grant.until)
    rows.add(Token(digest=digest(name), kind="access", grant=grant.id, scopes=scopes, until=until))
    body: dict[str, Json] = {
        "access_token": access,
        "token_type": "Bearer",
        "expires_in": int(until - now),
        "scope": write_scopes(scopes),
    }
    if "refresh_token" in client.grants:
        body["refresh_token"] = successor
        if rows.token(digest(successor)) is None:
            until = min(now + settings.idle_s, grant.until)
            rows.add(Token(digest=digest(successor), kind="refresh", grant=grant.id, scopes=scopes, until=until))
    desk.note(rows, "tokens issued", user=grant.user, client_id=client.id, grant=grant.id, token=name)
    return body


def _access(desk: ServerContext, grant: Grant, scopes: tuple[str, ...], now: float) -> tuple[str, str]:
    """Return an access token, and the part of it by whose digest it is known."""
    name, key = desk.secret(), desk.settings.key
    if key is None:
        return name, name
    claims = {
        "iss": desk.settings.issuer,
        "sub": grant.user,
        "aud": grant.resource,
        "client_id": grant.client_id,
        "scope": write_scopes(scopes),
        "iat": int(now),
        "exp": int(min(now + desk.settings.access_s, grant.until)),
        "jti": name,
    }
    return key.sign(claims), f"jwt {name}"


def _name(desk: ServerContext, token_text: str) -> str | None:
    """Return the digest by which a token is known; of a signed one, that of its jti, if it is ours."""
    settings = desk.settings
    if settings.key is None or not is_jwt(token_text):
        return digest(token_text)
    claims = settings.key.read(token_text, issuer=settings.issuer, resource=settings.resource, now=desk.now())
    return None if claims is None else digest(f"jwt {claims.get('jti')}")


def _ended(
    desk: ServerContext, rows: OAuthRows, grant: Grant | None, kind: str, token: str, verdict: TokenReused
) -> OAuthError:
    if grant is not None:
        desk.revoke(rows, grant.id)
        desk.note(rows, kind, user=grant.user, client_id=grant.client_id, grant=grant.id, token=token)
    return verdict.refusal


def _request(wish: TokenRefresh) -> str:
    return digest(repr(astuple(wish)))


def _seal(token: str, text: bytes) -> bytes:
    """Return ``text`` combined with a pad that only who has ``token`` can make; twice gives ``text`` again."""
    pad = hmac.digest(token.encode(), b"successor", sha512)
    return bytes(left ^ right for left, right in zip(text, pad, strict=False))  # the pad is the longer one


def _nothing() -> OAuthError:
    return OAuthError(error="invalid_grant", description="There is nothing to exchange.")
