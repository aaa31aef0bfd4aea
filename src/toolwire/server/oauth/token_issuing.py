"""Issue, refresh and revoke tokens. Each function is one transaction, and ``auth.grants`` has the rules."""

from __future__ import annotations

import hmac
from dataclasses import astuple
from hashlib import sha512

from toolwire.auth.authorization_request import AuthorizationRequest
from toolwire.auth.clients import Client, client_fingerprint, hash_secret
from toolwire.auth.grants import (
    AuthorizationCode,
    CodeExchange,
    OAuthGrant,
    RepeatTokens,
    Token,
    TokenRefresh,
    TokenReused,
    build_reuse_verdict,
    is_valid_at,
    judge_code,
    judge_refresh,
)
from toolwire.auth.jwt import is_jwt
from toolwire.auth.request_parameters import OAuthError
from toolwire.auth.scopes import write_scopes
from toolwire.core.model import Json
from toolwire.stores.oauth.database import OAuthRows

from .server_context import ServerContext


def create_code(
    context: ServerContext, authorization: AuthorizationRequest, client: Client, user: str, scopes: tuple[str, ...]
) -> str:
    """Store a grant and return a new code for it. The database has only the digest of the code."""
    # AS-05
    now, code = context.now(), context.make_secret()
    grant = OAuthGrant(
        id=context.make_secret(),
        user=user,
        client_id=client.id,
        client_name=client.display_name,
        fingerprint=client_fingerprint(client),
        resource=authorization.resource,
        scopes=scopes,
        created=now,
        until=now + context.settings.grant_s,
    )
    with context.store.write_transaction() as rows:
        rows.add(grant)
        rows.add(
            AuthorizationCode(
                digest=hash_secret(code),
                grant=grant.id,
                redirect_uri=authorization.redirect_uri,
                challenge=authorization.challenge,
                until=now + context.settings.code_s,
            )
        )
        rows.store_client(client.id)
        context.record_event(rows, "granted", user=user, client_id=client.id, grant=grant.id, token=code)
    return code


def redeem_code(
    context: ServerContext, client: Client, code_text: str, request: CodeExchange
) -> dict[str, Json] | OAuthError:
    """Return the tokens for a code, or the error. Of two requests at once, one gets tokens."""
    # AS-05
    with context.store.write_transaction() as rows:
        # The code counts from the creation of its grant, which is the same moment.
        code = rows.find_code(hash_secret(code_text))
        grant = None if code is None else rows.find_grant(code.grant)
        verdict = judge_code(code, grant, request, context.now())
        if isinstance(verdict, TokenReused):
            return _end_family(context, rows, grant, "code replayed", code_text, verdict)
        if isinstance(verdict, OAuthError) or grant is None or code is None:
            return verdict if isinstance(verdict, OAuthError) else _refuse_unknown()
        # Marked as used, not deleted: a second use must be recognised as theft.
        rows.spend_code(code.digest, context.now())
        return _issue_tokens(context, rows, grant, client, verdict.scopes, context.make_secret())


def refresh_tokens(
    context: ServerContext, client: Client, token_text: str, request: TokenRefresh
) -> dict[str, Json] | OAuthError:
    """Return new tokens for a refresh token, or the error. The old refresh token is void after that."""
    # AS-11
    request = TokenRefresh(
        client_id=request.client_id,
        scopes=request.scopes,
        resources=request.resources,
        request=_request_digest(request),
    )
    with context.store.write_transaction() as rows:
        token = rows.find_token(hash_secret(token_text))
        grant = None if token is None else rows.find_grant(token.grant)
        verdict = judge_refresh(token, grant, request, context.now(), context.settings.grace_s)
        if isinstance(verdict, TokenReused):
            return _end_family(context, rows, grant, "refresh token reused", token_text, verdict)
        if isinstance(verdict, OAuthError) or grant is None or token is None:
            return verdict if isinstance(verdict, OAuthError) else _refuse_unknown()
        if isinstance(verdict, RepeatTokens):
            successor = _seal(token_text, bytes.fromhex(token.sealed)).decode()
            # A successor that was used shows that its response arrived: so this is no retry, but a stolen token.
            following = rows.find_token(hash_secret(successor))
            if following is None or following.used is not None:
                return _end_family(context, rows, grant, "refresh token reused", token_text, build_reuse_verdict())
            return _issue_tokens(context, rows, grant, client, verdict.scopes, successor)
        successor = context.make_secret()
        sealed = _seal(token_text, successor.encode()).hex() if context.settings.grace_s else ""
        rows.spend_token(token.digest, context.now(), request=request.request, sealed=sealed)
        return _issue_tokens(context, rows, grant, client, verdict.scopes, successor)


def revoke_token(context: ServerContext, client: Client, token_text: str) -> None:
    """Revoke a token of ``client``: an access token alone, a refresh token together with its grant."""
    # AS-12
    name = _token_digest(context, token_text)
    with context.store.write_transaction() as rows:
        token = None if name is None else rows.find_token(name)
        grant = None if token is None else rows.find_grant(token.grant)
        # RFC 7009, 2.1: a client may only revoke its own tokens. It learns nothing about others.
        if token is None or grant is None or grant.client_id != client.id:
            return
        if token.kind == "refresh":
            # RFC 7009, 2.1: a refresh token ends with all access tokens of its grant.
            context.revoke_grant(rows, grant.id)
        else:
            rows.delete_token(token.digest)
            for forget in context.on_revoke:
                forget()
        context.record_event(rows, "revoked", user=grant.user, client_id=client.id, grant=grant.id, token=token_text)


def find_access_token(context: ServerContext, token_text: str) -> tuple[Token, OAuthGrant] | None:
    """Return an access token that is valid for our resource now, with its grant; else None."""
    # AS-08
    name = _token_digest(context, token_text)
    if name is None:
        return None
    with context.store.read_transaction() as rows:
        found = rows.find_token_with_grant(name)
    if found is None or not is_valid_at(*found, context.settings.supported_scopes.resource, context.now()):
        return None
    return found


def _issue_tokens(
    context: ServerContext, rows: OAuthRows, grant: OAuthGrant, client: Client, scopes: tuple[str, ...], successor: str
) -> dict[str, Json]:
    now, settings = context.now(), context.settings
    access, name = _create_access_token(context, grant, scopes, now)
    # No token outlives what the user allowed.
    until = min(now + settings.access_s, grant.until)
    rows.add(Token(digest=hash_secret(name), kind="access", grant=grant.id, scopes=scopes, since=now, until=until))
    body: dict[str, Json] = {
        "access_token": access,
        "token_type": "Bearer",
        "expires_in": int(until - now),
        "scope": write_scopes(scopes),
    }
    if "refresh_token" in client.grants:
        body["refresh_token"] = successor
        # At a retry the successor exists already, and only the access token is new.
        if rows.find_token(hash_secret(successor)) is None:
            until = min(now + settings.idle_s, grant.until)
            token = hash_secret(successor)
            rows.add(Token(digest=token, kind="refresh", grant=grant.id, scopes=scopes, since=now, until=until))
    context.record_event(rows, "tokens issued", user=grant.user, client_id=client.id, grant=grant.id, token=name)
    return body


def _create_access_token(
    context: ServerContext, grant: OAuthGrant, scopes: tuple[str, ...], now: float
) -> tuple[str, str]:
    """Return a new access token, and the text whose digest names it in the database."""
    name, key = context.make_secret(), context.settings.key
    if key is None:
        return name, name
    claims = {
        "iss": context.settings.issuer,
        "sub": grant.user,
        "aud": grant.resource,
        "client_id": grant.client_id,
        "scope": write_scopes(scopes),
        "iat": int(now),
        "exp": int(min(now + context.settings.access_s, grant.until)),
        "jti": name,
    }
    return key.sign_claims(claims), f"jwt {name}"


def _token_digest(context: ServerContext, token_text: str) -> str | None:
    """Return the digest that names a token in the database; None for a JWT that is not ours."""
    settings = context.settings
    if settings.key is None or not is_jwt(token_text):
        return hash_secret(token_text)
    claims = settings.key.read_claims(token_text, issuer=settings.issuer, resource=settings.resource, now=context.now())
    return None if claims is None else hash_secret(f"jwt {claims.get('jti')}")


def _end_family(
    context: ServerContext, rows: OAuthRows, grant: OAuthGrant | None, kind: str, token: str, verdict: TokenReused
) -> OAuthError:
    if grant is not None:
        context.revoke_grant(rows, grant.id)
        context.record_event(rows, kind, user=grant.user, client_id=grant.client_id, grant=grant.id, token=token)
    return verdict.refusal


def _request_digest(request: TokenRefresh) -> str:
    return hash_secret(repr(astuple(request)))


def _seal(token: str, text: bytes) -> bytes:
    """Return ``text`` encrypted with a pad made of ``token``; a second time decrypts it."""
    # The database must not hold tokens in clear. Only a client that still has the old token can read its successor.
    pad = hmac.digest(token.encode(), b"successor", sha512)
    return bytes(left ^ right for left, right in zip(text, pad, strict=False))  # the pad is longer than the text


def _refuse_unknown() -> OAuthError:
    return OAuthError(error="invalid_grant", description="Unknown code or token.")
