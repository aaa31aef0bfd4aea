"""The token and the revocation endpoint: forms from apps, JSON back."""

from __future__ import annotations

from toolwire.auth.clients import GRANTS, Client
from toolwire.auth.grants import CodeExchange, TokenRefresh
from toolwire.auth.oauth_error import OAuthError, invalid_request
from toolwire.auth.request_parameters import RequestParameters, read_parameters
from toolwire.auth.scopes import read_scopes
from toolwire.core.http import Response
from toolwire.core.model import Json

from .client_authentication import BASIC, authenticate
from .server_context import OAuthRequest, ServerContext, refused, said
from .token_issuing import redeem, refresh, revoke


async def token(desk: ServerContext, visit: OAuthRequest) -> Response:
    """Return tokens for a code or a refresh token."""
    # AS-05, AS-09, AS-11
    form, client = await _authenticated(desk, visit)
    answer = client if isinstance(client, OAuthError) else await _granted(desk, client, form)
    desk.count.add(form.get("grant_type"), answer.error if isinstance(answer, OAuthError) else "issued")
    if not isinstance(answer, OAuthError):
        return said(answer)
    return _refused(answer, visit) if answer is client else refused(answer)


async def _granted(desk: ServerContext, client: Client, form: RequestParameters) -> dict[str, Json] | OAuthError:
    grant_type = form.get("grant_type")
    if grant_type not in GRANTS:
        error = "unsupported_grant_type" if grant_type else "invalid_request"
        return OAuthError(error=error, description=f"grant_type is one of {', '.join(GRANTS)}.")
    if grant_type not in client.grants:
        return OAuthError(error="unauthorized_client", description="This client did not register that grant_type.")
    return await (_redeemed if grant_type == "authorization_code" else _refreshed)(desk, client, form)


async def revocation(desk: ServerContext, visit: OAuthRequest) -> Response:
    """End a token; one that is not known, or whose hint is not, is no error (RFC 7009)."""
    # AS-12
    form, client = await _authenticated(desk, visit)
    if isinstance(client, OAuthError):
        return _refused(client, visit)
    if not form.get("token"):
        return refused(invalid_request("token is missing."))
    await desk.run_in_thread(revoke, desk, client, form.get("token"))
    return said({})


async def _authenticated(desk: ServerContext, visit: OAuthRequest) -> tuple[RequestParameters, Client | OAuthError]:
    empty = RequestParameters(values={})
    if visit.media() != "application/x-www-form-urlencoded":
        return empty, invalid_request("Send a form: application/x-www-form-urlencoded.")
    form = read_parameters(visit.body.decode("latin-1"))
    if isinstance(form, OAuthError):
        return empty, form
    problem = form.problem()
    return form, problem if problem is not None else await authenticate(desk, visit, form)


async def _redeemed(desk: ServerContext, client: Client, form: RequestParameters) -> dict[str, Json] | OAuthError:
    if not form.get("code"):
        return invalid_request("code is missing.")
    wish = CodeExchange(
        client_id=client.id,
        verifier=form.get("code_verifier"),
        redirect_uri=form.get("redirect_uri"),
        resources=form.resources,
    )
    return await desk.run_in_thread(redeem, desk, client, form.get("code"), wish)


async def _refreshed(desk: ServerContext, client: Client, form: RequestParameters) -> dict[str, Json] | OAuthError:
    if not form.get("refresh_token"):
        return invalid_request("refresh_token is missing.")
    scopes = read_scopes(form.get("scope"))
    if isinstance(scopes, OAuthError):
        return scopes
    wish = TokenRefresh(client_id=client.id, scopes=scopes, resources=form.resources)
    return await desk.run_in_thread(refresh, desk, client, form.get("refresh_token"), wish)


def _refused(refusal: OAuthError, visit: OAuthRequest) -> Response:
    asks = refusal.status == 401 and visit.field(b"authorization")
    return refused(refusal, BASIC) if asks else refused(refusal)
