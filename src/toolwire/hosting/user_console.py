"""Put together what the console of one user shows, and the chat in the browser: from the stores of this user."""
# CO-02, CO-03

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from toolwire.auth.credential import name_as
from toolwire.client import Session
from toolwire.client.calls.agreements import UntrustedTools
from toolwire.client.connection.connect import connect_sync
from toolwire.client.login.saved_credentials import open_credentials
from toolwire.consent.tool_definition import build_definition, definition_hash
from toolwire.console import ConsoleSource
from toolwire.console.app import PageGroup
from toolwire.console.chat import Conversation, ModelChoice, ModelSettings, ModelStore, build_chat_group
from toolwire.console.source import ConnectionRow, ToolRow
from toolwire.core.catalog import Catalog
from toolwire.core.errors import DefinitionError, ToolwireError
from toolwire.core.model import Kind, Problem, Secret, Tool
from toolwire.core.url_origin import complete_url
from toolwire.limits import CLIENT_DEFAULTS
from toolwire.stores.consent.agreed_digests import open_agreed_commands
from toolwire.stores.consent.open import Place, is_in_database
from toolwire.stores.ledger.call_overview import CallOverview
from toolwire.stores.paths import find_state_folder

from .operator_console import CHANGED_MEANWHILE, describe_tool, list_calls, list_trust_notes
from .targets.target import UrlTarget, read_target
from .targets.url_options import read_lock_file

_LAST_DECISIONS = 1_000


def build_source(
    place: Place,
    *,
    lock: Path = Path("toolwire.lock"),
    targets: Sequence[str] = (),
    ledger: str | None = None,
) -> ConsoleSource:
    """Return what the console of this user shows, from ``place``, the file of the lock and the ledger of a server.

    Raises:
        UsageError: a target is no URL.
    """
    given = [_read_url(text) for text in targets]
    calls = CallOverview(ledger) if ledger else None
    source = ConsoleSource(
        place=place,
        list_connections=lambda: _list_connections(source, given),
        list_site_tools=lambda url: _list_site_tools(source, url),
        trust_tools=lambda url, digests, _: _trust_tools(source, url, digests),
        list_locked=lambda: [
            (url, len(tools)) for url, tools in read_lock_file(lock, optional=True).connections.items()
        ],
        lock_name=lock.name,
        find_differences=lambda url: _find_differences(lock, url),
        list_calls=None if calls is None else lambda: list_calls(calls),
        cancel_call=None if calls is None else calls.ask_cancel,
        limit_notes=_LIMIT_NOTES,
    )
    return source


_TOOL_LIMIT = CLIENT_DEFAULTS.tool.max if CLIENT_DEFAULTS.tool else 0
_CONNECTION_LIMIT = CLIENT_DEFAULTS.connection.max if CLIENT_DEFAULTS.connection else 0
_RATES = f"At most {_TOOL_LIMIT} calls per minute for each tool, and {_CONNECTION_LIMIT} for each connection."
_LIMIT_NOTES = (
    f"{_RATES} This applies to protocols whose servers do not limit calls themselves.",
    "You are asked at most 10 questions per minute. After three denials, you are no longer asked about that tool.",
    "A permission lasts at most 30 days. The Permissions page shows how many calls each one has left.",
)


def _list_connections(source: ConsoleSource, given: Sequence[str]) -> list[ConnectionRow]:
    """Return the sites that this user has something to do with, and the programs that they agreed to run."""
    found: dict[str, ConnectionRow] = {}
    for each in sorted(open_credentials().list_all(), key=lambda one: (one.resource, one.account)):
        if each.principal and not each.account:
            continue
        access = f"{'with a key of yours' if each.kind == 'key' else 'signed in'}{name_as(each.account)}"
        older = found.get(each.resource, ConnectionRow(url=each.resource, access=""))
        access = f"{older.access}, {access}" if older.access else access
        scopes = tuple(dict.fromkeys((*older.scopes, *each.scopes)))
        found[each.resource] = ConnectionRow(url=each.resource, access=access, scopes=scopes)
    named = [(url, "given when the console was started") for url in given]
    named += [(grant.key.origin, "has a permission") for grant in source.grants.list_grants()]
    named += [(level.site, "has a rule of yours") for level in source.preferences.list_levels()]
    for number, entry in enumerate(source.audit.iterate_back()):
        if number == _LAST_DECISIONS:
            break
        named.append((entry.record.site, "was asked about"))
    for url, access in named:
        if url and not any(one == url or one.startswith(f"{url}/") for one in found):
            found[url] = ConnectionRow(url=url, access=access)
    programs = sorted(open_agreed_commands(find_state_folder()).list_all().values())
    rows = [ConnectionRow(url=f"stdio:{text}", access="a program that you agreed to run") for text in programs]
    return [*found.values(), *rows]


def _list_site_tools(source: ConsoleSource, url: str) -> list[ToolRow] | Problem:
    """Return the tools at ``url`` as the user's rules see them. None is called, and no sign-in begins."""
    untrusted: dict[str, tuple[str, tuple[str, ...]]] = {}

    def agree(tools: tuple[Tool, ...]) -> bool:
        known = tools.changes if isinstance(tools, UntrustedTools) else {}
        for tool in tools:
            untrusted[tool.id] = _digest_tool(tool), list_trust_notes(tool, known.get(tool.id, ()))
        return False

    try:
        with connect_sync(url, session=_open_session(source), agree=agree) as remote:
            catalog: Catalog = remote.catalog()
            rows: list[ToolRow] = []
            for name, tool in catalog.names.items():
                digest, notes = untrusted.get(tool.id, ("", ()))
                row = describe_tool(name, tool, remote.find_level(tool))
                rows.append(replace(row, untrusted=digest, notes=notes))
            return rows
    except ToolwireError as error:
        return Problem(kind=Kind.UNREACHABLE, message=str(error))


def _trust_tools(source: ConsoleSource, url: str, digests: Collection[str]) -> str:
    """Trust the tools at ``url`` that are still as they were shown; return why that cannot be, or an empty text."""
    # QF-01
    missing = set(digests)

    def agree(tools: tuple[Tool, ...]) -> list[str]:
        chosen = {tool.id: _digest_tool(tool) for tool in tools if _digest_tool(tool) in digests}
        missing.difference_update(chosen.values())
        return list(chosen)

    try:
        with connect_sync(url, session=_open_session(source), agree=agree):
            return CHANGED_MEANWHILE if missing else ""
    except ToolwireError as error:
        return str(error)


def _open_session(source: ConsoleSource) -> Session:
    """Return the session of this user's programs, with the stores of the console."""
    return Session(principal="me", grants=source.grants, audit=source.audit, preference_store=source.preferences)


def _digest_tool(tool: Tool) -> str:
    return definition_hash(build_definition(tool))


def _find_differences(file: Path, url: str) -> list[str] | Problem:
    try:
        with connect_sync(url, session=Session()) as remote:
            found = read_lock_file(file, optional=True).find_differences(url, remote.definitions())
            return [line for one in found for line in one.list_lines()]
    except (ToolwireError, ValueError) as error:
        return Problem(kind=Kind.UNREACHABLE, message=str(error))


def _read_url(text: str) -> str:
    target = read_target(text)
    if not isinstance(target, UrlTarget):
        raise DefinitionError(f"{text} is not a URL. The console needs server URLs.")
    return complete_url(target.text)


class BrowserChat(NamedTuple):
    """A chat, and its pages."""

    conversation: Conversation
    group: PageGroup


def build_browser_chat(
    source: ConsoleSource, session: Session, *, given: ModelSettings | None = None, given_key: Secret | None = None
) -> BrowserChat:
    """Return the chat of this user over the stores of ``source``, with ``session``; ``given`` is the model to use.

    Raises:
        DefinitionError: another user of the machine can write where the settings are.
    """
    credentials = open_credentials()
    # Which model one talks to is a setting of this machine, also if decisions are in a database.
    folder = find_state_folder() if is_in_database(source.place) else Path(source.place)
    choice = ModelChoice(ModelStore(folder, credentials), given=given, given_key=given_key)
    conversation = Conversation(choice.make_model, session=session, credentials=credentials)
    return BrowserChat(conversation, build_chat_group(conversation, source, choice))
