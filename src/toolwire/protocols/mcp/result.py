"""Write the result of a call as the result of ``tools/call``, and read it.

Rules:
- What a model can act on is a result with ``isError``; what is wrong with the request itself is a JSON-RPC error.
- A problem's developer message is never sent.
"""
#

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from toolwire.core.http import Request, get_header
from toolwire.core.model import AFTER_START, Json, Kind, Problem, Result, Tool, Value
from toolwire.framing import jsontext, problem_members
from toolwire.framing.cut_notice import SCHEMA_FAULT
from toolwire.framing.jsontext import get_object
from toolwire.framing.problem_members import CAMEL_CASE
from toolwire.framing.response_fields import HEADERS, get_response_fields
from toolwire.validation.results import TOO_LARGE_TO_CHECK, FindFault, build_foreign_result_check

from . import content_blocks, foreign_members
from .output_schema import OutputForm, is_plain_text, is_untyped
from .revision import HEADERS_META, PROBLEM_META, SERVER_META, STATELESS, TEXT_META, VERSION_HEADER

_ERRORS_FOR_MODEL: Final = AFTER_START | {
    Kind.ACCEPTED,
    Kind.INVALID_ARGUMENTS,
    Kind.DENIED,
    Kind.UNCONFIRMED,
    Kind.RATE_LIMITED,
    Kind.MISSING_REQUIREMENTS,
    Kind.UNREACHABLE,
    Kind.BAD_ANSWER,
}
_UNNAMED: Final = "2025-03-26"
_MARKS: Final = {is_text: b',"_meta":' + jsontext.write({TEXT_META: is_text}) for is_text in (True, False)}
_JSON_STARTS: Final = frozenset('{["-0123456789 \t\r\n')
_JSON_WORDS: Final = frozenset(("true", "false", "null"))
_NUMBERS: Final = frozenset({int, float, bool})
_CONTENT_TYPES: Final = frozenset({dict, list})
_MAX_CHECKS: Final = 200
_CHECKS: Final[dict[int, tuple[Tool, FindFault | None]]] = {}


def is_tool_error(problem: Problem) -> bool:
    """Return whether the model is told of ``problem``, as a result with ``isError``, and not the client by an error.

    Whatever status another server answered with is its result: a client takes a 404 for the end of its session, and
    shows no sentence of a 403 or 503. Only a challenge, which is about the caller's own credentials, is an error.
    """
    # CR-04
    if problem.kind in _ERRORS_FOR_MODEL:
        return True
    is_challenge = problem.kind is Kind.UNAUTHORIZED or isinstance(problem.details.get("scopes"), list)
    return "status" in problem.details and not is_challenge


def read_handshake_version(request: Request) -> str:
    """Return the revision of a request after a handshake: one without the header field is of 2025-03-26 or before."""
    return get_header(request.headers, VERSION_HEADER) or _UNNAMED


def write_ending(server: Mapping[str, Json], meta: Mapping[str, Json] = MappingProxyType({})) -> bytes:
    """Return what a result of one server ends with, from the comma after its own members; ``meta`` is passed on."""
    return b',"resultType":"complete","_meta":' + jsontext.write({**meta, SERVER_META: server}) + b"}}"


def write_opening(id_: bytes) -> bytes:
    """Return what each result begins with; ``id_`` is the request's id as JSON."""
    return b'{"jsonrpc":"2.0","id":' + id_ + b',"result":{'


def write_value(id_: bytes, form: OutputForm, value: Json, end: bytes, request: Request | None = None) -> bytes:
    """Return the answer for a value: as text, and as structured content where that is listed, or an object.

    ``request`` says in which revision with a handshake it is written; without it, all words are known. A value that
    does not fit what is listed goes as content alone, with a sentence, and with ``isError``: clients discard it
    otherwise.
    """
    if value is None and (form.returns_nothing or form.is_untyped or form.has_blocks):
        return write_opening(id_) + b'"content":[],"isError":false' + end
    body = b""
    if type(value) in _CONTENT_TYPES and content_blocks.has_blocks(value):
        version = STATELESS if request is None else read_handshake_version(request)
        content = jsontext.write(content_blocks.write_for(value, version))
        # Where the list says nothing of the result, the bytes go once.
        if form.schema is not None:
            body = jsontext.write(value)
    else:
        body = jsontext.write(value)
        if isinstance(value, str):
            text = body
        else:  # in the text of a number there is nothing to escape
            text = b'"%b"' % body if type(value) in _NUMBERS else jsontext.write(body.decode())
        mark = _find_mark(form, value) if request is None and form.schema is None else b""
        content = b'[{"type":"text","text":%b%b}]' % (text, mark)
    if form.schema is not None and (form.find_fault is not None or not (form.is_wrapped or type(value) is dict)):
        fault = _find_fault(form, value)
        if fault:
            return _write_misfit(id_, content, fault, end)
    return b'{"jsonrpc":"2.0","id":%b,"result":{"content":%b%b,"isError":false%b' % (
        id_,
        content,
        _write_structured(form, value, body),
        end,
    )


def _write_structured(form: OutputForm, value: Json, body: bytes) -> bytes:
    """Return the structured content for ``value``, whose JSON is ``body``; nothing where there is none."""
    if form.is_wrapped:
        return b',"structuredContent":{"result":%b}' % body
    has_any = body and type(value) is dict and not (form.returns_nothing or form.is_untyped or form.has_blocks)
    return b',"structuredContent":' + body if has_any else b""


def _find_fault(form: OutputForm, value: Json) -> str:
    """Return what keeps ``value`` from being the structured content that is listed, or ``""``."""
    if not form.is_wrapped and type(value) is not dict:
        return "it is not an object"
    return "" if form.find_fault is None else form.find_fault({"result": value} if form.is_wrapped else value)


def _write_misfit(id_: bytes, content: bytes, fault: str, end: bytes) -> bytes:
    # O-21: the call has run, so its result must reach the model.
    sentence = f"The call has run. Its result does not fit the schema that its server lists ({fault}). The result:"
    blocks = b'[{"type":"text","text":%b},%b' % (jsontext.write(sentence), content[1:])
    return write_opening(id_) + b'"content":' + blocks + b',"isError":true' + end


def write_failure(
    id_: bytes,
    problem: Problem,
    server: Mapping[str, Json] | None,
    version: str = STATELESS,
    *,
    has_schema: bool = False,
) -> bytes:
    """Return the answer for a problem that a model should hear of: its sentence, then what may help.

    Without ``server``, it is for a client up to 2025-11-25: the text and any header fields of another server, because
    frameworks hand the rest to models. What another MCP server answered is passed on as ``version`` says it;
    ``has_schema``: the list has a schema for the tool's results.
    """
    texts = [problem.message, problem.additional_prompt_content]
    result: dict[str, Json] = {
        "content": [{"type": "text", "text": text} for text in texts if text],
        "isError": True,
    }
    if foreign_members.NOTE in problem.details:
        problem = foreign_members.write_failure_members(
            result, problem, lambda block: content_blocks.translate(block, version), has_schema=has_schema
        )
    if server is not None:
        meta: dict[str, Json] = {SERVER_META: server, PROBLEM_META: write_problem(problem)}
        result |= {"resultType": "complete", "_meta": {**get_object(result, "_meta"), **meta}}
    elif fields := get_response_fields(problem):  # CR-04
        result["_meta"] = {**get_object(result, "_meta"), HEADERS_META: dict(fields)}
    return b'{"jsonrpc":"2.0","id":' + id_ + b',"result":' + jsontext.write(result) + b"}"


def write_problem(problem: Problem) -> dict[str, Json]:
    """Return what a program can use of ``problem``; what is at its default is left out."""
    # OTC-028..032
    return {"message": problem.message, **problem_members.write(problem, CAMEL_CASE)}


def read_problem(data: Mapping[str, Json], kind: Kind, message: str) -> Problem:
    """Return the problem that ``data`` describes; ``kind`` and ``message`` stand where it does not say."""
    given_kind, given_message = data.get("kind"), data.get("message")
    if isinstance(given_kind, str) and given_kind in set(Kind):
        kind = Kind(given_kind)
    if isinstance(given_message, str) and given_message:
        message = given_message
    return problem_members.read(data, kind, message, CAMEL_CASE)


def read(tool: Tool, result: Mapping[str, Json]) -> Result:
    """Return what the result of a ``tools/call`` means.

    Structured content comes first; else the text, read as JSON where the tool says what it returns; content that
    is more than text is what ``content_blocks.read`` makes of it.
    """
    if result.get("resultType", "complete") == "input_required":
        why = (
            f"{tool.name} needs input from the user, and no user can be asked. Connect with provide_input=... "
            "to provide it."
        )
        return Problem(kind=Kind.MISSING_REQUIREMENTS, message=why)
    content = _read_content(result.get("content"))
    text = _join_text(content)
    meta = result.get("_meta")
    fields: dict[str, Json] = {HEADERS: meta[HEADERS_META]} if isinstance(meta, dict) and HEADERS_META in meta else {}
    if result.get("isError") is True:
        problem = get_object(get_object(result, "_meta"), PROBLEM_META)
        details = get_object(problem, "details") if problem else fields
        problem = {**problem, "details": {**foreign_members.read_failure(result, content), **details}}
        return read_problem(problem, Kind.TOOL_FAILED, _describe_failure(tool, result, content))
    structured = result.get("structuredContent")
    # Some servers repeat their blocks there, which would hide an image in data.
    if structured is not None and not (structured == {"content": content} and is_untyped(tool)):
        value = _note_broken_promise(tool, Value(_unwrap(tool, result, text)))
    elif text is None:
        value = Value(content_blocks.read(content) if content else None)
    else:
        value = Value(text if _is_text(tool, content) else _parse(text))
    value = foreign_members.add_result_members(value, result, content)
    return Value(value.value, {**(value.notes or {}), **fields}) if fields else value


def _read_content(content: Json) -> list[dict[str, Any]]:
    """Return the blocks of ``content``. A server that writes them otherwise has run the call too."""
    if content is None:
        return []
    return [_read_block(block) for block in (content if isinstance(content, list) else [content])]


def _read_block(block: Json) -> dict[str, Any]:
    if not isinstance(block, dict):
        return {"type": "text", "text": block if isinstance(block, str) else _write_text(block)}
    # Servers in Go leave out a text that is empty.
    return {**block, "text": ""} if block.get("text") is None and block.get("type") == "text" else block


def _describe_failure(tool: Tool, result: Mapping[str, Json], content: list[dict[str, Any]]) -> str:
    """Return what a failed call says in words: its texts, or else its data as JSON."""
    texts = [text for block in content if isinstance(text := block.get("text"), str)]
    if "".join(texts).strip():
        return "\n".join(texts)
    data = result.get("structuredContent")
    return f"{tool.name} failed without a reason." if data is None else f"{tool.name} failed: {_write_text(data)}"


def _write_text(data: Json) -> str:
    return jsontext.write(data).decode()


def _find_mark(form: OutputForm, value: Json) -> bytes:
    """Return what tells our own client whether a text is the value, where it would take it for the other."""
    if form.is_text or form.has_blocks:
        return b"" if isinstance(value, str) else _MARKS[False]
    is_like_json = isinstance(value, str) and (value[:1] in _JSON_STARTS or value in _JSON_WORDS)
    return _MARKS[True] if is_like_json else b""


def _is_text(tool: Tool, content: list[dict[str, Any]]) -> bool:
    """Return whether the text of a result is the value, and not the JSON of it."""
    marked = get_object(content[0], "_meta").get(TEXT_META) if content else None
    if isinstance(marked, bool):
        return marked
    schema = tool.output_schema
    if not schema and get_object(tool.hints, "mcp").get("hinted") is not True:
        return True
    return schema is not None and is_plain_text(schema)


def _join_text(content: list[dict[str, Any]]) -> str | None:
    if len(content) == 1:  # most results are one text
        text = content[0].get("text") if content[0].get("type") == "text" else None
        return text if isinstance(text, str) else None
    texts = [block.get("text") if block.get("type") == "text" else None for block in content]
    lines = [text for text in texts if isinstance(text, str)]
    return "\n".join(lines) if lines and len(lines) == len(content) else None


def _unwrap(tool: Tool, result: Mapping[str, Json], text: str | None) -> Json:
    """Return the structured content, or what is under its ``result`` where the server says that it put it there.

    Where the text holds the whole object, the tool returned an object that happens to look so.
    """
    value = result["structuredContent"]
    if not isinstance(value, dict) or list(value) != ["result"]:
        return value
    is_wrapped = get_object(tool.hints, "mcp").get("wrapped") is True
    if not is_wrapped and get_object(get_object(result, "_meta"), "fastmcp").get("wrap_result") is not True:
        return value
    return value if text is not None and text.startswith("{") and _parse(text) == value else value["result"]


def _parse(text: str) -> Json:
    data = jsontext.read(text.encode("utf-8", "replace"))
    return text if isinstance(data, Problem) else data


def _note_broken_promise(tool: Tool, value: Value) -> Value:
    """Return ``value`` with a note if it breaks the output schema that the server of ``tool`` lists; never hide it."""
    # O-38
    known = _CHECKS.get(id(tool))
    if known is None:
        if len(_CHECKS) >= _MAX_CHECKS:
            _CHECKS.clear()
        known = _CHECKS[id(tool)] = (tool, _build_check(tool))  # with the tool, so that no other one gets its id
    fault = "" if known[1] is None else known[1](value.value)
    if fault in ("", TOO_LARGE_TO_CHECK):
        return value
    return Value(value.value, {**(value.notes or {}), SCHEMA_FAULT: fault})


def _build_check(tool: Tool) -> FindFault | None:
    if not tool.output_schema or get_object(tool.hints, "mcp").get("hinted") is True:
        return None
    try:
        return build_foreign_result_check(dict(tool.output_schema))
    except ValueError:
        return None
