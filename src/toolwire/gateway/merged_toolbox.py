"""Merge several Toolboxes into one."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from toolwire.core.catalog import Catalog
from toolwire.core.errors import DefinitionError
from toolwire.core.health import UpstreamHealth
from toolwire.core.model import Call, Kind, Problem, Result, Tool, Value
from toolwire.core.server_features import (
    PAGE_SCHEME,
    ServerFeatures,
    add_uri_prefix,
    is_reader,
    merge_features,
)
from toolwire.core.toolbox import (
    Notify,
    OutputPromise,
    Toolbox,
    ToolHome,
    ToolUpstream,
    embed_stored_bytes,
    find_consent_handling,
    find_home,
    find_missing_consent,
    find_output_judge,
    ignore_progress,
    list_own_names,
    merge_home,
)
from toolwire.framing.jsontext import get_object
from toolwire.framing.next_steps import has_next_steps, rename_next_steps
from toolwire.limits import LocalRates, Windows
from toolwire.protocols.mcp.foreign_members import rename_links
from toolwire.server.http.lifespan import begin_lifespan, end_lifespan

from .ownership import Owned, Ownership
from .personal_toolbox import MAX_OPEN, PersonalToolbox
from .upstream import Upstream, UpstreamLimits

_NONE: Final[Mapping[int, Any]] = {}

_log = logging.getLogger("toolwire")


def merge_toolboxes(
    toolboxes: Sequence[Toolbox],
    *,
    title: str = "Tools",
    names: Mapping[int, str] = _NONE,
    scopes: Mapping[int, Iterable[str]] = _NONE,
    limits: Mapping[int, UpstreamLimits] = _NONE,
    windows: Windows | None = None,
    local: LocalRates | None = None,
) -> Toolbox:
    """Return a Toolbox with the tools of all ``toolboxes``. Each call runs in the toolbox that its tool came from.

    These mappings use a toolbox's index, from 0, as key:

    - ``names``: replaces the name of a connection.
    - ``scopes``: the scopes that callers need for a toolbox's tools, instead of those that the tools declare.
    - ``limits``: a toolbox's limits for all callers together. ``toolwire.core.health.list_health`` reports its health.

    Calls are counted in ``windows``, then in ``local``, or else in this process.

    A name belongs to the toolbox that had it first. If two toolkits have the same name, or names that look alike, the
    connection's name is prefixed to its toolkit's name.

    Raises:
        DefinitionError: two toolboxes that are not connections have the same toolkit name or tool ID.
    """
    # D-32
    if len(toolboxes) == 1 and not scopes and not limits:
        return toolboxes[0]
    needed = {number: tuple(some) for number, some in scopes.items()}
    ownership = Ownership(toolboxes, names, needed)
    upstreams = {
        number: Upstream(
            toolboxes[number],
            names.get(number) or ownership.names.get(number, str(number)),
            limits=some,
            scopes=needed.get(number),
            windows=windows,
            local=local,
        )
        for number, some in sorted(limits.items())
    }
    if not any(isinstance(toolbox, PersonalToolbox) for toolbox in toolboxes):
        return _MergedToolbox(tuple(toolboxes), title, ownership, upstreams, windows)

    def build_ownership() -> Ownership:
        return Ownership(toolboxes, names, needed)

    return _PersonalMerge(tuple(toolboxes), title, ownership, upstreams, windows, build_ownership=build_ownership)


class _Merge:
    """The combined offer of several toolboxes' catalogs: ``catalog``, and the origin of each of its parts."""

    def __init__(
        self, toolboxes: tuple[Toolbox, ...], title: str, ownership: Ownership, upstreams: Mapping[int, Upstream]
    ) -> None:
        self._toolboxes, self._title, self._upstreams = toolboxes, title, upstreams
        self.ownership = ownership
        self.seen: tuple[Catalog, ...] = ()
        self.seen_now: tuple[Catalog, ...] = ()
        self.catalog = Catalog(title=title)
        self.homes: dict[str, tuple[Toolbox, Owned]] = {}
        self.limited: dict[str, Upstream] = {}  # by tool ID, for upstreams with limits
        self.readers: dict[int, Toolbox] = {}  # by the reader's identity; the catalog keeps the reader alive
        self.limited_readers: dict[int, Upstream] = {}
        self.linked: dict[int, tuple[ServerFeatures, str]] = {}  # and a prefix, by the identity of a connection
        self.here: list[ServerFeatures] = []  # those of the code of this process, whose URIs have no prefix

    def is_of(self, catalogs: Iterable[Catalog]) -> bool:
        """Return whether it was made from exactly these catalog objects."""
        return bool(self.seen) and all(one is other for one, other in zip(catalogs, self.seen, strict=True))

    def renew(self, catalogs: tuple[Catalog, ...]) -> None:
        """Use what ``catalogs`` offer now.

        Raises:
            DefinitionError: they cannot be served together, and nothing was served before.
        """
        try:
            self._take(catalogs)
        except (DefinitionError, ValueError) as error:
            if not self.seen:
                raise DefinitionError(f"Cannot serve these together: {error}.") from error
            # Tools that were added later clash, so the previous tools stay.
            _log.error("the merged catalog is not renewed: %s", error)
        self.seen = catalogs

    def _take(self, catalogs: tuple[Catalog, ...]) -> None:
        ownership = self.ownership
        found = ownership.take(catalogs)
        owners = {owned.shown_tool.id: owned.owner for _, owned in found}

        def allows(reference: str, tool: Tool) -> bool:
            owner = owners.get(tool.id)  # None for tools that the server itself adds to a list, such as read_result
            return owner is None or ownership.allows(reference, owner, tool.toolkit)

        tools = tuple(owned.shown_tool for _, owned in found)
        features = ownership.take_features(catalogs)
        # This process's own code comes first, so that no connection can take one of its prompts' names.
        first = sorted(range(len(features)), key=lambda number: number in ownership.names)
        merged = merge_features([features[number] for number in first])
        self.homes = {owned.shown_tool.id: (self._toolboxes[number], owned) for number, owned in found}
        self.catalog = Catalog(title=self._title, tools=tools, features=merged, allows=allows)
        if own := self._select_own_steps(catalogs):
            tools = tuple(own.get(tool.id, tool) for tool in tools)
            self.homes |= {
                id_: (self.homes[id_][0], self.homes[id_][1]._replace(shown_tool=tool)) for id_, tool in own.items()
            }
            self.catalog = Catalog(title=self._title, tools=tools, features=merged, allows=allows)
        self.limited = {
            owned.shown_tool.id: self._upstreams[number] for number, owned in found if number in self._upstreams
        }
        readers = [
            (id(reader), number) for number, part in enumerate(features) for reader in (*part.readers, *part.completers)
        ]
        self.linked = {
            id(self._toolboxes[number]): (features[number], prefix) for number, prefix in ownership.prefixes.items()
        }
        self.here = [part for number, part in enumerate(features) if number not in ownership.names]
        self.readers = {reader: self._toolboxes[number] for reader, number in readers}
        self.limited_readers = {
            reader: self._upstreams[number] for reader, number in readers if number in self._upstreams
        }

    def rename_links(self, result: Result, toolbox: Toolbox) -> Result:
        """Return the toolbox's ``result``, with each link replaced by the URI at which callers read the target."""
        linked = self.linked.get(id(toolbox))
        if linked is None or not isinstance(result, Value):
            return result
        features, prefix = linked

        def find_public_uri(own: str) -> str:
            uri = features.find_public_uri(own)
            # D-32: a server must not lead its caller to another server's offer.
            return add_uri_prefix(own, prefix) if uri == own and self._is_of_another(own) else uri

        return rename_links(result, find_public_uri)

    def _is_of_another(self, uri: str) -> bool:
        """Return whether ``uri``, which an upstream names, leads callers to another server's offer."""
        if uri.removeprefix(PAGE_SCHEME).startswith(tuple(self.ownership.prefixes.values())):
            return True
        is_web = uri.startswith(("https:", "http:"))  # a client follows it without the gateway
        return not is_web and any(
            any(one.match(uri) is not None for one in part.resources)
            or any(one.find_file(uri) is not None for one in part.skills)
            for part in self.here
        )

    def has_tool(self, tool: Tool) -> bool:
        """Return whether exactly this ``tool``, or what it reads, is offered."""
        home = self.homes.get(tool.id)
        return id(tool) in self.readers or (home is not None and home[1].shown_tool is tool)

    def find_upstream(self, tool: Tool) -> ToolUpstream | None:
        """Return the upstream of ``tool``, or of the resource or prompt that it reads, or None without an upstream."""
        if is_reader(tool):
            upstream = self.limited_readers.get(id(tool))
            return None if upstream is None else upstream.describe_source(tool)
        upstream, home = self.limited.get(tool.id), self.homes.get(tool.id)
        return None if upstream is None or home is None else upstream.describe_source(home[1].tool)

    def find_home(self, tool: Tool) -> ToolHome:
        """Return where ``tool`` comes from, and the tools that its server can name, as they are offered."""
        home = self.homes.get(tool.id)
        if home is None:
            return ToolHome()
        toolbox, owned = home
        own_by_name = {
            one.tool.id: one.shown_tool
            for box, one in self.homes.values()
            if box is toolbox and one.owner == owned.owner
        }
        catalog = next(seen for box, seen in zip(self._toolboxes, self.seen_now, strict=True) if box is toolbox)
        return merge_home(find_home(toolbox, owned.tool), list_own_names(catalog, owned.tool), own_by_name)

    def _select_own_steps(self, catalogs: tuple[Catalog, ...]) -> dict[str, Tool]:
        """Return each tool with next steps, keeping only steps to the same server's tools, under their names here."""
        # AT-48: to a gateway's client, all upstreams' steps look like one server's.
        self.seen_now = catalogs
        naming = [owned for _, owned in self.homes.values() if has_next_steps(owned.shown_tool)]
        if not naming:
            return {}
        names = {tool.id: name for name, tool in self.catalog.names.items()}
        # By owner and by the name there. The toolkit's entry comes before the whole server's.
        known: dict[tuple[int, str, str], str] = {}
        theirs = {(id(box), owned.tool.id): owned for box, owned in self.homes.values()}
        for toolbox, catalog in zip(self._toolboxes, catalogs, strict=True):
            for name, tool in catalog.names.items():
                owned = theirs.get((id(toolbox), tool.id))
                if owned is not None and owned.shown_tool.id in names:
                    known[owned.owner, tool.toolkit, tool.name] = known[owned.owner, "", name] = names[
                        owned.shown_tool.id
                    ]

        def select(owned: Owned) -> Tool:
            def find(operation: str) -> str | None:
                short = known.get((owned.owner, owned.tool.toolkit, operation))
                return short or known.get((owned.owner, "", operation))

            return rename_next_steps(owned.shown_tool, find)

        return {owned.shown_tool.id: select(owned) for owned in naming}


class _MergedToolbox:
    def __init__(
        self,
        toolboxes: tuple[Toolbox, ...],
        title: str,
        ownership: Ownership,
        upstreams: Mapping[int, Upstream],
        windows: Windows | None,
    ) -> None:
        self._toolboxes = toolboxes
        self._ownership = ownership
        self._upstreams, self._windows = upstreams, windows
        self._merge = _Merge(toolboxes, title, ownership, upstreams)
        self.catalog()

    def catalog(self) -> Catalog:
        # In line, because each request looks at all of them.
        for toolbox, seen in zip(self._toolboxes, self._merge.seen, strict=False):
            if toolbox.catalog() is not seen:
                break
        else:
            if self._merge.seen or not self._toolboxes:
                return self._merge.catalog
        self._merge.renew(tuple(toolbox.catalog() for toolbox in self._toolboxes))
        return self._merge.catalog

    def _find_merge(self, _call: Call) -> _Merge:
        """Return the merge with the tools that a call's caller is offered."""
        return self._merge

    def list_health(self) -> Sequence[UpstreamHealth]:
        return [upstream.describe_health() for upstream in self._upstreams.values()]

    def handles_consent(self, tool: Tool) -> bool:
        home = self._merge.homes.get(tool.id)
        return home is not None and find_consent_handling(home[0])(home[1].tool)

    def find_home(self, tool: Tool) -> ToolHome:
        return self._merge.find_home(tool)

    def find_upstream(self, tool: Tool) -> ToolUpstream | None:
        return self._merge.find_upstream(tool)

    def judge_output(self, tool: Tool) -> OutputPromise:
        home = self._merge.homes.get(tool.id)
        return OutputPromise.FOREIGN if home is None else find_output_judge(home[0])(home[1].tool)

    async def begin(self) -> None:
        for number, toolbox in enumerate(self._toolboxes):
            try:
                await begin_lifespan(toolbox)
            except BaseException:  # end() is not called in this case, so the toolboxes that have begun are ended here.
                for begun in reversed(self._toolboxes[:number]):
                    await end_lifespan(begun)
                raise

    async def end(self) -> None:
        for toolbox in self._toolboxes:
            await end_lifespan(toolbox)
        await end_lifespan(self._windows)

    async def find_missing_consent(self, call: Call) -> Problem | None:
        home = self._find_merge(call).homes.get(call.tool.id)
        return None if home is None else await find_missing_consent(home[0], call._replace(tool=home[1].tool))

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        merge = self._find_merge(call)
        if is_reader(call.tool) and (reading := merge.readers.get(id(call.tool))) is not None:
            # AT-51: a reading counts as a call does.
            limited = merge.limited_readers.get(id(call.tool))
            read = await (reading.run(call, notify) if limited is None else limited.run(call, notify))
            is_prompt = "prompt" in get_object(call.tool.hints, "mcp")
            return merge.rename_links(read, reading) if is_prompt else read
        home = merge.homes.get(call.tool.id)
        if home is None:
            return Problem(kind=Kind.UNKNOWN_TOOL, message=f"Unknown tool {call.tool.id!r}.")
        toolbox, owned = home
        own = call if owned.tool is owned.shown_tool else call._replace(tool=owned.tool)
        upstream = merge.limited.get(call.tool.id)
        if upstream is not None:
            return merge.rename_links(await upstream.run(own, notify), toolbox)
        return merge.rename_links(embed_stored_bytes(await toolbox.run(own, notify), toolbox), toolbox)


class _PersonalMerge(_MergedToolbox):
    """For upstreams that show their tools only to known callers, each caller is offered the tools of their own list."""

    # AT-47: each caller has a separate merge with separate names, so that nothing leaks between callers.
    def __init__(
        self,
        toolboxes: tuple[Toolbox, ...],
        title: str,
        ownership: Ownership,
        upstreams: Mapping[int, Upstream],
        windows: Windows | None,
        *,
        build_ownership: Callable[[], Ownership],
    ) -> None:
        self._personal = [box for box in toolboxes if isinstance(box, PersonalToolbox)]
        self._title, self._build_ownership = title, build_ownership
        self._own: OrderedDict[tuple[str, ...], _Merge] = OrderedDict()
        super().__init__(toolboxes, title, ownership, upstreams, windows)

    async def prepare_for(self, principal: str) -> None:
        hidden = [box for box in self._personal if box.is_hidden]
        if hidden:
            await asyncio.gather(*(box.prepare_for(principal) for box in hidden))

    def catalog_for(self, principal: str) -> Catalog:
        shared = self.catalog()
        if not any(box.is_hidden for box in self._personal):
            return shared
        catalogs = tuple(
            box.catalog_for(principal) if isinstance(box, PersonalToolbox) else box.catalog() for box in self._toolboxes
        )
        if self._merge.is_of(catalogs):
            self._own.pop(self._find_key(principal), None)
            return shared
        key = self._find_key(principal)
        merge = self._own.get(key)
        if merge is None:
            merge = self._own[key] = _Merge(self._toolboxes, self._title, self._build_ownership(), self._upstreams)
            while len(self._own) > MAX_OPEN:
                self._own.popitem(last=False)
        self._own.move_to_end(key)
        if not merge.is_of(catalogs):
            merge.renew(catalogs)
        return merge.catalog

    def find_home(self, tool: Tool) -> ToolHome:
        for merge in self._own.values():
            home = merge.homes.get(tool.id)
            if home is not None and home[1].shown_tool is tool:
                return merge.find_home(tool)
        return super().find_home(tool)

    def find_upstream(self, tool: Tool) -> ToolUpstream | None:
        # In one caller's list, an ID can mean a different tool than in the shared list.
        offering = (merge for merge in (self._merge, *self._own.values()) if merge.has_tool(tool))
        return next(offering, self._merge).find_upstream(tool)

    def handles_consent(self, tool: Tool) -> bool:
        for merge in self._own.values():
            home = merge.homes.get(tool.id)
            if home is not None and home[1].shown_tool is tool:
                return find_consent_handling(home[0])(home[1].tool)
        return super().handles_consent(tool)

    def _find_merge(self, call: Call) -> _Merge:
        merge = self._own.get(self._find_key(call.context.principal))
        known = merge is not None and (call.tool.id in merge.homes or id(call.tool) in merge.readers)
        return merge if merge is not None and known else self._merge

    def _find_key(self, principal: str) -> tuple[str, ...]:
        return (principal, *(box.find_key(principal) for box in self._personal))
