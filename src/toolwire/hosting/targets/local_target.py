"""Call the user's own code in this process, with the checks and the consent of a remote call."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Final, NoReturn, assert_never

import anyio

from toolwire.client.calls.file_arguments import read_file_arguments
from toolwire.client.calls.retry import new_id
from toolwire.client.transport.drivers import SyncNotify, ask_input
from toolwire.consent import build_consent_check, build_denial, effective_level
from toolwire.core.catalog import Catalog
from toolwire.core.check import Allow, Answer, Ask, Deny, KnownResult, Question, apply_checks
from toolwire.core.errors import UsageError
from toolwire.core.model import (
    ANONYMOUS,
    DEFAULT_LOG_LEVEL,
    Approval,
    Call,
    Context,
    Json,
    Kind,
    Problem,
    Progress,
    Result,
    Tool,
    Value,
)
from toolwire.core.no_user_input import INPUT_REQUEST
from toolwire.core.resources import Resource
from toolwire.core.server_features import PromptDefinition, ResourceDefinition, read_texts, write_messages
from toolwire.core.toolbox import Toolbox
from toolwire.core.user_input import InputProvider, InputRequest
from toolwire.framing.form_schema import read_fields
from toolwire.framing.input_messages import write_input_response
from toolwire.server.http.lifespan import begin_lifespan, end_lifespan
from toolwire.telemetry.redaction import hide_secrets, scrub_problem
from toolwire.validation import build_arguments_check
from toolwire.validation.requirements import check_requirements

_NO_CALLS: Final = "Calls of local code end with their program. Give the URL of a server."


class LocalTarget:
    """Calls a Toolbox in this process. ``site`` is the name of the place that the user sees in a question."""

    def __init__(
        self,
        toolbox: Toolbox,
        site: str,
        ask: Callable[[Question], Answer],
        context: Context = ANONYMOUS,
        provide_input: InputProvider | None = None,
    ) -> None:
        self._toolbox = toolbox
        self._site = site
        self._context = replace(
            context, takes_input=provide_input is not None, log_level=context.log_level or DEFAULT_LOG_LEVEL
        )
        self._provide_input = provide_input
        self._ask = ask
        self._notify: SyncNotify | None = None
        consent = build_consent_check(site=site, target=lambda call: f"{call.tool.name}() in this process")
        self._checks = (check_requirements, build_arguments_check(), consent)

    def catalog(self) -> Catalog:
        """Return the tools that can be called."""
        return self._toolbox.catalog()

    def find(self, name: str, /) -> Tool | Problem:
        """Return the tool of that name or id, or a Problem where there is none."""
        return self.catalog().find_or_suggest(name)

    def tags(self) -> Mapping[str, int]:
        """Return nothing: code has no tags."""
        return {}

    def findings(self) -> tuple[str, ...]:
        """Return nothing: code has no document in which something could be left out."""
        return ()

    def list_resources(self) -> tuple[ResourceDefinition, ...]:
        """Return what can be read."""
        return self.catalog().features.resources

    def list_prompts(self) -> tuple[PromptDefinition, ...]:
        """Return the prompts."""
        return self.catalog().features.prompts

    def read_resource(self, uri: str, /) -> Result:
        """Return what is at ``uri``."""
        found = self.catalog().features.find_resource(uri)
        return found if isinstance(found, Problem) else self._read(found[0].reader, found[1])

    def get_prompt(self, name: str, arguments: Mapping[str, str], /) -> Result:
        """Return the prompt ``name`` filled in: an object with ``description`` and ``messages``."""
        found = self.catalog().features.find_prompt(name)
        if isinstance(found, Problem):
            return found
        result = self._read(found.reader, read_texts(arguments, found.reader))
        return Value(write_messages(found.description, result.value)) if isinstance(result, Value) else result

    def _read(self, reader: Tool, arguments: Mapping[str, Json]) -> Result:
        call = Call(reader, arguments, new_id(), self._context)
        # AT-44: as a server does.
        with redirect_stdout(sys.stderr), hide_secrets(call.context):
            return _scrub(self._run_with_answers(call))

    def resource(self, _handle: str, /) -> Resource | None:
        """Return None: a tool of this process gives no handles."""
        return None

    def find_level(self, tool: Tool, /) -> Approval:
        """Return the level of consent that a call of ``tool`` needs."""
        return effective_level(tool)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Json],
        /,
        *,
        notify: SyncNotify | None = None,
    ) -> Result:
        """Call the tool ``name`` and return its result. The user is asked first where the policy needs it."""
        self._notify = notify
        tool = self.catalog().find_or_suggest(name)
        if isinstance(tool, Problem):
            return tool
        read = read_file_arguments(Call(tool, arguments, new_id(), self._context), None)
        if isinstance(read, Problem):
            return read
        call = read.call
        verdict = apply_checks(call, self._checks)
        match verdict:
            case Allow():
                pass
            case Deny(problem):
                return problem
            case KnownResult(result):
                return result
            case Ask(question):
                answer = self._ask(replace(question, files=read.files))
                if answer.allowed is not True:
                    return build_denial(f"{call.tool.name} was not called: it was not allowed.")
            case _:
                assert_never(verdict)
        # Standard output is for the result alone, whatever the tool prints. AT-44: secrets are hidden as by a server.
        with redirect_stdout(sys.stderr), hide_secrets(call.context):
            return _scrub(self._run_with_answers(call))

    def start(
        self,
        name: str,
        arguments: Mapping[str, Json],
        /,
        *,
        notify: SyncNotify | None = None,
    ) -> Result:
        """Return what ``call`` would: a call of this process ends with it."""
        return self.call(name, arguments, notify=notify)

    def handle(self, _call_id: str, /) -> NoReturn:
        """Refuse it."""
        raise UsageError(_NO_CALLS)

    def list_calls(self, _limit: int, _cursor: str, /) -> NoReturn:
        """Refuse it."""
        raise UsageError(_NO_CALLS)

    def _run_with_answers(self, call: Call) -> Result:
        """Run ``call``; where its tool asks the user, run it again with the answer."""
        # MC-09
        result: Result = anyio.run(self._run_with_lifespan, call)
        while isinstance(result, Problem) and INPUT_REQUEST in result.details:  # a tool asks ten questions at most
            asked = result.details[INPUT_REQUEST]
            request = InputRequest(
                message=str(asked["message"]),
                fields=read_fields(asked["schema"]),
                site=self._site,
                tool=call.tool.name,
            )
            answer = write_input_response(ask_input(request, self._provide_input))
            answers = {**(call.context.input_responses or {}), asked["key"]: answer}
            call = call._replace(context=replace(call.context, input_responses=answers))
            result = anyio.run(self._run_with_lifespan, call)
        return result

    async def _run_with_lifespan(self, call: Call) -> Result:
        if threading.current_thread() is threading.main_thread():
            # At the first Ctrl-C, asyncio only cancels its task; a tool that blocks the loop would not notice.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            await begin_lifespan(self._toolbox)
        except Exception as error:  # noqa: BLE001 - any error of the tool's own code
            text = f"{type(error).__name__}: {error}"
            return Problem(kind=Kind.TOOL_FAILED, message="The tool could not be started.", developer_message=text)
        try:
            return await self._run_with_deadline(call)
        finally:
            await end_lifespan(self._toolbox)

    async def _report_progress(self, progress: Progress) -> None:
        if self._notify is not None:
            self._notify(progress)

    async def _run_with_deadline(self, call: Call) -> Result:
        limit = call.tool.timeout_s
        with anyio.move_on_after(limit):
            return await self._toolbox.run(call, self._report_progress)
        message = f"{call.tool.name} was cancelled: it took longer than {limit:g} second{'s' * (limit != 1)}."
        return Problem(kind=Kind.TIMEOUT, message=message)


def _scrub(result: Result) -> Result:
    return scrub_problem(result) if isinstance(result, Problem) else result
