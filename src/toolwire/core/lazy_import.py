"""Import a module when one of its functions is first called: a server never loads the client half of a protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any


def import_lazily(module: str, *names: str) -> Iterator[Callable[..., Any]]:
    """Yield for each of ``names`` a function that imports ``module`` and calls its function of that name."""
    for name in names:
        yield _build_lazy_call(module, name)


def _build_lazy_call(module: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] | None = None

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal function
        found = function
        if found is None:
            found = function = getattr(import_module(module), name)
        return found(*arguments, **named)

    return call


def load_export(package: str, homes: Mapping[str, str], name: str) -> Any:
    """Return the public ``name`` of ``package`` from the module of ``package`` that ``homes`` names.

    Raises:
        AttributeError: the package has no such name.
    """
    home = homes.get(name)
    if home is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(f"{package}.{home}"), name)
