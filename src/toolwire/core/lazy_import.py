"""Import a module when one of its functions is first called: a server never loads the client half of a protocol."""

from __future__ import annotations

import sys
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


def export_lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of ``package``, whose public names live in its modules ``homes``.

    A name is imported when it is first used, and kept. A module that starts with ``toolwire.`` is absolute.

    ``__getattr__`` raises AttributeError if the package has no such name.
    """

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home if home.startswith("toolwire.") else f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return load, list_names
