"""From a target to its tools, and to calls that pass the same checks wherever the tools are."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from toolwire.client import connect_sync
from toolwire.core.catalog import Catalog
from toolwire.core.model import Json, Result, Secret
from toolwire.core.toolbox import Notify, unheard

from .asking import Asker
from .exits import UsageError
from .targets import Url, read_target


class Opened(Protocol):
    """What a target leads to: its tools, and calls of them that are checked and asked about first."""

    def catalog(self) -> Catalog:
        """Return what can be called."""
        ...

    def call(self, name: str, arguments: Mapping[str, Json], /) -> Result:
        """Return how a call of the tool ``name`` ended. It starts only if every check, and the person, say yes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How to reach a URL: the key of its server, and the one protocol to look for."""

    key: Secret | None = None
    protocol: str | None = None


def read_key(key: str | None, key_env: str | None) -> Secret | None:
    """Return the key that the options give, if they give one.

    Raises:
        UsageError: it is none that a header can carry, or the environment has no variable of that name.
    """
    if key_env is not None:
        key = os.environ.get(key_env)
        if key is None:
            raise UsageError(f"The environment has no variable {key_env} to take the key from.")
    if key is None:
        return None
    if not (key.isascii() and key.isprintable() and key.strip()):
        raise UsageError("The key is empty, or has a character in it that keys do not have.")
    return Secret(key.strip())


@contextmanager
def opened(text: str, reach: Reach, ask: Asker, notify: Notify = unheard) -> Generator[Opened, None, None]:
    """Give what the target ``text`` leads to, until the block ends. ``ask`` answers for the person.

    Raises:
        ConnectError: nothing was found at the URL.
        UsageError: the target cannot be loaded, or the options do not go with it.
    """
    target = read_target(text)
    if not isinstance(target, Url):
        if reach != Reach():
            raise UsageError("--key, --key-env and --protocol are for URLs; this target is code on this machine.")
        from .here import Here, code_of  # noqa: PLC0415 - brings the whole server, which a URL does not need

        yield Here(code_of(target), text, ask, notify)
        return
    try:
        connecting = connect_sync(target.text, approve=ask, api_key=reach.key, protocol=reach.protocol)
    except ValueError as error:
        raise UsageError(f"{error}.") from error
    with connecting as remote:
        yield remote
