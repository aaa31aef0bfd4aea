"""Import a module when one of its functions is first called: a server never loads the client half of a protocol."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, TypeVar, cast

_OF_POSIX: Final = frozenset(("fcntl", "pwd", "resource", "termios"))

_EXTRAS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("uvicorn", "httptools", "uvloop"), "server"),
    **dict.fromkeys(("argon2", "publicsuffixlist"), "oauth"),
    **dict.fromkeys(("ag2", "anthropic", "crewai", "dbos", "fastapi", "keyring", "langgraph", "limits"), ""),
    **dict.fromkeys(("openai", "redis", "smolagents", "starlette"), ""),
    "a2wsgi": "wsgi",
    "agents": "openai-agents",
    "docket": "docket",
    "google": "gemini",
    "haystack": "haystack",
    "joserfc": "jwt",
    "jsonpath_rfc9535": "overlay",
    "langchain_core": "langchain",
    "llama_index": "llama-index",
    "opentelemetry": "telemetry",
    "psycopg": "postgres",
    "pydantic_ai": "pydantic-ai",
    "rich": "cli",
    "yaml": "yaml",
}
"""The extra that brings a package, by the name that is imported; ``""`` is the extra of the same name."""

F = TypeVar("F", bound=Callable[..., Any])


def import_lazily(module: str, *names: str) -> Iterator[Callable[..., Any]]:
    """Yield for each of ``names`` a function that imports ``module`` and calls its function of that name."""
    for name in names:
        yield LazyFunction(module, name)


class LazyFunction:
    """Imports ``module`` when it is first called, and calls its function ``name``."""

    __slots__ = ("_function", "_module", "_name")

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name
        self._function: Callable[..., Any] | None = None

    def load(self) -> Callable[..., Any]:
        """Import the module and return its function."""
        found = self._function
        if found is None:
            found = self._function = getattr(import_module(self._module), self._name)
        return found

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        return (self._function or self.load())(*arguments, **named)


def load_function(function: F) -> F:
    """Return the function itself in place of a lazy one, for a caller that needs it often."""
    return cast("F", function.load()) if isinstance(function, LazyFunction) else function


def explain_missing_module(error: ModuleNotFoundError, extra: str = "") -> ImportError:
    """Return ``error``, or one that says what to do: which extra brings the module, or that this system has none.

    ``extra`` is the extra that the importing module needs; without it, the module is looked up.
    """
    # RE-04: a bare "No module named 'agents'" makes a user install the package of a stranger.
    name = error.name or ""
    if name in _OF_POSIX:
        text = f"toolwire needs Linux or macOS: Python has no module {name!r} on this system. On Windows, use WSL."
        return ImportError(text, name=name)
    root = name.partition(".")[0]
    if root not in _EXTRAS or "toolwire[" in str(error):
        return error
    needed = extra or _EXTRAS[root] or root
    return ModuleNotFoundError(f"This needs an optional package: pip install 'toolwire[{needed}]'.", name=name)


def export_lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of ``package``, whose public names live in its modules ``homes``.

    A name is imported when it is first used, and kept. A module that starts with ``toolwire.`` is absolute.

    ``__getattr__`` raises AttributeError if the package has no such name, and ImportError on a system that is neither
    Linux nor macOS.
    """

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(home if home.startswith("toolwire.") else f"{package}.{home}")
        except ModuleNotFoundError as error:
            raise explain_missing_module(error) from error
        value = getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return load, list_names
