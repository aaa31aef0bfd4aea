"""Combine several connections into one, for a model that uses all their tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval, Json, Problem, Result, Tool, copy_tool
from toolwire.core.toolbox import ToolHome, find_home, list_own_names, merge_home

from .remote import SyncRemote


class CombinedRemote:
    """The tools of several blocking connections of one session, each under a name that begins with its connection's."""

    # XL-081, D-32: a session gives its connections names that cannot be confused.

    def __init__(self, remotes: Sequence[SyncRemote]) -> None:
        self._remotes = tuple(remotes)
        self._rebuild()

    def _rebuild(self) -> None:
        self._catalogs = [remote.catalog() for remote in self._remotes]
        named = [
            (copy_tool(tool, name=f"{remote.name}_{unique}", toolkit=remote.name), remote, tool)
            for remote in self._remotes
            for unique, tool in remote.catalog().names.items()
        ]
        self._owners = {new.id: (remote, tool.id) for new, remote, tool in named}
        self._catalog = Catalog(title="Tools", tools=tuple(new for new, _, _ in named))

    def catalog(self) -> Catalog:
        """Return all tools; it is another object after one of the servers changed."""
        # A catalog is a new object after each change, so a comparison of identities is enough.
        if any(remote.catalog() is not seen for remote, seen in zip(self._remotes, self._catalogs, strict=True)):
            self._rebuild()
        return self._catalog

    def list_own_ids(self, remote: SyncRemote) -> dict[str, str]:
        """Return the id at ``remote`` of each tool of this catalog that is one of its tools, by the id here."""
        self.catalog()
        return {id_: own for id_, (owner, own) in self._owners.items() if owner is remote}

    def find_home(self, tool: Tool) -> ToolHome:
        """Return the server of ``tool``, of this catalog, and the tools that it may name."""
        if tool.id not in self._owners:
            return ToolHome()
        remote, own_id = self._owners[tool.id]
        here = {one.id: one for one in self._catalog.tools}
        here_by_name = {own: here[id_] for id_, (owner, own) in self._owners.items() if owner is remote}
        own = remote.catalog().find(own_id)
        names = {} if isinstance(own, Problem) else list_own_names(remote.catalog(), own)
        return merge_home(ToolHome() if isinstance(own, Problem) else find_home(remote, own), names, here_by_name)

    def find_level(self, tool: Tool) -> Approval:
        """Return the level of consent that a call of ``tool``, of this catalog, needs over its own connection."""
        remote, own = self._owners[tool.id]
        found = remote.find(own)
        return Approval.DENY if isinstance(found, Problem) else remote.find_level(found)

    def call(self, name: str, arguments: Mapping[str, Json], /) -> Result:
        """Call a tool over its own connection, with all checks of that connection, and return the result."""
        tool = self.catalog().find_or_suggest(name)
        if isinstance(tool, Problem):
            return tool
        remote, own = self._owners[tool.id]
        return remote.call(own, arguments)
