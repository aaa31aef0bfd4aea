"""Serve the token and the revocation endpoint: clients send forms and get JSON."""

from __future__ import annotations

from toolwire.auth.clients import GRANTS, Client
from toolwire.auth.grants import CodeExchange, TokenRefresh
from toolwire.auth.request_parameters import OAuthError, RequestParameters, invalid_request, read_parameters
from toolwire.auth.scopes import read_scopes
from toolwire.core.http import Response
from toolwire.core.model import Json
from toolwire.telemetry.counts import count_token

from .client_authentication import BASIC, authenticate_client
from .server_context import OAuthRequest, ServerContext, build_error_response, build_json_response
from .token_issuing import redeem_code, refresh_tokens, revoke_token


async def handle_token(context: ServerContext, request: OAuthRequest) -> Response:
    """Return tokens for a code or a refresh token."""
    # AS-05, AS-09, AS-11
    form, client = await _authenticate(context, request)
    answer = client if isinstance(client, OAuthError) else await _grant_tokens(context, client, form)
    count_token(form.get("grant_type"), answer.error if isinstance(answer, OAuthError) else "issued")
    if not isinstance(answer, OAuthError):
        return build_json_response(answer)
    return _build_refusal(answer, request) if answer is client else build_error_response(answer)


async def _grant_tokens(
    context: ServerContext, client: Client, form: RequestParameters
) -> dict[str, Json] | OAuthError:
    grant_type = form.get("grant_type")
    if grant_type not in GRANTS:
        error = "unsupported_grant_type" if grant_type else "invalid_request"
        return OAuthError(error=error, description=f"grant_type must be one of {', '.join(GRANTS)}.")
    # A client may only use what it registered, also where the server offers more.
    if grant_type not in client.grants:
        return OAuthError(error="unauthorized_client", description="The client did not register this grant_type.")
    return await (_redeem if grant_type == "authorization_code" else _refresh)(context, client, form)


async def handle_revocation(context: ServerContext, request: OAuthRequest) -> Response:
    """Revoke a token. An unknown token or hint is not an error (RFC 7009)."""
    # AS-12
    form, client = await _authenticate(context, request)
    if isinstance(client, OAuthError):
        return _build_refusal(client, request)
    if not form.get("token"):
        return build_error_response(invalid_request("token is missing."))
    await context.run_in_thread(revoke_token, context, client, form.get("token"))
    return build_json_response({})


async def _authenticate(context: ServerContext, request: OAuthRequest) -> tuple[RequestParameters, Client | OAuthError]:
    empty = RequestParameters(values={})
    if request.media_type() != "application/x-www-form-urlencoded":
        return empty, invalid_request("Send a form: application/x-www-form-urlencoded.")
    form = read_parameters(request.body.decode("latin-1"))
    if isinstance(form, OAuthError):
        return empty, form
    # RFC 6749, 3.2: a parameter that is repeated is refused, because two programs could read it differently.
    problem = form.find_repeated()
    return form, problem if problem is not None else await authenticate_client(context, request, form)


async def _redeem(context: ServerContext, client: Client, form: RequestParameters) -> dict[str, Json] | OAuthError:
    if not form.get("code"):
        return invalid_request("code is missing.")
    exchange = CodeExchange(
        client_id=client.id,
        verifier=form.get("code_verifier"),
        redirect_uri=form.get("redirect_uri"),
        resources=form.resources,
    )
    return await context.run_in_thread(redeem_code, context, client, form.get("code"), exchange)


async def _refresh(context: ServerContext, client: Client, form: RequestParameters) -> dict[str, Json] | OAuthError:
    if not form.get("refresh_token"):
        return invalid_request("refresh_token is missing.")
    scopes = read_scopes(form.get("scope"))
    if isinstance(scopes, OAuthError):
        return scopes
    refresh = TokenRefresh(client_id=client.id, scopes=scopes, resources=form.resources)
    return await context.run_in_thread(refresh_tokens, context, client, form.get("refresh_token"), refresh)


def _build_refusal(refusal: OAuthError, request: OAuthRequest) -> Response:
    # RFC 6749, 5.2: a client that tried the Authorization field is told its scheme; others get no challenge.
    asks = refusal.status == 401 and request.get_header(b"authorization")
    return build_error_response(refusal, BASIC) if asks else build_error_response(refusal)
