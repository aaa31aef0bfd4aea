"""Several connections as one, for a model that is told of all their tools at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json, Problem, Result

from .remote import SyncRemote


class CombinedRemote:
    """The tools of several blocking connections, each under a name that begins with its connection's. [XL-081, D-32]

    The connections are those of one session, where no two have names of which one begins like the other.
    """

    def __init__(self, remotes: Sequence[SyncRemote]) -> None:
        self._remotes = tuple(remotes)
        self._rebuild()

    def _rebuild(self) -> None:
        self._catalogs = [remote.catalog() for remote in self._remotes]
        named = [
            (replace(tool, name=f"{remote.name}_{unique}", toolkit=remote.name), remote, tool)
            for remote in self._remotes
            for unique, tool in remote.catalog().names.items()
        ]
        self._owners = {new.id: (remote, tool.id) for new, remote, tool in named}
        self._catalog = Catalog(title="Tools", tools=tuple(new for new, _, _ in named))

    def catalog(self) -> Catalog:
        """Return all tools as they were last seen: another object where one of the servers has changed."""
        if any(remote.catalog() is not seen for remote, seen in zip(self._remotes, self._catalogs, strict=True)):
            self._rebuild()
        return self._catalog

    def call(self, name: str, arguments: Mapping[str, Json], /) -> Result:
        """Return how the call of a tool ended, made at its own connection with all of that connection's checks."""
        tool = self.catalog().find(name)
        if isinstance(tool, Problem):
            return tool
        remote, own = self._owners[tool.id]
        return remote.call(own, arguments)
