"""Use a remote server as a Toolbox: list its tools, and call them with consent.

``Remote`` is for ``async`` programs, and ``SyncRemote`` blocks. Both only have the signatures: ``remote_core`` does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import anyio

from toolwire.client.calls.agreements import ClaimedRead
from toolwire.client.calls.long_calls import MAX_WAIT_S, find_call_id
from toolwire.client.calls.prepared_call import CallState
from toolwire.client.transport.circuit_breaker import CALLER
from toolwire.client.transport.drivers import BRIEF_S, SyncNotify, SyncTransport, Transport
from toolwire.consent.definition_lock import Difference
from toolwire.core.call_status import CallPage
from toolwire.core.check import AsksCaller
from toolwire.core.model import Call, Context, Json, Problem, Result
from toolwire.core.server_features import SKILL_FILE, PromptDefinition, ResourceDefinition, SkillDefinition, is_reader
from toolwire.core.toolbox import Notify, complete, ignore_progress

from .connection import Connection
from .driver import AsyncDriver, BlockingDriver
from .handle import Handle, SyncHandle
from .remote_core import RemoteCore


class Remote(RemoteCore[Transport, Notify]):
    """An asynchronous connection to a server, which is a Toolbox. ``tools`` is what the server offers."""

    _driver_class = AsyncDriver

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: Notify = ignore_progress,
        context: Context | None = None,
    ) -> Result:
        """Call the tool ``name`` (or its id, with or without a version), and return its Value or a Problem.

        ``notify`` is a coroutine function that gets each Progress of a tool that streams, in order. ``context``
        replaces that of the connection.
        """
        waits, can_ask = self._freshness.connection.pipeline.waits, self._provide_input is not None
        listener = None if notify is ignore_progress else notify
        return await self._call(name, arguments, listener, context, CallState(waits, can_ask=can_ask))

    async def start(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: Notify = ignore_progress,
        context: Context | None = None,
    ) -> Handle | Result:
        """Start a call of the tool ``name``, and return its Handle as soon as the server has taken it.

        The same checks, questions and limits apply as to ``call``. The call of a tool that is not long is made as by
        ``call``, and its Value or Problem is returned; so is the Problem of a call that was not started.
        """
        # LC-05
        state = self._make_state()
        listener = None if notify is ignore_progress else notify
        result = await self._call(name, arguments, listener, context, state)
        return result if state.long_call is None else Handle(self._get_connection, self._run_flow, state.long_call)

    def handle(self, call_id: str, *, tool: str = "") -> Handle:
        """Return the Handle of a long call that was started earlier, also by another program of the same user.

        ``tool`` is the name of its tool, for servers that do not say it with the call.
        """
        return Handle(self._get_connection, self._run_flow, self._find_long_call(call_id, tool))

    async def list_calls(self, limit: int = 100, cursor: str = "") -> CallPage | Problem:
        """Return at most ``limit`` long calls of this caller, newest first, without results.

        ``cursor`` is that of the page before, to get the next one.
        """
        return await self._run_flow(self._connection.list_long_calls(limit, cursor))

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` on the server; see ``Toolbox.run``.

        A call that goes on at the server is waited for like by ``call``. If ``call.context.wait_s`` is longer, as in a
        gateway that was given a long call, it is waited for so long, and cancelling it there cancels it here.
        """
        CALLER.set(call.context.principal)  # D-34: what fails by the call of one caller stops no other
        if self._held is not None and call.context.takes_input:
            return await self._held.run(call, notify, self._run_now)
        return await self._run_now(call, notify)

    async def find_missing_consent(self, call: Call) -> Problem | None:
        """Return what the caller of a gateway is asked about ``call``, or None if nothing is; see ``AsksCallers``."""
        if not isinstance(self._approve, AsksCaller):
            return None
        await self._look_at_trust(call)
        current = self._connection.find_current(call)
        question = None if isinstance(current, Problem) else self._connection.pipeline.find_question(current)
        return None if question is None else await self._approve.ask_caller(question)

    async def _run_now(self, call: Call, notify: Notify) -> Result:
        refusal = await self._ensure_fresh(call.tool.id)
        if refusal is not None:
            return refusal
        if is_reader(call.tool):
            return await self._read(call)
        await self._look_at_trust(call)
        connection, wait_s = self._connection, call.context.wait_s
        current, waits = connection.find_current(call), connection.pipeline.waits
        if isinstance(current, Problem):
            return current
        listener = None if notify is ignore_progress else notify
        if wait_s is None or wait_s <= waits.total_s:
            return await self._run(connection, current, listener, self._make_state(waits=waits))
        patient = self._make_state(waits=replace(waits, total_s=min(wait_s, MAX_WAIT_S), is_patient=True))
        return await self._run_long(connection, current, listener, patient)

    def find_claims(self) -> list[ClaimedRead]:
        """Return the tools that operators of a gateway can trust to only read, and do not trust yet. It may block."""
        return self._connection.pipeline.find_claims()

    async def trust_claims(self, claims: Iterable[ClaimedRead]) -> None:
        """Let ``claims`` run without a question for all callers of the gateway, until their definitions change.

        Raises:
            ConnectionError: it cannot be stored.
        """
        await anyio.to_thread.run_sync(self._connection.pipeline.trust_claims, claims)
        self._freshness.connection = replace(self._connection.agree(()), has_changed=True)

    async def _look_at_trust(self, call: Call) -> None:
        """Take over what operators of a gateway trust now, whichever of its processes they told."""
        # QF-01
        current, pipeline = self._connection.find_current(call), self._connection.pipeline
        if isinstance(current, Problem) or not pipeline.depends_on_trust(current.tool):
            return
        if await anyio.to_thread.run_sync(pipeline.has_trust_changed, current.tool):
            self._freshness.connection = replace(self._connection.agree(()), has_changed=True)

    async def _run_long(self, connection: Connection, call: Call, notify: Notify | None, state: CallState) -> Result:
        try:
            result = await self._run(connection, call, notify, state)
        except anyio.get_cancelled_exc_class():
            # A server that only stops leaves the call: it asks for it again by the same id.
            if call.context.is_cancelled:
                await self._cancel_briefly(state)
            raise
        if find_call_id(result):  # the time of the call is over here, so it must not go on there
            await self._cancel_briefly(state)
        return result

    async def _cancel_briefly(self, state: CallState) -> None:
        if state.long_call is not None:
            # The shield lets the message out although the task is being cancelled.
            with anyio.move_on_after(BRIEF_S, shield=True):
                await self._run_flow(self._connection.follow(state.long_call, state.long_call.cancel()))

    async def list_resources(self) -> tuple[ResourceDefinition, ...] | Problem:
        """Return what the server offers for reading; none over protocols without resources. It is asked only once."""
        features = await self._load_features()
        return features if isinstance(features, Problem) else features.resources

    async def list_prompts(self) -> tuple[PromptDefinition, ...] | Problem:
        """Return the prompts of the server; none over protocols without prompts. The server is asked only once."""
        features = await self._load_features()
        return features if isinstance(features, Problem) else features.prompts

    async def read_resource(self, uri: str) -> Result:
        """Return what is at ``uri``: a text, the JSON form of content, or a list of both where it has several parts.

        ``read_content`` makes an ``Image``, ``Audio`` or ``File`` of the JSON form.
        """
        return await self._read_resource(uri)

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Result:
        """Return the prompt ``name`` filled in: an object with ``description`` and ``messages``.

        Each message has a ``role``, user or assistant, and ``content``, a text or the JSON form of content.
        """
        return await self._get_prompt(name, arguments)

    async def list_skills(self) -> tuple[SkillDefinition, ...] | Problem:
        """Return the skills that the server lists; it may have others. The server is asked only once."""
        features = await self._load_features()
        return features if isinstance(features, Problem) else features.skills

    async def get_skill(self, uri: str) -> SkillDefinition | Problem:
        """Return the skill whose SKILL.md is at ``uri`` with its present files, whether it is listed or not."""
        return await self._get_skill(uri)

    async def read_skill(self, skill: SkillDefinition, path: str = SKILL_FILE) -> Result:
        """Return the file at ``path`` of ``skill``: a text, or the JSON form of content.

        A file that is not what ``skill`` describes, by its size, digest or frontmatter, is a Problem. The text is the
        server's: treat it as untrusted, and ask your user before you run what it says.
        """
        return await self._read_skill(skill, path)

    async def refresh(self) -> tuple[Difference, ...] | Problem:
        """Fetch the server's documents again, and return each tool that changed; later calls use the new definitions.

        Return a Problem if the server fails, or no longer offers its tools.
        """
        return await self._refresh()

    async def begin(self) -> None:
        """Listen to the server from now on, if it tells when its tools change, and then fetch its documents again.

        A gateway begins its upstreams itself. So does a connection to a server that may ask its user on this stream.
        After a pause of at most a minute, an ended stream is opened again.
        """
        self._begin()

    async def wait_until_listening(self) -> None:
        """Wait until the server has the stream on which this connection listens, or wants none; at most two seconds."""
        await self._wait_until_listening()

    async def end(self) -> None:
        """Stop listening."""
        await self._end()


class SyncRemote(RemoteCore[SyncTransport, SyncNotify]):
    """A blocking connection to a server. ``tools`` is what the server offers."""

    _driver_class = BlockingDriver

    def call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: SyncNotify | None = None,
        context: Context | None = None,
    ) -> Result:
        """Call the tool ``name`` (or its id, with or without a version), and return its Value or a Problem.

        ``notify`` is a function that gets each Progress of a tool that streams, in order. ``context`` replaces that of
        the connection.
        """
        waits, can_ask = self._freshness.connection.pipeline.waits, self._provide_input is not None
        return complete(self._call(name, arguments, notify, context, CallState(waits, can_ask=can_ask)))

    def start(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: SyncNotify | None = None,
        context: Context | None = None,
    ) -> SyncHandle | Result:
        """Start a call of the tool ``name``, and return its SyncHandle as soon as the server has taken it.

        The same checks, questions and limits apply as to ``call``. The call of a tool that is not long is made as by
        ``call``, and its Value or Problem is returned; so is the Problem of a call that was not started.
        """
        # LC-05
        state = self._make_state()
        result = complete(self._call(name, arguments, notify, context, state))
        return result if state.long_call is None else SyncHandle(self._get_connection, self._run_flow, state.long_call)

    def handle(self, call_id: str, *, tool: str = "") -> SyncHandle:
        """Return the SyncHandle of a long call that was started earlier, also by another program of the same user.

        ``tool`` is the name of its tool, for servers that do not say it with the call.
        """
        return SyncHandle(self._get_connection, self._run_flow, self._find_long_call(call_id, tool))

    def list_calls(self, limit: int = 100, cursor: str = "") -> CallPage | Problem:
        """Return at most ``limit`` long calls of this caller, newest first, without results.

        ``cursor`` is that of the page before, to get the next one.
        """
        return complete(self._run_flow(self._connection.list_long_calls(limit, cursor)))

    def list_resources(self) -> tuple[ResourceDefinition, ...] | Problem:
        """Return what the server offers for reading; none over protocols without resources. It is asked only once."""
        features = complete(self._load_features())
        return features if isinstance(features, Problem) else features.resources

    def list_prompts(self) -> tuple[PromptDefinition, ...] | Problem:
        """Return the prompts of the server; none over protocols without prompts. The server is asked only once."""
        features = complete(self._load_features())
        return features if isinstance(features, Problem) else features.prompts

    def read_resource(self, uri: str) -> Result:
        """Return what is at ``uri``: a text, the JSON form of content, or a list of both where it has several parts.

        ``read_content`` makes an ``Image``, ``Audio`` or ``File`` of the JSON form.
        """
        return complete(self._read_resource(uri))

    def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Result:
        """Return the prompt ``name`` filled in: an object with ``description`` and ``messages``.

        Each message has a ``role``, user or assistant, and ``content``, a text or the JSON form of content.
        """
        return complete(self._get_prompt(name, arguments))

    def list_skills(self) -> tuple[SkillDefinition, ...] | Problem:
        """Return the skills that the server lists; it may have others. The server is asked only once."""
        features = complete(self._load_features())
        return features if isinstance(features, Problem) else features.skills

    def get_skill(self, uri: str) -> SkillDefinition | Problem:
        """Return the skill whose SKILL.md is at ``uri`` with its present files, whether it is listed or not."""
        return complete(self._get_skill(uri))

    def read_skill(self, skill: SkillDefinition, path: str = SKILL_FILE) -> Result:
        """Return the file at ``path`` of ``skill``: a text, or the JSON form of content.

        A file that is not what ``skill`` describes, by its size, digest or frontmatter, is a Problem. The text is the
        server's: treat it as untrusted, and ask your user before you run what it says.
        """
        return complete(self._read_skill(skill, path))

    def refresh(self) -> tuple[Difference, ...] | Problem:
        """Fetch the server's documents again, and return each tool that changed; later calls use the new definitions.

        Return a Problem if the server fails, or no longer offers its tools.
        """
        return complete(self._refresh())

    def begin(self) -> None:
        """Listen to the server from now on, in a thread; see ``Remote.begin``."""
        self._begin()

    def wait_until_listening(self) -> None:
        """Wait until the server has the stream on which this connection listens, or wants none; at most two seconds."""
        complete(self._wait_until_listening())

    def end(self) -> None:
        """Stop listening. The thread ends with its stream, or when the connection is closed."""
        complete(self._end())
