"""Build the pages of the browser chat: the conversation with its questions, the sites, and the settings.

Rules:
- What a site says or returns stands in a frame with the name of the site. What the model says is its own.
- A question in the chat is the question of every other client, with the same form.
"""
# CO-03

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from toolwire.client.approvers.browser_approver import InputServer, QuestionServer
from toolwire.client.connection.remote import SyncRemote
from toolwire.consent.display import build_display_rows
from toolwire.consent.input_page import build_input_parts
from toolwire.consent.origin_display import show_site
from toolwire.consent.question_page import (
    build_question_form,
    build_question_heading,
    build_question_parts,
    build_tool_badges,
)
from toolwire.console.app import PageGroup
from toolwire.console.page import Page, PageRequest, Redirect, build_heading, count_words
from toolwire.console.source import ConsoleSource
from toolwire.core.content import has_content
from toolwire.core.model import Approval, Kind, Problem, Tool
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import complete_url, get_origin, read_origin
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html, show_lines, show_text
from toolwire.framing.html_content import build_content
from toolwire.framing.html_display import build_displayed_result, build_outside_link
from toolwire.framing.html_page import (
    build_alert,
    build_badge,
    build_code,
    build_code_block,
    build_fold,
    build_form,
    build_input,
    build_list,
    build_notice,
    build_select,
)
from toolwire.framing.html_value import build_value
from toolwire.framing.visible_text import make_visible, make_visible_json
from toolwire.stores.consent.preferences import EVERY_TOOL, EVERY_WRITE

from .conversation import MAX_MESSAGE_CHARS, Choice, Conversation, Entry, MessageEntry, Site, ToolCallEntry, Waiting
from .settings_page import ModelChoice, build_settings, store_settings

_STATES: Final = {
    "connecting": ("changes", "connecting"),
    "connected": ("safe", "connected"),
    "failed": ("destroys", "not connected"),
}
_LEVELS: Final = {Approval.AUTO: "no question", Approval.PER_CALL: "asks you", Approval.DENY: "never called"}
_MAX_TOOLS: Final = 200
_RULES: Final = (("", "as the site says"), ("per-call", "ask me each time"), ("deny", "never"))
_MAX_SHOWN_CHARS: Final = 50_000
_SAY: Final = Html(' class="say"')


class ChatPages:
    """The pages and actions of one chat. ``has_model`` returns whether a model is set."""

    def __init__(self, conversation: Conversation, source: ConsoleSource, has_model: Callable[[], bool]) -> None:
        self._chat, self._source, self._has_model = conversation, source, has_model

    def build_chat(self, request: PageRequest) -> Page:
        """Return the page of the conversation."""
        return self._build(request)

    def send_message(self, request: PageRequest) -> Page | Redirect:
        """Give a message to the model, or begin a new conversation."""
        if request.get("change") == "new":
            self._chat.start_again()
            return Redirect("/chat", "cleared")
        text = request.get("message").replace("\r\n", "\n").strip()
        if not text:
            return Redirect("/chat#end")
        if len(text) > MAX_MESSAGE_CHARS:
            return self._build(request, f"A message can have at most {MAX_MESSAGE_CHARS:,} characters.", draft=text)
        if not self._chat.send(text):
            return self._build(request, "The model is still answering. Send this when it has finished.", draft=text)
        return Redirect("/chat#end")

    def answer(self, request: PageRequest) -> Page | Redirect:
        """Take the answer to a question."""
        id_ = request.get("waiting")
        waiting = self._chat.find_waiting(id_)
        if waiting is None:
            return Redirect("/chat", "over")
        if isinstance(waiting, Choice):
            waiting.answer = request.get("answer") == "yes"
        else:
            # The console has checked that the form is from its own page; the question checks its own token too.
            form = {name: list(values) for name, values in request.form.items()} | {"token": [waiting.token]}
            if fault := waiting.submit(form):
                return self._build(request, "", wrong=id_, fault=fault)
        self._chat.remove_question(id_)
        return Redirect("/chat#end")

    def change_sites(self, request: PageRequest) -> Page | Redirect:
        """Connect or disconnect a site."""
        if gone := request.get("disconnect"):
            return Redirect("/chat", "removed" if self._chat.disconnect(gone) else "not-there")
        if chosen := request.get("remedy"):
            fault = self._chat.take_remedy(chosen)
            return self._build(request, fault) if fault else Redirect("/chat", "connected")
        url = request.get("url").strip()
        address = read_origin(complete_url(url)) if url else None
        if address is None or address.has_user_info:
            return self._build(request, f"{make_visible(url[:200]) or 'Nothing'} is not a valid server address.")
        fault = self._chat.connect(complete_url(url))
        return self._build(request, fault) if fault else Redirect("/chat", "connected")

    # The conversation

    def _build(
        self, request: PageRequest, problem: str = "", *, draft: str = "", wrong: str = "", fault: str = ""
    ) -> Page:
        entries = self._chat.list_entries()
        talk = join_html(Html(f'<div data-key="{number}">{_build_entry(entry)}</div>') for number, entry in entries)
        waiting = join_html(
            self._build_waiting(request, id_, one, fault if id_ == wrong else "")
            for id_, one in self._chat.list_waiting()
        )
        hint = NO_HTML if entries else self._build_hint(request)
        is_busy = self._chat.is_busy
        state = "The model is answering." if is_busy and not waiting else "Waiting for your answer." if is_busy else ""
        reload_link = Html('<noscript><p><a class="button small" href="">Look for news</a></p></noscript>')
        message = Html(
            '<label for="message">Your message</label><textarea id="message" name="message" rows="2" data-enter '
            f'maxlength="{MAX_MESSAGE_CHARS}">\n{escape_text(draft)}</textarea>'
            '<div class="actions" id="end"><button class="primary">Send</button></div>'
        )
        conversation = Html(
            f'<section aria-label="Conversation">{build_alert(problem)}<div data-part="hint">{hint}</div>'
            f'<div class="talk" data-list="talk" role="log">{talk}</div><div data-list="waiting">{waiting}</div>'
            f'<p class="muted" role="status" data-part="state">{escape_text(state)}</p>{reload_link if is_busy else ""}'
            f"{request.build_form('/chat', message, more=_SAY)}</section>"
        )
        again = request.build_button("/chat", [("change", "new")], "New conversation") if entries else NO_HTML
        settings = request.build_link("/chat/settings", "Settings", "button small")
        head = Html(f'<div class="row"><div class="grow">{build_heading("Chat")}</div>{again}{settings}</div>')
        html = Html(f'{head}<div class="split talks">{conversation}{self._build_sites(request)}</div>')
        # News brings images into a page that is open: its policy has them from the start, as parts of the page.
        return Page("Chat", html, ("chat",), status=400 if problem or fault else 200, shows_media=True)

    def _build_hint(self, request: PageRequest) -> Html:
        steps = []
        if not self._has_model():
            link = request.build_link("/chat/settings", "Choose a model")
            steps.append(Html(f"<li>{link}: any that speaks the protocol of OpenAI.</li>"))
        if not self._chat.list_sites():
            steps.append(Html("<li>Connect a site by its address.</li>"))
        steps.append(Html("<li>Say what you want. A call that changes something asks you first, here.</li>"))
        return Html(f'<div class="card"><ol class="value-list">{join_html(steps)}</ol></div>')

    def _build_waiting(self, request: PageRequest, id_: str, waiting: Waiting, fault: str) -> Html:
        action = request.link("/chat/answer")
        hidden = [("token", request.session.form_token), ("waiting", id_)]
        match waiting:
            case QuestionServer(question=question):
                entered = request.list_first_values() if fault else {}
                place = make_visible(question.program) or show_site(question.site)
                name = question.call.tool.name
                heading = build_question_heading(build_display_rows(question)[0].text, name, place)
                form = build_question_form(question, hidden, entered, action=action)
                html = Html(f"{build_question_parts(question, level=3)}{form}")
            case InputServer():
                words, html = build_input_parts(waiting.asked, hidden, waiting.entered, action=action)
                heading = Html(f"<h2>{words}</h2>")
            case Choice():
                heading = Html(f"<h2>{escape_text(waiting.heading)}</h2>")
                html = _build_choice(waiting, hidden, action)
        # A question that is over stays where it is; a link to sign in goes away once it was followed.
        is_link = isinstance(waiting, Choice) and waiting.link
        over = NO_HTML if is_link else Html(' data-over="This was answered, or its time has ended."')
        return Html(
            f'<article class="card asks" data-key="{escape_text(id_)}"{over} aria-label="A question for you">'
            f"{build_alert(fault)}{heading}{html}</article>"
        )

    # The sites

    def _build_sites(self, request: PageRequest) -> Html:
        items = join_html(self._build_site(request, site) for site in self._chat.list_sites())
        more = Html(' required inputmode="url" autocomplete="url" spellcheck="false" placeholder="shop.example"')
        fields = Html(f"{build_input('Connect a site', 'url', more=more)}<button>Connect</button>")
        return Html(
            f'<aside class="card" aria-label="Sites"><h2>Sites</h2><div data-list="sites">{items}</div>'
            f"{request.build_form('/chat/sites', fields)}</aside>"
        )

    def _build_site(self, request: PageRequest, site: Site) -> Html:
        shown = make_visible(show_url(site.url))
        fault = build_notice(make_visible(site.fault), "destroys") if site.fault else NO_HTML
        tools = NO_HTML if site.remote is None else _build_tools(site.remote)
        out = request.build_button("/chat/sites", [("disconnect", site.id)], "Disconnect", f"Disconnect {shown}")
        key, name = escape_text(f"{site.id}-{site.state}"), escape_text(shown)
        return Html(
            f'<section data-key="{key}" aria-label="{name}"><div class="row"><h3 class="plain grow">{name}</h3>'
            f"{build_badge(*_STATES[site.state])}</div>{fault}{_build_remedy(request, site)}{tools}{out}</section>"
        )

    # The rules of the user

    def build_rules(self, request: PageRequest) -> Html:
        """Return the forms that set the user's own level for each connected site."""
        rules = {(one.site, one.tool): one.level.value for one in self._source.preferences.list_levels()}
        forms = join_html(
            _build_rule_form(request, get_origin(site.url), rules) for site in self._chat.list_sites() if site.remote
        )
        none = Html('<p class="muted">Connect a site first: each one has its own rules.</p>')
        link = escape_text(request.link("/rules"))
        return Html(
            '<div class="card"><h2>When you are asked</h2><p>A rule can only be stricter than the site.</p>'
            f'{forms or none}<p><a href="{link}">Rules for one tool</a></p></div>'
        )

    def store_rules(self, request: PageRequest) -> Redirect:
        """Keep the user's levels for one connected site."""
        site = request.get("site")
        if site not in {get_origin(one.url) for one in self._chat.list_sites()}:
            return Redirect("/chat/settings", "not-there")
        for tool, name in ((EVERY_TOOL, "all"), (EVERY_WRITE, "writes")):
            level = request.get(name)
            if level in ("per-call", "deny"):
                self._source.preferences.set(site, tool, Approval(level))
            else:
                self._source.preferences.unset(site, tool)
        return Redirect("/chat/settings", "rule")


_REMEDIES: Final = {
    "unmarked": "Use every operation, and ask me about each call",
    "later_version": "Use it anyway, and ask me about each call",
}


def _build_remedy(request: PageRequest, site: Site) -> Html:
    # FU-51
    label = _REMEDIES.get(site.remedy)
    if label is None:
        return NO_HTML
    return request.build_button("/chat/sites", [("remedy", site.id)], label, kind="")


def _build_entry(entry: Entry) -> Html:
    if isinstance(entry, MessageEntry):
        if entry.who == "fault":
            return build_alert(make_visible(entry.text))
        who = Html(f'<span class="who">{"You" if entry.who == "you" else "The model"}</span>')
        lines = show_lines(entry.text[:_MAX_SHOWN_CHARS])
        return Html(f'<div class="turn {escape_text(entry.who)}">{who}<p class="value">{lines}</p></div>')
    name, where = make_visible(entry.name), f" at {make_visible(entry.site)}" if entry.site else ""
    given = build_code_block(make_visible_json(entry.arguments, indent=1), f"What {name} got")
    head = build_fold(f"{name}{where}", given, kind="fold")
    return Html(f'<div class="turn call"><span class="who">ToolCallEntry</span>{head}{_build_result(entry)}</div>')


def _build_result(called: ToolCallEntry) -> Html:
    result = called.result
    if isinstance(result, Problem):
        kind = "costs" if result.kind in (Kind.DENIED, Kind.UNCONFIRMED) else "destroys"
        return build_notice(make_visible(result.message), kind)
    value = result.value
    shown = build_displayed_result(called.tool, value) if called.tool is not None else NO_HTML
    html = shown or (build_content(value) if has_content(value) else build_value(value))
    says = f"{show_site(called.site)} answers" if called.site else "The answer"
    return Html(f'<figure class="said"><figcaption>{escape_text(says)}</figcaption><div>{html}</div></figure>')


def _build_choice(choice: Choice, hidden: list[tuple[str, str]], action: str) -> Html:
    lines = join_html(Html(f"<p>{show_text(line)}</p>") for line in choice.lines)
    no = Html('<button name="answer" value="no">Not now</button>')
    yes = Html(f'<button class="primary" name="answer" value="yes">{escape_text(choice.yes)}</button>')
    if choice.link:
        link = build_outside_link(choice.link, "Open the sign-in page")
        form = build_form(action, Html(f'<div class="actions">{no}</div>'), hidden)
        return Html(f"{lines}<p>{link}</p>{form}")
    form = build_form(action, Html(f'<div class="actions bar">{no}{yes}</div>'), hidden)
    return Html(f"{lines}{form}")


def _build_tools(remote: SyncRemote) -> Html:
    tools = list(remote.catalog().names.items())
    left = len(tools) - _MAX_TOOLS
    more = Html(f"<p>and {left:,} more</p>") if left > 0 else NO_HTML
    rows = build_list(_build_tool(remote, name, tool) for name, tool in tools[:_MAX_TOOLS])
    return build_fold(count_words(len(tools), "tool"), Html(f"{rows}{more}"), kind="fold")


def _build_tool(remote: SyncRemote, name: str, tool: Tool) -> Html:
    badges = join_html(Html(f" {badge}") for badge in build_tool_badges(tool))
    return Html(f"{build_code(name)}{badges} <small>{escape_text(_LEVELS[remote.find_level(tool)])}</small>")


def _build_rule_form(request: PageRequest, site: str, rules: Mapping[tuple[str, str], str]) -> Html:
    selects = join_html(
        build_select(words, name, _RULES, rules.get((site, tool), ""))
        for name, tool, words in (
            ("writes", EVERY_WRITE, "Calls that change something"),
            ("all", EVERY_TOOL, "All calls"),
        )
    )
    shown = show_text(site)
    fields = Html(
        f"<fieldset><legend>{shown}</legend>{selects}"
        f'<button aria-label="Keep the rules for {shown}">Keep</button></fieldset>'
    )
    return request.build_form("/chat/rules", fields, [("site", site)])


def build_chat_group(conversation: Conversation, source: ConsoleSource, choice: ModelChoice) -> PageGroup:
    """Return the pages of a chat for a console."""
    pages = ChatPages(conversation, source, choice.has_model)

    def attach(notify: Callable[[str], None]) -> None:
        conversation.notify = notify

    return PageGroup(
        place=("/chat", "Chat"),
        pages={
            "/chat": pages.build_chat,
            "/chat/settings": lambda request: build_settings(choice, request, pages.build_rules(request)),
        },
        actions={
            "/chat": pages.send_message,
            "/chat/answer": pages.answer,
            "/chat/sites": pages.change_sites,
            "/chat/rules": pages.store_rules,
            "/chat/settings": lambda request: store_settings(
                choice, request, pages.build_rules(request), conversation.choose_model_again
            ),
        },
        attach=attach,
        close=conversation.close,
    )
