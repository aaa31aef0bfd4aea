"""Hold a peer and the pipeline of its calls, and replace both when the server changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypedDict, TypeVar, Unpack

from toolwire.auth.loopback_hosts import is_loopback_host
from toolwire.client.calls.api_keys import Keys, attach_keys
from toolwire.client.calls.call_pipeline import CallPipeline, CallTerms
from toolwire.client.calls.file_arguments import FileArguments, has_files, read_file_arguments
from toolwire.client.calls.grant_polling import GrantUser, wait_for_grants
from toolwire.client.calls.long_calls import LongCall
from toolwire.client.calls.prepared_call import CallState
from toolwire.client.calls.retry import RetryLimits
from toolwire.client.calls.session import Session
from toolwire.client.discovery.discover import Discovery, find_codecs
from toolwire.client.discovery.document_snapshot import NO_DOCUMENTS, DocumentSnapshot
from toolwire.client.discovery.required_scopes import add_required_scopes
from toolwire.client.discovery.source import DocumentSource, find_document_url
from toolwire.consent import NO_PREFERENCES, DefinitionLock, Preferences
from toolwire.consent.binding import CredentialRef
from toolwire.consent.policy import PreferenceStore, merge_preferences, reject_lowering
from toolwire.core.call_status import CallPage
from toolwire.core.codec import BlockingTask, Codec, ConnectError, Flow, Peer, Probe
from toolwire.core.model import Call, Kind, Problem, Result, Tool, get_stored_schemas
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import get_host, get_origin, read_origin
from toolwire.telemetry.client_spans import ClientObserver
from toolwire.validation import find_schema_fault

T = TypeVar("T")

_UNKNOWN_TOOL = Tool(name="unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A peer and the pipeline of its calls. Nothing here opens a socket.

    ``has_changed`` means that it replaced a connection whose tools a caller can still hold. With ``declares_scopes``,
    each request states the scopes for which a user must sign in. ``grant_user`` is shown where to grant missing access.
    """

    peer: Peer
    pipeline: CallPipeline
    observer: ClientObserver
    probes: tuple[Probe, ...]
    source: DocumentSource | None = None
    snapshot: DocumentSnapshot = NO_DOCUMENTS
    keys: Keys = field(default_factory=dict, repr=False)
    has_changed: bool = False
    declares_scopes: bool = False
    grant_user: GrantUser | None = None

    def run(self, call: Call, state: CallState | None = None, *, may_hold_files: bool = False) -> Flow[Result]:
        """Check ``call``, ask the user if needed, call the server, and return the result.

        ``state`` is updated while the call runs. With ``may_hold_files``, arguments that are the program's files or
        this connection's handles are read first.
        """
        if may_hold_files and has_files(call.arguments):
            return self._run_with_files(call, self._make_state() if state is None else state)
        traced, observation = self.observer.begin(call)
        flow: Flow[Result]
        if self.grant_user is not None:
            # After the user has granted access, the call starts again, so it is passed as a function. It is still the
            # call that the user approved.
            state = self._make_state() if state is None else state
            flow = wait_for_grants(lambda: self._start(traced, state), self.grant_user)
        else:
            flow = self.pipeline.run(traced, state)
            if self.keys or self.declares_scopes:
                flow = self._sign(flow, traced.tool)
        return flow if observation is None else observation.watch(flow)

    def _make_state(self) -> CallState:
        return CallState(waits=self.pipeline.waits)

    def _run_with_files(self, call: Call, state: CallState) -> Flow[Result]:
        # MC-07: files are read before the call is checked, observed and shown.
        read: FileArguments | Problem = yield BlockingTask(partial(read_file_arguments, call, self.peer.resources))
        if isinstance(read, Problem):
            return read
        call, state.files = read
        return (yield from self.run(call, state))

    def _start(self, call: Call, state: CallState | None) -> Flow[Result]:
        flow = self.pipeline.run(call, state)
        return self._sign(flow, call.tool) if self.keys or self.declares_scopes else flow

    def _sign(self, flow: Flow[T], tool: Tool) -> Flow[T]:
        """Run ``flow`` with the keys of ``tool`` on its requests, and with the scopes that a user must sign in for."""
        if self.keys:
            flow = attach_keys(flow, tool, self.keys, self.pipeline.site)
        return add_required_scopes(flow, tool) if self.declares_scopes else flow

    def follow(self, long_call: LongCall, flow: Flow[T]) -> Flow[T]:
        """Run ``flow``, which reads or cancels ``long_call``, with its tool's credentials and without consent.

        The server's questions to the user are admitted as in the call itself.
        """
        # LC-05
        tool = self._find_signing_tool() if long_call.tool is None else long_call.tool
        signed = flow if tool is None else self._sign(flow, tool)
        return self.pipeline.admit_input(signed, Call(long_call.tool or _UNKNOWN_TOOL, {}))

    def list_long_calls(self, limit: int, cursor: str) -> Flow[CallPage | Problem]:
        """Return at most ``limit`` long calls of this caller, newest first, from ``cursor`` on."""
        flow, tool = self.pipeline.list_long_calls(limit, cursor), self._find_signing_tool()
        return flow if tool is None else self._sign(flow, tool)

    def _find_signing_tool(self) -> Tool | None:
        """Return a tool whose credentials sign requests that belong to no tool: a long tool, if there is one."""
        tools = self.peer.catalog.tools
        return next((tool for tool in tools if tool.long), next(iter(tools), None))

    def find_current(self, call: Call) -> Call | Problem:
        """Return ``call`` with its tool's current definition, or a Problem if the tool is gone."""
        if not self.has_changed:
            return call
        tool = self.peer.find_current(call.tool)
        return tool if isinstance(tool, Problem) else call._replace(tool=tool)

    def rebuild(self, found: Discovery) -> Connection | Problem:
        """Return this connection for the newly found peer.

        Limits, the name and stored bytes stay. Grants for changed tools are void. If the site is gone or has moved to
        another origin, return a Problem, because the user must connect again.
        """
        # XL-048: consent covers one origin and one set of definitions.
        if found.peer is None:
            return _explain_loss(self, found)
        if get_origin(found.peer.url) != self.pipeline.site:
            return withdrawal(self.peer.url, f"it leads to {get_origin(found.peer.url)} now, connect to that one")
        # The user's permissions and the calls' stored bytes belong to the connection, not to the discovery.
        peer = replace(
            found.peer,
            catalog=found.peer.catalog.with_features(self.peer.catalog.features),
            origins=self.peer.origins,
            resources=self.peer.resources,
            result_limits=self.peer.result_limits,
        )
        pipeline = self.pipeline.rebuild(peer)
        return replace(
            self,
            peer=pipeline.peer,
            pipeline=pipeline,
            probes=found.probes,
            source=found.source,
            snapshot=found.snapshot,
            has_changed=True,
        )

    def findings(self) -> tuple[str, ...]:
        """Return what was left out or changed, and each tool that cannot be called because of its schema."""
        # A schema that is built on first use reports its own findings, and its size is limited then.
        plain = (tool for tool in self.peer.catalog.tools if isinstance(get_stored_schemas(tool)["input_schema"], dict))
        faults = ((tool, find_schema_fault(tool.input_schema)) for tool in plain)
        left_out = (*self.peer.findings(), *self.peer.catalog.features.findings)
        return (*left_out, *(f"{tool.id} cannot be called: {fault}." for tool, fault in faults if fault))

    def agree(self, tools: tuple[Tool, ...]) -> Connection:
        """Return this connection with ``tools`` running as the site declares, until their definitions change."""
        pipeline = self.pipeline.agree(tools)
        return replace(self, peer=pipeline.peer, pipeline=pipeline)


def open_connection(
    found: Discovery,
    preferences: Preferences = NO_PREFERENCES,
    *,
    keyed: bool = False,
    **terms: Unpack[ConnectionTerms],
) -> Connection:
    """Return the connection to what was found. See ``connection_to``.

    Raises:
        ConnectError: nothing was found. The message says what was tried.
        DefinitionError: ``preferences`` require less consent than the site, or the name cannot be used.
    """
    peer = found.peer
    if peer is None:
        raise ConnectError(explain_failure(found, keyed=keyed), found.probes, failure_kind(found))
    (codec,) = find_codecs(peer.protocol)
    connection = connection_to(peer, codec, preferences, probes=found.probes, **terms)
    return replace(connection, source=found.source, snapshot=found.snapshot)


class ConnectionTerms(TypedDict, total=False):
    """The settings of a connection. See ``CallTerms``. ``name`` is the name that the user chose, or empty."""

    session: Session
    name: str
    locked: DefinitionLock | None
    credential: Callable[[Tool], CredentialRef]
    retries: RetryLimits
    preference_store: PreferenceStore | None
    wait_s: float
    program: str


def connection_to(
    peer: Peer,
    codec: Codec,
    preferences: Preferences = NO_PREFERENCES,
    *,
    probes: tuple[Probe, ...] = (),
    **terms: Unpack[ConnectionTerms],
) -> Connection:
    """Return a connection to ``peer`` with the protocol of ``codec``.

    Raises:
        DefinitionError: ``preferences`` require less consent than the site, or the name cannot be used.
    """
    session = terms.get("session") or Session(traced=False)
    # XL-042: refused when connecting, so that a setting that has no effect is noticed.
    reject_lowering(peer.catalog.tools, merge_preferences(session.preferences, preferences))
    name = session.admit(terms.get("name", ""), _get_server_label(peer.url), peer.catalog)
    whole: ConnectionTerms = {**terms, "session": session, "name": name}
    pipeline = CallPipeline(CallTerms(preferences=preferences, **whole), peer, codec)
    # The session refuses two connections whose tools a model could not tell apart.
    session.renew(pipeline.name, pipeline.peer.catalog)
    sender = ClientObserver(session.telemetry, peer.protocol, peer.url, pipeline.name)
    return Connection(peer=pipeline.peer, pipeline=pipeline, observer=sender, probes=probes)


def _get_server_label(url: str) -> str:
    """Return the host of ``url``, with its port if it is this machine: several servers run there."""
    origin, host = read_origin(url), get_host(url)
    return host if origin is None or not is_loopback_host(host) else f"{host}:{origin.port}"


def withdrawal(url: str, why: str) -> Problem:
    """Return the Problem of a server that no longer offers its tools. ``why`` is the end of the sentence."""
    text = f"{show_url(url)} no longer offers its tools, so none was called: {why.rstrip('.')}."
    return Problem(kind=Kind.NOT_FOUND, message=text, can_retry=True, details={"reason": "withdrawn", "sent": False})


def _explain_loss(connection: Connection, found: Discovery) -> Problem:
    """Return the Problem of a discovery that found nothing: the server fails, or has withdrawn its document."""
    url = find_document_url(connection.peer, connection.probes)
    # The last probe decides. A program or MCP server that has since ended can have refused an earlier question.
    last = next((one for one in reversed(found.probes) if one.url == url), None)
    decisive = found.probes if last is None else (last,)
    if all(probe.status is None or probe.status >= 500 for probe in decisive):
        text = f"Cannot fetch {show_url(found.url)} again: the server fails or does not answer."
        return Problem(kind=Kind.UNREACHABLE, message=text, can_retry=True)
    return withdrawal(connection.peer.url, f"{show_url(url)} {'is not what it was' if last is None else last.meaning}")


def failure_kind(found: Discovery) -> Kind:
    """Return the kind of the Problem that nothing was found."""
    statuses = {probe.status for probe in found.probes}
    if statuses & {401, 403} and find_unused_document(found.url, found.probes) is None:
        return Kind.UNAUTHORIZED
    return Kind.NOT_FOUND if statuses - {None} else Kind.UNREACHABLE


def explain_failure(found: Discovery, *, keyed: bool = False) -> str:
    """Return one sentence that says why nothing was found. ``keyed`` means that a key was given."""
    url = show_url(found.url)
    if url.startswith("file:") and found.probes:
        return _explain_file(url, found.probes[0])
    # The most useful reason comes first: a size limit, no contact, an unused document, a missing key.
    large = next((probe for probe in found.probes if probe.reason == "too_large"), None)
    if large is not None:
        how = "Selection(document_bytes=...) or --document-bytes takes more"
        return f"{show_url(large.url)} is too large: {large.meaning.rstrip('.')}; {how}."
    reached = [probe for probe in found.probes if probe.status is not None]
    if not reached and found.probes:
        probe = found.probes[0]
        site = get_origin(probe.url)
        return _explain_unreachable(url, probe.meaning.removeprefix(site).strip())
    if text := _explain_document(found):
        return text
    if any(probe.status in (401, 403) for probe in reached):
        return f"{url} rejected this API key." if keyed else _explain_no_access(found)
    return _explain_no_protocol(found)


def _explain_file(url: str, probe: Probe) -> str:
    name = url.rpartition("/")[2]
    if probe.reason == "host_file":
        return f"{probe.meaning}."
    return f"{name} cannot be used: {probe.meaning if probe.meaning.startswith(name) else f'it {probe.meaning}'}."


def _explain_document(found: Discovery) -> str:
    """Return why a document that was read or named is not used, or ``""`` if there is no such document."""
    document = find_unused_document(found.url, found.probes)
    if document is not None:
        return f"{show_url(document.url)} {document.meaning}."
    named = next((probe for probe in found.probes if probe.names), None)
    if named is None:
        return ""
    where, how = show_url(named.names), "connect to that URL, or agree with approve_relocation=... or at a terminal"
    return f"{show_url(named.url)} links to a document on another server, {where}, which you have not trusted: {how}."


def find_unused_document(url: str, probes: tuple[Probe, ...]) -> Probe | None:
    """Return the probe of an OpenAPI document that was read but is not used, or None.

    If ``url`` itself requires a key, a document elsewhere on its site does not explain the failure. The reason of the
    probe is ``overlay``, ``unmarked``, ``later_version``, ``no_root`` or ``unreadable``.
    """
    # FU-51
    pasted = next((probe for probe in probes if probe.url == url), None)
    if pasted is not None and pasted.status in (401, 403):
        return None
    order = ("overlay", "unmarked", "later_version", "no_root", "unreadable")
    documents = [probe for probe in probes if probe.reason in order and probe.status is not None]
    return min(documents, key=lambda probe: (probe is not pasted, order.index(probe.reason)), default=None)


def _explain_no_access(found: Discovery) -> str:
    url = show_url(found.url)
    if any(probe.status == 401 for probe in found.probes):
        how = f"give one with --key-env NAME, in Python api_key=..., or sign in with `toolwire login {url}`"
        return f"{url} requires a key to list its tools: {how}."
    host = get_host(found.url)
    # A server on this machine can refuse every name but one, whoever asks.
    other = ", or localhost in place of its address" if is_loopback_host(host) and host != "localhost" else ""
    how = f"it may want a key (--key-env NAME, in Python api_key=...), or a sign-in (`toolwire login {url}`){other}"
    return f"{url} denied access with status 403: {how}."


def _explain_no_protocol(found: Discovery) -> str:
    url = show_url(found.url)
    statuses = {probe.status for probe in found.probes if probe.status is not None}
    if statuses and all(status == 429 or status >= 500 for status in statuses):
        # Such a site has not revealed its protocol.
        why = "it takes no more requests for now" if 429 in statuses else "it fails, or is down for now"
        return f"{url} answered with status {min(statuses)}: {why}. Try again later."
    # MC-13
    if found.url.partition("?")[0].rstrip("/").endswith("/sse"):
        how = "is the URL right, and has it no other endpoint, which often ends with /mcp?"
        return f"{url} ends like an MCP server of the HTTP+SSE transport, but opens no stream of events there: {how}"
    elsewhere = 'an MCP server at a path that does not end with /mcp is found with protocol="mcp" or --protocol mcp'
    return f"{url} does not speak a supported protocol. `toolwire explain {url}` shows each request; {elsewhere}."


def _explain_unreachable(url: str, reason: str) -> str:
    """Return why ``url`` was not reached. ``reason`` is a sentence, perhaps without its subject (the site)."""
    if reason.startswith(("could not be reached", "was not contacted")):
        return f"{url} {reason}"
    whole = reason[:1].lower() + reason[1:] if reason[:1].isupper() else f"it {reason}"
    return f"{url} could not be reached: {whole}"
