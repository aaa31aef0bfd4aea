"""Ask an MCP client's user to confirm a call, and read the answer.

Since 2026-07-28, a server asks in its response: the result is ``input_required``, with a form and a state. The client
asks its user and sends the call again, with the user's input and the state, which is the one-time token.

Rules:
- Only a client that declares forms is asked. Other clients get the problem, and the call does not run.
- The question shows every argument in full. Of long files, it shows the size and the digest. If the call is still too
  large, no question is asked.
- The token alone confirms nothing here. The user must have allowed the call in the form.
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
"""The name of the question that asks whether a call may run."""
_VISIT = "inbox"
VISIT_WAIT_S = 45.0
"""How long a call waits after its user has opened the inbox, in seconds. Clients wait for a minute."""
_ALLOW = "allow"
_LATER = "later"
_MAX_QUESTION = 20_000
_MAX_PAGES = 5
_LONG_FILE = 500
"""A file whose text is longer than this, in characters, is shown by its digest."""
_TELLING = frozenset((CONFIRMATION_META, CONSENT_META, RECEIPT_META, UNANSWERED_META, CONTEXT_META, "traceparent"))
"""The members of ``_meta`` that change the context of a call."""


def can_ask(params: Mapping[str, Json]) -> bool:
    """Return whether a request's client shows forms to its user, and does not ask for consent itself."""
    return can_show_forms(params) and not handles_consent(params)


def handles_consent(params: Mapping[str, Json]) -> bool:
    """Return whether a request's client asks its user for consent, and confirms calls itself."""
    return get_object(params, "_meta").get(CONSENT_META) is True


def has_unanswered_question(params: Mapping[str, Json]) -> bool:
    """Return whether a request's client has left a question to its user unanswered."""
    return get_object(params, "_meta").get(UNANSWERED_META) is True


def can_show_forms(params: Mapping[str, Json]) -> bool:
    """Return whether the client of a request shows forms to its user."""
    return declares_forms(get_object(get_object(params, "_meta"), CAPABILITIES_META))


def declares_forms(capabilities: Mapping[str, Json]) -> bool:
    """Return whether a client with ``capabilities`` shows forms to its user."""
    declared = capabilities.get("elicitation")
    # A client that supports only forms can declare an empty object.
    return isinstance(declared, dict) and (not declared or "form" in declared)


def can_open_pages(params: Mapping[str, Json]) -> bool:
    """Return whether the client of a request can show its user a page to open."""
    return declares_pages(get_object(get_object(params, "_meta"), CAPABILITIES_META))


def declares_pages(capabilities: Mapping[str, Json]) -> bool:
    """Return whether a client with ``capabilities`` can show its user a page to open."""
    declared = capabilities.get("elicitation")
    return isinstance(declared, dict) and "url" in declared


def says_nothing(params: Mapping[str, Json]) -> bool:
    """Return whether a call contains no trace, and nothing about its user: no forms, no answer, no token."""
    if "requestState" in params:
        return False
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        return True
    capabilities = meta.get(CAPABILITIES_META)
    return _TELLING.isdisjoint(meta) and not (isinstance(capabilities, dict) and "elicitation" in capabilities)


def add_reply(context: Context, params: Mapping[str, Json]) -> Context:
    """Return ``context`` with the user's answer in the form and that question's token."""
    # FU-60
    word = params.get("requestState")
    if not isinstance(word, str):
        return replace(context, confirmation="")
    answer = get_object(get_object(params, "inputResponses"), CONSENT)
    content = get_object(answer, "content")
    is_allowed = answer.get("action") == "accept" and content.get(_ALLOW) is True
    return replace(context, confirmation=word, user_answer=UserAnswer("form", is_allowed, get_text(content, _LATER)))


def add_input(context: Context, params: Mapping[str, Json]) -> Context:
    """Return ``context`` with what a client says about its user: that it can show forms, and the user's answers."""
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
    """Return ``context`` with the user's reaction to a page, or a Problem if they did not want to open it.

    Opening the inbox page decides nothing. The call waits for the user's answer there.
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
    """Return ``problem``, which says that a call must be confirmed, in words for users of other makers' clients."""
    # CC-05: the reader of this sentence cannot set a header field.
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
    # What another site requires of the gateway, such as a receipt, does not concern this client.
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
    """Return the answer that asks the client's user for what ``problem`` requires, or None if it cannot be asked.

    ``find_page`` returns the URL of this server's inbox page.
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
    """Return the answer that asks the user to confirm a call, or None if the call cannot be shown in full."""
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
    # QF-03: every host, of every revision, can show a choice whose values are their own labels.
    if isinstance(later := asked.get(_LATER), list):
        fields[_LATER] = {"type": "string", "title": "Later calls", "enum": clean_data(later), "default": later[0]}
    form: Json = {"type": "object", "properties": fields, "required": [_ALLOW]}
    return write_form(id_, {"name": CONSENT, "message": message, "schema": form, "state": word}, server)


def _write_message(call: Call, question: str, values: Json) -> str:
    arguments = jsontext.write(clean_data(values)).decode()
    words = fill_template(call.tool.question, call.arguments) if call.tool.question else ""
    quote = f"The site's words: {words}\n" if words else ""  # CC-02: besides the arguments, never instead of them
    return str(clean_data(f"{question}\n\nTool: {call.tool.name}\n{quote}Arguments: {arguments}"))


def _describe_files(value: Json, schema: Mapping[str, Json]) -> Json:
    """Return ``value`` with the size and digest in place of each long file, which nobody could read."""
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
    except ValueError:  # it is not a file, so all of it is shown
        return text
    return f"{head}{' ' * bool(head)}({len(content):,} bytes, SHA-256 {sha256(content).hexdigest()})"


def write_form(id_: bytes, asked: Mapping[str, Json], server: Mapping[str, Json]) -> bytes:
    """Return the answer that asks the user. ``asked`` contains a name, a message, a schema and a state."""
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
    """Return the answer that asks the user to open their inbox at ``page``, where the call waits.

    Return None if ``problem`` requires something else, or if the user cannot be shown pages or has been shown this one.
    """
    # GW-04: an upstream could put any URL into its problem. The user is sent only to this server's page.
    is_own = bool(page) and get_object(problem.details, "inbox").get("url") == page
    if not is_own or not can_open_pages(asked.params) or _VISIT in get_object(asked.params, "inputResponses"):
        return None
    host = get_authority(page)
    message = f"{call.tool.name} waits for your decision. Open the call in your inbox at"
    subject = f"{page} {get_text(get_object(problem.details, 'inbox'), 'id')}"
    params = _write_page(_clean(f"{message} {host}, and allow or deny it."), page, asked, subject)
    return _write_input(asked.id, {_VISIT: {"method": ELICITATION, "params": params}}, server)


def _write_sign_ins(asked: AskedMethod, problem: Problem, server: Mapping[str, Json]) -> bytes | None:
    """Return the answer that asks the user to open the sign-in page of each site that the call needs, or None."""
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
    """Return the parameters of a request to open the page ``url``. ``subject`` distinguishes it from other requests."""
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
    """Return a tool's question in ``problem``, with its call's state, or None."""
    asked = get_object(problem.details, "input_request")
    return asked if "state" in asked else None
