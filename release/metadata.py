"""Write the metadata of a package index: project URLs, and a README whose links work there.

A build with hatchling runs this. pyproject.toml names the repository in ``[tool.hatch.metadata.hooks.custom]``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"\[([^\[\]]+)\]\((?!https?:|mailto:|#)([^()\s]+)\)")


def link_readme(text: str, files: str) -> str:
    """Return ``text`` with each link to a file below the URL ``files``; without one, as the text of the link alone."""
    # RE-06: a package index shows the README without the files beside it.
    return _LINK.sub(rf"[\1]({files}/\2)" if files else r"\1", text)


def build_urls(repository: str, version: str) -> dict[str, str]:
    """Return the project URLs by name: none without the URL of a repository."""
    if not repository:
        return {}
    files = build_files_url(repository, version)
    return {
        "Repository": repository,
        "Documentation": f"{files}/docs/README.md",
        "Changelog": f"{files}/CHANGELOG.md",
        "Security": f"{files}/SECURITY.md",
    }


def build_files_url(repository: str, version: str) -> str:
    """Return the URL below which the files of a version are, or ``""``."""
    return f"{repository}/blob/v{version}" if repository else ""


class CustomMetadataHook(MetadataHookInterface):
    """Hatchling calls it with the metadata of pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add ``readme`` and ``urls``."""
        repository, version = str(self.config.get("repository", "")).rstrip("/"), str(metadata["version"])
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = link_readme(readme, build_files_url(repository, version))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = build_urls(repository, version)
