"""Choose the list of tools for an MCP client: all tools, or three by which a model finds the others.

Rules:
- The choice for a session is made when it begins, and holds until it ends. A request without a session is judged by
  what is listed and by what it says of its client, so that all processes choose alike.
- A client that searches by itself gets all tools: another toolwire, or a host that says so in its documentation.
- What a client says of itself chooses a list, and nothing else: each tool is called with the same checks.
"""
# FI-01, FI-06

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final, TypeAlias

from toolwire.core.call_by_name import NAMES
from toolwire.core.catalog import Catalog
from toolwire.core.codec import BlockingTask, Deferred, ModelLists, Reading, Site
from toolwire.core.http import Request, get_header
from toolwire.core.model import Json, Tool
from toolwire.framing.jsontext import get_object, get_text

from .answers import AskedMethod, Method, answer_page
from .consent_question import declares_forms
from .host_profiles import YES, find_profile
from .revision import CAPABILITIES_META, CLIENT_META, LIST_HEADER

SHORT: Final = "short"
ALL: Final = "all"
_OWN: Final = "toolwire"
_MAX_DIGITS: Final = 8

Pages: TypeAlias = Mapping[Json, bytes]


class ListChoice:
    """The choice between ``catalog`` and its short list, by ``lists``, for the clients of ``site``.

    What takes long is deferred: it reads the schemas of the tools, until they are too long.
    """

    # D-34

    def __init__(self, catalog: Catalog, lists: ModelLists, site: Site) -> None:
        self._catalog, self._defer = catalog, site.defer
        self.shorten: Callable[[], Catalog] = cache(lambda: lists.shorten(catalog))
        """Returns the short list."""

        self._needs_short: Mapping[bool, Deferred[bool]] = {
            forms: site.defer(partial(lists.needs_short, catalog, shows_forms=forms)) for forms in (False, True)
        }

    def depends_on_client(self) -> bool:
        """Return whether clients get different lists; this may take long."""
        return self._needs_short[True].get()

    def choose(self, asked: AskedMethod, answer: Callable[[str], Reading | BlockingTask]) -> Reading | BlockingTask:
        """Return what ``answer`` returns for the list of the client, ``SHORT`` or ``ALL``."""
        found = _find_choice(asked)
        if isinstance(found, str):
            return answer(found)
        return self._needs_short[found].read(lambda is_short: answer(SHORT if is_short else ALL))

    def answer_lists(self, write: Callable[[Catalog], Pages]) -> Method:
        """Return what answers with the list of the client, as ``write`` writes it."""
        lists = {ALL: self._defer(lambda: write(self._catalog)), SHORT: self._defer(lambda: write(self.shorten()))}

        def choose(needs_short: Deferred[bool]) -> Pages:
            return lists[SHORT if needs_short.get() else ALL].get()

        # One task for the choice and the list: a reader has no second one.
        by_forms = {forms: self._defer(partial(choose, needs)) for forms, needs in self._needs_short.items()}

        def answer(asked: AskedMethod) -> Reading | BlockingTask:
            found = _find_choice(asked)
            pages = lists[found] if isinstance(found, str) else by_forms[found]
            return pages.read(lambda written: answer_page(written, asked))

        return answer

    def answer_calls(self, short: Method, whole: Method) -> Method:
        """Return what answers calls: of the three tools by ``short``, unless the client knows others by their names."""

        def answer(asked: AskedMethod) -> Reading | BlockingTask:
            name = asked.params.get("name")
            if not isinstance(name, str) or name not in NAMES:
                return whole(asked)
            if not isinstance(self._catalog.find(name), Tool):
                return short(asked)  # a list that is short enough by now takes from no model what it was given
            return self.choose(asked, lambda choice: (short if choice == SHORT else whole)(asked))

        return answer


def _find_choice(asked: AskedMethod) -> str | bool:
    """Return ``SHORT`` or ``ALL``, if that is settled; or whether the client of ``asked`` shows forms."""
    params = asked.params
    meta = get_object(params, "_meta")
    if (declared := get_header(asked.request.headers, LIST_HEADER).partition(" ")[0]) in (SHORT, ALL):
        return declared
    if is_own_client(asked.request) or find_client_name(params) == _OWN:
        return ALL
    profile = find_profile(find_client_name(params))
    if profile is not None and profile.search is not None and profile.search.says == YES:
        return ALL
    return declares_forms(get_object(params, "capabilities") or get_object(meta, CAPABILITIES_META))


def is_own_client(request: Request) -> bool:
    """Return whether another toolwire sends ``request``: a program, which searches tools and reads results itself."""
    return get_header(request.headers, b"user-agent").startswith(f"{_OWN}/")


def find_client_name(params: Mapping[str, Json]) -> str:
    """Return what the client of a request calls itself in it; empty if the request does not say."""
    client = get_object(params, "clientInfo") or get_object(get_object(params, "_meta"), CLIENT_META)
    return get_text(client, "name")


def find_part_size(asked: AskedMethod, limit: int | None) -> int:
    """Return the characters above which the model of the client reads a result in parts; 0 if it reads each whole.

    ``limit`` is that of the site; None leaves it to the profile of a known host. A program may be any other client.
    """
    # QF-10
    if limit == 0:
        return 0
    if limit is not None:
        return 0 if is_own_client(asked.request) else limit
    if name := find_client_name(asked.params):
        profile = find_profile(name)
        return 0 if profile is None else profile.characters
    declared = get_header(asked.request.headers, LIST_HEADER).partition(" ")[2]
    return int(declared) if declared.isascii() and declared.isdigit() and len(declared) < _MAX_DIGITS else 0
