"""Read the requests of the page at ``/``: show it, and run the tool that a form names, after a question if needed.

Rules:
- A GET runs nothing. A POST is taken from the page itself only, never from a page of another site.
- The user is asked as every client asks: the question shows everything that is sent, and before a destructive call
  the user types its name. The answer is valid for exactly what was shown.
- A call then goes through every check of the server, like one that came on a protocol.
"""
# CO-01, FU-07, D-19, D-22

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from hmac import compare_digest, digest
from typing import Any
from urllib.parse import urlsplit

from toolwire.consent.display import build_display_rows, confirmation_text, needs_typed_confirmation
from toolwire.consent.question_page import (
    build_answer_buttons,
    build_question_heading,
    build_question_parts,
    build_typed_words,
)
from toolwire.core.call_status import CallPage, CallStatus
from toolwire.core.catalog import Catalog
from toolwire.core.check import Deny, Question
from toolwire.core.codec import CallAction, CallQuery, Codec, Pending, Reader, Reading, Site, Streaming
from toolwire.core.content import has_content
from toolwire.core.http import Request, Response
from toolwire.core.model import (
    ANONYMOUS,
    Approval,
    Call,
    Context,
    Json,
    Kind,
    Problem,
    Progress,
    Result,
    Tool,
    UserAnswer,
)
from toolwire.core.toolbox import ignore_progress
from toolwire.framing import jsontext
from toolwire.framing.call_document import is_call_id, read_status
from toolwire.framing.csrf import find_form_origin
from toolwire.framing.html import NO_HTML, Html
from toolwire.framing.html_arguments import change_items, find_changed_item, read_form
from toolwire.framing.html_page import build_alert, build_form, build_notice
from toolwire.framing.jsontext import get_object
from toolwire.validation import build_arguments_check

from .browser_request import FOREIGN_FORM, parse_form_fields
from .call_part import NO_QUESTION, AnswerForm, build_problem, build_result, read_call_answer, write_answers
from .index_page import CallAnswer, IndexPage, View, asks_first
from .protocol_exchange import ServedProtocols, build_exchanges
from .refusal_page import build_refusal_page

_ALLOWED, _DENIED = UserAnswer("page", allowed=True), UserAnswer("page", allowed=False)
_LOG_LEVEL = "debug"
_MAX_PROGRESS_ITEMS = 200
_WAIT_S = 1.0
"""How long the page waits for the end of a long call before it shows how far it is, in seconds."""
_OF_A_CALL = ("accept", "call", "cancel", "decline")
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,260}", re.ASCII)
_KEY = secrets.token_bytes(32)
"""Signs what was shown in a question. Another process asks again."""


class PageReader:
    """Reads the requests of the page of one catalog."""

    def __init__(self, catalog: Catalog, codecs: Sequence[Codec], protocols: ServedProtocols, site: Site) -> None:
        self._catalog, self._codecs, self._site = catalog, codecs, site
        self._page = IndexPage(catalog, protocols, root=site.root, needs_key=site.keys)
        self._check = build_arguments_check()

    def read_get(self, request: Request) -> Reading:
        """Return the page: all tools, those that words describe (``?q=``), or one with its form (``?tool=``)."""
        fields = parse_form_fields(request.url.partition("?")[2])
        view = View(base=self._find_base(request), words=fields.get("q", "")[:200])
        tool = self._catalog.names.get(fields.get("tool", ""))
        if tool is None and "tool" in fields:
            return self._page.build(replace(view, words=fields["tool"][:200]), 404)
        if tool is None:
            return self._page.build(view)
        return self._page.build(self._show_tool(view, fields["tool"], read_form(tool.input_schema, fields)))

    def read_for_strangers(self, request: Request) -> Reading:
        """Return the page that asks for a key before it shows any tool."""
        fields = parse_form_fields(request.url.partition("?")[2])
        return self._page.build_key_form({name: fields[name][:200] for name in ("tool", "q") if name in fields})

    def read_post(self, request: Request) -> Reading:
        """Return the call that a form of the page asks for, or the page that says what is needed first."""
        if find_form_origin(dict(request.headers)) == "cross_site":
            return build_refusal_page(FOREIGN_FORM)
        view = View(base=self._find_base(request))
        fields = parse_form_fields(request.body.decode("utf-8", "replace"))
        tool = self._catalog.names.get(fields.get("tool", ""))
        if fields.get("step") == "show":  # the form of a stranger who has a key
            if tool is not None:
                return self._page.build(self._show_tool(view, fields["tool"], {}))
            return self._page.build(replace(view, words=fields.get("tool") or fields.get("q", "")))
        if (fields.get("step") in _OF_A_CALL or "asked" in fields) and is_call_id(fields.get("call")):
            return self._read_call(view, fields)
        if tool is None:
            return self._page.build(view, 404)
        read = self._read_answer if fields.get("step") == "answer" else self._read_arguments
        return read(view, fields["tool"], tool, fields)

    def _read_call(self, view: View, fields: Mapping[str, str]) -> Reading:
        """Return the query that reads, cancels or answers a long call."""
        if "asked" in fields:
            return self._read_reply(view, fields)
        action = CallAction.CANCEL if fields["step"] == "cancel" else CallAction.READ
        return CallQuery(action, partial(self._show_call, view, fields.get("tool", "")), fields["call"])

    def _read_reply(self, view: View, fields: Mapping[str, str]) -> Reading:
        """Return the query with the user's answer to what a waiting call asks, or the page that says what is wrong."""
        name, asked = fields.get("tool", ""), fields.get("asked", "")
        answer = read_call_answer(fields)
        if answer is None:
            return build_refusal_page(NO_QUESTION)
        if isinstance(answer, AnswerForm):
            html = self._page.build_answer_form(fields["call"], name, answer)
            view = replace(view, name=name if name in self._catalog.names else "", html=html)
            return self._page.build(view, (422 if answer.faults else 200) if view.name else 404)
        answers = write_answers(asked, answer)
        return CallQuery(CallAction.ANSWER, partial(self._show_call, view, name), fields["call"], answers=answers)

    def _read_arguments(self, view: View, name: str, tool: Tool, fields: Mapping[str, str]) -> Reading:
        changed = change_items(fields)
        arguments = read_form(tool.input_schema, fields if changed is None else changed)
        view = self._show_tool(view, name, arguments)
        if changed is not None:
            return self._page.build(replace(view, focus=find_changed_item(changed, fields)))
        verdict = self._check(Call(tool, arguments))
        if isinstance(verdict, Deny):
            problem = verdict.problem
            return self._page.build(replace(view, problem=problem.message, faults=problem.parameter_errors), 422)
        return self._ask(view, tool, fields) if asks_first(tool) else self._run(view, tool, ANONYMOUS)

    def _show_tool(self, view: View, name: str, arguments: Mapping[str, Json]) -> View:
        tool, context = self._catalog.names[name], ANONYMOUS
        if tool.reports or tool.streams:  # FD-06: the request of a client that wants all that it can hear
            context = replace(context, report=ignore_progress, log_level=_LOG_LEVEL)
        call = Call(tool, arguments, call_id=f"page-{secrets.token_hex(6)}", context=context)
        exchanges = build_exchanges(self._catalog, self._codecs, self._site, view.base, call)
        return replace(view, name=name, arguments=arguments, exchanges=exchanges)

    def _ask(self, view: View, tool: Tool, fields: Mapping[str, str], fault: str = "") -> Response:
        """Return the page with the question about a call."""
        question = _build_question(view, tool, self._catalog.title)
        text = json.dumps(dict(view.arguments))
        typed = build_typed_words(confirmation_text(question)) if needs_typed_confirmation(question) else NO_HTML
        # The call comes back in the form with its signature, so the server keeps nothing while the user thinks.
        hidden = [("tool", view.name), ("step", "answer"), ("arguments", text), ("seen", _sign(tool, text))]
        key = self._page.build_key_field() if "key" in fields else NO_HTML
        form = self._build_form(Html(f"{key}{typed}{build_answer_buttons(destructive=tool.destructive)}"), hidden)
        heading = build_question_heading(build_display_rows(question)[0].text, tool.name, question.site)
        html = Html(f"{build_alert(fault)}{heading}{build_question_parts(question)}{form}")
        return self._page.build(replace(view, html=html), 400 if fault else 200)

    def _read_answer(self, view: View, name: str, tool: Tool, fields: Mapping[str, str]) -> Reading:
        text = fields.get("arguments", "")
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            return self._page.build(view, 400)
        view = self._show_tool(view, name, arguments)
        if fields.get("answer") != "allow":
            return self._deny(view, tool, fields.get("word", ""))
        # D-20: allowed is what was shown. Other arguments or a changed tool have another signature.
        if not compare_digest(fields.get("seen", "").encode(), _sign(tool, text).encode()):
            return self._ask(view, tool, fields, _RELOAD)
        wanted = confirmation_text(_build_question(view, tool, ""))
        if tool.destructive and fields.get("confirm", "").strip() != wanted:
            return self._ask(view, tool, fields, f"To allow this call, type: {wanted}")
        return self._run(view, tool, replace(ANONYMOUS, confirmation=fields.get("word", ""), user_answer=_ALLOWED))

    def _deny(self, view: View, tool: Tool, word: str) -> Pending:
        """Return the call that its user did not allow: the server keeps that answer, and runs nothing."""
        # FU-60
        shown = self._page.build(replace(view, note="Denied. Nothing was sent."))
        context = replace(ANONYMOUS, confirmation=word, user_answer=_DENIED)
        return Pending(Call(tool, view.arguments, context=context), lambda _result, _duration_ms: shown)

    def _run(self, view: View, tool: Tool, context: Context) -> Pending | Streaming:
        if tool.long:  # LC-05: what takes longer is shown as a call that goes on
            context = replace(context, wait_s=_WAIT_S, takes_input=True)
        elif tool.reports or tool.streams:
            return self._listen(view, tool, replace(context, log_level=_LOG_LEVEL))
        return Pending(Call(tool, view.arguments, context=context), self._build_reply(view, tool))

    def _listen(self, view: View, tool: Tool, context: Context) -> Streaming:
        """Return the call whose messages are kept for the page. Nothing is sent before its end."""
        progress_items: list[Progress] = []
        reply = self._build_reply(view, tool, progress_items)
        headers: list[tuple[bytes, bytes]] = []  # those of the page, which are known with it

        def on_progress(progress: Progress) -> bytes:
            if len(progress_items) < _MAX_PROGRESS_ITEMS:
                progress_items.append(progress)
            return b""

        def close(result: Result, duration_ms: float) -> bytes:
            response = reply(result, duration_ms)
            headers[:] = response.headers
            return response.body

        call = Call(tool, view.arguments, context=context)
        return Streaming(call, headers, b"", on_progress, close, lambda problem: reply(problem, 0.0))

    def _build_reply(
        self, view: View, tool: Tool, progress_items: Sequence[Progress] = ()
    ) -> Callable[[Result, float], Response]:
        def reply(result: Result, duration_ms: float) -> Response:
            if isinstance(result, Problem) and result.kind is Kind.ACCEPTED:
                known = read_status(dict(get_object(result.details, "call")))
                return self._show_call(view, view.name, result if known is None else known)
            if isinstance(result, Problem):
                # CC-06: a page has no key that could sign a receipt.
                if result.kind is Kind.UNCONFIRMED and "receipt" not in get_object(result.details, "confirmation"):
                    return self._confirm(view, tool, result)
                html, status = build_problem(result), 200
                shown = replace(view, faults=result.parameter_errors)
            else:
                html, status, shown = build_result(result.value), 200, view
            answered = [
                (one, one.write_notices(progress_items), one.write_response(result, duration_ms))
                for one in view.exchanges
            ]
            shows_media = not isinstance(result, Problem) and has_content(result.value)
            end = result.kind.value if isinstance(result, Problem) else "done"
            answer = CallAnswer(html, answered, duration_ms, secrets.token_hex(6), end, shows_media)
            return self._page.build(replace(shown, answer=answer), status)

        return reply

    def _show_call(self, view: View, name: str, outcome: CallStatus | CallPage | Problem) -> Response:
        """Return the page of a tool with how a long call of it stands."""
        view = replace(view, name=name if name in self._catalog.names else "")
        if isinstance(outcome, CallStatus) and view.name:
            html = self._page.build_call(outcome, view.name)
            return self._page.build(replace(view, html=html, is_live=not outcome.is_over))
        if isinstance(outcome, Problem):
            return build_refusal_page(outcome)
        return self._page.build(view, 404)

    def _confirm(self, view: View, tool: Tool, problem: Problem) -> Response:
        """Return the page with the question that the server itself asks before a call."""
        details: Any = problem.details.get("confirmation")
        text = json.dumps(dict(view.arguments))
        hidden = [
            ("tool", view.name),
            ("step", "answer"),
            ("arguments", text),
            ("seen", _sign(tool, text)),
            ("word", str(details["word"])),
        ]
        # The user has typed it on the page before.
        if tool.destructive:
            hidden.append(("confirm", confirmation_text(_build_question(view, tool, ""))))
        buttons = Html(
            '<div class="actions bar"><button name="answer" value="deny">Not now</button>'
            '<button class="danger" name="answer" value="allow">Confirm</button></div>'
        )
        form = self._build_form(Html(f"{self._page.build_key_field()}{buttons}"), hidden)
        html = Html(f"<h2>The server asks too</h2>{build_notice(str(details['question']), 'costs')}{form}")
        return self._page.build(replace(view, html=html))

    def _build_form(self, html: Html, hidden: Sequence[tuple[str, str]]) -> Html:
        return build_form(f"{self._site.root}/#result", html, hidden)

    def _find_base(self, request: Request) -> str:
        """Return the URL of the page as the browser has it."""
        fields = dict(request.headers)
        host = fields.get(b"host", b"").decode("latin-1")
        host = host if _HOST.fullmatch(host) else "localhost"
        # Only a POST has an Origin. Without one the scheme is a guess: a name without a port is usually behind a proxy
        # with TLS.
        scheme = urlsplit(fields.get(b"origin", b"").decode("latin-1")).scheme
        if scheme not in ("http", "https"):
            is_local = host.startswith(("127.", "localhost", "[::1]")) or ":" in host
            scheme = "http" if is_local else "https"
        return f"{scheme}://{host}{self._site.root}/"


_RELOAD = "This question was not asked here, or the tool has changed since. Open it again."


def build_page_readers(
    catalog: Catalog, codecs: Sequence[Codec], protocols: ServedProtocols, site: Site
) -> tuple[Reader, Reader, Reader]:
    """Return the readers of GET and POST, and that of a GET without credentials where tools are private."""
    reader = PageReader(catalog, codecs, protocols, site)
    return reader.read_get, reader.read_post, reader.read_for_strangers


def _sign(tool: Tool, text: str) -> str:
    """Return the signature of a call as it was shown."""
    shown = [tool.id, tool.description, dict(tool.input_schema), tool.destructive, str(tool.cost), text]
    return digest(_KEY, jsontext.write_canonical(shown), sha256).hex()


def _build_question(view: View, tool: Tool, title: str) -> Question:
    first = view.exchanges[0].request if view.exchanges else None
    secret = {
        name for name, one in tool.parameters.items() if one.get("writeOnly") is True or one.get("format") == "password"
    }
    return Question(
        Call(tool, view.arguments),
        view.base.removesuffix("/"),
        f"{first.method} {first.url}" if first else view.base,
        tool.approval or Approval.PER_CALL,
        request=first,
        title=title,
        secrets=frozenset(secret),
    )
