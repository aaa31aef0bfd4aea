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
    """An asynchronous connection to a server. It is a Toolbox. ``tools`` are the server's tools."""

    _driver_class = AsyncDriver

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: Notify = ignore_progress,
        context: Context | None = None,
    ) -> Result:
        """Call the tool ``name`` and return its Value or a Problem.

        ``name`` can also be the tool's ID, with or without a version. ``notify`` is a coroutine function. It gets each
        Progress of a tool that streams, in order. ``context`` replaces the connection's context.
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
        """Start a call of the tool ``name``, and return its Handle as soon as the server has accepted it.

        The checks, questions and limits of ``call`` apply. If the tool is not long, this waits like ``call`` and
        returns the Value or Problem. If the call was not started, it returns a Problem.
        """
        # LC-05
        state = self._make_state()
        listener = None if notify is ignore_progress else notify
        result = await self._call(name, arguments, listener, context, state)
        return result if state.long_call is None else Handle(self._get_connection, self._run_flow, state.long_call)

    def handle(self, call_id: str, *, tool: str = "") -> Handle:
        """Return the Handle of a long call that was started earlier, even by another program of the same user.

        ``tool`` is the tool's name. Some servers do not report it with the call.
        """
        return Handle(self._get_connection, self._run_flow, self._find_long_call(call_id, tool))

    async def list_calls(self, limit: int = 100, cursor: str = "") -> CallPage | Problem:
        """Return up to ``limit`` long calls of this caller, newest first, without results.

        To get the next page, pass the ``next`` of the last page as ``cursor``.
        """
        return await self._run_flow(self._connection.list_long_calls(limit, cursor))

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` on the server. See ``Toolbox.run``.

        Like ``call``, this waits for a call that the server continues. If ``call.context.wait_s`` is longer, it waits
        that long. A gateway uses this for the long calls of its own callers. If such a caller cancels, the call is
        cancelled on the server.
        """
        CALLER.set(call.context.principal)  # D-34: what fails by the call of one caller stops no other
        if self._held is not None and call.context.takes_input:
            return await self._held.run(call, notify, self._run_now)
        return await self._run_now(call, notify)

    async def find_missing_consent(self, call: Call) -> Problem | None:
        """Return what the caller of a gateway must confirm before ``call``, or None. See ``AsksCallers``."""
        if not isinstance(self._approve, AsksCaller):
            return None
        refusal = await self._ensure_fresh(call.tool.id)  # so that the question is about what would run
        if refusal is not None:
            return refusal
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
        """Return the tools that are read-only only because the server says so, and that no operator trusts yet.

        It can block.
        """
        return self._connection.pipeline.find_claims()

    async def trust_claims(self, claims: Iterable[ClaimedRead]) -> None:
        """Let ``claims`` run without a question for all callers of the gateway, until their definitions change.

        Raises:
            ConnectionError: the decision cannot be stored.
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
        """Return the server's resources. The server is asked only once.

        The tuple is empty over protocols without resources.
        """
        features = await self._load_features()
        return features if isinstance(features, Problem) else features.resources

    async def list_prompts(self) -> tuple[PromptDefinition, ...] | Problem:
        """Return the server's prompts. The server is asked only once.

        The tuple is empty over protocols without prompts.
        """
        features = await self._load_features()
        return features if isinstance(features, Problem) else features.prompts

    async def read_resource(self, uri: str) -> Result:
        """Return the resource at ``uri``: its text, or the JSON form of its content. Several parts are a list.

        ``read_content`` turns the JSON form into an ``Image``, ``Audio`` or ``File``.
        """
        return await self._read_resource(uri)

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Result:
        """Return the prompt ``name``, filled in, as an object with ``description`` and ``messages``.

        Each message has a ``role`` (user or assistant) and ``content``: a text, or the JSON form of content.
        """
        return await self._get_prompt(name, arguments)

    async def list_skills(self) -> tuple[SkillDefinition, ...] | Problem:
        """Return the skills that the server lists. It can have more. The server is asked only once."""
        features = await self._load_features()
        return features if isinstance(features, Problem) else features.skills

    async def get_skill(self, uri: str) -> SkillDefinition | Problem:
        """Return the skill whose SKILL.md is at ``uri``, with its current files, even if it is not listed."""
        return await self._get_skill(uri)

    async def read_skill(self, skill: SkillDefinition, path: str = SKILL_FILE) -> Result:
        """Return the file at ``path`` of ``skill``: a text, or the JSON form of content.

        If the file's size, digest or frontmatter differs from what ``skill`` describes, this returns a Problem. The
        text comes from the server. Treat it as untrusted, and ask your user before you run anything that it says.
        """
        return await self._read_skill(skill, path)

    async def refresh(self) -> tuple[Difference, ...] | Problem:
        """Fetch the server's documents again, and return each tool that changed. Later calls use the new definitions.

        If the server fails or no longer offers its tools, this returns a Problem.
        """
        return await self._refresh()

    async def begin(self) -> None:
        """Listen for the server's change notifications, if it sends any, and fetch its documents again after each one.

        Call this only if your own connection should notice changes. A gateway does it for its upstreams, and so does a
        connection whose server can ask the user on this stream. If the stream ends, it is opened again after at most a
        minute.
        """
        self._begin()

    async def wait_until_listening(self) -> None:
        """Wait until the server has opened or refused the notification stream, for at most two seconds."""
        await self._wait_until_listening()

    async def end(self) -> None:
        """Stop listening. A local program that was started for a gateway ends. The next call restarts it."""
        await self._end()


class SyncRemote(RemoteCore[SyncTransport, SyncNotify]):
    """A blocking connection to a server. ``tools`` are the server's tools."""

    _driver_class = BlockingDriver

    def call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: SyncNotify | None = None,
        context: Context | None = None,
    ) -> Result:
        """Call the tool ``name`` and return its Value or a Problem.

        ``name`` can also be the tool's ID, with or without a version. ``notify`` gets each Progress of a tool that
        streams, in order. ``context`` replaces the connection's context.
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
        """Start a call of the tool ``name``, and return its SyncHandle as soon as the server has accepted it.

        The checks, questions and limits of ``call`` apply. If the tool is not long, this waits like ``call`` and
        returns the Value or Problem. If the call was not started, it returns a Problem.
        """
        # LC-05
        state = self._make_state()
        result = complete(self._call(name, arguments, notify, context, state))
        return result if state.long_call is None else SyncHandle(self._get_connection, self._run_flow, state.long_call)

    def handle(self, call_id: str, *, tool: str = "") -> SyncHandle:
        """Return the SyncHandle of a long call that was started earlier, even by another program of the same user.

        ``tool`` is the tool's name. Some servers do not report it with the call.
        """
        return SyncHandle(self._get_connection, self._run_flow, self._find_long_call(call_id, tool))

    def list_calls(self, limit: int = 100, cursor: str = "") -> CallPage | Problem:
        """Return up to ``limit`` long calls of this caller, newest first, without results.

        To get the next page, pass the ``next`` of the last page as ``cursor``.
        """
        return complete(self._run_flow(self._connection.list_long_calls(limit, cursor)))

    def list_resources(self) -> tuple[ResourceDefinition, ...] | Problem:
        """Return the server's resources. The server is asked only once.

        The tuple is empty over protocols without resources.
        """
        features = complete(self._load_features())
        return features if isinstance(features, Problem) else features.resources

    def list_prompts(self) -> tuple[PromptDefinition, ...] | Problem:
        """Return the server's prompts. The server is asked only once.

        The tuple is empty over protocols without prompts.
        """
        features = complete(self._load_features())
        return features if isinstance(features, Problem) else features.prompts

    def read_resource(self, uri: str) -> Result:
        """Return the resource at ``uri``: its text, or the JSON form of its content. Several parts are a list.

        ``read_content`` turns the JSON form into an ``Image``, ``Audio`` or ``File``.
        """
        return complete(self._read_resource(uri))

    def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Result:
        """Return the prompt ``name``, filled in, as an object with ``description`` and ``messages``.

        Each message has a ``role`` (user or assistant) and ``content``: a text, or the JSON form of content.
        """
        return complete(self._get_prompt(name, arguments))

    def list_skills(self) -> tuple[SkillDefinition, ...] | Problem:
        """Return the skills that the server lists. It can have more. The server is asked only once."""
        features = complete(self._load_features())
        return features if isinstance(features, Problem) else features.skills

    def get_skill(self, uri: str) -> SkillDefinition | Problem:
        """Return the skill whose SKILL.md is at ``uri``, with its current files, even if it is not listed."""
        return complete(self._get_skill(uri))

    def read_skill(self, skill: SkillDefinition, path: str = SKILL_FILE) -> Result:
        """Return the file at ``path`` of ``skill``: a text, or the JSON form of content.

        If the file's size, digest or frontmatter differs from what ``skill`` describes, this returns a Problem. The
        text comes from the server. Treat it as untrusted, and ask your user before you run anything that it says.
        """
        return complete(self._read_skill(skill, path))

    def refresh(self) -> tuple[Difference, ...] | Problem:
        """Fetch the server's documents again, and return each tool that changed. Later calls use the new definitions.

        If the server fails or no longer offers its tools, this returns a Problem.
        """
        return complete(self._refresh())

    def begin(self) -> None:
        """Listen for the server's change notifications, in a thread. See ``Remote.begin``."""
        self._begin()

    def wait_until_listening(self) -> None:
        """Wait until the server has opened or refused the notification stream, for at most two seconds."""
        complete(self._wait_until_listening())

    def end(self) -> None:
        """Stop listening. The thread ends when its stream ends or the connection is closed."""
        complete(self._end())
