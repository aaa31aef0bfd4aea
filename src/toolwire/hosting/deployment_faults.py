"""Find what cannot work in the place where a server runs, as far as its settings tell: its proxy, and its replicas."""
# CR-02, PL-03, PL-05

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from toolwire.server.access.api_keys import parse_api_key
from toolwire.stores.paths import find_state_places, is_postgres_url

from .operators import SCOPE
from .proxy_faults import list_proxy_faults
from .serve_settings import ServeSettings


def list_deployment_faults(arguments: Namespace, settings: ServeSettings) -> Iterator[str]:
    """Yield a sentence for each thing that will not work: what, and what to write instead."""
    yield from list_proxy_faults(arguments, settings)
    replicas = -(-settings.server.rates_replicas // arguments.workers)
    if replicas > 1 and not is_postgres_url(find_state_places(settings.server.state).inbox):
        yield (
            f"{replicas} replicas (rates-replicas) share no state, so an answer, a one-time token or an idempotency key"
            " counts at one of them only: set TOOLWIRE_STATE to postgresql://HOST/DATABASE."
        )
    if settings.sign_in is None or settings.sign_in.provider is None:
        known = {one.member_of for one in settings.callers.values()}
        known |= {name for name, one in settings.callers.items() if one.claims}
        for upstream in settings.upstreams:
            if empty := next((one for groups in upstream.approvers.values() for one in groups if one not in known), ""):
                text = f"name its members in [callers.{empty}], or an issuer whose users have groups in [sign-in]"
                yield f"No one is in the group {empty}, whose users answer questions about {upstream.name}: {text}."
    if not settings.has_self_approval and not _has_deciders(settings):
        yield (
            "Only `toolwire approvals` at a terminal can answer questions, because self-approval is false: name others"
            " in answered-by or operators."
        )


def _has_deciders(settings: ServeSettings) -> bool:
    """Return whether the file lets anybody answer the questions of others."""
    # PL-03
    people = settings.sign_in
    groups = () if people is None or people.provider is None else people.provider.operator_groups
    is_operated = people is not None and bool(people.operators or groups)
    has_key = any(SCOPE in one.scopes for one in map(parse_api_key, settings.api_keys) if one.scopes is not None)
    return is_operated or has_key or any(one.answered_by for one in settings.callers.values())
