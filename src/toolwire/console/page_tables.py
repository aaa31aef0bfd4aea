"""Define what a console consists of: its pages and actions by path, whom it lets in, and what its pages hear of."""
# CO-02, GW-04

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from toolwire.core.model import Problem
from toolwire.server.access.browser_session import BrowserSession
from toolwire.server.http.exchange import Scope

from .events import MAX_STREAMS
from .page import Action, PageRequest, SignInWords
from .sessions import SessionUser

OPERATOR_WORDS: Final = SignInWords(
    "console",
    "Sign in to the console",
    "The link that the terminal printed contains it, after the #.",
    "This key is invalid or was already used. The terminal has printed a new one.",
)


FindSessionUser: TypeAlias = Callable[[Sequence[tuple[bytes, bytes]]], Awaitable[SessionUser | Problem | None]]
"""Returns the user who is signed in at the browser that sent these header fields, or None.

A Problem says why a person who is signed in is not let in here.
"""


def see_all_topics(_session: BrowserSession) -> None:
    """Return None: each session hears of every topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTables:
    """The pages and actions of one console by path, and the places of its navigation.

    ``key_names`` are the only names whose keys may open the console, None where ``sign_in`` alone knows them.
    ``find_user`` finds a person who is signed in at the server itself, at ``login_path``: they need no key. Without
    ``takes_keys``, that is the only way in.
    ``read_topics`` returns for each topic something that is equal as long as nothing changes; it runs in a thread.
    ``find_topics`` returns the topics that a session hears of, None for all. ``name`` begins the name of the cookie.
    With ``stores_sessions``, only a session counts that is known to have begun: others can read what signs its cookie.
    One user has at most ``streams_each`` open pages that hear of changes. ``announce`` gets the scope of each request
    for the application behind the console.
    """

    pages: Mapping[str, Action]
    actions: Mapping[str, Action]
    list_places: Callable[[PageRequest], Sequence[tuple[str, str]]]
    read_topics: Callable[[], Mapping[str, object]]
    find_topics: Callable[[BrowserSession], Collection[str] | None] = see_all_topics
    name: str = "console"
    words: SignInWords = OPERATOR_WORDS
    find_user: FindSessionUser | None = None
    login_path: str = ""
    takes_keys: bool = True
    key_names: Collection[str] | None = None
    stores_sessions: bool = False
    streams_each: int = MAX_STREAMS
    announce: Callable[[Scope], None] | None = None
