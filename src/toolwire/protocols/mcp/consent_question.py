"""Ask the user of an MCP client for a call that must be confirmed, and read the answer.

Since 2026-07-28 a server asks in its answer: the result is ``input_required``, with a form and a state. The client
asks its user and sends the call again, with what the user entered and with the state, which is the confirmation word.

Rules:
- Only a client that declares forms is asked. Another gets the problem as before, and the call does not run.
- The question shows every argument in full; of files, where that is too long, the size and the digest. A call that is
  too large for that is not asked about.
- The word alone confirms nothing here: the user must have allowed the call in the form.
"""
# XL-049, XL-053, XL-056

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256

from toolwire.core.model import Call, Context, Json, Kind, Problem, UserAnswer
from toolwire.core.url_origin import get_authority
from toolwire.framing import jsontext
from toolwire.framing.call_context import META as CONTEXT_META
from toolwire.framing.jsontext import get_object, get_text
from toolwire.framing.question_template import fill_template
from toolwire.framing.text_cleaning import clean_data

from .answers import AskedMethod
from .revision import (
    CAPABILITIES_META,
    CONFIRMATION_META,
    CONSENT_META,
    ELICITATION,
    RECEIPT_META,
    SERVER_META,
    UNANSWERED_META,
)

CONSENT = "consent"
"""The name of the question whether a call may run."""
_VISIT = "inbox"
VISIT_WAIT_S = 45.0
"""How long a call waits for its user who has opened the inbox, in seconds: less than the minute that clients wait."""
_ALLOW = "allow"
_LATER = "later"
_MAX_QUESTION = 20_000
_MAX_PAGES = 5
_LONG_FILE = 500
"""A file is shown by its digest if its text is longer than this, in characters."""
_TELLING = frozenset((CONFIRMATION_META, CONSENT_META, RECEIPT_META, UNANSWERED_META, CONTEXT_META, "traceparent"))
"""The members of ``_meta`` that change the context of a call."""


def can_ask(params: Mapping[str, Json]) -> bool:
    """Return whether the client of a request shows forms to its user, and does not ask for consent itself."""
    return can_show_forms(params) and not handles_consent(params)


def handles_consent(params: Mapping[str, Json]) -> bool:
    """Return whether the client of a request asks its user for consent, and confirms calls by itself."""
    return get_object(params, "_meta").get(CONSENT_META) is True


def has_unanswered_question(params: Mapping[str, Json]) -> bool:
    """Return whether the client of a request has left a question to its user without an answer."""
    return get_object(params, "_meta").get(UNANSWERED_META) is True


def can_show_forms(params: Mapping[str, Json]) -> bool:
    """Return whether the client of a request shows forms to its user."""
    return declares_forms(get_object(get_object(params, "_meta"), CAPABILITIES_META))


def declares_forms(capabilities: Mapping[str, Json]) -> bool:
    """Return whether a client with ``capabilities`` shows forms to its user."""
    declared = capabilities.get("elicitation")
    # A client of forms alone may declare an empty object.
    return isinstance(declared, dict) and (not declared or "form" in declared)


def can_open_pages(params: Mapping[str, Json]) -> bool:
    """Return whether the client of a request can show its user a page to open."""
    return declares_pages(get_object(get_object(params, "_meta"), CAPABILITIES_META))


def declares_pages(capabilities: Mapping[str, Json]) -> bool:
    """Return whether a client with ``capabilities`` can show its user a page to open."""
    declared = capabilities.get("elicitation")
    return isinstance(declared, dict) and "url" in declared


def says_nothing(params: Mapping[str, Json]) -> bool:
    """Return whether a call brings neither a trace nor anything about its user: no forms, no answer, no word."""
    if "requestState" in params:
        return False
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        return True
    capabilities = meta.get(CAPABILITIES_META)
    return _TELLING.isdisjoint(meta) and not (isinstance(capabilities, dict) and "elicitation" in capabilities)


def add_reply(context: Context, params: Mapping[str, Json]) -> Context:
    """Return ``context`` with what the user answered in the form, and with the word of that question."""
    # FU-60
    word = params.get("requestState")
    if not isinstance(word, str):
        return replace(context, confirmation="")
    answer = get_object(get_object(params, "inputResponses"), CONSENT)
    content = get_object(answer, "content")
    is_allowed = answer.get("action") == "accept" and content.get(_ALLOW) is True
    return replace(context, confirmation=word, user_answer=UserAnswer("form", is_allowed, get_text(content, _LATER)))


def add_input(context: Context, params: Mapping[str, Json]) -> Context:
    """Return ``context`` with what a client says of its user: that it shows them forms, and what they answered."""
    if not can_show_forms(params):
        return context
    state = params.get("requestState")
    if not isinstance(state, str):
        return replace(context, takes_input=True)
    responses = get_object(params, "inputResponses")
    return replace(context, takes_input=True, confirmation=state, input_responses=responses)


def add_proof(context: Context, params: Mapping[str, Json]) -> Context:
    """Return ``context`` with the confirmation word and the receipt that a client of ours puts into ``_meta``."""
    meta = get_object(params, "_meta")
    word, receipt = get_text(meta, CONFIRMATION_META), get_text(meta, RECEIPT_META)
    if word:
        context = replace(context, confirmation=word)
    return replace(context, receipt=receipt) if receipt else context


def read_page_answer(context: Context, params: Mapping[str, Json], tool: str) -> Context | Problem:
    """Return ``context`` with what a user did who can be told of a page; a Problem if they did not want to open it.

    Who has opened the page of the inbox has decided nothing: the call waits for what they answer there.
    """
    # GW-04
    if not can_open_pages(params):
        return context
    action = get_object(get_object(params, "inputResponses"), _VISIT).get("action")
    if action == "decline":
        text = f"{tool} was not called, because its user did not open the inbox."
        return Problem(kind=Kind.DENIED, message=text, details={"denied": True})
    return replace(context, opens_pages=action is None, inbox_wait_s=VISIT_WAIT_S if action == "accept" else 0.0)


_EXPLAINED = frozenset(("inbox", "receipt"))


def explain_refusal(call: Call, problem: Problem, params: Mapping[str, Json]) -> Problem:
    """Return ``problem``, that a call must be confirmed, in words for the user of a client of another maker."""
    # CC-05: who reads this sentence can do nothing about a header field.
    if handles_consent(params):
        return problem
    if "receipt" in get_object(problem.details, "confirmation"):
        text = f"{call.tool.name} did not run: it needs a receipt, which a client signs when its user has decided"
        return replace(
            problem, message=f"{text}, but this client does not send receipts. Use a client that signs receipts."
        )
    if can_ask(params) and "word" in get_object(problem.details, "confirmation"):  # it was too long for a form
        text = f"{call.tool.name} did not run: its arguments are too long to be shown in a consent form."
        how = "Send less data, or start the server with --consent inbox, so that users decide in the inbox."
        return replace(problem, message=f"{text} {how}")
    # What another site wants of the gateway, such as a receipt, is no matter of this client.
    if can_show_forms(params) or not _EXPLAINED.isdisjoint(problem.details):
        return problem
    if has_unanswered_question(params):
        text = (
            f"{call.tool.name} did not run: it needs its user's consent, and this client did not answer the question."
        )
        how = (
            "If the client cannot show forms, start the server with --consent inbox, so that users decide in the inbox."
        )
        return replace(problem, message=f"{text} {how}")
    text = f"{call.tool.name} did not run: it needs the consent of its user, and this client cannot be asked for it"
    how = "Use a client that shows forms (elicitation), over stdio, with MCP 2026-07-28 or in a session."
    return replace(problem, message=f"{text} here. {how}")


def write_wanted_input(
    asked: AskedMethod, call: Call, problem: Problem, server: Mapping[str, Json], find_page: Callable[[], str]
) -> bytes | None:
    """Return the answer that asks the user of the client for what ``problem`` wants; None if that cannot be asked.

    ``find_page`` returns the address of the inbox page of this server.
    """
    if problem.kind is Kind.UNCONFIRMED:
        visit = _write_inbox_visit(asked, call, problem, server, find_page())
        return write_question(asked.id, call, problem, server) if visit is None and can_ask(asked.params) else visit
    if problem.kind is not Kind.MISSING_REQUIREMENTS:
        return None
    visits = _write_sign_ins(asked, problem, server) if can_open_pages(asked.params) else None
    question = read_question(problem) if visits is None else None
    return visits if question is None else write_form(asked.id, question, server)


def write_question(id_: bytes, call: Call, problem: Problem, server: Mapping[str, Json]) -> bytes | None:
    """Return the answer that asks for what ``problem`` wants confirmed; None if it cannot be asked in full."""
    asked = get_object(problem.details, "confirmation")
    question, word = asked.get("question"), asked.get("word")
    if problem.kind is not Kind.UNCONFIRMED or not isinstance(question, str) or not isinstance(word, str):
        return None
    if "receipt" in asked:  # CC-06: a form proves nothing
        return None
    message = _write_message(call, question, call.arguments)
    if len(message) > _MAX_QUESTION:
        message = _write_message(call, question, _describe_files(dict(call.arguments), call.tool.input_schema))
    if len(message) > _MAX_QUESTION:
        return None
    fields: dict[str, Json] = {_ALLOW: {"type": "boolean", "title": "Allow this call", "default": False}}
    # QF-03: each host shows a choice whose values are their own labels, in every revision.
    if isinstance(later := asked.get(_LATER), list):
        fields[_LATER] = {"type": "string", "title": "Later calls", "enum": clean_data(later), "default": later[0]}
    form: Json = {"type": "object", "properties": fields, "required": [_ALLOW]}
    return write_form(id_, {"name": CONSENT, "message": message, "schema": form, "state": word}, server)


def _write_message(call: Call, question: str, values: Json) -> str:
    arguments = jsontext.write(clean_data(values)).decode()
    words = fill_template(call.tool.question, call.arguments) if call.tool.question else ""
    quote = f"The site's words: {words}\n" if words else ""  # CC-02: beside the arguments, never instead of them
    return str(clean_data(f"{question}\n\nTool: {call.tool.name}\n{quote}Arguments: {arguments}"))


def _describe_files(value: Json, schema: Mapping[str, Json]) -> Json:
    """Return ``value`` with the size and the digest of each long file in it, which nobody could read."""
    # CR-01
    match value:
        case str() if len(value) > _LONG_FILE and schema.get("contentEncoding") == "base64":
            return _describe_file(value)
        case dict():
            members = get_object(schema, "properties")
            return {name: _describe_files(one, get_object(members, name)) for name, one in value.items()}
        case list():
            return [_describe_files(one, get_object(schema, "items")) for one in value]
        case _:
            return value


def _describe_file(text: str) -> str:
    head, _, data = text.rpartition(",") if text.startswith("data:") else ("", "", text)
    try:
        content = b64decode(data.replace("-", "+").replace("_", "/") + "=" * (-len(data) % 4), validate=True)
    except ValueError:  # it is no file, so all of it is shown
        return text
    return f"{head}{' ' * bool(head)}({len(content):,} bytes, SHA-256 {sha256(content).hexdigest()})"


def write_form(id_: bytes, asked: Mapping[str, Json], server: Mapping[str, Json]) -> bytes:
    """Return the answer that asks the user: ``asked`` has a name, a message, a schema and a state."""
    params: Json = {"mode": "form", "message": asked["message"], "requestedSchema": asked["schema"]}
    result: Json = {
        "resultType": "input_required",
        "inputRequests": {str(asked["name"]): {"method": ELICITATION, "params": params}},
        "requestState": asked["state"],
        "_meta": {SERVER_META: dict(server)},
    }
    return b'{"jsonrpc":"2.0","id":' + id_ + b',"result":' + jsontext.write(result) + b"}"


def _write_inbox_visit(
    asked: AskedMethod, call: Call, problem: Problem, server: Mapping[str, Json], page: str
) -> bytes | None:
    """Return the answer that asks the user to open their inbox at ``page``, where the call waits for them.

    None if ``problem`` wants something else, or the user cannot be told of a page, or has been told of this one.
    """
    # GW-04: an upstream could put any address into its problem; the user is led to the page of this server alone.
    is_own = bool(page) and get_object(problem.details, "inbox").get("url") == page
    if not is_own or not can_open_pages(asked.params) or _VISIT in get_object(asked.params, "inputResponses"):
        return None
    host = get_authority(page)
    message = f"{call.tool.name} waits for your decision. Open the call in your inbox at"
    subject = f"{page} {get_text(get_object(problem.details, 'inbox'), 'id')}"
    params = _write_page(_clean(f"{message} {host}, and allow or deny it."), page, asked, subject)
    return _write_input(asked.id, {_VISIT: {"method": ELICITATION, "params": params}}, server)


def _write_sign_ins(asked: AskedMethod, problem: Problem, server: Mapping[str, Json]) -> bytes | None:
    """Return the answer that asks the user to open the page of each site that the call needs; None without pages."""
    # GW-03: the client sends the call again after its user has opened them.
    listed = get_object(problem.details, "missing_requirements").get("authorization")
    pages = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    requests: dict[str, Json] = {}
    for page in pages[:_MAX_PAGES]:
        name, url = str(page.get("id", "")), page.get("url")
        if not isinstance(url, str) or not url:
            continue
        message = _clean(f"Sign in to {name}. This tool uses your own account there.")
        params = _write_page(message, url, asked, url)
        requests[f"sign_in_{name}"] = {"method": ELICITATION, "params": params}
    return _write_input(asked.id, requests, server) if requests else None


def _clean(text: str) -> str:
    return str(clean_data(text))


def _write_page(message: str, url: str, asked: AskedMethod, subject: str) -> dict[str, Json]:
    """Return the parameters of a request to open the page ``url``; ``subject`` tells it from others."""
    params: dict[str, Json] = {"mode": "url", "message": message, "url": url}
    if not asked.status:  # up to 2025-11-25
        params["elicitationId"] = sha256(subject.encode()).hexdigest()[:32]
    return params


def _write_input(id_: bytes, requests: Mapping[str, Json], server: Mapping[str, Json]) -> bytes:
    result: Json = {
        "resultType": "input_required",
        "inputRequests": dict(requests),
        "_meta": {SERVER_META: dict(server)},
    }
    return b'{"jsonrpc":"2.0","id":' + id_ + b',"result":' + jsontext.write(result) + b"}"


def read_question(problem: Problem) -> Mapping[str, Json] | None:
    """Return the question of a tool in ``problem``, with the state of its call, or None."""
    asked = get_object(problem.details, "input_request")
    return asked if "state" in asked else None
