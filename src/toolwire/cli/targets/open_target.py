"""Open a target: its tools, and calls that pass the same checks for code, documents and URLs."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from toolwire.cli.exits import UsageError
from toolwire.cli.parser import READING_S, TOTAL_S
from toolwire.cli.terminal.command_prompt import confirm_command
from toolwire.cli.terminal.relocation_prompt import confirm_relocation
from toolwire.cli.terminal.screen import print_instruction, show_time
from toolwire.cli.terminal.slow_work import announce_if_slow
from toolwire.cli.terminal.terminal_approver import Approver, build_terminal_approver
from toolwire.cli.terminal.terminal_user import build_terminal_user
from toolwire.client import Session, SyncHandle, connect_sync, open_document_cache
from toolwire.client.discovery.overlays import read_overlay
from toolwire.client.transport.drivers import SyncNotify
from toolwire.client.transport.network import NetworkAccess
from toolwire.client.transport.request_headers import read_site_headers
from toolwire.client.transport.server_command import read_server_command
from toolwire.client.transport.tls import check_ca_file
from toolwire.client.transport.url_policy import allow_origins_in_private_networks, read_url
from toolwire.consent import DefinitionLock, Preferences
from toolwire.core.call_status import CallPage
from toolwire.core.catalog import Catalog
from toolwire.core.model import ANONYMOUS, Approval, Context, Json, Problem, Result, Secret, Tool
from toolwire.core.offered import PromptDefinition, ResourceDefinition
from toolwire.core.resources import COMPLETE_RESULTS, DEFAULT_RESULT_LIMITS, Resource, ResultLimits
from toolwire.core.selection import DEFAULT_SELECTION, Selection
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import complete_url, get_origin
from toolwire.core.user_input import InputProvider

from .key_option import read_key
from .target import UrlTarget, read_target

if TYPE_CHECKING:  # signing in is rare, and a lot of code
    from toolwire.client.login import SignInOptions, SignInUser

_MOST_TAGS = 20


class OpenedTarget(Protocol):
    """The tools of a target. Each call is checked, and confirmed by the user where needed, before it is made."""

    def catalog(self) -> Catalog:
        """Return the tools that can be called."""
        ...

    def find(self, name: str, /) -> Tool | Problem:
        """Return the tool of that name or id, or a Problem where there is none."""
        ...

    def tags(self) -> Mapping[str, int]:
        """Return the number of tools for each tag, of all tools and not only the selected ones."""
        ...

    def findings(self) -> tuple[str, ...]:
        """Return what was left out of the target's description, or read in another way than written."""
        ...

    def list_resources(self) -> tuple[ResourceDefinition, ...] | Problem:
        """Return what can be read."""
        ...

    def list_prompts(self) -> tuple[PromptDefinition, ...] | Problem:
        """Return the prompts."""
        ...

    def read_resource(self, uri: str, /) -> Result:
        """Return what is at ``uri``."""
        ...

    def get_prompt(self, name: str, arguments: Mapping[str, str], /) -> Result:
        """Return the prompt ``name`` filled in."""
        ...

    def resource(self, handle: str, /) -> Resource | None:
        """Return the bytes of a handle from a result, or None if there are none."""
        ...

    def find_level(self, tool: Tool, /) -> Approval:
        """Return the level of consent that a call of ``tool`` needs."""
        ...

    def call(
        self,
        name: str,
        arguments: Mapping[str, Json],
        /,
        *,
        notify: SyncNotify | None = None,
    ) -> Result:
        """Call the tool ``name`` and return its result. The call is made only if every check, and the user, allow it.

        ``notify`` is given the progress of the tool.
        """
        ...

    def start(
        self,
        name: str,
        arguments: Mapping[str, Json],
        /,
        *,
        notify: SyncNotify | None = None,
    ) -> SyncHandle | Result:
        """Start a call like ``call``, and return its result, or the handle of one that goes on at the server."""
        ...

    def handle(self, call_id: str, /) -> SyncHandle:
        """Return the handle of a call that goes on at the server.

        Raises:
            UsageError: the target is code, whose calls end with it.
        """
        ...

    def list_calls(self, limit: int, cursor: str, /) -> CallPage | Problem:
        """Return some of the user's calls that go on at the server, newest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlOptions:
    """How to reach a URL: the key of its server, the one protocol to look for, the lock, which tools and networks."""

    key: Secret | None = None
    protocol: str | None = None
    locked: DefinitionLock | None = None
    selection: Selection = DEFAULT_SELECTION
    agree: Callable[[tuple[Tool, ...]], bool] | None = field(default=None, compare=False)
    sign_in: SignInOptions | None = None
    context: Context = field(default=ANONYMOUS, compare=False)
    access: NetworkAccess = field(default_factory=NetworkAccess, compare=False)
    headers: Mapping[str, str | Secret] = field(default_factory=dict)
    result_limits: ResultLimits = field(default=DEFAULT_RESULT_LIMITS, compare=False)
    include_site_description: bool = field(default=False, compare=False)
    approval: Approval | None = None
    timeout_s: float = TOTAL_S
    discovery_s: float = READING_S
    offline: bool = field(default=False, compare=False)


def read_selection(arguments: Namespace) -> Selection:
    """Return the selection of tools by the options.

    Raises:
        UsageError: there is no such overlay, or it is none.
    """
    try:
        laid = None if arguments.overlay is None else read_overlay(arguments.overlay)
    except ValueError as error:
        raise UsageError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    return Selection(
        include=arguments.include,
        tags=tuple(arguments.tag),
        paths=tuple(arguments.path),
        methods=tuple(arguments.method),
        names=tuple(arguments.match),
        safe_only=arguments.safe_only,
        deprecated=not arguments.no_deprecated,
        server=arguments.server or "",
        elsewhere=arguments.follow,
        overlay=laid,
        any_version=arguments.any_version,
        document_bytes=arguments.document_bytes,
    )


def read_url_options(arguments: Namespace, urls: Sequence[str], *, discovery_s: float = READING_S) -> UrlOptions:
    """Return the key, the protocol and the selection of the options, which hold for each of ``urls``.

    ``discovery_s`` is how long finding each server may take.

    Raises:
        UsageError: an option is not valid, or is for one site and there are several.
    """
    key = read_key(arguments.key, arguments.key_env)
    if key is not None and len(urls) > 1:
        raise UsageError("A key is for one site: with several, sign in to each with `toolwire login` first.")
    if len(urls) > 1 and (arguments.overlay is not None or arguments.server):
        raise UsageError("--overlay and --server are for one site, and there are several.")
    headers = read_headers(arguments)
    if headers and len(urls) > 1:
        raise UsageError("--header and --header-env are for one site, and there are several.")
    return UrlOptions(
        key=key,
        protocol=arguments.protocol,
        selection=read_selection(arguments),
        access=read_access(arguments),
        headers=headers,
        include_site_description=getattr(arguments, "include_site_description", False),
        discovery_s=discovery_s,
        offline=getattr(arguments, "offline", False),
    )


def read_headers(arguments: Namespace) -> dict[str, str | Secret]:
    """Return the header fields of the options; those of ``--header-env`` are secrets.

    Raises:
        UsageError: one of them cannot be sent, or the environment has no such variable.
    """
    # XL-089
    pairs: list[tuple[str, str | Secret]] = []
    for text in arguments.header:
        name, colon, value = text.partition(":")
        if not colon:
            raise UsageError(f"Write --header as NAME: VALUE, not {name!r}.")
        pairs.append((name.strip(), value.strip()))
    for text in arguments.header_env:
        name, _, variable = text.partition("=")
        found = os.environ.get(variable)
        if found is None:
            raise UsageError(f"The environment has no variable {variable!r}: write --header-env as NAME=VARIABLE.")
        pairs.append((name.strip(), Secret(found.strip())))
    names = [name.lower() for name, _ in pairs]
    if len(set(names)) < len(names):
        raise UsageError("A header is given twice.")
    try:
        read_site_headers(dict(pairs))
    except ValueError as error:
        raise UsageError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    return dict(pairs)


def read_access(arguments: Namespace) -> NetworkAccess:
    """Return what the options allow beyond the public internet.

    Raises:
        UsageError: one of them is no origin, or the CA file cannot be used.
    """
    allow_private, allow_http, ca_file = arguments.allow_private, arguments.allow_http, arguments.ca_file
    try:
        allow_origins_in_private_networks(allow_private, allow_http)
        check_ca_file(ca_file)
    except ValueError as error:
        raise UsageError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    return NetworkAccess(allow_private=allow_private, allow_http=allow_http, ca_file=ca_file)


def read_approval(level: str | None) -> Approval | None:
    """Return the level that the user wants for every call, if there is one: per-call or deny."""
    return None if level is None else Approval(level)


def read_client(arguments: Namespace) -> SignInOptions | None:
    """Return how the user signs in by the options, or None if these say nothing about it.

    Raises:
        UsageError: the environment has no variable with the secret of the client.
    """
    if arguments.client_id is None and arguments.client_document is None:
        return None
    from .sign_in_options import read_sign_in  # loads the code of sign-in

    return read_sign_in(arguments)


@contextmanager
def open_target(
    text: str,
    reach: UrlOptions,
    ask: Approver,
    session: Session | None = None,
    person: SignInUser | None = None,
    provide_input: InputProvider | None = None,
) -> Generator[OpenedTarget, None, None]:
    """Open the target ``text`` until the block ends. ``ask`` answers questions, ``person`` can sign in.

    ``provide_input`` asks the user what a server wants to know while a call runs.

    Raises:
        ConnectError: nothing was found at the URL.
        UsageError: the target cannot be loaded, or the options do not go with it.
    """
    target = read_target(text)
    if not isinstance(target, UrlTarget):
        if reach != UrlOptions():
            raise UsageError(
                "--key, --header, --protocol, --locked, --approval, --timeout and the selection are for URLs;"
                " this target is code."
            )
        from .local_target import LocalTarget, open_code  # brings the whole server, which a URL does not need

        yield LocalTarget(open_code(target), text, ask, reach.context, provide_input)
        return
    try:
        connecting = connect_sync(
            target.text,
            approve=ask,
            provide_input=provide_input,
            api_key=reach.key,
            protocol=reach.protocol,
            session=session,
            locked=reach.locked,
            agree=reach.agree,
            selection=reach.selection,
            caps=reach.result_limits,
            user=person,
            sign_in=reach.sign_in,
            context=reach.context,
            approve_relocation=confirm_relocation,
            headers=reach.headers,
            include_site_description=reach.include_site_description,
            approve_command=confirm_command,
            preferences=Preferences(everything=reach.approval),
            timeout_s=reach.timeout_s,
            discovery_s=reach.discovery_s,
            cache=open_document_cache(offline=reach.offline),
            **reach.access,
        )
    except ValueError as error:
        raise UsageError(f"{error}.") from error
    with ExitStack() as opened:
        with announce_if_slow(f"Reading the tools of {show_url(target.text)}"):
            remote = opened.enter_context(connecting)
        if reach.offline and remote.source is not None and not remote.source.url.startswith("file:"):
            print_instruction(f"The tools as they were stored on {show_time(remote.source.fetched_at)}.")
        _check_tags(reach.selection, remote.tags())
        yield remote


@contextmanager
def open_offering(arguments: Namespace) -> Generator[OpenedTarget, None, None]:
    """Open the target of ``arguments`` to list and read its resources and prompts; see ``open_target``.

    A URL is looked at as an MCP server without ``--protocol``: no other protocol has a word for either.
    """
    # MC-08
    is_url = isinstance(read_target(arguments.target), UrlTarget)
    reach = UrlOptions(
        key=read_key(arguments.key, arguments.key_env),
        protocol=arguments.protocol or ("mcp" if is_url else None),
        sign_in=read_client(arguments),
        access=read_access(arguments),
        headers=read_headers(arguments),
        result_limits=COMPLETE_RESULTS,
        timeout_s=arguments.timeout,
        discovery_s=min(arguments.timeout, READING_S),
    )
    person = build_terminal_user(arguments.sign_in_at)
    with open_target(arguments.target, reach, build_terminal_approver("ask"), person=person) as source:
        yield source


def _check_tags(selection: Selection, tags: Mapping[str, int]) -> None:
    """Refuse a selection by a tag that no tool has.

    Raises:
        UsageError: there is no such tag; the sentence names those that there are.
    """
    for tag in selection.tags:
        if tag not in tags:
            near = get_close_matches(tag, tags, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            shown = ", ".join(islice(tags, _MOST_TAGS)) + (", and more" if len(tags) > _MOST_TAGS else "")
            there = f"the tags are {shown}; --tags lists them" if tags else "its tools have no tags"
            raise UsageError(f"There is no tag {tag!r} here: {there}.{meant}")


def find_site(target: str) -> str:
    """Return the origin that stands for ``target``: that of its URL, or of the program that it names.

    Raises:
        UsageError: it is neither.
    """
    command = read_server_command(target)
    return get_origin(complete_url(check_url(target)) if command is None else command.url)


def check_url(url: str) -> str:
    """Return ``url``, which has a scheme or gets https.

    Raises:
        UsageError: it is not an http or https URL.
    """
    if read_server_command(url) is not None:
        raise UsageError("This target is a program on this machine, and this command takes the URL of a server.")
    found = read_url(complete_url(url))
    if isinstance(found, Problem):
        raise UsageError(f"{show_url(url)}: {found.message}")
    return url
