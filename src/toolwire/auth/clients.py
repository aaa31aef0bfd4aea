"""Describe a client of the authorization server: its name, its redirect URIs, and how it authenticates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from toolwire.core.model import Json
from toolwire.core.url_origin import get_host

Method: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
Origin: TypeAlias = Literal["configured", "document", "registered"]

METHODS: tuple[Method, ...] = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
GRANTS = ("authorization_code", "refresh_token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client of the authorization server.

    - ``id``: a URL if ``origin`` is ``document``.
    - ``secret_digest``: the SHA-256 of its secret, in hex.
    - ``keys``: its JWK Set. ``keys_url``: the URL of its JWK Set.
    """

    id: str
    name: str = ""
    redirect_uris: tuple[str, ...]
    origin: Origin = "configured"
    method: Method = "none"
    secret_digest: str = ""
    keys: Mapping[str, Json] | None = None
    keys_url: str = ""
    grants: tuple[str, ...] = GRANTS

    @property
    def display_name(self) -> str:
        """The client's name, or its ID (untrusted text)."""
        return self.name or self.id

    @property
    def host(self) -> str:
        """The host in the ID, which the metadata document proves. Empty if the ID is not a URL."""
        return get_host(self.id) if self.origin == "document" else ""


def client_fingerprint(client: Client) -> str:
    """Return a digest of what the user allowed. If a part of it changes, the user is asked again."""
    # AS-16
    parts = [client.id, client.name, sorted(client.redirect_uris), client.method, client.keys, client.keys_url]
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def hash_secret(secret: str) -> str:
    """Return the SHA-256 of a secret in hex. Stores find a secret by it, and a copy of it cannot be used."""
    # AS-10
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def write_client(client: Client) -> str:
    """Return ``client`` as JSON text, for a store."""
    return json.dumps({each.name: getattr(client, each.name) for each in fields(client)})


def read_client(text: str) -> Client:
    """Return the client that ``write_client`` wrote."""
    data: dict[str, Any] = json.loads(text)
    for name in ("redirect_uris", "grants"):
        data[name] = tuple(data[name])
    return Client(**data)
