"""Read what an MCP server asks the user while a call runs, and write what the user answered.

Since 2026-07-28 the result of a call is ``input_required``, and the call is sent again with the answers. Up to
2025-11-25 the server sends ``elicitation/create`` within the stream of the call, or refuses the call with the pages
that the user must visit first (-32042).

Rules:
- At most ten rounds of questions belong to one call, with at most five questions each.
"""
# MC-09

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from toolwire.core.codec import Flow, pause
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.user_input import InputAction, InputRequest, InputResponse
from toolwire.framing.form_schema import FormError
from toolwire.framing.input_messages import read_input_request, write_input_response
from toolwire.framing.jsontext import get_object

from .revision import ELICITATION

CAPABILITIES: Final[dict[str, Json]] = {"elicitation": {"form": {}, "url": {}}}
"""What a client declares whose user can be asked."""

MAX_ROUNDS: Final = 10
MAX_QUESTIONS: Final = 5
MAX_STATE: Final = 256 * 1024
URL_REQUIRED: Final = -32042

_WAIT_S: Final = 0.1


class WantedInput(NamedTuple):
    """What a server wants to know before it goes on with a call: its questions by name, and its state to send back.

    With ``is_visit`` the call is only sent again, after the user visited the pages.
    """

    questions: Mapping[str, InputRequest]
    state: str | None = None
    is_visit: bool = False


def read_wanted(result: Mapping[str, Json]) -> WantedInput | Problem | None:
    """Return what an answer of ``tools/call`` wants to know; None if it is the result itself."""
    if result.get("resultType", "complete") != "input_required":
        return None
    state = result.get("requestState")
    if state is not None and (not isinstance(state, str) or len(state) > MAX_STATE):
        return _build_refusal("its state is not text, or is too long")
    asked = result.get("inputRequests")
    if not isinstance(asked, dict):
        asked = {}
    if not asked and state is None:
        return _build_refusal("it does not say what input it needs")
    return read_questions(asked, state)


def read_visits(data: Json) -> WantedInput | Problem:
    """Return the pages that a server wants visited before it takes the call, by what came with its refusal."""
    listed = data.get("elicitations") if isinstance(data, dict) else None
    pages: dict[str, Json] = {}
    for number, params in enumerate(listed if isinstance(listed, list) else ()):
        pages[str(number)] = {"method": ELICITATION, "params": params if isinstance(params, dict) else {}}
    if not pages:
        return _build_refusal("it does not say what input it needs")
    wanted = read_questions(pages, None)
    if isinstance(wanted, Problem):
        return wanted
    if not all(one.url for one in wanted.questions.values()):
        return _build_refusal("it asks for forms, but only pages are possible")
    return wanted._replace(is_visit=True)


def read_questions(asked: Mapping[str, Json], state: str | None) -> WantedInput | Problem:
    """Return the questions ``asked``, by name; ``state`` goes back with their answers."""
    if len(asked) > MAX_QUESTIONS:
        return _build_refusal(f"it asks more than {MAX_QUESTIONS} questions at once")
    questions: dict[str, InputRequest] = {}
    for name, request in asked.items():
        method = request.get("method") if isinstance(request, dict) else None
        if method != ELICITATION:
            return _build_refusal(f"this client does not support {str(method)[:100]!r}")
        try:
            questions[name] = read_input_request(get_object(request, "params"))
        except FormError as error:
            return _build_refusal(str(error))
    return WantedInput(questions, state)


def ask_user(wanted: WantedInput, tool: str) -> Flow[dict[str, Json] | Problem]:
    """Ask the user, and return the parameters to add to the call when it is sent again."""
    responses: dict[str, Json] = {}
    for name, question in wanted.questions.items():
        response: InputResponse = yield question
        if wanted.is_visit and response.action is not InputAction.ACCEPT:
            # The server may have run a part of it before it asked.
            text = f"{tool} was not completed, because the page that the server asked for was not opened."
            return Problem(kind=Kind.DENIED, message=text, details={"denied": True})
        responses[name] = write_input_response(response)
    if not wanted.questions:
        yield from pause(_WAIT_S, is_poll=True)  # the server only wants to be asked again
    added: dict[str, Json] = {} if wanted.state is None else {"requestState": wanted.state}
    return added if wanted.is_visit or not responses else {**added, "inputResponses": responses}


def build_endless(tool: str) -> Problem:
    """Return the Problem of a server that asks again and again."""
    text = f"{tool} was stopped: the server asked {MAX_ROUNDS} times for input and needs more."
    return Problem(kind=Kind.BAD_ANSWER, message=text)


def _build_refusal(why: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=f"The server asks for input that cannot be provided: {why}.")
