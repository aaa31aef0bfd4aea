"""Open a target: its tools, and calls that pass the same checks for code, documents and URLs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from toolwire.cli.parser import read_remote
from toolwire.cli.terminal.command_prompt import confirm_command
from toolwire.cli.terminal.relocation_prompt import confirm_relocation
from toolwire.cli.terminal.screen import print_instruction, show_time
from toolwire.cli.terminal.slow_work import announce_if_slow
from toolwire.cli.terminal.terminal_approver import Approver, build_terminal_approver
from toolwire.cli.terminal.terminal_user import build_terminal_user
from toolwire.client import Session, SyncHandle, connect_sync, open_document_cache
from toolwire.client.transport.drivers import SyncNotify
from toolwire.consent import Preferences
from toolwire.core.call_status import CallPage
from toolwire.core.catalog import Catalog
from toolwire.core.errors import UsageError
from toolwire.core.model import Approval, Json, Problem, Result, Tool
from toolwire.core.offered import PromptDefinition, ResourceDefinition
from toolwire.core.resources import COMPLETE_RESULTS, Resource
from toolwire.core.selection import Selection
from toolwire.core.url_display import show_url
from toolwire.core.user_input import InputProvider
from toolwire.hosting.options import READING_S
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.hosting.targets.url_options import UrlOptions, read_access, read_headers, read_key

if TYPE_CHECKING:  # signing in is rare, and a lot of code
    from toolwire.client.login import SignInOptions, SignInUser

_MAX_TAGS = 20


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
        # These bring the whole server, which a URL does not need.
        from toolwire.hosting.targets.load_code import open_code

        from .local_target import LocalTarget

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
        access=read_access(read_remote(arguments)),
        headers=read_headers(read_remote(arguments)),
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
            shown = ", ".join(islice(tags, _MAX_TAGS)) + (", and more" if len(tags) > _MAX_TAGS else "")
            there = f"the tags are {shown}; --tags lists them" if tags else "its tools have no tags"
            raise UsageError(f"There is no tag {tag!r} here: {there}.{meant}")
