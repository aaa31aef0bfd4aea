"""Open a target: its tools, and calls that pass the same checks for code, documents and URLs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from toolwire.cli.parser import read_remote
from toolwire.cli.terminal.prompt import confirm_command, confirm_relocation
from toolwire.cli.terminal.screen import print_instruction, show_time
from toolwire.cli.terminal.slow_work import announce_if_slow
from toolwire.cli.terminal.terminal_approver import Approver, build_terminal_approver
from toolwire.cli.terminal.terminal_user import build_terminal_user
from toolwire.client import Session, SyncRemote, connect_sync, open_document_cache
from toolwire.core.errors import UsageError
from toolwire.core.resources import COMPLETE_RESULTS
from toolwire.core.selection import Selection
from toolwire.core.url_display import show_url
from toolwire.core.user_input import InputProvider
from toolwire.hosting.options import READING_S
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.hosting.targets.url_options import UrlOptions, read_url_options

if TYPE_CHECKING:  # signing in is rare, and a lot of code; and a URL does not need the server
    from toolwire.client.login import SignInOptions, SignInUser
    from toolwire.hosting.targets.local_target import LocalTarget

_MAX_TAGS = 20


OpenedTarget: TypeAlias = "SyncRemote | LocalTarget"
"""The tools of a target. Each call is checked, and confirmed by the user where needed, before it is made."""


def read_client(arguments: Namespace) -> SignInOptions | None:
    """Return how the user signs in by the options, or None if these say nothing about it.

    Raises:
        UsageError: the environment has no variable with the secret of the client.
    """
    if arguments.client_id is None and arguments.client_document is None:
        return None
    from .sign_in_options import read_sign_in  # loads the code of sign-in

    return read_sign_in(arguments)


def read_reach(arguments: Namespace, **changes: Any) -> UrlOptions:
    """Return how the target of ``arguments`` is reached, by the options of a command, and with ``changes``.

    Raises:
        UsageError: an option is not valid.
    """
    options = read_url_options(read_remote(arguments), [arguments.target], discovery_s=arguments.timeout)
    return replace(options, **{"offline": getattr(arguments, "offline", False), **changes})


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
                "--key, --header, --protocol, --locked, --approval, --timeout and the selection options "
                "need a URL, but this target is code."
            )
        # These bring the whole server, which a URL does not need.
        from toolwire.hosting.targets.load_code import open_code
        from toolwire.hosting.targets.local_target import LocalTarget

        yield LocalTarget(open_code(target), text, ask, reach.context, provide_input)
        return
    with open_url(target.text, reach, ask, session, person, provide_input) as remote:
        yield remote


@contextmanager
def open_url(
    url: str,
    reach: UrlOptions,
    ask: Approver,
    session: Session | None = None,
    person: SignInUser | None = None,
    provide_input: InputProvider | None = None,
) -> Generator[SyncRemote, None, None]:
    """Open the connection to ``url`` as ``open_target`` does."""
    try:
        connecting = connect_sync(
            url,
            approve=ask,
            provide_input=provide_input,
            session=session,
            user=person,
            approve_relocation=confirm_relocation,
            approve_command=confirm_command,
            cache=open_document_cache(offline=reach.offline),
            **reach.list_connect_options(),
        )
    except ValueError as error:
        raise UsageError(f"{error}.") from error
    with ExitStack() as opened:
        with announce_if_slow(f"Reading the tools of {show_url(url)}"):
            remote = opened.enter_context(connecting)
        if reach.offline and remote.source is not None and not remote.source.url.startswith("file:"):
            print_instruction(f"The tools are from a copy stored on {show_time(remote.source.fetched_at)}.")
        _check_tags(reach.selection, remote.tags())
        yield remote


@contextmanager
def open_offering(arguments: Namespace) -> Generator[OpenedTarget, None, None]:
    """Open the target of ``arguments`` to list and read its resources and prompts; see ``open_target``.

    A URL is looked at as an MCP server without ``--protocol``: no other protocol has a word for either.
    """
    # MC-08
    is_url = isinstance(read_target(arguments.target), UrlTarget)
    reach = read_reach(
        arguments,
        protocol=arguments.protocol or ("mcp" if is_url else None),
        sign_in=read_client(arguments),
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
            raise UsageError(f"There is no tag {tag!r}. {there}.{meant}")
