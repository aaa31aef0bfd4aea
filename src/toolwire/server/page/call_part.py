"""Build the parts of a page that show one long call: how far it is, what it asks, how it ended, and its buttons."""
# LC-05, MC-09

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from toolwire.core.call_status import CallStatus
from toolwire.core.content import has_content
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.user_input import FieldKind, InputAction, InputRequest, InputResponse
from toolwire.framing.form_schema import FormError, write_fields
from toolwire.framing.html import NO_HTML, Html, escape_text
from toolwire.framing.html_arguments import build_form_fields, change_items, read_form
from toolwire.framing.html_call import build_progress
from toolwire.framing.html_content import build_content, shorten_content
from toolwire.framing.html_page import build_alert, build_code_block, build_fold, build_form, build_notice
from toolwire.framing.html_value import build_value
from toolwire.framing.input_messages import read_input_request, write_input_response
from toolwire.framing.jsontext import get_object
from toolwire.framing.visible_text import make_visible

NO_QUESTION: Final = Problem(
    kind=Kind.INVALID_ARGUMENTS, message="That question no longer exists. Open the call again."
)
_NOTHING: Final[Mapping[str, Json]] = {}
_NO_FAULTS: Final[Mapping[str, str]] = {}


class CallForm(NamedTuple):
    """Where the forms about a call lead, what they carry, and the field for a key, which is made for an id."""

    action: str
    hidden: Sequence[tuple[str, str]]
    build_key_field: Callable[[str], Html]


class AnswerForm(NamedTuple):
    """A form that answers a question of a call, which has to be shown again: with ``content``, and ``faults`` in it."""

    asked: str
    params: Json
    content: Mapping[str, Json]
    faults: Mapping[str, str]


def link_call(root: str, call_id: str) -> str:
    """Return the address of the page of a call below ``root``."""
    return f"{root}/calls/{quote(call_id, safe='')}"


def build_open_part(status: CallStatus, name: str, form: CallForm, again: AnswerForm | None = None) -> Html:
    """Return how far a call is, with a form that answers what it asks, and one that looks again or cancels it.

    ``again`` is an answer that could not be taken, in place of the question.
    """
    # LC-05: the script submits the last form once a second, where no key has to be typed for it.
    progress = NO_HTML if status.input else Html('<progress max="100" aria-label="Progress"></progress>')
    progress = progress if status.progress is None else build_progress(status.progress, name)
    question = next(iter(status.input.items()), None)
    asked = NO_HTML if question is None else build_call_question(form, AnswerForm(*question, _NOTHING, _NO_FAULTS))
    asked = asked if again is None else build_call_question(form, again)
    style = Html("actions" if asked else "actions bar")  # on a phone, one bar stays at the bottom
    cancel = Html('<button class="danger" name="step" value="cancel">Cancel it</button>')
    buttons = Html(
        f'{form.build_key_field("key")}<div class="{style}">{NO_HTML if status.cancel_asked else cancel}'
        '<button class="primary" name="step" value="call">Look again</button></div>'
    )
    reload_form = build_form(form.action, buttons, form.hidden, more=Html(" data-look"))
    return Html(f"<p data-progress>{progress}</p>{asked}{reload_form}")


def build_call_question(form: CallForm, answer: AnswerForm) -> Html:
    """Return the form of what a waiting call asks its user."""
    # LC-05, MC-09: the words may be those of an upstream: they are cleaned, and only a flat form is shown.
    send, params = "", _lead_to_page(answer.params)
    try:
        question = read_input_request(params if isinstance(params, Mapping) else {})
    except FormError as error:
        fields = build_notice(f"This question cannot be shown: {error}.", "destroys")
    else:
        send = "I have done it" if question.url else "Send the answer"
        message_html = Html(f"<p>{escape_text(question.message)}</p>") if question.message else NO_HTML
        link = Html(
            f'<p><a href="{escape_text(question.url)}" rel="noopener noreferrer" target="_blank">Open the page at'
            f" {escape_text(question.host)}</a>, and then say so here.</p>"
        )
        inputs = build_form_fields(write_question_schema(question), answer.content, answer.faults)
        fields = Html(f"{message_html}{link if question.url else ''}{inputs}")
    hidden = [*form.hidden, ("asked", answer.asked), ("question", json.dumps(params))]
    words = escape_text(send)
    button = Html(f'<button class="primary" name="step" value="accept">{words}</button>') if send else NO_HTML
    html = Html(
        f"<fieldset><legend>It asks you</legend>{fields}</fieldset>{form.build_key_field('key-of-answer')}"
        '<div class="actions bar"><button name="step" value="decline" formnovalidate>Do not answer</button>'
        f"{button}</div>"
    )
    return build_form(form.action, html, hidden, more=Html(' aria-label="Question"'))


def read_call_answer(fields: Mapping[str, str]) -> InputResponse | AnswerForm | None:
    """Return the user's answer to what a waiting call asks, a form to show again, or None if it answers no question."""
    # LC-05: the question comes back in the form, to read the fields by. A changed one lets the user answer nothing that
    # they could not send to the call itself.
    content: dict[str, Json] | None = None
    if fields.get("step") != "decline":
        try:
            params = json.loads(fields.get("question", ""))
            question = read_input_request(params if isinstance(params, dict) else {})
        except (ValueError, RecursionError):
            return None
        if not question.url:
            changed = change_items(fields)
            content = read_form(write_question_schema(question), fields if changed is None else changed)
            faults = _find_faults(question, content) if changed is None else {}
            if faults or changed is not None:
                return AnswerForm(fields.get("asked", ""), params, content, faults)
    return InputResponse(InputAction.DECLINE if fields.get("step") == "decline" else InputAction.ACCEPT, content)


def write_answers(asked: str, answer: InputResponse) -> dict[str, Json]:
    """Return the answer to the question ``asked`` in the words of the calls resource."""
    return {asked: write_input_response(answer)}


def write_question_schema(question: InputRequest) -> dict[str, Json]:
    """Return the schema of a question's form as the forms of tools have it: a choice is an ``enum``."""
    schema = write_fields(question.fields)
    properties: dict[str, Json] = {}
    for one in question.fields:
        values: list[Json] = [choice.value for choice in one.choices]
        titles = "; ".join(f"{choice.value}: {choice.title}" for choice in one.choices if choice.title != choice.value)
        words = " ".join(part for part in (one.description, titles) if part)
        own: dict[str, Json] = {**get_object(get_object(schema, "properties"), one.name)}
        if one.kind is FieldKind.CHOICE:
            own = {"type": "string", "enum": values, "title": one.title, "description": words}
        elif one.kind is FieldKind.CHOICES:
            items: dict[str, Json] = {"type": "string", "enum": values}
            own = {"type": "array", "items": items, "title": one.title, "description": words}
        properties[one.name] = own
    return {**schema, "properties": properties}


def build_key_field(field_id: str) -> Html:
    """Return the field for the key of a server that needs one; no page ever shows a key again."""
    name = escape_text(field_id)
    return Html(
        f'<div class="field"><label for="{name}">Your key or token for this server</label>'
        f'<input id="{name}" type="password" name="key" autocomplete="off"></div>'
    )


def build_result(value: Json) -> Html:
    """Return the value of a call as people read it, with the JSON one click away."""
    is_media = has_content(value)
    text = json.dumps(shorten_content(value) if is_media else value, ensure_ascii=False, indent=1)
    fold = NO_HTML if isinstance(value, bool | int | float) else build_fold("As JSON", build_code_block(text, "JSON"))
    return Html(f'<div role="status">{build_content(value) if is_media else build_value(value)}</div>{fold}')


def build_problem(problem: Problem) -> Html:
    """Return why a call has no value."""
    return build_alert(f"{problem.kind.value}: {make_visible(problem.message)}")


def _lead_to_page(params: Json) -> Json:
    """Return a form without fields that names a page, such as that of the inbox, as a question to open this page."""
    # GW-04
    if not isinstance(params, Mapping) or not isinstance(params.get("url"), str):
        return params
    has_fields = bool(get_object(get_object(params, "requestedSchema"), "properties"))
    return params if has_fields else {**params, "mode": "url"}


def _find_faults(question: InputRequest, content: Mapping[str, Json]) -> dict[str, str]:
    """Return what is wrong with the answers, by the name of the field."""
    faults: dict[str, str] = {}
    for field in question.fields:
        if field.name not in content:
            fault = "is needed" if field.is_required else ""
        else:
            fault = field.find_fault(content[field.name])
        if fault:
            faults[field.name] = fault
    return faults
