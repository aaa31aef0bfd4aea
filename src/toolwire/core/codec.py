"""Define a protocol as a frozen record of pure functions, and a Flow as a conversation without a network.

Rules:
- ``routes`` runs once for each catalog. It prepares everything that does not depend on a request; what takes long for
  many tools, such as a list, is a ``Deferred``.
- A reader never raises: for any bytes it returns a call to run, a call to stream, a subscription, or a response.
- ``find`` changes nothing on the server: it tries GET before POST and sends no credentials.
- ``Peer.memo`` is what a codec remembers about a peer; no other code reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MethodType
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from .call_status import CallPage, CallStatus
from .catalog import NAME, Catalog
from .check import Answer, Question
from .errors import ToolwireError
from .http import Headers, Request, Response
from .model import Call, Json, Kind, Problem, Progress, Result, Tool
from .resources import DEFAULT_RESULT_LIMITS, Resources, ResultLimits
from .selection import Selection
from .server_features import ServerFeatures
from .tool_names import add_digest
from .toolbox import OutputPromise, judge_unknown_output
from .url_display import show_url
from .user_input import InputRequest

T = TypeVar("T")


class Pending(NamedTuple):
    """A call to run. ``reply(result, duration_ms)`` returns the response in the form that the request asked for.

    With ``as_event``, its body may go as the one event of a stream, to a client that takes streams and waits for long.
    """

    call: Call
    reply: Callable[[Result, float], Response]
    as_event: bool = False


make_pending: Final = cast(
    "Callable[[tuple[Call, Callable[[Result, float], Response], bool]], Pending]", MethodType(tuple.__new__, Pending)
)
"""Make a ``Pending`` from a tuple, in half the time of ``Pending(...)``: one is made for each call."""


class Streaming(NamedTuple):
    """A call that streams: the body is ``opening``, one ``frame`` for each Progress, then ``closing``.

    ``refuse`` returns the whole response to a problem that arose before the tool ran, and ``answer`` that to a result
    before which nothing was sent, if it need not be a stream. ``comment`` is what a client skips, for times in which
    the call reports nothing; empty if the format has no such thing.
    """

    call: Call
    headers: Headers
    opening: bytes
    frame: Callable[[Progress], bytes]
    closing: Callable[[Result, float], bytes]
    refuse: Callable[[Problem], Response]
    comment: bytes = b""
    answer: Callable[[Result, float], Response] | None = None


class RemoteChanges(NamedTuple):
    """What changed in other processes: the ``lists`` that the client may see, and the ``uris`` of resources.

    ``has_gap`` means that more has changed, and it is not known what.
    """

    lists: frozenset[str] = frozenset()
    uris: frozenset[str] = frozenset()
    has_gap: bool = False

    def has_list(self, name: str) -> bool:
        """Return whether the list ``name`` has changed, or may have."""
        return self.has_gap or name in self.lists

    def has_resource(self, uri: str) -> bool:
        """Return whether the resource at ``uri`` has changed, or may have."""
        return self.has_gap or uri in self.uris


NO_REMOTE_CHANGES: Final = RemoteChanges()


class Subscription(NamedTuple):
    """A stream of changes of the catalog, for as long as the client listens; no tool runs.

    The body is ``opening(now)``, then ``frame(before, now, told)`` for each change of the lists here or in another
    process (empty if it does not concern the client), and ``closing`` when the server ends it. ``refuse`` returns the
    response if there is no room for another stream. ``frame_updates(now, told)`` is what there is to tell of single
    resources, at each look; None if nothing ever.
    """

    headers: Headers
    opening: Callable[[Catalog], bytes]
    frame: Callable[[Catalog, Catalog, RemoteChanges], bytes]
    closing: bytes
    refuse: Callable[[Problem], Response]
    frame_updates: Callable[[Catalog, RemoteChanges], bytes] | None = None


class SessionStart(NamedTuple):
    """The answer to a client that begins: without a session, and within one that the server keeps for it.

    ``capabilities`` is what the client declares. ``has_forms``: it shows forms or pages to its user, so that the server
    could ask in a session. ``has_id``: requests can name their session. ``refuse`` returns the response if a session
    is needed and there is no room for it.
    """

    stateless: Response
    lasting: Response
    capabilities: Mapping[str, Json]
    has_forms: bool
    has_id: bool
    refuse: Callable[[Problem], Response]


class CallAction(StrEnum):
    """What a request does with long calls of its caller."""

    READ = "read"
    LIST = "list"
    CANCEL = "cancel"
    ANSWER = "answer"


class CallQuery(NamedTuple):
    """A request about long calls of its caller; no tool runs. ``reply`` returns the response to the outcome.

    A ``read`` waits for up to ``wait_s`` seconds for the end of the call. With ``frame`` it is a stream instead: the
    status at once and after each change, as ``frame`` writes it. ``awaits_consent``: it waits also while the user of
    the call decides in the inbox. ``limit`` and ``cursor`` are of a list, ``answers`` of an answer.
    """

    # LC-02

    action: CallAction
    reply: Callable[[CallStatus | CallPage | Problem], Response]
    call_id: str = ""
    wait_s: float = 0.0
    awaits_consent: bool = False
    limit: int = 0
    cursor: str = ""
    answers: Mapping[str, Json] = {}
    frame: Callable[[CallStatus | Problem], bytes] | None = None


class BlockingTask(NamedTuple):
    """Work that takes long, which an event loop leaves to a thread. A flow gets what ``run`` returns.

    A reader that returns one answers the same request after ``run`` has returned.
    """

    run: Callable[[], Any]


Reading: TypeAlias = Pending | Streaming | Subscription | CallQuery | SessionStart | Response
Reader: TypeAlias = Callable[[Request], Reading | BlockingTask]


class Route(NamedTuple):
    """The reader of one method and path.

    ``is_public`` needs no credentials; ``runs_tool``: a request runs a tool; ``takes_any_host``: a probe may use any
    Host, such as the address of a container. ``is_tool_free``: the response names no tool, so that it stays public
    where the tools are for known callers alone. ``has_sessions``: requests may belong to a session that the server
    keeps.
    """

    read: Reader
    is_public: bool = False
    runs_tool: bool = False
    takes_any_host: bool = False
    is_tool_free: bool = False
    has_sessions: bool = False


Routes: TypeAlias = Mapping[tuple[str, str], Route]
"""The route of each (METHOD, path). There are no patterns: one dictionary lookup finds the reader."""


Describe: TypeAlias = Callable[[Tool, str], Any]
"""Return what a protocol says of a tool, given the tool and the name in the protocol's list."""


class ToolCache:
    """Values that codecs derive from single tools, kept while a server offers those tools.

    A codec builds its lists for each catalog and each set of scopes. Values of single tools, such as the bytes of a
    definition, are computed once and looked up here.
    """

    __slots__ = ("_stored",)

    def __init__(self) -> None:
        self._stored: dict[Callable[[Tool, str], Any], dict[tuple[int, str], tuple[Tool, Any]]] = {}

    def get(self, derive: Callable[[Tool, str], T], tool: Tool, name: str) -> T:
        """Return ``derive(tool, name)``, computed once for each tool and name."""
        stored = self._stored.get(derive)
        if stored is None:
            stored = self._stored[derive] = {}
        found = stored.get((id(tool), name))
        if found is None:  # the tool is kept beside the value, so that no other object can have its id
            found = stored[id(tool), name] = (tool, derive(tool, name))
        value: T = found[1]
        return value

    def drop_others(self, tools: Iterable[Tool]) -> None:
        """Forget what was derived from any other tool than ``tools``."""
        wanted = {id(tool) for tool in tools}
        for stored in list(self._stored.values()):  # copies: another thread may add values meanwhile
            for key in [key for key in list(stored) if key[0] not in wanted]:
                del stored[key]


class Deferred(Generic[T]):
    """A value that is built when a request first needs it, and then kept: a list of all tools, or a document.

    Without ``can_offload``, the reader that needs it builds it.
    """

    # Most servers are asked for the lists of one or two protocols, and those of many tools take seconds to write.

    __slots__ = ("_build", "_built", "_can_offload")

    def __init__(self, build: Callable[[], T], *, can_offload: bool) -> None:
        self._build = build
        self._can_offload = can_offload
        self._built: list[T] = []

    def get(self) -> T:
        """Return the value; the first time it is built."""
        if not self._built:
            self._built = [self._build()]
        return self._built[0]

    def read(self, answer: Callable[[T], Reading | BlockingTask]) -> Reading | BlockingTask:
        """Return what ``answer`` returns for the value, or the task that must build it first."""
        return BlockingTask(self.get) if self._can_offload and not self._built else answer(self.get())


def build_deferred_reader(response: Deferred[Response]) -> Reader:
    """Return the reader that answers each request with ``response``."""
    return lambda _: response.read(_get_itself)


def _get_itself(response: Response) -> Response:
    return response


NO_PAGE: Callable[[], str] = str
"""Finds no page: that of a server without an inbox."""


class ModelLists(Protocol):
    """Decides whether a list is too long for a model, and makes the short one that stands for it."""

    # FI-01

    def needs_short(self, catalog: Catalog, *, shows_forms: bool) -> bool:
        """Return whether a client that gives its list to a model gets the short one."""
        ...

    def shorten(self, catalog: Catalog) -> Catalog:
        """Return the short list, in which each tool of ``catalog`` is still found by its name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a codec knows about the server that it is served from.

    ``keys`` is true if calls need an API key. ``root`` is the path that the app is mounted under, empty at the root of
    its origin. Paths of routes are relative to it; URLs in documents include it. ``older_clients`` lets a client of an
    older dialect be recognised by its User-Agent if its request does not tell. ``cache`` holds values derived from
    single tools; all sites of one server share it.
    ``has_sessions`` is true if the server keeps sessions, for protocols that have them. ``host_confirmation`` is the
    confirmation word for calls of hosts that ask their users themselves; empty if such hosts are not trusted with that.
    ``requires_confirmation`` is true if calls that need consent must come with a confirmation where the host of the
    user cannot be asked. ``private`` is true if only known callers may learn which tools there are. ``can_offload`` is
    true if the server does the ``BlockingTask`` that a reader of a list returns once; else the reader does it itself.
    ``find_inbox_page`` returns the address at which the caller of this request decides in the inbox, empty without.
    ``judge_output`` says what the output schema of a tool is worth. ``sign_in`` is OpenAPI's security scheme by which a
    user signs in, None if there are only keys; ``takes_keys`` is false if callers have no other credentials.
    ``public_url`` is the address by which users call the server, empty if nobody has said it. ``shorten`` returns what
    is listed of a catalog on every protocol, and ``model_lists`` makes the lists of clients that give them to a model.
    ``part_characters`` is how much of a result the model of a client reads at once: 0 for all of it, and None for what
    the profile of its host says; with ``keeps_writes``, that is for calls that may write too.
    """

    # S-13

    keys: bool = False
    root: str = ""
    older_clients: bool = True
    cache: ToolCache = field(default_factory=ToolCache, repr=False, compare=False)
    host_confirmation: str = field(default="", repr=False)
    requires_confirmation: bool = False
    private: bool = False
    has_sessions: bool = False
    can_offload: bool = False
    find_inbox_page: Callable[[], str] = field(default=NO_PAGE, repr=False, compare=False)
    sign_in: Json = field(default=None, repr=False, compare=False)
    takes_keys: bool = True
    public_url: str = ""
    judge_output: Callable[[Tool], OutputPromise] = field(default=judge_unknown_output, repr=False, compare=False)
    shorten: Callable[[Catalog], Catalog] = field(default=lambda catalog: catalog, repr=False, compare=False)
    model_lists: ModelLists | None = field(default=None, repr=False, compare=False)
    part_characters: int | None = 0
    keeps_writes: bool = False

    def defer(self, build: Callable[[], T]) -> Deferred[T]:
        """Return the value that ``build`` returns for all tools, which is built when it is first needed."""
        return Deferred(build, can_offload=self.can_offload)


StreamItem: TypeAlias = Progress | Request | InputRequest
"""What a part of a stream brings: progress, a request to send meanwhile, or a question to the user."""


class Listen(NamedTuple):
    """A request whose response is read while it arrives, if it is a stream of events.

    ``read_chunk`` gets each piece of the body, in order and cut anywhere, and yields the progress that the piece
    completes. A ``ValueError`` from it ends the exchange. If it yields a ``Request``, that one is sent while the stream
    continues, and its response is dropped: so a client answers what the server asks within the stream. If it yields an
    ``InputRequest``, the user is asked, and the request that its ``respond`` returns is sent in the same way.

    A response that is no stream is returned whole. If ``is_brief``, the exchange has the time limit of a plain
    request.
    """

    request: Request
    read_chunk: Callable[[bytes], Iterable[StreamItem]]
    is_brief: bool = False


class Pause(NamedTuple):
    """A wait of ``seconds``; then the flow continues.

    With ``is_poll`` the server only wants to be asked again: the next request is part of what the user approved.
    """

    seconds: float
    is_poll: bool = False


FlowStep: TypeAlias = Request | Listen | Question | Pause | InputRequest | BlockingTask | Progress
"""What a flow needs before it can go on."""

Flow: TypeAlias = Generator[FlowStep, Any, T]
"""A generator that yields what it needs and is sent the result.

A ``Request`` or ``Listen`` gets a ``Response`` or a ``Problem``, a ``Question`` an ``Answer``, a ``Pause`` nothing,
an ``InputRequest`` an ``InputResponse``, and a ``BlockingTask`` what it returns. A ``Progress`` is passed on, and gets
nothing.
"""


class FlowEnd(NamedTuple):
    """The value that a flow returned. A StopIteration cannot leave a thread."""

    value: Any


def resume_flow(flow: Flow[Any], reply: Any) -> Any:
    """Send ``reply`` to ``flow``, and return its next step, or a ``FlowEnd`` with its value."""
    try:
        return flow.send(reply)
    except StopIteration as stop:
        return FlowEnd(stop.value)


def intercept(
    flow: Flow[T],
    on_request: Callable[[Request | Listen], Request | Listen | Response | Problem] | None = None,
    on_response: Callable[[FlowStep, Any], Any] | None = None,
) -> Flow[T]:
    """Run ``flow`` and return its value; see its requests before they are sent, and the replies before it gets them.

    ``on_request`` returns what is sent in place of a request, or the reply to it; then nothing is sent, and
    ``on_response`` is not called. ``on_response`` is given a step as ``flow`` yielded it, and the reply to it. It
    returns the reply for ``flow``, or a Request or Listen that is sent once more; the reply to that one is final.
    """
    reply: Any = None
    try:
        while True:
            step = flow.send(reply)
            changed: Any = step
            if on_request is not None and isinstance(step, (Request, Listen)):
                changed = on_request(step)
                if isinstance(changed, (Response, Problem)):
                    reply = changed
                    continue
            reply = yield changed
            if on_response is not None:
                reply = on_response(step, reply)
                if isinstance(reply, (Request, Listen)):
                    reply = yield reply
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        flow.close()  # ends the inner conversation too, where the outer one is abandoned


def map_request(step: Request | Listen, change: Callable[[Request], Request]) -> Request | Listen:
    """Return ``step`` with its request changed."""
    return step._replace(request=change(step.request)) if isinstance(step, Listen) else change(step)


def change_requests(flow: Flow[T], change: Callable[[Request], Request]) -> Flow[T]:
    """Run ``flow`` with each of its requests as ``change`` returns it, and return its value."""
    return intercept(flow, lambda step: map_request(step, change))


def fetch(request: Request) -> Flow[Response | Problem]:
    """Return the response to ``request``, or the Problem that the server cannot be reached."""
    response: Response | Problem = yield request
    return response


def listen(
    request: Request, read_chunk: Callable[[bytes], Iterable[StreamItem]], *, is_brief: bool = False
) -> Flow[Response | Problem]:
    """Return the response to ``request`` when it is complete; a stream goes to ``read_chunk`` and leaves no body."""
    response: Response | Problem = yield Listen(request, read_chunk, is_brief)
    return response


def ask(question: Question) -> Flow[Answer]:
    """Return the user's answer; if no approver is configured, it is a refusal."""
    # XL-053
    answer: Answer = yield question
    return answer


def pause(seconds: float, *, is_poll: bool = False) -> Flow[None]:
    """Wait for ``seconds``."""
    yield Pause(seconds, is_poll)


@dataclass(frozen=True, slots=True)
class Probe:
    """One request made to find out which protocol a server speaks. ``status`` is ``None`` if there was no response.

    ``reason`` is then the Problem's reason for programs, if the codec passes it on. ``names`` is the URL of another
    origin that the response names as the place of the tools; it was not requested.
    """

    # XL-005

    protocol: str
    url: str
    status: int | None
    meaning: str
    accepted: bool = False
    reason: str = ""
    names: str = ""

    def __repr__(self) -> str:
        return f"Probe(protocol={self.protocol!r}, url={show_url(self.url)!r}, status={self.status!r})"


class ConnectError(ToolwireError):
    """No protocol was found at a URL. ``probes`` contains every request that was tried, in order.

    ``kind`` is the reason. ``unauthorized``: a key is missing or wrong. ``unreachable``: no server answered.
    ``not_found``: a server answered, but speaks no protocol that toolwire supports. Otherwise it is ``None``.
    """

    # XL-005
    def __init__(self, message: str, probes: tuple[Probe, ...] = (), kind: Kind | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.probes = probes


class DeclaredAuth(NamedTuple):
    """What the document of a server declares about signing in, as data that nothing has checked yet.

    ``base`` is the URL of the document. ``schemes`` are its security schemes by name, without references. The other
    two are URLs of llm.json, or empty: an authorization server, and metadata of the resource on the origin of ``base``.
    """

    base: str
    schemes: Mapping[str, Json]
    authorization_server: str = ""
    resource_metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:  # D-07, XL-088, XL-103, A-42, C-5
    """A server that was found: its protocol, its URL and its tools.

    - ``site``: the server's own name for itself (untrusted text).
    - ``memo``: what the codec remembers about the server; no other code reads it.
    - ``origins``: further origins that calls may go to, each allowed by name by the user.
    - ``resources``: keeps the bytes of large results; ``result_limits``: how much of a result does not.
    - ``deduplicates_calls``: the server runs two calls with the same id only once.
    - ``findings``: returns one sentence for each part of the server's description that was left out or changed. There
      can be more after schemas were read.
    - ``takes_any_name``: the server does not list its tools, so any name may be called.
    - ``tags``: the number of tools under each tag, before any selection.
    - ``api_url``: the URL of the API, if its document is a file, or says that this is at another origin. Calls go
      there, with keys and credentials, only where it is ``url`` too.
    - ``declared_auth``: what its document declares about signing in, or ``None`` without such a document.
    """

    protocol: str
    url: str
    catalog: Catalog
    site: str = ""
    memo: Any = None
    origins: Container[str] = field(default=frozenset(), repr=False, compare=False)
    resources: Resources | None = field(default=None, repr=False, compare=False)
    result_limits: ResultLimits = DEFAULT_RESULT_LIMITS
    deduplicates_calls: bool = False
    takes_any_name: bool = False
    findings: Callable[[], tuple[str, ...]] = field(default=tuple, repr=False, compare=False)
    tags: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    api_url: str = ""
    declared_auth: DeclaredAuth | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"Peer(protocol={self.protocol!r}, url={show_url(self.url)!r}, tools={len(self.catalog.tools)})"

    def find(self, reference: str) -> Tool | Problem:
        """Return the tool that ``reference`` means; see ``Catalog.find``.

        If the server does not list its tools, the tool has ``reference`` as its name and accepts any arguments.
        """
        found = self.catalog.find(reference)
        if isinstance(found, Tool):
            return found
        if not self.takes_any_name or not reference:
            return self.catalog.find_or_suggest(reference)
        name = reference if NAME.fullmatch(reference) else add_digest("tool", reference)
        schema = {"type": "object", "additionalProperties": True}
        return Tool(name=name, original_name="" if name == reference else reference, input_schema=schema)

    def find_current(self, tool: Tool) -> Tool | Problem:
        """Return the current definition of ``tool``, which was found here before."""
        found = self.catalog.find(tool.id)
        return tool if self.takes_any_name and not isinstance(found, Tool) else found


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one codec's ``find``: a ``Peer`` or ``None``, and every probe that it made."""

    peer: Peer | None
    probes: tuple[Probe, ...] = ()


class FeatureMethods(NamedTuple):
    """The client half of resources and prompts: ``load`` lists them, and ``read`` runs the call of a reader."""

    load: Callable[[Peer], Flow[ServerFeatures | Problem]]
    read: Callable[[Peer, Call], Flow[Result]]


class CallReading(NamedTuple):
    """The status of a long call, and the seconds until the server accepts the next query; None if it does not say."""

    status: CallStatus
    retry_after_s: float | None = None


class LongCallMethods(NamedTuple):
    """The client half of long calls. Each function is given the id that the server gave to the call.

    - ``read(peer, tool, id, wait_s, answered)``: how the call stands, with its result if it is over. A server that can
      answers after a change, or after ``wait_s`` seconds; the others answer at once. ``tool`` is None if it is unknown.
      What the server asks the user meanwhile is asked once: ``answered`` has the names of the questions that were. It
      is None if the user cannot be asked.
    - ``cancel(peer, id)``: ask to cancel the call; returns a Problem if the server refuses.
    - ``list_calls(peer, limit, cursor)``: the calls of this caller, newest first.
    """

    # LC-05

    read: Callable[[Peer, Tool | None, str, float, set[str] | None], Flow[CallReading | Problem]]
    cancel: Callable[[Peer, str], Flow[Problem | None]]
    list_calls: Callable[[Peer, int, str], Flow[CallPage | Problem]]


CONFIRMATION_FIELD = b"toolwire-confirmation"
"""The header field of the word that confirms a call."""  # XL-056
RECEIPT_FIELD = b"toolwire-receipt"
"""The header field of a receipt."""  # CC-06


def add_confirmation(request: Request, word: str, receipt: str) -> Request:
    """Return ``request`` with the word that confirms its call, and with the receipt if there is one, in its head."""
    fields = [(CONFIRMATION_FIELD, word.encode("ascii"))]
    if receipt:
        fields.append((RECEIPT_FIELD, receipt.encode("ascii")))
    return request._replace(headers=(*request.headers, *fields))


def place_in_body(_: Peer, call: Call) -> Mapping[str, str]:
    """Return the place of each argument of ``call``: the body of the request."""
    return dict.fromkeys(call.arguments, "in the body")


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:  # XL-067
    """One protocol, both halves.

    ``name`` is the word in code and on the command line, ``title`` what people call it.

    Server half:

    - ``routes``: the readers of a catalog, by method and path.
    - ``refuse``: the response to a problem that arose before any reader saw the request.

    Client half:

    - ``find``: look at a URL and return a ``Finding``.
    - ``find_selected``: ``find`` for a protocol that can apply a selection while it reads. For the other protocols the
      client drops unwanted tools afterwards.
    - ``find_explicit``: ``find`` for a user who named this protocol, so that it may try more.
    - ``find_listed``: tried where no protocol was found: what a catalog of the site names, at the same origin.
    - ``find_by_post``: tried where no protocol was found by GET. It posts only what changes nothing, and only to paths
      that the protocol itself names.
    - ``send``: send one call and return its result. That of a long call, which goes on at the server, is a Problem of
      the kind ACCEPTED with the call's id.
    - ``target``: the method and URL of a call, to show before it is sent.
    - ``places``: where in the request each argument of a call goes, as the end of a sentence.
    - ``plan``: everything else that decides the request of a call, as data.
    - ``confirm``: a request of a call with the word that confirms the call, and with a receipt or ``""``.
    - ``cancel``: the message that tells the server to stop working on a request; ``None`` where closing the connection
      says so.
    - ``end_session``: the request that ends the session of a peer; ``None`` where there is none.
    - ``reuse_session``: a peer that was found again, in the session of the one before where that must go on.
    - ``features``: how to list and read resources and prompts; ``None`` where the protocol has none.
    - ``long_calls``: how to read and cancel long calls; ``None`` where the protocol has none.
    - ``listen_for_changes``: report changes of the catalog as progress, as long as the server sends any; it returns
      whether to listen again. ``None`` where servers do not tell.
    - ``asks_while_listening``: whether a server may ask the user on the stream of ``listen_for_changes``.
    - ``safe_by_method``: a tool is ``safe`` only if the HTTP method says so (GET, HEAD); otherwise the server decides.
    - ``interactive``: this codec for a client whose user can be asked for input; it says so to servers while it looks.
      ``None`` where servers cannot ask.
    - ``default_limits``: the client applies its own rate limits where the user sets none.
    """

    name: str
    title: str
    routes: Callable[[Catalog, Site], Routes]
    refuse: Callable[[Problem], Response]
    find: Callable[[str], Flow[Finding]]
    send: Callable[[Peer, Call], Flow[Result]]
    target: Callable[[Peer, Call], str]
    places: Callable[[Peer, Call], Mapping[str, str]] = place_in_body
    confirm: Callable[[Request, str, str], Request] = add_confirmation
    plan: Callable[[Peer, Tool], Any] | None = None
    find_selected: Callable[[str, Selection], Flow[Finding]] | None = None
    find_explicit: Callable[[str], Flow[Finding]] | None = None
    find_by_post: Callable[[str], Flow[Finding]] | None = None
    find_listed: Callable[[str], Flow[Finding]] | None = None
    cancel: Callable[[Peer, Request], Request | None] | None = None
    end_session: Callable[[Peer], Request | None] | None = None
    reuse_session: Callable[[Peer, Peer], Flow[Peer]] | None = None
    interactive: Codec | None = None
    features: FeatureMethods | None = None
    long_calls: LongCallMethods | None = None
    listen_for_changes: Callable[[Peer], Flow[bool]] | None = None
    asks_while_listening: Callable[[Peer], bool] | None = None
    safe_by_method: bool = False
    default_limits: bool = False
