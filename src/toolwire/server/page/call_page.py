"""Show ``/calls/ID`` and ``/calls`` as pages: how a long call of a caller stands, what it asks, and its end.

Rules:
- A page says what the data at the same address says, to the same callers. An id of another caller is answered like one
  that does not exist.
- A GET changes nothing. A form is taken from a page of this server only.
- The caller is known as who is signed in at the browser, as a person or by a key, which no page keeps; else by a key in
  the form.
"""
# LC-05, D-22

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final
from urllib.parse import urlencode

from toolwire.core.call_status import CallPage, CallStatus, LongCallState
from toolwire.core.catalog import Catalog
from toolwire.core.codec import CallAction, CallQuery, Reading
from toolwire.core.content import has_content
from toolwire.core.http import STATUS_BY_KIND, Request, Response
from toolwire.core.model import Kind, Problem, Value
from toolwire.framing.csrf import find_form_origin
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html, show_text
from toolwire.framing.html_call import build_call_state, build_moment, build_state
from toolwire.framing.html_page import (
    build_alert,
    build_code,
    build_code_block,
    build_facts,
    build_fold,
    build_form,
    build_html_page,
    build_link,
    build_login_link,
    build_notice,
    build_policy,
    build_submit,
    build_table,
    write_page,
)
from toolwire.framing.visible_text import make_visible

from .browser_request import FOREIGN_FORM, VARY, LoginPlace, parse_form_fields
from .call_part import (
    NO_QUESTION,
    AnswerForm,
    CallForm,
    build_key_field,
    build_open_part,
    build_problem,
    build_result,
    link_call,
    read_call_answer,
    write_answers,
)
from .page_script import SCRIPT_PATH

_PAGE_CALLS: Final = 50
_SENTENCES: Final = {
    LongCallState.ACCEPTED: "waits for its turn",
    LongCallState.RUNNING: "is running",
    LongCallState.WAITING: "asks you something",
    LongCallState.ENDED: "has ended",
    LongCallState.CANCELLED: "was cancelled",
    LongCallState.INTERRUPTED: "was interrupted",
}
_EMPTY: Final = "You have no long calls. To start one, call a tool that declares long calls."
_KEY_NOTE: Final = (
    "Your key is not stored. Instead, a cookie that scripts cannot read keeps this browser signed in for an hour."
)
_FOOT: Final = "Served by toolwire. Only the caller who started a call sees it."


@dataclass(frozen=True, slots=True)
class CallPages:
    """The pages about the long calls of one catalog.

    ``root`` is the mount path. ``needs_key``: callers need credentials. ``person`` is the name of who is signed in at
    the browser, empty without; they need no key. With ``can_sign_out``, they signed in on these pages.
    """

    catalog: Catalog
    _: KW_ONLY
    root: str = ""
    needs_key: bool = False
    person: str = ""
    can_sign_out: bool = False

    def read(self, call_id: str, request: Request) -> Reading:
        """Return what a request asks for: the page of the call ``call_id``, or the list without an id."""
        if not call_id:
            return self._read_list(request)
        if request.method == "POST":
            return self._read_form(call_id, request)
        return CallQuery(CallAction.READ, partial(self._show, call_id, None), call_id)

    def _read_form(self, call_id: str, request: Request) -> Reading:
        """Return the query that a form of the page of ``call_id`` asks for: look again, cancel, or answer."""
        if not self._is_own_form(request):
            return self._build_refusal(FOREIGN_FORM)
        fields = parse_form_fields(request.body.decode("utf-8", "replace"))
        if "asked" not in fields:
            action = CallAction.CANCEL if fields.get("step") == "cancel" else CallAction.READ
            return CallQuery(action, partial(self._show, call_id, None), call_id)
        answer = read_call_answer(fields)
        if answer is None:
            return self._build_refusal(NO_QUESTION)
        if isinstance(answer, AnswerForm):
            return CallQuery(CallAction.READ, partial(self._show, call_id, answer), call_id)
        show = partial(self._show, call_id, None)
        return CallQuery(CallAction.ANSWER, show, call_id, answers=write_answers(fields["asked"], answer))

    def _read_list(self, request: Request) -> Reading:
        """Return the query for the page with the calls of the caller, newest first."""
        is_form = request.method == "POST"
        if is_form and not self._is_own_form(request):
            return self._build_refusal(FOREIGN_FORM)
        text = request.body.decode("utf-8", "replace") if is_form else request.url.partition("?")[2]
        cursor = parse_form_fields(text).get("cursor", "")[:100]
        return CallQuery(CallAction.LIST, self._show_list, limit=_PAGE_CALLS, cursor=cursor)

    def refuse(self, path: str, problem: Problem, login: LoginPlace, *, was_tried: bool) -> Response:
        """Return the page for ``problem``, which arose before the caller was known: it asks who they are.

        It is the same whether the call exists or not. ``was_tried``: a form brought a key, or should have.
        """
        if problem.kind is not Kind.UNAUTHORIZED:
            return self._build_refusal(problem)
        title = "Your calls" if path == "/calls" else "A call, shown to its caller"
        action = f"{self.root}{path}"
        about = "Only the caller who started a call can see it. Sign in first."
        about = f"{about} {_KEY_NOTE}" if login.takes_keys else about
        alert = build_alert(make_visible(problem.message) if was_tried else "")
        parts = [Html(f"<h1>{escape_text(title)}</h1>{alert}<p>{escape_text(about)}</p>")]
        if login.path:
            parts.append(build_login_link(login.path, action, is_only=not login.takes_keys))
        if login.takes_keys:
            fields = Html(f"{build_key_field('key')}{build_submit('Sign in')}")
            parts.append(build_form(action, fields, [("step", "sign-in")]))
        return self._build(title, Html(f'<div class="card">{join_html(parts)}</div>'), 401, width="narrow")

    # One call

    def _show(self, call_id: str, again: AnswerForm | None, outcome: CallStatus | CallPage | Problem) -> Response:
        if not isinstance(outcome, CallStatus):
            return self._build_refusal(outcome if isinstance(outcome, Problem) else _FAILED)
        name = make_visible(self._find_name(outcome.tool))
        shows_media = isinstance(outcome.result, Value) and has_content(outcome.result.value)
        is_open = not outcome.is_over
        asks = "" if again is not None and not is_open else next(iter(outcome.input), "")
        sentence = self._write_sentence(outcome, name)
        form = CallForm(link_call(self.root, call_id), [], self._build_key_field)
        html = Html(
            f'<section class="card" aria-label="Call" data-call="{"open" if is_open else "over"}"'
            f' data-asks="{escape_text(f"{outcome.state.value} {outcome.cancel_asked} {asks}")}">'
            f"<h1>{escape_text(sentence)}</h1>{self._build_state(outcome)}"
            f"{build_open_part(outcome, name, form, again) if is_open else _build_end(outcome)}"
            f"{self._build_facts(outcome)}{_build_advice(outcome)}</section>{self._build_programs(call_id)}"
        )
        status = 422 if again is not None and again.faults and is_open else 200
        # A page that looks again may get the image of the end by that.
        return self._build(sentence, html, status, is_live=is_open, shows_media=shows_media or is_open)

    def _write_sentence(self, status: CallStatus, name: str) -> str:
        if isinstance(status.result, Problem) and status.state is LongCallState.ENDED:
            return f"{name} failed"
        if status.cancel_asked and not status.is_over:
            return f"{name} was asked to stop"
        return f"{name} {_SENTENCES[status.state]}"

    def _build_state(self, status: CallStatus) -> Html:
        badge = build_state(status.state.value, has_failed=isinstance(status.result, Problem))
        message = make_visible(status.message)
        message_html = Html(f' <span class="muted">It says:</span> {escape_text(message)}') if message else NO_HTML
        return Html(f'<p role="status">{badge}{message_html}</p>')

    def _build_facts(self, status: CallStatus) -> Html:
        name = self._find_name(status.tool)
        shown = build_code(name)
        if name in self.catalog.names:
            address = f"{self.root}/?{urlencode({'tool': name})}"
            shown = Html(f'<a href="{escape_text(address)}">{shown}</a>')
        rows = [("Tool", shown), ("Began", build_moment(status.created_at))]
        rows.append(("Ended" if status.is_over else "Last change", build_moment(status.updated_at)))
        if status.expires_at is not None:
            rows.append(("Kept until", build_moment(status.expires_at)))
        rows.append(("Id", build_code(status.id)))
        return build_facts(rows)

    def _build_programs(self, call_id: str) -> Html:
        text = f"GET {link_call(self.root, call_id)}\nAccept: application/json\nPrefer: wait=20"
        about = Html("<p>The same as JSON, at this address: it answers when the call is over, or after 20 seconds.</p>")
        return build_fold("For a program", Html(f"{about}{build_code_block(text, 'Request')}"))

    # The list

    def _show_list(self, outcome: CallStatus | CallPage | Problem) -> Response:
        if not isinstance(outcome, CallPage):
            return self._build_refusal(outcome if isinstance(outcome, Problem) else _FAILED)
        rows = [self._list_cells(status) for status in outcome.calls]
        table = build_table(("Call", "State", "Began", "Last change"), rows, _EMPTY)
        html = Html(f'<h1>Your calls</h1><p class="muted">Long calls, newest first.</p><div class="card">{table}</div>')
        return self._build("Your calls", Html(f"{html}{self._build_more(outcome.next)}"), 200, width="wide")

    def _list_cells(self, status: CallStatus) -> list[Html]:
        name = self._find_name(status.tool)
        progress = None if status.is_over else status.progress
        return [
            Html(f'<a href="{escape_text(link_call(self.root, status.id))}">{build_code(name)}</a>'),
            build_call_state(status.state.value, name, status.message, progress=progress),
            build_moment(status.created_at),
            build_moment(status.updated_at),
        ]

    def _build_more(self, cursor: str) -> Html:
        if not cursor:
            return NO_HTML
        action = f"{self.root}/calls"
        if not self._asks_key:
            address = f"{action}?{urlencode({'cursor': cursor})}"
            return Html(f"<p>{build_link(address, 'Older calls')}</p>")
        button = Html('<div class="actions"><button>Older calls</button></div>')
        return build_form(action, Html(f"{build_key_field('key')}{button}"), [("cursor", cursor)])

    # Parts of both

    @property
    def _asks_key(self) -> bool:
        return self.needs_key and not self.person

    def _is_own_form(self, request: Request) -> bool:
        sender = find_form_origin(dict(request.headers))
        # A key proves who sent the form; the session of a browser proves nothing about the page.
        return sender == "same_site" or (sender == "unknown" and not self.person)

    def _build_key_field(self, field_id: str) -> Html:
        return build_key_field(field_id) if self._asks_key else NO_HTML

    def _find_name(self, tool_id: str) -> str:
        return next((name for name, tool in self.catalog.names.items() if tool.id == tool_id), tool_id)

    def _build_refusal(self, problem: Problem) -> Response:
        title = _TITLES.get(problem.kind, "This did not work")
        notice = build_notice(make_visible(problem.message), "costs", role="alert")
        html = Html(f'<div class="card"><h1>{escape_text(title)}</h1>{notice}</div>')
        return self._build(title, html, STATUS_BY_KIND[problem.kind], width="narrow")

    def _build(
        self,
        title: str,
        html: Html,
        status: int,
        *,
        width: str = "",
        is_live: bool = False,
        shows_media: bool = False,
    ) -> Response:
        account = Html(f'<span class="muted">{show_text(self.person)}</span>') if self.person else NO_HTML
        if self.can_sign_out:
            button = Html('<button class="small">Sign out</button>')
            account = Html(f"{account}{build_form(f'{self.root}/calls', button, [('step', 'sign-out')])}")
        page = build_html_page(
            title,
            html,
            product=make_visible(self.catalog.title),
            home=f"{self.root}/",
            place="calls",
            account_html=account,
            foot=_FOOT,
            width=width,
            script=f"{self.root}{SCRIPT_PATH}",
        )
        policy = build_policy(script="'self'", is_live=is_live, shows_media=shows_media)
        return write_page(page, status, policy=policy, more=(VARY,))


_TITLES: Final[Mapping[Kind, str]] = {Kind.NOT_FOUND: "There is no such call here"}
_FAILED: Final = Problem(kind=Kind.INTERNAL, message="The server failed.")


def _build_end(status: CallStatus) -> Html:
    if isinstance(status.result, Value):
        return build_result(status.result.value)
    return NO_HTML if status.result is None else build_problem(status.result)


def _build_advice(status: CallStatus) -> Html:
    text = Html("The call continues if you leave this page. Come back to this address at any time.")
    return NO_HTML if status.is_over else Html(f'<p class="muted">{text}</p>')
