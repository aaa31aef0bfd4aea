"""Find what cannot work in the place where a server runs, as far as its settings tell: its proxy, and its replicas."""
# CR-02, PL-05

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from toolwire.stores.paths import find_state_places, is_postgres_url

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
