"""Hold the tools of a toolbox at one moment, and find the tool that a reference means."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import Final, TypeAlias
from unicodedata import combining, normalize

from .model import Kind, Problem, Tool
from .server_features import NO_FEATURES, ServerFeatures
from .suggestion import find_nearest

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
"""A semantic version (SemVer 2.0.0), such as 1.0.0, 1.0.0-beta.1 or 1.0.0+build.5."""
_NUMBER = re.compile(r"[0-9]{1,18}")
_MAJOR = re.compile(r"\d+\.0\.0", re.ASCII)
_ODD = re.compile(r"[^a-z0-9_.@]")
_ALIKE = str.maketrans({"0": "o", "1": "l", "i": "l", "-": "_"})
_REFERENCE = re.compile(rf"(?P<name>[^@]+)(?:@(?P<version>\d+|{VERSION.pattern}))?", re.ASCII)


def build_toolkit_name(title: str) -> str:
    """Return ``title`` as a toolkit name for tool ids: letters, digits and underscores.

    Accents are dropped. A title that is not ASCII ends in six digits of its digest, so that two such titles differ.
    """
    # OXP-006
    plain = "".join(part for part in normalize("NFKD", title) if not combining(part))
    name = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")
    if plain.isascii() or not title.strip():
        return name or "Tools"
    return f"{name or 'Tools'}_{sha256(title.encode('utf-8', 'replace')).hexdigest()[:6]}"


VersionKey: TypeAlias = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


@lru_cache(1_024)  # a catalog of ten thousand tools has few versions
def make_version_key(version: str) -> VersionKey:
    """Return the precedence of ``version`` by SemVer 2.0.0, as a key to sort by: 1.0.0-beta.2 comes before 1.0.0.

    Build metadata does not count. The text can be of any form: a part of ``x.y.z`` that is not a number of up to 18
    digits counts as 0.
    """
    # A-38, SE-01
    release, _, prerelease = version.partition("+")[0].partition("-")
    numbers = tuple(int(part) if _NUMBER.fullmatch(part) else 0 for part in release.split("."))
    identifiers = tuple(
        (False, int(part), "") if _NUMBER.fullmatch(part) else (True, 0, part)
        for part in prerelease.split(".")
        if prerelease
    )
    return numbers, not prerelease, identifiers


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The tools of a toolbox and its title. Tools are sorted by toolkit and name, then by version, oldest first.

    ``names`` holds the newest version of each tool under a name that is unique in the catalog: the tool's own
    if no other toolkit has it, else ``Toolkit_name``. ``allows`` decides whether a reference may mean a tool. A
    reference that it refuses finds nothing and is never a unique name. ``index`` is where ``toolwire.find`` keeps the
    words of these tools, once somebody has looked for some. ``whole`` holds more tools than are listed here: ``find``
    finds them too.

    Raises:
        ValueError: two tools share an id.
    """

    # A-51, XL-087, OTC-002

    title: str = "Tools"
    version: str = "1.0.0"
    description: str = ""
    tools: tuple[Tool, ...] = ()
    features: ServerFeatures = NO_FEATURES
    allows: Callable[[str, Tool], bool] | None = field(default=None, repr=False, compare=False)
    whole: Catalog | None = field(default=None, repr=False, compare=False)
    names: Mapping[str, Tool] = field(init=False, repr=False, compare=False)
    _index: Mapping[str, Tool] | None = field(default=None, init=False, repr=False, compare=False)
    index: object = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.tools, key=lambda tool: (tool.toolkit, tool.name, make_version_key(tool.version))))
        object.__setattr__(self, "tools", ordered)
        object.__setattr__(self, "names", _assign_unique_names(ordered, self.allows or _allow_any))
        _check_ids(ordered)

    def find(self, reference: str) -> Tool | Problem:
        """Return the tool that ``reference`` means: ``id``, ``Toolkit.name[@x]``, or a bare ``name[@x]`` if unique.

        A renamed tool is also found by its server's own name, if no other tool has that name.

        ``@x.y.z`` is exact, ``@x`` means ``x.0.0``, and no version means the newest by SemVer 2.0.0. A version with
        build metadata is also found without it. If nothing is found, a Problem that lists the tools, by
        id for a reference with a toolkit, else by name.
        """
        # OXP-007, OTC-025, A-38, SE-01
        index = self._index
        found = None if index is None else index.get(reference)  # each call comes here
        return found or self.get(reference) or _build_unknown_tool(reference, self.whole or self)

    def get(self, reference: str) -> Tool | None:
        """Return the tool that ``find`` returns, or None."""
        index = self._index
        if index is None:  # built at first use: most catalogs of single callers are only listed
            index = _index_references(self.tools, self.names, self.allows or _allow_any)
            object.__setattr__(self, "_index", index)
        found = index.get(reference)
        if found is None and self.whole is not None:  # FI-01: what is not listed can be called
            return self.whole.get(reference)
        return found

    def find_or_suggest(self, reference: str) -> Tool | Problem:
        """Return what ``find`` returns; a Problem also names the tool that was probably meant.

        This compares many names, so it is for callers who pay for it themselves, not for a server.
        """
        found = self.find(reference)
        near = "" if isinstance(found, Tool) else find_nearest(reference.rpartition(".")[2], self.names)
        if isinstance(found, Tool) or not near or near in found.message.partition(_LIST)[0]:
            return found
        first, mark, rest = found.message.partition(_LIST)
        return replace(found, message=f"{first} Did you mean {near}?{mark}{rest}")

    def select(self, tools: Iterable[Tool]) -> Catalog:
        """Return a catalog of ``tools``, which are of this one, under the names that they have here."""
        chosen = {(tool.toolkit, tool.name): tool for tool in tools}
        other = Catalog(
            title=self.title, version=self.version, description=self.description, tools=tuple(chosen.values())
        )
        known = self.names if self.whole is None else {**self.whole.names, **self.names}
        names = {name: chosen[key] for name, one in known.items() if (key := (one.toolkit, one.name)) in chosen}
        object.__setattr__(other, "names", names)
        return other

    def with_description(self, description: str) -> Catalog:
        """Return the same tools under another ``description``; nothing is sorted or named again."""
        other = copy(self)
        object.__setattr__(other, "description", description)
        return other

    def with_features(self, features: ServerFeatures) -> Catalog:
        """Return the same tools with other resources and prompts; nothing is sorted or named again."""
        other = copy(self)
        object.__setattr__(other, "features", features)
        return other


def list_spellings(tool: Tool) -> tuple[str, ...]:
    """Return each reference to ``tool`` without a version: unique ones first, then those that other tools may share."""
    full = f"{tool.toolkit}.{tool.name}"
    others = (tool.original_name,) if tool.original_name else ()
    return full, full.replace("-", "_"), tool.name, f"{tool.toolkit}_{tool.name}", *others


def make_confusable_key(reference: str) -> str:
    """Return a key that two references share if a reader or a protocol could confuse them, such as ``l1``, ``ll``."""
    if not reference.isascii():
        reference = "".join(part for part in normalize("NFKD", reference) if not combining(part))
    return _ODD.sub("_", reference.casefold().translate(_ALIKE))


def _allow_any(*_: object) -> bool:
    return True


def _assign_unique_names(tools: Iterable[Tool], allows: Callable[[str, Tool], bool]) -> Mapping[str, Tool]:
    newest = {(tool.toolkit, tool.name): tool for tool in tools}
    count = Counter(name for (_, name), tool in newest.items() if allows(name, tool))
    names: dict[str, Tool] = {}
    for (toolkit, name), tool in newest.items():
        qualified = f"{toolkit}_{name}"[:64]
        unique = name if count[name] == 1 and allows(name, tool) else qualified
        if not allows(unique, tool) or (
            unique in names and allows is not _allow_any
        ):  # the digest of its id makes it unique
            unique = f"{qualified[:51]}_{sha256(tool.id.encode('utf-8', 'replace')).hexdigest()[:12]}"
        if unique in names:
            raise ValueError(f"two tools have the name {unique!r}: rename one of {names[unique].id} and {tool.id}")
        names[unique] = tool
    return names


def _check_ids(tools: Iterable[Tool]) -> None:
    ids: set[str] = set()
    for tool in tools:
        if tool.id in ids:
            raise ValueError(f"two tools have the ID {tool.id!r}: give one of them another name or version")
        ids.add(tool.id)


def _index_references(
    tools: Sequence[Tool], names: Mapping[str, Tool], allows: Callable[[str, Tool], bool]
) -> Mapping[str, Tool]:
    unique = {(tool.toolkit, tool.name): name for name, tool in names.items()}
    index: dict[str, Tool] = {}
    folded: dict[str, Tool] = {}
    for tool in sorted(
        tools, key=lambda tool: make_version_key(tool.version)
    ):  # if two have one spelling, the newer one wins
        full, written, *_ = list_spellings(tool)
        _add_versions(folded, written, tool)
        for spelling in {full, unique[tool.toolkit, tool.name]}:
            _add_versions(index, spelling, tool)
    for spelling, tool in folded.items():  # I-30: a tool with exactly this name comes first
        index.setdefault(spelling, tool)
    for original, name in _find_unique_originals(tools).items():
        if allows(original, index[name]):
            index.setdefault(original, index[name])
    for tool in tools:  # "Calculator_Add", as in the examples of the specification, unless a tool has that name
        alias = f"{tool.toolkit}_{tool.name}"
        if allows(alias, tool):
            index.setdefault(alias, index[f"{tool.toolkit}.{tool.name}"])
    return index


def _add_versions(index: dict[str, Tool], spelling: str, tool: Tool) -> None:
    """Add each reference to ``tool`` by ``spelling``: without a version, with its own, and with its major number."""
    precedence, _, build = tool.version.partition("+")
    index[spelling] = index[f"{spelling}@{tool.version}"] = tool
    if build:  # SE-01: two builds of one version have the same precedence; the plain version comes first
        index.setdefault(f"{spelling}@{precedence}", tool)
    if _MAJOR.fullmatch(precedence):
        index[f"{spelling}@{precedence.partition('.')[0]}"] = tool


def _find_unique_originals(tools: Sequence[Tool]) -> Mapping[str, str]:
    """Return ``Toolkit.name`` by each original name that only one tool has."""
    owners: dict[str, set[str]] = {}
    for tool in tools:
        if tool.original_name:
            owners.setdefault(tool.original_name, set()).add(f"{tool.toolkit}.{tool.name}")
    return {original: names.pop() for original, names in owners.items() if len(names) == 1}


_LIST: Final = " Available tools: "


def _build_unknown_tool(reference: str, catalog: Catalog) -> Problem:
    """Return the Problem that lists the tools: by id for a reference with a toolkit, else by name."""
    reference = reference if len(reference) <= 200 else reference[:200] + "..."
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        text = f"{reference!r} is not a valid tool reference. Write Toolkit.Name, Toolkit.Name@1 or Toolkit.Name@1.0.0."
        return Problem(kind=Kind.UNKNOWN_TOOL, message=text)
    name = match["name"]
    versions = [
        tool.id
        for tool in catalog.tools
        if name in (tool.name, tool.id.partition("@")[0], f"{tool.toolkit}.{tool.name}")
    ]
    if versions:
        text = f"{reference!r} was not found. Available versions: {', '.join(versions)}."
    else:
        known = [tool.id for tool in catalog.tools] if "." in name else list(catalog.names)
        listed = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        text = f"Unknown tool {name!r}.{_LIST}{listed or 'none'}."
    return Problem(kind=Kind.UNKNOWN_TOOL, message=text)
