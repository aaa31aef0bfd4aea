"""Serve POST /mcp: one JSON-RPC message in, one answer out, no state.

Rules:
- Every revision is answered: by ``initialize`` up to 2025-11-25, statelessly since 2026-07-28.
- The lists are bytes before the first request; a call costs one look in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple, TypeAlias

from toolwire.core.call_by_name import CALL, read_named_call
from toolwire.core.catalog import Catalog
from toolwire.core.codec import (
    NO_PAGE,
    BlockingTask,
    Reading,
    Route,
    Routes,
    SessionStart,
    Site,
    Streaming,
    make_pending,
)
from toolwire.core.http import EVENT_HEADERS, JSON_HEADERS, Request, Response, get_header, make_response
from toolwire.core.model import ANONYMOUS, Call, Context, Json, Kind, Problem, Progress, Result, Tool, Value, make_call
from toolwire.core.no_user_input import REQUIRED_CAPABILITIES
from toolwire.core.toolbox import OutputPromise
from toolwire.framing import call_context, jsonrpc, sse
from toolwire.framing.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from toolwire.framing.jsontext import encode_fragment, get_object, read_object
from toolwire.framing.jsontext import read as read_json
from toolwire.framing.jsontext import write as to_json
from toolwire.framing.long_result import PART_NOTE, READ_RESULT, CutRule, find_reading_name

from . import (
    change_notices,
    consent_question,
    content_blocks,
    document,
    envelope,
    foreign_members,
    later_result,
    task_server,
)
from .answers import (
    AskedMethod,
    Method,
    answer_page,
    build_answer,
    build_error,
    build_invalid,
    build_refusal,
    make_asked,
    refuse_method,
    write_pages,
    write_static,
)
from .feature_methods import build_capabilities, build_feature_methods
from .header_arguments import Mirror, find_mirrored
from .headers import find_mismatch
from .later_result import WAIT_WITHOUT_TASKS_S
from .list_choice import ALL, ListChoice, find_part_size, is_own_client
from .output_schema import OutputForm, build_output_form
from .progress import Notifications
from .result import is_tool_error, read_handshake_version, write_ending, write_failure, write_value
from .revision import (
    HANDSHAKE,
    HEADER_MISMATCH,
    LIST_META,
    LISTEN,
    MISSING_CAPABILITY,
    STATELESS,
    SUPPORTED,
    VERSION_HEADER,
    WITH_SESSIONS,
)
from .server_card import build_card_routes

LIST_TTL_MS = 60_000

ACCEPTED = Response(202)

_PART_FORM = OutputForm(None, is_untyped=True)

_HANDSHAKE_FIELDS = frozenset(version.encode() for version in HANDSHAKE)
_STATELESS_FIELD = STATELESS.encode()
_PLAIN_END = b"}}"
_STATELESS_STATUS = {INVALID_PARAMS: 400, INVALID_REQUEST: 400, METHOD_NOT_FOUND: 404}


FindForm: TypeAlias = Callable[[Tool, str], OutputForm]
"""Return how the results of a tool are written."""


class _ServerWords(NamedTuple):
    """What every answer to a call has: the server's name, its end; and what holds for hosts that cannot be asked.

    ``usual_context`` is that of a call which says nothing about its user, its trace or a confirmation: of most calls.
    ``find_inbox_page`` and ``part_characters`` are those of the site. ``cut_rule`` says of which results a model gets a
    part. ``calls_reader`` is the name of the tool that reads the results of long calls; empty if there are none.
    """

    server: Mapping[str, Json]
    end: bytes
    host_confirmation: str
    requires_confirmation: bool
    usual_context: Context
    find_inbox_page: Callable[[], str]
    part_characters: int | None
    cut_rule: CutRule
    calls_reader: str


class _KnownTool(NamedTuple):
    """A tool that was called: the arguments that go into headers too, whether a call is one answer, and its results."""

    tool: Tool
    mirror: Mirror
    is_plain: bool
    form: OutputForm


class _Calls(NamedTuple):
    """What the calls of one way of speaking MCP share; with ``mirrors``, headers must say what marked arguments say."""

    catalog: Catalog
    known: dict[str, _KnownTool]
    texts: _ServerWords
    mirrors: bool
    find_form: FindForm


class Revision(NamedTuple):
    """What one way of speaking MCP offers. Before 2026-07-28 an error is HTTP 200: old clients break on any other."""

    methods: Mapping[str, Method]
    status: Mapping[int, int]


def build_routes(catalog: Catalog, site: Site) -> Routes:
    """Return the route of MCP, and those of its card. There are no batches, and streams only for progress."""
    server = {"name": catalog.title, "version": catalog.version}
    end = write_ending(server)
    cached = {"ttlMs": LIST_TTL_MS, "cacheScope": "private" if site.keys else "public"}
    build_form: FindForm = _FormBuilder(site.judge_output)

    def find_form(tool: Tool, name: str) -> OutputForm:
        return site.cache.get(build_form, tool, name)

    cut_rule = CutRule(site.part_characters is None, site.keeps_writes)
    choice = None if site.model_lists is None else ListChoice(catalog, site.model_lists, site)
    calls_reader = later_result.find_calls_reader(catalog)

    def write_tools(listed: Catalog, write_tool: _ToolWriter) -> Mapping[Json, bytes]:
        is_same = choice is None or not choice.depends_on_client()
        is_same = is_same and not calls_reader
        is_same = is_same and not (site.part_characters != 0 and find_reading_name(catalog, cut_rule))
        members = cached if is_same else {**cached, "cacheScope": "private"}
        describe = partial(site.cache.get, write_tool)
        return write_pages("tools", document.write(listed, describe), members, end)

    lists: dict[str, Method] = {
        "tools/list": _answer_tool_lists(catalog, site, choice, calls_reader, cut_rule, write_tools),
        **build_feature_methods(catalog.features, cached, server, end),
    }
    usual = _build_usual_context(site)
    texts = _ServerWords(
        server,
        end,
        site.host_confirmation,
        site.requires_confirmation,
        usual,
        site.find_inbox_page,
        site.part_characters,
        cut_rule,
        calls_reader,
    )
    known: dict[str, _KnownTool] = {}
    about: dict[str, Json] = {"capabilities": build_capabilities(catalog.features)}
    if catalog.description:
        about["instructions"] = catalog.description
    # Every server declares a log: what a tool behind a gateway may write to it is not known beforehand.
    capabilities = build_capabilities(catalog.features, notifies=True) | {"logging": {}}
    notifying = {**about, "capabilities": capabilities}
    tasks = task_server.build_task_methods(catalog, server, end, find_form)
    discovered = {**about, "capabilities": task_server.add_capability(capabilities, tasks)}
    discovery = write_static({"supportedVersions": list(SUPPORTED), **discovered, **cached}, end)
    greetings = {
        version: write_static({"protocolVersion": version, "serverInfo": server, **about}, end) for version in HANDSHAKE
    }
    lasting = {
        version: write_static({"protocolVersion": version, "serverInfo": server, **notifying}, end)
        for version in HANDSHAKE
    }

    def answer_calls(*, mirrors: bool) -> Method:
        whole: Method = partial(_call_tool, _Calls(catalog, known, texts, mirrors, find_form))
        if choice is None:
            return whole
        shorten = choice.shorten
        find_short = cache(lambda: _Calls(shorten(), {}, texts, mirrors, find_form))
        return choice.answer_calls(lambda asked: _call_tool(find_short(), asked), whole)

    handshake: dict[str, Method] = {
        "initialize": partial(
            _initialize,
            greetings,
            lasting if site.has_sessions else {},
            choice,
            site.part_characters,
            has_inbox=site.find_inbox_page is not NO_PAGE,
        ),
        "ping": partial(build_answer, b"}}"),  # nothing at all: clients of these revisions compare
        **lists,
        "tools/call": answer_calls(mirrors=False),
    }
    stateless: dict[str, Method] = {
        "server/discover": partial(build_answer, discovery),
        LISTEN: change_notices.open_subscription,
        **lists,
        "tools/call": answer_calls(mirrors=True),
        **tasks,
    }
    read = partial(_read, Revision(handshake, {}), Revision(stateless, _STATELESS_STATUS))
    return {("POST", "/mcp"): Route(read, has_sessions=site.has_sessions), **build_card_routes(catalog, site)}


def _answer_tool_lists(
    catalog: Catalog,
    site: Site,
    choice: ListChoice | None,
    calls_reader: str,
    cut_rule: CutRule,
    write: Callable[[Catalog, _ToolWriter], Mapping[Json, bytes]],
) -> Method:
    """Return what answers with the list of the client, as ``write`` writes it for hosts or for programs."""

    def list_tools(*, is_for_host: bool, reads_calls: bool = False) -> Method:
        def write_list(listed: Catalog) -> Mapping[Json, bytes]:
            reader = calls_reader if reads_calls else ""
            rule = None
            if is_for_host:
                rule = cut_rule.apply_to(catalog)
                reader = reader or find_reading_name(catalog, cut_rule)
            listed = later_result.add_reading(listed, reader, of_calls=reads_calls)
            return write(listed, _ToolWriter(site.judge_output, rule, reads_calls))

        if choice is not None:
            return choice.answer_lists(write_list)
        tools = site.defer(lambda: write_list(catalog))
        return lambda asked: tools.read(lambda pages: answer_page(pages, asked))

    def by_client(*, reads_calls: bool) -> Method:
        of_programs = list_tools(is_for_host=False, reads_calls=reads_calls)
        if site.part_characters == 0:
            return of_programs
        of_hosts = list_tools(is_for_host=True, reads_calls=reads_calls)  # QF-10
        return lambda asked: (of_hosts if find_part_size(asked, site.part_characters) else of_programs)(asked)

    with_tasks = by_client(reads_calls=False)
    if not calls_reader:
        return with_tasks
    without_tasks = by_client(reads_calls=True)  # LC-02
    return lambda asked: (without_tasks if later_result.reads_calls(asked) else with_tasks)(asked)


@dataclass(frozen=True, slots=True)
class _FormBuilder:
    """Builds the form of a tool's results. Two are equal if they judge alike, so that a cache knows them."""

    judge: Callable[[Tool], OutputPromise]

    def __call__(self, tool: Tool, _name: str) -> OutputForm:
        return build_output_form(tool, self.judge(tool))


@dataclass(frozen=True, slots=True)
class _ToolWriter:
    """Writes the definition of a tool; as ``_FormBuilder``.

    ``rule`` says of which results the host's model may get a part, which no schema promises. With ``reads_calls``, a
    call of a long tool may be answered before it has a result.
    """

    judge: Callable[[Tool], OutputPromise]
    rule: CutRule | None = None
    reads_calls: bool = False

    def __call__(self, tool: Tool, name: str) -> Json:
        form = build_output_form(tool, self.judge(tool))
        if (self.reads_calls and tool.long) or (self.rule is not None and self.rule.may_cut(tool)):
            form = form._replace(schema=None, is_wrapped=False)
        return encode_fragment(document.write_tool(tool, name, form))


def refuse(problem: Problem) -> Response:
    """Return a problem that came before any message was read, as a JSON-RPC error without an id."""
    return build_refusal(b"null", problem)


def _read(handshake: Revision, stateless: Revision, request: Request) -> Reading | BlockingTask:
    data = read_object(request)
    if isinstance(data, Problem):
        return _refuse_unreadable(request, data)
    message = jsonrpc.read(data)
    if isinstance(message, Problem) or message.id is None:
        return _refuse_message(data, message)
    name, params, given_id, _ = message
    id_ = to_json(given_id)
    if not isinstance(params, dict):
        if params is not None:
            return build_error(id_, INVALID_PARAMS, '"params" must be an object.', 400)
        params = {}
    revision, refusal = handshake, None
    fields = envelope.index_fields(request)
    field = fields.get(VERSION_HEADER)
    if field in _HANDSHAKE_FIELDS:
        if "_meta" in params and envelope.names_other_version(field, params):  # I-33
            refusal = envelope.refuse_other_version()
    else:
        version = STATELESS if field == _STATELESS_FIELD else envelope.read_version(fields, params)
        if version and version not in HANDSHAKE:
            refusal = envelope.check_envelope(fields, name, params, version)
            revision = stateless
    if refusal is not None:
        return build_error(id_, refusal.code, refusal.message, 400, refusal.data)
    methods, status = revision
    method = methods.get(name)
    if method is None:
        text = f"Unknown method {name[:100]!r}. Methods: {', '.join(sorted(methods))}."
        return build_error(id_, METHOD_NOT_FOUND, text, status.get(METHOD_NOT_FOUND, 200))
    return method(make_asked((id_, params, request, status)))


def _refuse_message(data: dict[str, Json], message: jsonrpc.Message | Problem) -> Response:
    """Return the answer to what is no request: a notification, a null for an id, or anything broken."""
    if isinstance(message, Problem):
        return build_error(to_json(jsonrpc.get_id(data)), INVALID_REQUEST, message.message, 400)
    if not message.expects_answer:
        return ACCEPTED
    return build_error(b"null", INVALID_REQUEST, '"id" must be a string or a number, not null.', 400)


def _find_known(calls: _Calls, name: str) -> _KnownTool | Problem:
    """Return the tool that ``name`` means, and keep what each call of it needs."""
    catalog, known = calls.catalog, calls.known
    tool = catalog.names.get(name) or catalog.find(name)
    limit, reader = calls.texts.part_characters, calls.texts.calls_reader
    if isinstance(tool, Problem) and limit != 0:
        reader = reader or find_reading_name(catalog, calls.texts.cut_rule)
    if isinstance(tool, Problem) and name and name == reader:
        tool = READ_RESULT
    if isinstance(tool, Problem):
        return tool
    found = known[name] = _build_known(calls, tool)
    return found


def _build_known(calls: _Calls, tool: Tool) -> _KnownTool:
    is_plain = not (tool.long or tool.reports or tool.streams)
    return _KnownTool(tool, find_mirrored(tool.input_schema), is_plain, calls.find_form(tool, ""))


def _read_call(calls: _Calls, asked: AskedMethod) -> tuple[_KnownTool, dict[str, Json]] | Response:
    """Return the tool that a call names, and its arguments; or the answer that says what is wrong."""
    params = asked.params
    name = params.get("name")
    if not isinstance(name, str):
        return build_invalid(asked, '"name" must be the name of a tool, as a string.')
    listed = calls.known.get(name) or _find_known(calls, name)
    if isinstance(listed, Problem):
        return build_invalid(asked, listed.message)
    arguments = params.get("arguments")
    if not isinstance(arguments, dict):
        if arguments is not None:
            return build_invalid(asked, f'"arguments" of {listed.tool.name} must be an object.')
        arguments = {}
    if listed.tool is not CALL:
        return listed, arguments
    # FI-07: from here on it is the call of the tool that is meant. A model reads what is wrong, as it named the tool.
    meant = read_named_call(calls.catalog, arguments)
    if isinstance(meant, Problem):
        server = calls.texts.server if asked.status else None
        return Response(200, JSON_HEADERS, write_failure(asked.id, meant, server))
    # No header says what the arguments of this tool are: its host knows ``call`` alone.
    return _build_known(calls, meant.tool)._replace(mirror=()), dict(meant.arguments)


def _call_tool(calls: _Calls, asked: AskedMethod) -> Reading:
    texts, mirrors = calls.texts, calls.mirrors
    asked_id, params, request, status = asked
    read = _read_call(calls, asked)
    if isinstance(read, Response):
        return read
    (tool, mirror, is_plain, form), arguments = read
    # MC-11: a proxy may have let the call pass for what the header says.
    if mirrors and mirror and (header := find_mismatch(mirror, arguments, request.headers)):
        text = f"The header {header} differs from its argument."
        return build_error(asked_id, HEADER_MISMATCH, text, 400)
    context = texts.usual_context if consent_question.says_nothing(params) else _read_context(params, tool, texts)
    if isinstance(context, Problem):
        return Response(200, JSON_HEADERS, write_failure(asked_id, context, texts.server if status else None))
    if not is_plain and tool.long:  # tasks exist since 2026-07-28
        has_tasks = bool(status) and task_server.declares_tasks(params)
        context = replace(context, wait_s=0.0 if has_tasks else WAIT_WITHOUT_TASKS_S)
        if later_result.reads_calls(asked):
            form = form._replace(schema=None, is_wrapped=False)
    elif tool is READ_RESULT and texts.calls_reader and later_result.is_call_id(arguments, texts.part_characters):
        return _read_long_call(calls, asked, arguments)
    if size := find_part_size(asked, texts.part_characters):
        context = replace(context, part_characters=size)

    def reply(result: Result, _: float) -> Response:
        if isinstance(result, Value):
            return _write_value(asked, tool, form, result, texts)
        return _answer_problem(asked, call, result, texts, has_schema=form.schema is not None)

    call = make_call((tool, arguments, request.id, context, ""))
    streaming = None if is_plain else _find_streaming(asked, call, reply)
    return make_pending((call, reply, True)) if streaming is None else streaming


def _read_long_call(calls: _Calls, asked: AskedMethod, arguments: Mapping[str, Json]) -> Reading:
    """Return the query for the result of a long call, which is written as its own answer would have been."""
    texts = calls.texts

    def write(tool: Tool, result: Result) -> Response:
        if isinstance(result, Value):
            form = calls.find_form(tool, "")._replace(schema=None, is_wrapped=False)
            return _write_value(asked, tool, form, result, texts)
        return Response(200, JSON_HEADERS, write_failure(asked.id, result, texts.server if asked.status else None))

    size, end = find_part_size(asked, texts.part_characters), texts.end if asked.status else _PLAIN_END
    return later_result.read_call(asked, arguments, calls.catalog, size, write, end)


def _write_value(asked: AskedMethod, tool: Tool, form: OutputForm, result: Value, texts: _ServerWords) -> Response:
    # I-32: what older clients do not know reaches the model.
    end, handshake = (texts.end, None) if asked.status else (_PLAIN_END, asked.request)
    is_part = result.notes is not None and PART_NOTE in result.notes
    body = write_value(asked.id, _PART_FORM if is_part else form, result.value, end, handshake)
    whole = body if result.notes is None else _pass_on(asked, body, result, tool)
    return make_response((200, JSON_HEADERS, whole))


def _pass_on(asked: AskedMethod, body: bytes, result: Value, tool: Tool) -> bytes:
    """Return the answer in ``body`` with what another server says beside its result."""
    if not foreign_members.has_members(result):
        return body
    version = STATELESS if asked.status else read_handshake_version(asked.request)
    return foreign_members.write_result_members(body, result, tool, partial(content_blocks.translate, version=version))


def _add_required(context: Context, params: Mapping[str, Json]) -> Context | Problem:
    """Return ``context`` with the tokens, secrets and user that the ``_meta`` of a call brings."""
    # I-27
    brought = call_context.read(get_object(params, "_meta").get(call_context.META), "", "")
    if isinstance(brought, Problem):
        text = f'Cannot read "{call_context.META}" in _meta: it must be an object with the call\'s context.'
        return Problem(kind=Kind.MALFORMED, message=text)
    tokens, secrets = brought.tokens, brought.secrets
    return replace(context, tokens=tokens, secrets=secrets, user_id=brought.user_id, user_info=brought.user_info)


def _build_usual_context(site: Site) -> Context:
    """Return what ``_read_context`` returns for a call that says nothing."""
    context = ANONYMOUS
    if site.requires_confirmation:
        context = replace(context, must_confirm=True, needs_inbox=True)
    return replace(context, confirmation=site.host_confirmation) if site.host_confirmation else context


def _read_context(params: Mapping[str, Json], tool: Tool, texts: _ServerWords) -> Context | Problem:
    """Return the context of a call: its trace, and its confirmation; a Problem if its user did not allow it."""
    confirmed = _read_confirmation(params, texts)
    context = _add_required(confirmed, params) if tool.requirements else confirmed
    if isinstance(context, Problem) or not texts.find_inbox_page():
        return context
    return consent_question.read_page_answer(context, params, tool.name)


def _read_confirmation(params: Mapping[str, Json], texts: _ServerWords) -> Context:
    context = envelope.read_trace(params)
    takes_input = consent_question.can_show_forms(params)
    can_ask = takes_input and consent_question.can_ask(params)
    if takes_input:
        context = replace(context, takes_input=True)
    # QF-07: who cannot be asked is never trusted more than who can.
    is_unanswered = consent_question.has_unanswered_question(params)
    if (texts.requires_confirmation or is_unanswered) and not can_ask:
        context = replace(context, must_confirm=True, needs_inbox=not consent_question.handles_consent(params))
    if "_meta" in params:
        context = consent_question.add_proof(context, params)
    state = params.get("requestState")
    if isinstance(state, str) and "." in state:  # the words of confirmations have none
        responses = get_object(params, "inputResponses")
        return replace(context, can_ask=can_ask, confirmation=state, input_responses=responses)
    if "requestState" in params:
        return replace(consent_question.add_reply(context, params), can_ask=can_ask)
    if can_ask:
        return replace(context, can_ask=True)
    if texts.host_confirmation and not (context.confirmation or is_unanswered):
        return replace(context, confirmation=texts.host_confirmation)
    return context


def _answer_problem(
    asked: AskedMethod, call: Call, problem: Problem, texts: _ServerWords, *, has_schema: bool
) -> Response:
    """Return the answer to a call that has no value: a question to its user, a result with an error, or an error."""
    wanted = consent_question.write_wanted_input(asked, call, problem, texts.server, texts.find_inbox_page)
    if wanted is not None:
        return Response(200, JSON_HEADERS, wanted)
    if problem.kind is Kind.UNCONFIRMED:
        problem = consent_question.explain_refusal(call, problem, asked.params)
    if problem.kind is Kind.ACCEPTED and asked.status and task_server.declares_tasks(asked.params):
        return task_server.write_task(asked.id, problem, texts.server)
    if problem.kind is Kind.ACCEPTED and texts.calls_reader and not is_own_client(asked.request):
        end, status = texts.end if asked.status else _PLAIN_END, get_object(problem.details, "call")
        return later_result.write_unfinished(asked, status, call.tool.name, texts.calls_reader, end)
    required = get_object(problem.details, REQUIRED_CAPABILITIES)
    if required and asked.status:  # I-29
        return build_error(asked.id, MISSING_CAPABILITY, problem.message, 400, {"requiredCapabilities": dict(required)})
    if is_tool_error(problem):
        # A host that stays connected is still asked for its user's decision, and that must be told from an answer.
        is_new = asked.status or problem.kind is Kind.UNCONFIRMED
        version = STATELESS if asked.status else read_handshake_version(asked.request)
        server = texts.server if is_new else None
        return Response(200, JSON_HEADERS, write_failure(asked.id, problem, server, version, has_schema=has_schema))
    return refuse_method(asked, problem)


def _find_streaming(asked: AskedMethod, call: Call, reply: Callable[[Result, float], Response]) -> Streaming | None:
    """Return the stream of ``call`` if its tool has any, and its client wants progress or a log and takes streams."""
    if not (call.tool.reports or call.tool.streams):
        return None
    token, level = envelope.read_progress_token(asked.params), envelope.read_log_level(asked.params)
    if token is None and not level:
        return None
    if "text/event-stream" not in get_header(asked.request.headers, b"accept").lower():
        return None
    if level:
        call = call._replace(context=replace(call.context, log_level=level))
    return _build_streaming(call, reply, Notifications(token, level))


def _build_streaming(call: Call, reply: Callable[[Result, float], Response], notifications: Notifications) -> Streaming:
    """Return a call whose progress goes before its answer, each as one event."""

    def write_closing(result: Result, duration_ms: float) -> bytes:
        return sse.write("message", reply(result, duration_ms).body)

    def frame(progress: Progress) -> bytes:
        message = notifications.write(progress)
        return b"" if message is None else sse.write("message", to_json(message))

    # Some clients refuse an event of more than a mebibyte, but not a response.
    return Streaming(
        call, EVENT_HEADERS, b"", frame, write_closing, lambda problem: reply(problem, 0.0), sse.COMMENT, reply
    )


def _initialize(
    greetings: Mapping[str, bytes],
    lasting: Mapping[str, bytes],
    choice: ListChoice | None,
    part_characters: int | None,
    asked: AskedMethod,
    *,
    has_inbox: bool,
) -> Reading | BlockingTask:
    """Return the answer to ``initialize``; an offer of a session where the server keeps them.

    ``greetings`` are the answers without a session, by revision, and ``lasting`` those within one. With ``has_inbox``
    there may be a page to tell a user of. ``choice`` is the one between two lists, which holds for a session.
    """
    version = asked.params.get("protocolVersion")
    if not isinstance(version, str):
        return build_invalid(asked, '"protocolVersion" must be a date such as "2025-11-25", as a string.')
    version = version if version in greetings else HANDSHAKE[0]
    answer = build_answer(greetings[version], asked)
    if not lasting:
        return answer
    # MC-10
    capabilities = get_object(asked.params, "capabilities")
    start = SessionStart(
        answer,
        build_answer(lasting[version], asked),
        capabilities,
        has_forms=consent_question.declares_forms(capabilities)
        or (has_inbox and consent_question.declares_pages(capabilities)),
        has_id=version in WITH_SESSIONS,
        refuse=partial(build_refusal, asked.id),
    )
    size = find_part_size(asked, part_characters) if part_characters is None else 0

    def begin(chosen: str) -> SessionStart:
        # The requests of a session do not name its client.
        mark = f"{chosen} {size}" if size else chosen
        return start._replace(capabilities={**capabilities, LIST_META: mark})

    if choice is None:
        return begin(ALL) if size else start
    return choice.choose(asked, begin)


def _refuse_unreadable(request: Request, problem: Problem) -> Response:
    if problem.kind is Kind.MALFORMED and isinstance(read_json(request.body), Problem):
        return build_error(b"null", PARSE_ERROR, problem.message, 400)
    return build_refusal(b"null", problem)
