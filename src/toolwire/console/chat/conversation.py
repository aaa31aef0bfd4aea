"""Hold the state of one browser chat: the sites, the model, the messages, and what waits for the user.

Rules:
- Each call passes the same checks and questions as that of every other client; the model has no other way to a site.
- A site is connected in a thread of its own, and a message is answered in another. The pages read what is there.
- What waits for the user (a question, a sign-in, a form of a server) waits for five minutes at most.
"""
# CO-03

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from toolwire.adapters.conversation import Model, ModelCall, ModelResult, ModelTurn, converse
from toolwire.adapters.dialects import Provider
from toolwire.adapters.find_tools import offer_find
from toolwire.adapters.tool_declarations import read_call, read_stored_result, write_result
from toolwire.client import Session, SyncRemote, connect_sync
from toolwire.client.approvers.browser_approver import InputServer, QuestionServer
from toolwire.client.connection.combined_remote import CombinedRemote
from toolwire.client.connection.connection import find_unused_document
from toolwire.client.login.sign_in import SignInUser
from toolwire.consent.binding import DECISION_VALID_S
from toolwire.core.catalog import Catalog
from toolwire.core.check import Answer, Question
from toolwire.core.codec import ConnectError
from toolwire.core.errors import ToolwireError
from toolwire.core.model import Call, Json, Kind, Problem, Result, Tool
from toolwire.core.selection import DEFAULT_SELECTION
from toolwire.core.toolbox import ToolHome, find_home
from toolwire.core.url_origin import get_origin
from toolwire.core.user_input import CANCELLED, InputRequest, InputResponse
from toolwire.stores.credentials.files import CredentialStore

_log = logging.getLogger("toolwire.console")
_NO_OPTIONS: Final[Mapping[str, Any]] = {}
MAX_SITES: Final = 20
MAX_MESSAGES: Final = 500
MAX_MESSAGE_CHARS: Final = 20_000
WAIT_S: Final = DECISION_VALID_S

ModelMaker: TypeAlias = Callable[[Any], "tuple[Model, Provider]"]
"""Makes the model of a conversation over the tools of a box.

Raises:
    ModelError: no model is set, or it cannot be used.
"""


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """A message: of the user, of the model, or of the program itself about what went wrong."""

    who: Literal["you", "model", "fault"]
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEntry:
    """A call that the model asked for, and its result. ``tool`` is None if there is no such tool."""

    name: str
    arguments: Json
    tool: Tool | None
    result: Result
    site: str


Entry: TypeAlias = MessageEntry | ToolCallEntry


class Choice:
    """A yes or no that the user is asked for, in whole sentences; ``link`` is a page that they are sent to."""

    def __init__(self, heading: str, lines: Sequence[str], *, yes: str, link: str = "") -> None:
        self.id: str = secrets.token_hex(8)
        self.heading: str = heading
        self.lines: tuple[str, ...] = tuple(lines)
        self.yes: str = yes
        self.link: str = link
        self.answer: bool | None = None
        self.done: threading.Event = threading.Event()


Waiting: TypeAlias = "QuestionServer | InputServer | Choice"


@dataclass(slots=True)
class Site:
    """A site of the chat. ``remote`` is None until it is connected; ``fault`` says why it is not.

    ``remedy`` is what the user can choose then: ``unmarked`` takes the operations that the site does not mark for
    models, ``later_version`` a document of a later version, and ``""`` is nothing.
    """

    id: str
    url: str
    options: Mapping[str, Any]
    state: Literal["connecting", "connected", "failed"] = "connecting"
    fault: str = ""
    remedy: str = ""
    remote: SyncRemote | None = None
    open_: ExitStack = field(default_factory=ExitStack)


_REMEDIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "unmarked": {"include": "all"},
    "later_version": {"any_version": True},
}


def _find_remedy(url: str, error: Exception) -> str:
    document = find_unused_document(url, error.probes) if isinstance(error, ConnectError) else None
    return document.reason if document is not None and document.reason in _REMEDIES else ""


class SiteBox:
    """The tools of all connected sites, for a model: another catalog as soon as a site comes or goes."""

    def __init__(self, find_remotes: Callable[[], list[SyncRemote]]) -> None:
        self._find_remotes = find_remotes
        self._combined: tuple[list[SyncRemote], SyncRemote | CombinedRemote | None] = ([], None)
        self.model_box: SyncRemote | CombinedRemote | None = None
        """What the model has of it: three tools by which it finds the others, where they are too many."""

    @property
    def box(self) -> SyncRemote | CombinedRemote | None:
        """The one site, or all sites together; None without any."""
        remotes, (known, box) = self._find_remotes(), self._combined
        if remotes != known:
            box = None if not remotes else remotes[0] if len(remotes) == 1 else CombinedRemote(remotes)
            self.model_box = None if box is None else offer_find(box)  # FI-09: until a site comes or goes
            self._combined = remotes, box
        return box

    def catalog(self) -> Catalog:
        """Return the tools of all sites, as the model has them."""
        return _NO_TOOLS if self.box is None or self.model_box is None else self.model_box.catalog()

    def call(self, name: str, arguments: Any, /) -> Result:
        """Call a tool with all checks of its connection."""
        if self.box is None or self.model_box is None:
            return Problem(kind=Kind.UNKNOWN_TOOL, message="No server is connected.")
        return self.model_box.call(name, arguments)


_NO_TOOLS: Final = Catalog()


class Conversation:
    """The chat of one user. ``make_model`` is asked at the first message, and again after a change of the settings."""

    def __init__(
        self,
        make_model: ModelMaker,
        *,
        session: Session,
        credentials: CredentialStore | None = None,
    ) -> None:
        self._make_model = make_model
        self._session = session
        self._credentials = credentials
        self._lock = threading.Lock()
        self._model: tuple[Model, Provider] | None = None
        self._entries: list[Entry] = []
        self._number = 0
        self._sites: dict[str, Site] = {}
        self._waiting: dict[str, Waiting] = {}
        self._is_busy = False
        self._box = SiteBox(self._list_remotes)
        self.notify: Callable[[str], None] = lambda _: None

    # What the pages show

    @property
    def is_busy(self) -> bool:
        """Whether a message is being answered."""
        return self._is_busy

    def list_entries(self) -> list[tuple[int, Entry]]:
        """Return the messages and calls with their numbers, in order."""
        with self._lock:
            return list(enumerate(self._entries, self._number))

    def list_sites(self) -> list[Site]:
        """Return the sites."""
        with self._lock:
            return list(self._sites.values())

    def list_waiting(self) -> list[tuple[str, Waiting]]:
        """Return what waits for the user, the oldest first."""
        with self._lock:
            return list(self._waiting.items())

    def find_waiting(self, id_: str) -> Waiting | None:
        """Return what waits under an id, or None."""
        with self._lock:
            return self._waiting.get(id_)

    # What the user does

    def connect(self, url: str, options: Mapping[str, Any] = _NO_OPTIONS) -> str:
        """Begin to connect a site, and return what is wrong with it, or an empty text.

        ``options`` are further ones of ``connect_sync``, such as a key, for this site alone.
        """
        with self._lock:
            if any(get_origin(one.url) == get_origin(url) and one.state != "failed" for one in self._sites.values()):
                return "This server is already connected."
            if len(self._sites) >= MAX_SITES:
                return f"A chat can use at most {MAX_SITES} servers. Disconnect one first."
            site = Site(secrets.token_hex(8), url, options)
            self._sites[site.id] = site
        threading.Thread(target=self._open_site, args=(site,), name="toolwire-chat-connect", daemon=True).start()
        return ""

    def take_remedy(self, id_: str) -> str:
        """Connect a failed site again as its ``remedy`` says; return what is wrong, or an empty text."""
        # FU-51
        with self._lock:
            site = self._sites.get(id_)
        chosen = _REMEDIES.get("" if site is None else site.remedy)
        if site is None or chosen is None:
            return "This server was disconnected, or there is nothing to choose."
        self.disconnect(id_)
        selection = site.options.get("selection", DEFAULT_SELECTION)
        return self.connect(site.url, {**site.options, "selection": replace(selection, **chosen)})

    def disconnect(self, id_: str) -> bool:
        """Close a site. Return whether there was one."""
        with self._lock:
            site = self._sites.pop(id_, None)
        if site is None:
            return False
        site.open_.close()
        self._notify()
        return True

    def send(self, text: str) -> bool:
        """Give a message to the model. Return False while an earlier one is being answered."""
        with self._lock:
            if self._is_busy:
                return False
            self._is_busy = True
        self._add(MessageEntry("you", text[:MAX_MESSAGE_CHARS]))
        threading.Thread(
            target=self._answer, args=(text[:MAX_MESSAGE_CHARS],), name="toolwire-chat", daemon=True
        ).start()
        return True

    def start_again(self) -> None:
        """Forget the conversation, and take the model as it is set now."""
        with self._lock:
            if not self._is_busy:
                self._number += len(self._entries)
                self._entries.clear()
                self._model = None
        self._notify()

    def choose_model_again(self) -> None:
        """Take the model as it is set now, from the next message on; it does not know the earlier ones."""
        with self._lock:
            self._model = None

    def remove_question(self, id_: str) -> None:
        """Take away what was answered."""
        with self._lock:
            waiting = self._waiting.pop(id_, None)
        if waiting is not None:
            waiting.done.set()
        self._notify()

    def close(self) -> None:
        """Deny what waits, and close all sites."""
        for id_, _ in self.list_waiting():
            self.remove_question(id_)
        for site in self.list_sites():
            self.disconnect(site.id)

    # What happens in threads

    def _open_site(self, site: Site) -> None:
        user = SignInUser(
            show=lambda _: None, open_page=self._open_sign_in, allow_server=self._allow_server, wait_s=WAIT_S
        )
        try:
            site.remote = site.open_.enter_context(
                connect_sync(
                    site.url,
                    approve=self._approve,
                    provide_input=self._provide_input,
                    session=self._session,
                    user=user,
                    agree=site.options.get("agree", self._agree),
                    approve_relocation=self._approve_relocation,
                    credential_store=self._credentials,
                    **{name: value for name, value in site.options.items() if name != "agree"},
                )
            )
            site.state = "connected"
        except (ToolwireError, ValueError) as error:
            site.remedy = _find_remedy(site.url, error)
            site.state, site.fault = "failed", str(error)
        self._drop_links()
        with self._lock:
            is_gone = site.id not in self._sites
        if is_gone:
            site.open_.close()
        self._notify()

    def _list_remotes(self) -> list[SyncRemote]:
        return [one.remote for one in self.list_sites() if one.remote is not None and one.state == "connected"]

    def _answer(self, text: str) -> None:
        try:
            if self._model is None:
                self._model = self._make_model(self._box)
            model, provider = self._model
            if not converse(model, text, lambda call: self._run_call(provider, call), self._show_turn):
                self._add(
                    MessageEntry(
                        "fault", "The model requested too many calls in one turn. It now waits for your next message."
                    )
                )
        except ToolwireError as error:
            self._add(MessageEntry("fault", str(error)))
        except Exception:  # noqa: BLE001 - the user learns that it failed, and the log has the details
            _log.exception("answering a message failed")
            self._add(MessageEntry("fault", "The program failed. See its log."))
        finally:
            with self._lock:
                self._is_busy = False
            self._notify()

    def _show_turn(self, turn: ModelTurn) -> None:
        if turn.text.strip():
            self._add(MessageEntry("model", turn.text.strip()))

    def _run_call(self, provider: Provider, call: ModelCall) -> ModelResult:
        catalog = self._box.catalog()
        asked = read_call(catalog, provider, call.name, call.arguments)
        if (stored := read_stored_result(self._box, asked)) is not None:
            return stored
        home = ToolHome()
        if isinstance(asked, Call):
            home = find_home(self._box.model_box, asked.tool)
            result, tool = self._box.call(asked.tool.id, dict(asked.arguments)), asked.tool
            arguments: Json = dict(asked.arguments)
            self._drop_links()
        else:
            result, tool, arguments = asked, None, call.arguments
        self._add(ToolCallEntry(call.name, arguments, tool, result, self._find_site(tool)))
        return write_result(catalog, asked, result, provider, home=home, toolbox=self._box)

    def _find_site(self, tool: Tool | None) -> str:
        """Return the site of a tool, where it is clear."""
        remotes = self._list_remotes()
        if tool is None or not remotes:
            return ""
        if len(remotes) == 1:
            return get_origin(remotes[0].url)
        box = self._box.box
        found = [one for one in remotes if isinstance(box, CombinedRemote) and tool.id in box.list_own_ids(one)]
        return get_origin(found[0].url) if found else ""

    def _add(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)
            if len(self._entries) > MAX_MESSAGES:
                del self._entries[0]
                self._number += 1
        self._notify()

    def _notify(self) -> None:
        self.notify("chat")

    # What the user is asked, by the threads

    def _wait(self, id_: str, waiting: Waiting) -> None:
        with self._lock:
            self._waiting[id_] = waiting
        self._notify()
        waiting.done.wait(WAIT_S)
        with self._lock:
            self._waiting.pop(id_, None)
        self._notify()

    def _approve(self, question: Question) -> Answer:
        asked = QuestionServer(question)
        self._wait(asked.token, asked)
        return asked.answer or Answer(allowed=False, reason="timeout", channel="chat")

    def _provide_input(self, request: InputRequest) -> InputResponse:
        asked = InputServer(request)
        self._wait(asked.token, asked)
        return asked.response or CANCELLED

    def _ask(self, choice: Choice) -> bool:
        self._wait(choice.id, choice)
        return choice.answer is True

    def _open_sign_in(self, url: str) -> bool:
        """Show the link to the page where the user signs in. It does not wait: the answer comes to another listener."""
        site = get_origin(url)
        lines = [f"The page of {site} asks what this chat is allowed to do. Come back here when it tells you to."]
        choice = Choice("Sign in to go on", lines, yes="", link=url)
        self._drop_links()
        with self._lock:
            self._waiting[choice.id] = choice
        self._notify()
        return True

    def _drop_links(self) -> None:
        """Take the links to sign in away: what waited for the user has gone on, or waits for another page."""
        with self._lock:
            for id_ in [id_ for id_, one in self._waiting.items() if isinstance(one, Choice) and one.link]:
                del self._waiting[id_]

    def _allow_server(self, site: str, origin: str) -> bool:
        lines = [
            f"{site} wants you to sign in at {origin}, which is a different server.",
            "The server learns who you are there.",
        ]
        return self._ask(Choice("Sign in at a different server?", lines, yes="Sign in there"))

    def _approve_relocation(self, *where: Any) -> bool:
        lines = [f"{where[0]} redirects you to {where[-1]}, which is a different server."]
        return self._ask(Choice("Continue to a different server?", lines, yes="Go there"))

    def _agree(self, tools: tuple[Tool, ...]) -> bool:
        lines = [
            "The server says that these tools need no question. It cannot prove that they are harmless.",
            *(f"{one.name}: {one.description.strip().partition(chr(10))[0]}" for one in tools),
        ]
        return self._ask(Choice("Let these tools run without a question?", lines, yes="Let them run"))
