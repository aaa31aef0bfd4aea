"""Find settings that cannot work where a server is deployed, such as behind a proxy or as several replicas."""
# CR-02, PL-03, PL-05

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from ipaddress import ip_network
from urllib.parse import urlsplit

from toolwire.core.errors import UsageError
from toolwire.server.access.api_keys import parse_api_key
from toolwire.server.http.trusted_proxies import UNIX, UNIX_PREFIX, TrustedProxies
from toolwire.stores.paths import find_state_places, is_postgres_url

from .operators import SCOPE
from .serve_settings import ServeSettings


def list_deployment_faults(arguments: Namespace, settings: ServeSettings) -> Iterator[str]:
    """Yield a sentence for each setting that will not work. It says what to write instead."""
    yield from list_proxy_faults(arguments, settings)
    replicas = -(-settings.server.rates_replicas // arguments.workers)
    if replicas > 1 and not is_postgres_url(find_state_places(settings.server.state).inbox):
        yield (
            f"{replicas} replicas (rates-replicas) share no state, so an answer, a one-time token or an "
            "idempotency key is known to only one of them. Set TOOLWIRE_STATE to "
            "postgresql://HOST/DATABASE."
        )
    if settings.sign_in is None or settings.sign_in.provider is None:
        known = {one.member_of for one in settings.callers.values()}
        known |= {name for name, one in settings.callers.items() if one.claims}
        for upstream in settings.upstreams:
            if empty := next((one for groups in upstream.approvers.values() for one in groups if one not in known), ""):
                text = f"name its members in [callers.{empty}], or an issuer whose users have groups in [sign-in]"
                yield f"The group {empty}, whose users answer questions about {upstream.name}, is empty: {text}."
    if not settings.has_self_approval and not _has_deciders(settings):
        yield (
            "self-approval is false, so only `toolwire approvals` in a terminal can answer questions. "
            "Name other users in answered-by or operators."
        )


def _has_deciders(settings: ServeSettings) -> bool:
    """Return whether the file lets anyone answer other callers' questions."""
    # PL-03
    people = settings.sign_in
    groups = () if people is None or people.provider is None else people.provider.operator_groups
    is_operated = people is not None and bool(people.operators or groups)
    has_key = any(SCOPE in one.scopes for one in map(parse_api_key, settings.api_keys) if one.scopes is not None)
    return is_operated or has_key or any(one.answered_by for one in settings.callers.values())


def check_trusted_proxies(arguments: Namespace) -> None:
    """Check that the trusted proxies can connect to this server.

    Raises:
        ToolwireError: a proxy address is not valid, or none of the proxies can be the peer of a connection.
    """
    named = [one.strip() for one in arguments.trusted_proxies]
    TrustedProxies(named)
    is_unix = arguments.host.startswith(UNIX_PREFIX)
    if UNIX in named and not is_unix:
        text = "the server listens at a port: name the proxy's address, or listen with --host unix:PATH"
        raise UsageError(f"--trusted-proxies unix needs a Unix socket, and {text}.")
    if named and is_unix and UNIX not in named:
        raise UsageError("A proxy on a Unix socket has no address. Write --trusted-proxies unix.")


def list_proxy_faults(arguments: Namespace, settings: ServeSettings) -> Iterator[str]:
    """Yield a sentence for each setting that will not work. It says what to write instead."""
    public_url = settings.server.public_url
    if public_url.startswith("https://") and not arguments.tls_cert and not arguments.trusted_proxies:
        address = UNIX if arguments.host.startswith(UNIX_PREFIX) else "127.0.0.1"
        remedy = f'Write trusted-proxies = ["{address}"], with the address of the proxy that terminates TLS.'
        if settings.sign_in is not None:
            text = "sign-in takes HTTPS only, and this server listens without TLS and trusts no proxy"
            yield f"Nobody can sign in at {public_url}: {text}. {remedy}"
        elif settings.has_inbox or not (settings.api_keys or settings.tokens):
            yield f"Limits by address count all clients of {public_url} as one, because no proxy is trusted. {remedy}"
    if public_url and (root := arguments.root_path.rstrip("/")) != (path := urlsplit(public_url).path.rstrip("/")):
        write = f'root-path = "{path}"' if path else f"public-url with {root} at its end"
        yield (
            f"Links to this server's pages will not work: public-url and root-path have different paths. Write {write}."
        )
    if any(one != UNIX and ip_network(one, strict=False).prefixlen == 0 for one in arguments.trusted_proxies):
        text = "--trusted-proxies trusts every address. Name the network of the proxies, such as 10.0.0.0/8."
        yield f"Any client can claim any address and scheme, because {text}"
