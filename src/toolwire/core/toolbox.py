"""Define the Toolbox: anything that has a catalog and can run a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from .catalog import Catalog
from .check import Check, Verdict
from .content import embed_resource, is_reference
from .model import ANONYMOUS, Call, Problem, Progress, Result, Tool, Value
from .resources import Resource
from .url_origin import get_origin

T = TypeVar("T")

Notify: TypeAlias = Callable[[Progress], Coroutine[Any, Any, None]]
"""Receive each piece of progress, in order. Awaiting it applies back-pressure."""

StartCall: TypeAlias = Callable[[Notify], Awaitable[tuple[Result, float]]]
"""Runs one call, reports its progress, and returns its result and the milliseconds that it took."""


async def ignore_progress(progress: Progress) -> None:
    """Drop a piece of progress."""


@runtime_checkable
class HandlesConsent(Protocol):
    """A Toolbox that may ask for consent to calls by itself, so that a server in front of it need not."""

    def handles_consent(self, tool: Tool, /) -> bool:
        """Return whether each call of ``tool`` passes a consent check of this Toolbox."""
        ...


@runtime_checkable
class AsksCallers(Protocol):
    """A Toolbox that can say before it runs a call that the caller has to confirm it."""

    async def find_missing_consent(self, call: Call, /) -> Problem | None:
        """Return what the caller is asked about ``call``, or None if nothing is. Nothing is sent or counted."""
        ...


async def find_missing_consent(toolbox: object, call: Call) -> Problem | None:
    """Return what ``toolbox`` asks the caller of ``call`` before it runs, if it can say so; see ``AsksCallers``."""
    return await toolbox.find_missing_consent(call) if isinstance(toolbox, AsksCallers) else None


def find_consent_handling(toolbox: object) -> Callable[[Tool], bool]:
    """Return a function that says of which tools ``toolbox`` asks for consent by itself."""
    return toolbox.handles_consent if isinstance(toolbox, HandlesConsent) else lambda _: False


@runtime_checkable
class ChecksCallers(Protocol):
    """A Toolbox that knows before it runs a call that its caller may not make it."""

    def check_caller(self, call: Call, /) -> Verdict:
        """Return whether the caller may make this call. It is asked before the user is."""
        ...


def list_caller_checks(toolbox: object) -> tuple[Check, ...]:
    """Return the check of ``toolbox`` itself, if it has one."""
    return (toolbox.check_caller,) if isinstance(toolbox, ChecksCallers) else ()


class ToolHome(NamedTuple):
    """Where a tool comes from.

    ``source`` is the origin of its server, or ``""`` for a function of this process. ``tools`` are those of the same
    connection, by the names that its server uses; ``None`` stands for the whole catalog.
    """

    source: str = ""
    tools: Mapping[str, Tool] | None = None


@runtime_checkable
class FindsHomes(Protocol):
    """A Toolbox of several connections, which knows the one that each tool came from."""

    def find_home(self, tool: Tool, /) -> ToolHome:
        """Return where ``tool``, one of this catalog, comes from."""
        ...


def find_home(toolbox: object, tool: Tool) -> ToolHome:
    """Return where a tool of the catalog of ``toolbox`` comes from."""
    # AT-48
    if isinstance(toolbox, FindsHomes):
        return toolbox.find_home(tool)
    url = getattr(toolbox, "url", "")
    return ToolHome(get_origin(url) if isinstance(url, str) else "")


def merge_home(home: ToolHome, own_names: Mapping[str, Tool], shown_tools: Mapping[str, Tool]) -> ToolHome:
    """Return ``home`` for a Toolbox that offers the tools of others under names of its own.

    ``own_names`` are the tools of the other Toolbox by the names that its server uses. ``shown_tools`` are the tools
    that are offered instead, by their ids there.
    """
    theirs = own_names if home.tools is None else home.tools
    return ToolHome(
        home.source, {name: shown_tools[tool.id] for name, tool in theirs.items() if tool.id in shown_tools}
    )


def list_own_names(catalog: Catalog, after: Tool) -> dict[str, Tool]:
    """Return the tools that a server may name after a call of ``after``: by short names in its toolkit, else unique."""
    return dict(catalog.names) | {tool.name: tool for tool in catalog.names.values() if tool.toolkit == after.toolkit}


class OutputPromise(StrEnum):
    """What the output schema of a tool is worth."""

    KEPT = "kept"
    """Each result was checked when the tool returned it."""
    UNCHECKED = "unchecked"
    """This program promises it, and nobody has checked the result yet."""
    FOREIGN = "foreign"
    """Another server says so, and its results might differ."""


@runtime_checkable
class JudgesOutput(Protocol):
    """A Toolbox that knows what the output schemas of its tools are worth."""

    def judge_output(self, tool: Tool, /) -> OutputPromise:
        """Return what the output schema of ``tool`` is worth."""
        ...


def find_output_judge(toolbox: object) -> Callable[[Tool], OutputPromise]:
    """Return a function that says what the output schema of a tool of ``toolbox`` is worth."""
    return toolbox.judge_output if isinstance(toolbox, JudgesOutput) else judge_unknown_output


def judge_unknown_output(_tool: Tool) -> OutputPromise:
    """Return what is known of a Toolbox that does not say what its output schemas are worth."""
    return OutputPromise.UNCHECKED


@runtime_checkable
class StoresResources(Protocol):
    """A Toolbox that keeps bytes of its results under handles, such as a connection."""

    def resource(self, handle: str, /) -> Resource | None:
        """Return the bytes of a handle, or None if there are none."""
        ...


def embed_stored_bytes(result: Result, toolbox: object) -> Result:
    """Return ``result`` with the bytes themselves in the place of a handle of ``toolbox``, which means nothing outside.

    Only ``toolbox`` itself is asked: a handle of another connection in its results is text.
    """
    # MC-07, D-31
    # The value is looked at first: isinstance() with a protocol takes 4 us, and few results are references.
    if isinstance(result, Problem) or not is_reference(result.value) or not isinstance(toolbox, StoresResources):
        return result
    value = embed_resource(result.value, toolbox.resource)
    return result if value is result.value else Value(value, result.notes)


@runtime_checkable
class ShowsEachCaller(Protocol):
    """A Toolbox that offers some callers other tools than those of ``catalog``, which are for all."""

    # AT-47

    async def prepare_for(self, principal: str, /) -> None:
        """Find out what is offered to the caller ``principal``, if that is not known. It may wait."""
        ...

    def catalog_for(self, principal: str, /) -> Catalog:
        """Return what is known to be offered to ``principal``: the same object as before if nothing changed."""
        ...


async def find_own_catalog(toolbox: Toolbox, principal: str) -> Catalog:
    """Return what ``toolbox`` offers to the caller ``principal``; finding that out may wait."""
    if principal == ANONYMOUS.principal or not isinstance(toolbox, ShowsEachCaller):
        return toolbox.catalog()
    await toolbox.prepare_for(principal)
    return toolbox.catalog_for(principal)


class ToolUpstream(NamedTuple):
    """The upstream of a gateway that a tool comes from, by its name in the file.

    ``declares_effects``: the gateway believes it, or its protocol, that a tool destroys nothing. ``is_entrance``: the
    tool only says where a caller signs in to the upstream. Only users of the groups ``approvers``, if there are any,
    answer questions about it.
    """

    name: str
    declares_effects: bool
    is_entrance: bool = False
    approvers: tuple[str, ...] = ()


@runtime_checkable
class KnowsUpstreams(Protocol):
    """A Toolbox of several upstreams, which knows the one that each tool, resource and prompt comes from."""

    # PL-02

    def find_upstream(self, tool: Tool, /) -> ToolUpstream | None:
        """Return the upstream of ``tool``, or None if it is not one of these."""
        ...


def find_upstreams(toolbox: object) -> Callable[[Tool], ToolUpstream | None]:
    """Return a function that returns the upstream of a tool; of a Toolbox without upstreams, the tool's toolkit."""
    if isinstance(toolbox, KnowsUpstreams):
        return toolbox.find_upstream
    return lambda tool: ToolUpstream(tool.toolkit, declares_effects=True)


@runtime_checkable
class Toolbox(Protocol):
    """Runs calls: functions of this process, a remote server, or a wrapper around another Toolbox."""

    def catalog(self) -> Catalog:
        """Return the tools that can be called now. The object stays the same until something changes."""
        ...

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` and return its result. Failures are Problems. Only cancellation and bugs raise."""
        ...


def complete(work: Coroutine[Any, Any, T]) -> T:
    """Return the value of ``work``, a coroutine that waits for nothing: blocking callers share such code."""
    try:
        work.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    work.close()
    raise RuntimeError("a blocking connection cannot wait for an event loop")
