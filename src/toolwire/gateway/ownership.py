"""Decide which of several Toolboxes owns a toolkit or a name, from its first appearance on.

Rules:
- A toolkit has one owner: this process's code, or a connection.
- If two connections have toolkits with the same name, each one is prefixed with its connection's name.
- A reference belongs to the owner that used it first, for as long as the process lives. If two owners introduce it at
  the same time, it is valid only together with its toolkit.
- Names that look alike count as the same name: they differ only in case, in ``-`` and ``_``, in 0 and O, or in letters
  of other scripts.
"""
# D-32

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from toolwire.client.connection.remote import Remote
from toolwire.core.catalog import Catalog, list_spellings, make_confusable_key
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Tool, copy_tool
from toolwire.core.server_features import PAGE_URIS, URI_PREFIX, ServerFeatures, add_prefix, with_scopes
from toolwire.core.toolbox import Toolbox
from toolwire.server.run.function_toolbox import FunctionToolbox

from .personal_toolbox import PersonalToolbox
from .reconnecting_toolbox import ReconnectingToolbox

HERE: Final = -1
"""The owner of all functions of this process."""

_NOBODY: Final = -2
_NOT_OF_SCHEMES: Final = re.compile(r"[^a-z0-9.-]")
_NONE: Final[Mapping[int, Any]] = {}


class Owned(NamedTuple):
    """A tool as it is offered, its toolbox, and the toolbox's own form of the tool."""

    shown_tool: Tool
    owner: int
    tool: Tool


class Ownership:
    """Knows which of ``toolboxes`` owns which toolkits and references."""

    def __init__(
        self,
        toolboxes: Sequence[Toolbox],
        names: Mapping[int, str] = _NONE,
        scopes: Mapping[int, tuple[str, ...]] = _NONE,
    ) -> None:
        """Prefer the connection names in ``names``. ``scopes`` replace the scopes of a toolbox's tools."""
        self._scopes = scopes
        self._owners = [HERE if isinstance(box, FunctionToolbox) else number for number, box in enumerate(toolboxes)]
        self._connections = _connections(toolboxes, names)
        self._schemes = _build_schemes(self._connections)
        self._prefixes = {make_confusable_key(name): number for number, name in self._connections.items()}
        self._toolkits: dict[str, int] = {}
        self._offered: dict[tuple[int, str], str] = {}
        self._homes: dict[str, int] = {}

    @property
    def names(self) -> Mapping[int, str]:
        """Each connection's name, by its toolbox's index."""
        return self._connections

    @property
    def prefixes(self) -> Mapping[int, str]:
        """The prefix of each connection's URIs, by its toolbox's index."""
        return {number: f"{scheme}+" for number, scheme in self._schemes.items()}

    def take(self, catalogs: Sequence[Catalog]) -> list[tuple[int, Owned]]:
        """Return each tool of ``catalogs`` as it is offered, with its toolbox's index.

        Raises:
            DefinitionError: two toolboxes that are not connections have toolkits with the same name.
        """
        self._claim(catalogs)
        found: list[tuple[int, Owned]] = []
        for number, catalog in enumerate(catalogs):
            owner = self._owners[number]
            for tool in catalog.tools:
                toolkit = self._offered[owner, tool.toolkit]
                scopes = self._scopes.get(number, tool.scopes)
                is_same = toolkit == tool.toolkit and scopes == tool.scopes
                shown_tool = tool if is_same else copy_tool(tool, toolkit=toolkit, scopes=scopes)
                if PAGE_URIS in tool.hints and number in self._schemes:  # I-24
                    prefix = f"{self._schemes[number]}+{tool.hints.get(URI_PREFIX, '')}"
                    shown_tool = copy_tool(shown_tool, hints={**tool.hints, URI_PREFIX: prefix})
                found.append((number, Owned(shown_tool, owner, tool)))
        self._resolve_references([owned for _, owned in found])
        return found

    def take_features(self, catalogs: Sequence[Catalog]) -> list[ServerFeatures]:
        """Return the resources and prompts of each of ``catalogs`` as they are offered.

        A connection's resources and prompts are prefixed with its name, as in ``shop+config://app`` and ``shop_greet``,
        so that no server can offer something in another's name. A toolbox's scopes replace its readers' scopes.

        Raises:
            DefinitionError: two toolboxes that are not connections offer the same resource or prompt.
        """
        # MC-08
        _refuse_same([catalog for number, catalog in enumerate(catalogs) if number not in self._connections])
        taken: list[ServerFeatures] = []
        for number, catalog in enumerate(catalogs):
            features = with_scopes(catalog.features, self._scopes.get(number))
            name = self._connections.get(number)
            taken.append(features if name is None else add_prefix(features, name, self._schemes[number]))
        return taken

    def allows(self, reference: str, owner: int, toolkit: str) -> bool:
        """Return whether ``reference`` can mean a tool of ``owner`` in ``toolkit``."""
        like, own = make_confusable_key(reference), make_confusable_key(toolkit)
        if not like.startswith((f"{own}.", f"{own}_")):
            if owner in self._connections and not reference.isascii():
                return False
            ends = (place for place, character in enumerate(like) if character in "._")
            if any(self._find_holder(like[:end]) not in (None, owner) for end in ends):
                return False
        return self._homes.get(like) == owner

    def _find_holder(self, like: str) -> int | None:
        """Return the owner of the toolkit or connection that looks like this."""
        return self._toolkits.get(like, self._prefixes.get(like))

    def _claim(self, catalogs: Sequence[Catalog]) -> None:
        """Assign each toolkit to an owner, and rename the toolkits whose name has another owner."""
        both = sorted(zip(self._owners, catalogs, strict=True), key=lambda one: (one[0] in self._connections, one[0]))
        new = [
            (owner, toolkit)
            for owner, catalog in both
            for toolkit in dict.fromkeys(tool.toolkit for tool in catalog.tools)
            if (owner, toolkit) not in self._offered
        ]
        wanted = Counter(like for _, like in {(owner, make_confusable_key(toolkit)) for owner, toolkit in new})
        for owner, toolkit in new:
            like = make_confusable_key(toolkit)
            is_free = self._toolkits.get(like, owner) == owner
            if owner not in self._connections:
                if not is_free:
                    raise DefinitionError(f"two of them contain a toolkit named {toolkit!r}: rename one")
            elif not is_free or wanted[like] > 1 or self._imitates(toolkit, owner):
                self._offered[owner, toolkit] = self._prefix_toolkit(owner, toolkit)
                continue
            self._toolkits[like] = owner
            self._offered[owner, toolkit] = toolkit

    def _imitates(self, toolkit: str, owner: int) -> bool:
        """Return whether ``toolkit`` could be mistaken for another connection's, or uses letters of another script."""
        like = make_confusable_key(toolkit)
        names = (name for name, other in self._prefixes.items() if other != owner)
        return not toolkit.isascii() or any(like == name or like.startswith(f"{name}_") for name in names)

    def _prefix_toolkit(self, owner: int, toolkit: str) -> str:
        name = first = f"{self._connections[owner]}_{toolkit}"
        number = 1
        while make_confusable_key(name) in self._toolkits:
            number += 1
            name = f"{first}_{number}"
        self._toolkits[make_confusable_key(name)] = owner
        return name

    def _resolve_references(self, tools: Iterable[Owned]) -> None:
        """Assign each new reference. A name that several owners introduce at the same time is not assigned."""
        weak: dict[str, set[int]] = {}
        for tool, owner, _ in tools:
            full, written, *others = list_spellings(tool)
            for reference in (full, written):
                self._homes.setdefault(make_confusable_key(reference), owner)
            version = tool.version.replace(".", "_")
            for reference in (*others, f"{tool.name}_{version}"):
                weak.setdefault(make_confusable_key(reference), set()).add(owner)
                weak.setdefault(make_confusable_key(reference[:64]), set()).add(owner)
        for like, owners in weak.items():
            self._homes.setdefault(like, next(iter(owners)) if len(owners) == 1 else _NOBODY)


def _refuse_same(catalogs: Sequence[Catalog]) -> None:
    """Raise DefinitionError if two of ``catalogs`` have a resource with the same URI or a prompt with the same name."""
    uris = Counter(one.public_uri for catalog in catalogs for one in catalog.features.resources)
    names = Counter(one.name for catalog in catalogs for one in catalog.features.prompts)
    for what, counts in (("resource", uris), ("prompt", names)):
        twice = next((name for name, count in counts.items() if count > 1), None)
        if twice is not None:
            raise DefinitionError(f"two of them offer the {what} {twice!r}: rename one")


def _connections(toolboxes: Sequence[Toolbox], given: Mapping[int, str]) -> Mapping[int, str]:
    """Return the name of each toolbox that is a connection, by index. No two names look alike or begin alike."""
    names: dict[int, str] = {}
    for number, box in enumerate(toolboxes):
        if isinstance(box, (Remote, ReconnectingToolbox, PersonalToolbox)):
            name = first = given.get(number) or box.name
            count = 1
            while any(_begins_alike(name, other) for other in names.values()):
                count += 1
                name = f"{first}{count}"
            names[number] = name
    return names


def _build_schemes(names: Mapping[int, str]) -> Mapping[int, str]:
    """Return the prefix of each connection's URIs, by its name. Each is a different URI scheme (RFC 3986).

    Clients refuse a whole list because of one invalid URI, and they write schemes in lower case.
    """
    # MC-08
    schemes: dict[int, str] = {}
    for number, name in names.items():
        plain = _NOT_OF_SCHEMES.sub("-", name.lower())
        scheme = first = plain if plain[:1].isalpha() else f"x{plain}"
        count = 1
        while scheme in schemes.values():
            count += 1
            scheme = f"{first}{count}"
        schemes[number] = scheme
    return schemes


def _begins_alike(one: str, other: str) -> bool:
    first, second = f"{make_confusable_key(one)}_", f"{make_confusable_key(other)}_"
    return first.startswith(second) or second.startswith(first)
