"""Find the client that a ``client_id`` names: configured, registered, or described by a document at that URL."""

from __future__ import annotations

import json
from functools import cache
from ipaddress import IPv6Address, ip_address, ip_network

from publicsuffixlist import PublicSuffixList

from toolwire.auth.client_metadata import cache_lifetime_s, is_document_url, read_document, read_document_url
from toolwire.auth.clients import Client, hash_secret, read_client, write_client
from toolwire.auth.request_parameters import OAuthError, invalid_client
from toolwire.core.http import Response
from toolwire.core.model import Json
from toolwire.core.url_origin import get_host
from toolwire.framing import jsontext
from toolwire.stores.oauth.database import OAuthRows

from .server_context import ServerContext

_MAX_CHARACTERS = 2_000
_FETCHES, _FETCHES_FOR_ONE, _FETCHES_FROM_ADDRESS, _FETCHES_S = 20, 40, 60, 60.0
"""The limits of fetches a minute: to one site, for one requester, and to one IP address.

The last is higher because many sites share the address of a content delivery network.
"""
_UNKNOWN = invalid_client("This client is unknown.")


async def find_client(context: ServerContext, client_id: str, network: str) -> Client | OAuthError:
    """Return the client with the id ``client_id``. If the id is a URL, its document is fetched or taken from the cache.

    ``network`` is the address of the requester, for whom fetches are counted.
    """
    # AS-16
    if not client_id or len(client_id) > _MAX_CHARACTERS:
        return _UNKNOWN
    for client in context.settings.clients:
        if client.id == client_id:
            return client
    if is_document_url(client_id):
        return await _fetch_client(context, client_id, network)
    record = await context.run_in_thread(_load_registered, context, client_id)
    return _UNKNOWN if record is None else read_client(record)


async def find_keys(context: ServerContext, client: Client, network: str) -> Json | OAuthError:
    """Return the JWK Set of ``client``, fetched from its ``jwks_uri`` or taken from the cache."""
    if client.keys is not None:
        return client.keys
    url = read_document_url(client.keys_url, loopback=_allows_local(context)) if client.keys_url else _UNKNOWN
    if isinstance(url, OAuthError):
        return invalid_client("This client has no keys to authenticate with.")
    name = hash_secret(f"keys {url}")
    known = await context.run_in_thread(_load_record, context, name)
    if known is not None:
        return json.loads(known)
    response = await context.fetch(url) if await context.run_in_thread(_count_fetch, context, url, network) else None
    if not isinstance(response, Response) or response.status != 200:
        return invalid_client("The client's keys cannot be fetched, or were fetched too often.")
    keys = jsontext.read(response.body)
    if not isinstance(keys, dict) or not isinstance(keys.get("keys"), list):
        return invalid_client("Cannot read the client's keys.")
    await context.run_in_thread(_save_record, context, name, json.dumps(keys), cache_lifetime_s(response))
    return keys


async def _fetch_client(context: ServerContext, client_id: str, network: str) -> Client | OAuthError:
    url = read_document_url(client_id, loopback=_allows_local(context))
    if isinstance(url, OAuthError):
        return url
    name = hash_secret(f"document {url}")
    known = await context.run_in_thread(_load_record, context, name)
    if known is not None:
        return read_client(known)
    if not await context.run_in_thread(_count_fetch, context, url, network):
        return invalid_client("Too many documents of that server were fetched. Wait a minute.")
    response = await context.fetch(url)
    client = read_document(url, response)
    # An error is not cached: the site can correct its document at once.
    if isinstance(client, Client) and isinstance(response, Response):
        await context.run_in_thread(_save_record, context, name, write_client(client), cache_lifetime_s(response))
    return client


def _allows_local(context: ServerContext) -> bool:
    return context.settings.local_documents and context.settings.is_local


def _count_fetch(context: ServerContext, url: str, network: str) -> bool:
    """Count a fetch from the site of ``url`` and return True, or return False if there were too many."""
    # Anyone can make the server fetch a URL, so fetches are limited. A site counts by its registered domain, so that
    # its subdomains and ports share one limit. The requester counts too, because domains are cheap.
    host = get_host(url).rstrip(".")
    # The list of public suffixes says where a registered domain begins (docs/decisions/0050).
    site = _read_suffixes().privatesuffix(host) or host
    keys = {hash_secret(f"fetched {site}"): _FETCHES, hash_secret(f"fetched for {network}"): _FETCHES_FOR_ONE}
    with context.store.write_transaction() as rows:
        if any(rows.count_attempts(key, context.now()) >= most for key, most in keys.items()):
            return False
        for key in keys:
            _add_fetch(context, rows, key)
    return True


@cache  # it takes 0.1 s to read, and most servers never need it
def _read_suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def count_fetch_from(context: ServerContext, address: str) -> bool:
    """Count a fetch from the IP address and return True, or return False if there were too many.

    An IPv6 address counts as its network of 64 bits.
    """
    # An attacker can point many cheap domains at the address of one victim.
    network = ip_address(address)
    if isinstance(network, IPv6Address):
        address = str(network.ipv4_mapped or ip_network((network, 64), strict=False))
    key = hash_secret(f"fetched from {address}")
    with context.store.write_transaction() as rows:
        if rows.count_attempts(key, context.now()) >= _FETCHES_FROM_ADDRESS:
            return False
        _add_fetch(context, rows, key)
    return True


def _add_fetch(context: ServerContext, rows: OAuthRows, key: str) -> None:
    now = context.now()
    rows.add_attempt(key, now=now, until=now + _FETCHES_S)


def _load_registered(context: ServerContext, client_id: str) -> str | None:
    with context.store.read_transaction() as rows:
        return rows.find_client(client_id, context.now())


def _load_record(context: ServerContext, name: str) -> str | None:
    with context.store.read_transaction() as rows:
        return rows.find_record(name, context.now())


def _save_record(context: ServerContext, name: str, record: str, seconds: float) -> None:
    with context.store.write_transaction() as rows:
        now = context.now()
        rows.save_record(name, record, now=now, until=now + seconds)
