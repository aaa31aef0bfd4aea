"""Let a client without tasks read the result of a call that goes on: with the tool that reads long results in parts.

Rules:
- The answer to a call that goes on says in one sentence how to read its result. It is no error: a framework would raise
  it, and its model would never learn the id.
- So the list of such a client promises no schema for the results of these tools.
"""
# LC-02

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from toolwire.core.call_status import CallPage, CallStatus, LongCallState
from toolwire.core.catalog import Catalog
from toolwire.core.codec import CallAction, CallQuery
from toolwire.core.content import has_content
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.core.model import Json, Kind, Problem, Result, Tool
from toolwire.core.resources import DEFAULT_RESULT_LIMITS
from toolwire.framing.call_document import write_status
from toolwire.framing.jsontext import get_object, get_text
from toolwire.framing.jsontext import write as to_json
from toolwire.framing.long_result import (
    HANDLE_START,
    READ_RESULT,
    choose_reading_name,
    cut_result,
    mark_part,
    read_part,
)
from toolwire.framing.text_cleaning import clean_data

from .answers import AskedMethod
from .list_choice import is_own_client
from .revision import CALL_META
from .task_server import declares_tasks

WAIT_WITHOUT_TASKS_S: Final = 25.0
"""How long a long call waits for its end where the client knows no tasks: less than its own limit of 60 seconds, and
than the time that a server takes to stop."""

_DESCRIPTION: Final = (
    f"{READ_RESULT.description} It also returns the result of a call that takes long: pass the call's ID as `handle`."
)
_PART_ARGUMENTS: Final = ("path", "from", "count")
_NO_CALL: Final = Problem(
    kind=Kind.INVALID_ARGUMENTS,
    message="You have no call and no result with this handle on this server. It might be too old. Make the call again.",
)
_NO_RESULT: Final = Problem(kind=Kind.TOOL_FAILED, message="Cannot read the call's result.")


def reads_calls(asked: AskedMethod) -> bool:
    """Return whether the client of a request reads the results of long calls with a tool: it does not know tasks."""
    return not (asked.status and declares_tasks(asked.params)) and not is_own_client(asked.request)


def add_reading(listed: Catalog, name: str, *, of_calls: bool) -> Catalog:
    """Return what is ``listed`` with ``READ_RESULT`` under ``name``; ``of_calls``: it reads long calls too."""
    if not name:
        return listed
    description = _DESCRIPTION if of_calls else READ_RESULT.description
    return replace(listed, tools=(*listed.tools, replace(READ_RESULT, name=name, description=description)))


def find_calls_reader(catalog: Catalog) -> str:
    """Return the name of the tool that reads the results of the long tools of ``catalog``; ``""`` without any."""
    return choose_reading_name(catalog) if any(tool.long for tool in catalog.tools) else ""


def is_call_id(arguments: Mapping[str, Json], limit: int | None) -> bool:
    """Return whether the handle in ``arguments`` is the id of a call, and not that of a result that was too long.

    There are none of these if the ``limit`` of the site is 0.
    """
    handle = arguments.get("handle")
    return isinstance(handle, str) and (limit == 0 or not handle.startswith(HANDLE_START))


def write_unfinished(asked: AskedMethod, status: Mapping[str, Json], tool: str, reader: str, end: bytes) -> Response:
    """Return the answer that the call of ``tool`` with ``status`` goes on, and how to read its result by ``reader``."""
    text = f'{_describe(status, tool)} To get its result, call {reader} with the handle "{get_text(status, "id")}".'
    content: Json = [{"type": "text", "text": clean_data(text)}]
    meta = to_json({CALL_META: dict(status)})[1:-1] + b"," if asked.status else b""
    body = b'{"jsonrpc":"2.0","id":%b,"result":{"content":%b,"isError":false%b' % (
        asked.id,
        to_json(content),
        end.replace(b'"_meta":{', b'"_meta":{' + meta, 1),
    )
    return Response(200, JSON_HEADERS, body)


def read_call(
    asked: AskedMethod,
    arguments: Mapping[str, Json],
    catalog: Catalog,
    characters: int,
    write: Callable[[Tool, Result], Response],
    end: bytes,
) -> CallQuery:
    """Return the query for the result of the call that the handle in ``arguments`` names.

    ``characters`` is the most that the model reads at once, or 0. ``write`` writes the result of a tool.
    """
    handle, reader = str(arguments.get("handle")), find_calls_reader(catalog)
    chosen = {name: one for name in _PART_ARGUMENTS if (one := arguments.get(name)) is not None}

    def reply(outcome: CallStatus | CallPage | Problem) -> Response:
        if not isinstance(outcome, CallStatus):
            is_other = isinstance(outcome, Problem) and outcome.kind is not Kind.NOT_FOUND
            return write(READ_RESULT, outcome if isinstance(outcome, Problem) and is_other else _NO_CALL)
        found = catalog.find(outcome.tool)
        tool = found if isinstance(found, Tool) else READ_RESULT
        if not outcome.is_over:
            name = outcome.tool if tool is READ_RESULT else tool.name
            return write_unfinished(asked, write_status(outcome), name, reader, end)
        result = _NO_RESULT if outcome.result is None else outcome.result
        return write(tool, _take_part(result, chosen, characters, reader, handle))

    return CallQuery(CallAction.READ, reply, handle, WAIT_WITHOUT_TASKS_S, awaits_consent=True)


def _take_part(result: Result, chosen: Mapping[str, Json], characters: int, reader: str, handle: str) -> Result:
    """Return the part of ``result`` that is ``chosen``, or its first one if it is too long, or all of it."""
    if isinstance(result, Problem):
        return result
    value = result.value
    if chosen:
        part = read_part(value, chosen, characters or DEFAULT_RESULT_LIMITS.characters)
    elif not characters or has_content(value) or len(to_json(value).decode()) <= characters:
        return result
    else:
        part = cut_result(value, characters, reader, handle)
    return part if isinstance(part, Problem) else mark_part(part)


def _describe(status: Mapping[str, Json], tool: str) -> str:
    """Return the sentence that says how a call stands."""
    if status.get("state") == LongCallState.WAITING:
        forms = [one for one in get_object(status, "input").values() if isinstance(one, Mapping)]
        if page := next((url for one in forms if (url := get_text(one, "url"))), ""):
            return f"{tool} waits for its user's decision at {page}."
        return f"{tool} waits for its user. {' '.join(get_text(one, 'message') for one in forms)}"
    progress, message = status.get("progress"), get_text(status, "message")
    how_far = [f"{progress:.0%}"] if isinstance(progress, int | float) else []
    detail = ": ".join(how_far + [message] * bool(message))
    return f"{tool} is still running ({detail})." if detail else f"{tool} is still running."
