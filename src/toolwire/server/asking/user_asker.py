"""Let a tool ask its caller's user. The call ends with the question, and runs again with the answer.

Rules:
- The server stores nothing between a call's runs. The client sends back a state with the answers so far. The state is
  signed and valid once, for five minutes, and only for the same caller, tool, definition and arguments.
- An answer belongs to one question. If the tool asks a different question when it runs again, the user is asked again.
- If an answer is not valid, the user is asked again, with the reason.
"""
# MC-09

from __future__ import annotations

import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Call, Json, Kind, Problem, Result
from toolwire.core.no_user_input import INPUT_REQUEST, InputNeeded, NoUserInput
from toolwire.define.user_input_form import build_user_form, describe_fault
from toolwire.framing import jsontext
from toolwire.framing.form_schema import FormError, read_fields
from toolwire.framing.jsontext import get_object
from toolwire.stores.outage_log import OutageLog

from .confirmation import ALREADY_VERIFIED, ConfirmationQuestion, ConfirmationTokens, build_store_problem, digest_call

_log = logging.getLogger("toolwire")

MAX_QUESTIONS: Final = 10
MAX_STATE: Final = 64 * 1024


class UserAsker:
    """Answers the questions of one run of a tool with the earlier answers."""

    __slots__ = ("_call", "_number", "_on_nobody")

    def __init__(self, call: Call, on_nobody: Callable[[], None] = lambda: None) -> None:
        """Answer the questions of ``call``. ``on_nobody`` is called if the caller cannot ask its user."""
        self._call = call
        self._number = 0
        self._on_nobody = on_nobody

    def ask(self, form: type[Any], question: str, name: str = "") -> Any:
        """Return the answer as an instance of ``form``, or ``NoUserInput``.

        Raises:
            InputNeeded: there is no answer yet.
            DefinitionError: ``form`` cannot be shown, or the tool asks too many questions.
        """
        context = self._call.context
        described = build_user_form(cast("Hashable", form))
        try:
            read_fields(described.schema)
        except FormError as error:
            text = f"context.ask() cannot ask for {form.__name__}: {error}. Use flat fields."
            raise DefinitionError(text) from None
        if not context.takes_input:
            self._on_nobody()
            return NoUserInput("cannot_ask", question)
        self._number += 1
        if self._number > MAX_QUESTIONS:
            raise DefinitionError(f"{self._call.tool.name}() asks more than {MAX_QUESTIONS} questions in one call.")
        # A different text or form has a different key, so that an old answer is never used for a new question.
        digest = sha256(jsontext.write_canonical([question, described.schema])).hexdigest()[:16]
        key = f"q{self._number}-{digest}"
        given = get_object(context.input_responses or {}, key)
        message = question
        if given.get("action") == "accept":
            try:
                return described.load(given.get("content"))
            except Exception as error:  # noqa: BLE001 - whatever a validator of the author's model raises
                message = f"{question}\n\nThe answer before could not be used: {describe_fault(error)}"
        elif given:
            return NoUserInput("cancelled" if given.get("action") == "cancel" else "declined", question)
        raise InputNeeded(key, name or key, message, described.schema)


def build_input_problem(call: Call, needed: Sequence[InputNeeded]) -> Problem:
    """Return the Problem of a call that ends with questions: the first one, with the others under ``others``."""
    first, *others = (
        {"key": one.key, "name": one.name, "message": one.message, "schema": dict(one.schema)} for one in needed
    )
    asked: dict[str, Json] = {**first, "others": others} if others else first
    text = f"{call.tool.name} asks: {needed[0].message}"
    return Problem(kind=Kind.MISSING_REQUIREMENTS, message=text, details={INPUT_REQUEST: asked})


def find_needed(error: BaseException) -> list[InputNeeded]:
    """Return the questions in ``error``, which can be an exception group from several tasks."""
    if isinstance(error, InputNeeded):
        return [error]
    if isinstance(error, BaseExceptionGroup):
        return [found for one in error.exceptions for found in find_needed(one)]
    return []


class _State(NamedTuple):
    """What a call brings from its previous run: the answers, the last question's key and name, and its confirmation."""

    answers: Mapping[str, Json]
    key: str
    name: str
    is_confirmed: bool


class InputStates:
    """Writes and reads the states of calls that ask. ``question`` is what must be confirmed about a call."""

    def __init__(self, words: ConfirmationTokens, question: ConfirmationQuestion | None) -> None:
        self._words = words
        self._question = question
        self._outages = OutageLog(_log, "The state of questions can be verified again.")
        self.is_remote: bool = words.is_remote

    def restore(self, call: Call) -> Call | Problem:
        """Return ``call`` with the answers from its earlier runs, or the refusal of an invalid state."""
        context = call.context
        if context.input_responses is None:
            return call
        body, _, word = context.confirmation.partition(".")
        state = _read_state(body)
        try:
            is_valid = state is not None and self._words.redeem(word, _digest_state(call, body))
        except ConnectionError as error:
            text = "A call of %s was refused: its state cannot be verified (%s)."
            self._outages.record_failure(text, call.tool.id, error)
            return build_store_problem(call, "the state of its questions cannot be verified now")
        self._outages.record_success()
        if state is None or not is_valid:
            text = f"{call.tool.name} did not run: the state of its questions is altered, used, too old, or of another"
            return Problem(kind=Kind.CONFLICT, message=f"{text} call. Send the call again without it.")
        given = context.input_responses.get(state.name)
        answers = {**state.answers, state.key: given} if isinstance(given, dict) else state.answers
        # The user confirmed this call before its first run, and is not asked for that again.
        confirmation = self._words.issue(digest_call(call)) if state.is_confirmed else ""
        # In the ledger, each run is a separate call. The previous run ended with a question, which would be replayed.
        return call._replace(
            context=replace(
                context,
                input_responses=answers,
                confirmation=confirmation,
                receipt=ALREADY_VERIFIED if state.is_confirmed else "",
            ),
            key=f"{call.key}-{sha256(body.encode()).hexdigest()[:16]}" if call.key else "",
        )

    def add_state(self, call: Call, result: Result) -> Result:
        """Return ``result``. A question gets the state that the client must send back."""
        if not isinstance(result, Problem) or INPUT_REQUEST not in result.details:
            return result
        asked = get_object(result.details, INPUT_REQUEST)
        context = call.context
        is_confirmed = bool(context.confirmation) and self._question is not None and bool(self._question(call))
        answers: Json = dict(context.input_responses or {})
        body = urlsafe_b64encode(jsontext.write([answers, asked["key"], asked["name"], is_confirmed])).decode()
        if len(body) > MAX_STATE:
            text = f"{call.tool.name} was stopped: the answers to its questions are too long."
            return Problem(kind=Kind.TOO_LARGE, message=text)
        state = f"{body}.{self._words.issue(_digest_state(call, body))}"
        return replace(result, details={**result.details, INPUT_REQUEST: {**asked, "state": state}})


def _read_state(body: str) -> _State | None:
    if len(body) > MAX_STATE:
        return None
    try:
        data = jsontext.read(urlsafe_b64decode(body.encode("ascii")))
    except ValueError:
        return None
    match data:
        case [dict(answers), str(key), str(name), bool(is_confirmed)]:
            return _State(answers, key, name, is_confirmed)
        case _:
            return None


def _digest_state(call: Call, body: str) -> bytes:
    return sha256(digest_call(call) + body.encode()).digest()
