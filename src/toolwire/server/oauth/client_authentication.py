"""Authenticate the client that sends a form to the token or revocation endpoint."""

from __future__ import annotations

from base64 import b64decode
from hmac import compare_digest
from typing import NamedTuple
from urllib.parse import unquote_plus

from toolwire.auth.clients import Client, Method, hash_secret
from toolwire.auth.jwt import ClientAssertion, read_assertion
from toolwire.auth.request_parameters import OAuthError, RequestParameters, invalid_client, invalid_request
from toolwire.auth.server_metadata import build_server_metadata

from .client_lookup import find_client, find_keys
from .server_context import OAuthRequest, ServerContext

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
BASIC = (b"www-authenticate", b'Basic realm="oauth"')


class ClientCredentials(NamedTuple):
    """The client id in a request, and the proof of it: a secret, a signed assertion, or an empty text."""

    method: Method
    client_id: str
    proof: str


async def authenticate_client(
    context: ServerContext, request: OAuthRequest, form: RequestParameters
) -> Client | OAuthError:
    """Return the client that sent ``form``, or the error if it did not authenticate."""
    # AS-09
    given = _read_credentials(request, form)
    if isinstance(given, OAuthError):
        return given
    client = await find_client(context, given.client_id, request.network)
    if isinstance(client, OAuthError):
        # The same text as for a wrong secret: the answer must not tell which client ids exist.
        return invalid_client("The client is unknown or did not authenticate.")
    # A client with a secret must not be impersonated by a request without one.
    if given.method != client.method:
        return invalid_client("The client did not authenticate with its registered method.")
    if given.method == "private_key_jwt":
        return await _check_assertion(context, client, given.proof, request.network)
    if given.method != "none" and not compare_digest(hash_secret(given.proof), client.secret_digest):
        return invalid_client("The client is unknown or did not authenticate.")
    return client


def _read_credentials(request: OAuthRequest, form: RequestParameters) -> ClientCredentials | OAuthError:
    """Return the credentials of the client in a request, or an error if there are two kinds of them."""
    ways: list[ClientCredentials | OAuthError] = []
    if request.get_header(b"authorization"):
        ways.append(_read_basic(request.get_header(b"authorization")))
    if form.get("client_secret"):
        ways.append(ClientCredentials("client_secret_post", form.get("client_id"), form.get("client_secret")))
    if form.get("client_assertion") or form.get("client_assertion_type"):
        ways.append(_read_assertion(form))
    # RFC 6749, 2.3: of two kinds of credentials, two programs could each believe another one.
    if len(ways) > 1:
        return invalid_request("A client must authenticate with one method at a time.")
    given = ways[0] if ways else ClientCredentials("none", form.get("client_id"), "")
    if isinstance(given, OAuthError):
        return given
    if form.get("client_id") not in ("", given.client_id):
        return invalid_request("client_id is not the id of the client that authenticates.")
    return given if given.client_id else invalid_client("client_id is missing.")


def _read_basic(authorization: str) -> ClientCredentials | OAuthError:
    scheme, _, rest = authorization.partition(" ")
    try:
        text = b64decode(rest.strip(), validate=True).decode()
    except ValueError:
        text = ""
    if scheme.lower() != "basic" or ":" not in text:
        return invalid_client("The Authorization header must be Basic, with a client's ID and secret.")
    # RFC 6749, 2.3.1: id and secret are form-encoded before they are joined.
    name, secret = map(unquote_plus, text.split(":", 1))
    # PostgreSQL cannot store a null character, and its error would end the request with a 500.
    if "\0" in name:
        return invalid_client("The Authorization header contains a null character.")
    return ClientCredentials("client_secret_basic", name, secret)


def _read_assertion(form: RequestParameters) -> ClientCredentials | OAuthError:
    if form.get("client_assertion_type") != ASSERTION or not form.get("client_assertion"):
        return invalid_client(f"client_assertion_type must be {ASSERTION}.")
    return ClientCredentials("private_key_jwt", form.get("client_id"), form.get("client_assertion"))


async def _check_assertion(context: ServerContext, client: Client, text: str, network: str) -> Client | OAuthError:
    keys = await find_keys(context, client, network)
    if isinstance(keys, OAuthError):
        return keys
    issuer = context.settings.issuer
    audiences = (issuer, build_server_metadata(issuer, ())["token_endpoint"])
    assertion = read_assertion(text, keys, client.id, audiences, context.now())
    if isinstance(assertion, OAuthError):
        return assertion
    if not await context.run_in_thread(_is_first_use, context, assertion):
        return invalid_client("This client_assertion was already used.")
    return client


def _is_first_use(context: ServerContext, assertion: ClientAssertion) -> bool:
    with context.store.write_transaction() as rows:
        # RFC 7523, 3: used ids are kept until the assertion expires, so that a stolen copy is refused.
        name = hash_secret(f"assertion {assertion.id}")
        return rows.save_record(name, "", now=context.now(), until=assertion.expires_at)
