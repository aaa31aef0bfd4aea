"""Write the page of ``GET /``: the tools, a form for the chosen one, and how to connect. No link on it runs a tool."""
# CO-01, FU-07

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote, urlencode

from toolwire.consent.question_page import build_tool_badges
from toolwire.core.call_status import CallStatus
from toolwire.core.catalog import Catalog
from toolwire.core.http import Response
from toolwire.core.model import Json, Problem, Tool, Value
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html, show_text
from toolwire.framing.html_arguments import build_form_fields, has_lists, write_link_fields
from toolwire.framing.html_page import (
    NO_STORE,
    build_alert,
    build_code,
    build_code_block,
    build_empty,
    build_facts,
    build_fold,
    build_form,
    build_html_page,
    build_lines,
    build_list,
    build_notice,
    build_page_headers,
    build_policy,
    build_submit,
    write_page,
)
from toolwire.framing.jsontext import get_object
from toolwire.framing.visible_text import make_visible

from .call_part import (
    AnswerForm,
    CallForm,
    build_call_question,
    build_key_field,
    build_open_part,
    build_problem,
    build_result,
    link_call,
)
from .page_script import SCRIPT_PATH
from .protocol_exchange import ProtocolExchange, ServedProtocols, write_python

_MAX_LISTED = 200
_MAX_LIST_CHARS = 32_000
"""How much HTML the list may be: a page has at most 60 kB, without the answer of a tool."""
_MAX_UNGROUPED = 20
_MAX_LINE_LENGTH, _MAX_LINK_LENGTH = 80, 2_000
_POLICY = build_policy(script="'self'")
_MAX_REQUESTS = 4
_NOTHING: Mapping[str, Json] = {}
_NO_FAULTS: Mapping[str, str] = {}


class CallAnswer(NamedTuple):
    """How a call ended: its result as HTML, and the call on each protocol with its notices and the response to it.

    Notices are the messages that came before the response. ``id`` is that of the call, and ``end`` says in words how
    it ended. ``shows_media`` says that the HTML may have images and sounds.
    """

    html: Html
    exchanges: Sequence[tuple[ProtocolExchange, str, str]]
    duration_ms: float
    id: str
    end: str
    shows_media: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one request shows.

    ``base`` is the URL of the page; ``words`` are searched for; ``name`` is the chosen tool, with the ``arguments`` in
    its form and ``faults`` in them; ``problem`` or ``note`` is said above it; ``html`` stands in place of the form.
    ``is_live`` says that a script on the page asks this server how a call stands. ``focus`` is the JSON Pointer of the
    value whose field has the focus.
    """

    base: str
    words: str = ""
    name: str = ""
    arguments: Mapping[str, Json] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    note: str = ""
    html: Html = NO_HTML
    is_live: bool = False
    answer: CallAnswer | None = None
    exchanges: Sequence[ProtocolExchange] = ()
    focus: str = ""


class IndexPage:
    """The page of one catalog. ``root`` is the mount path, ``needs_key`` says that calls need an API key."""

    def __init__(
        self, catalog: Catalog, protocols: ServedProtocols, *, root: str = "", needs_key: bool = False
    ) -> None:
        self._catalog, self._protocols = catalog, protocols
        self._root, self._needs_key = root, needs_key
        self._plain: tuple[str, Response] | None = None

    def build(self, view: View, status: int = 200) -> Response:
        """Return the page that shows ``view``; that without any input is kept, and not built again."""
        if view != View(base=view.base) or status != 200:
            return self._build_page(view, status)
        # GR-06: most requests for it have its tag, and get a 304.
        if self._plain is None or self._plain[0] != view.base:
            self._plain = view.base, self._build_page(view, status)
        return self._plain[1]

    def _build_page(self, view: View, status: int) -> Response:
        tool = self._catalog.names.get(view.name)
        columns = self._build_start(view) if tool is None else self._build_chosen(view, tool)
        title = view.name if tool is not None else self._catalog.title
        page = build_html_page(
            # D-01, D-25: behind a gateway, these texts come from other sites. Hidden characters are shown, HTML is
            # escaped.
            make_visible(title),
            columns,
            product=make_visible(self._catalog.title),
            home=f"{self._root}/",
            place=f"version {make_visible(self._catalog.version)}",
            foot="Served by toolwire. No link on this page runs a tool.",
            width="wide",
            script=f"{self._root}{SCRIPT_PATH}",
        )
        body = page.encode("utf-8", "replace")
        # Only the page without any input may be stored: every other one can have arguments or results of a user.
        is_plain = view == View(base=view.base)
        tag = b'"' + sha256(body).hexdigest()[:32].encode() + b'"'
        shows_media = view.answer is not None and view.answer.shows_media
        # Only a page with an answer that has an image or a sound may show what a tool returned.
        fields = build_page_headers(build_policy(script="'self'", is_live=view.is_live, shows_media=shows_media))
        return Response(status, (*fields, (b"etag", tag) if is_plain else NO_STORE), body)

    def _build_start(self, view: View) -> Html:
        left = Html(f'<div class="card tools">{self._build_search(view)}{self._build_list(view)}</div>')
        right = Html(f"{self._build_intro()}{self._build_connect(view)}{self._build_history()}")
        return Html(f'<div class="split"><div>{left}</div><div>{right}</div></div>')

    def _build_chosen(self, view: View, tool: Tool) -> Html:
        """Return the page of a tool. On a narrow screen it comes first, and the list is folded."""
        # FD-06: without a script. The fold has no content of its own: the style hides what follows it while it is shut,
        # and hides the fold itself on a wide screen.
        fold = Html(f"<details><summary>All tools ({len(self._catalog.names):,})</summary></details>")
        listed = Html(f"<div>{self._build_search(view)}{self._build_list(view)}</div>")
        more = Html(f"{self._build_protocols(view, tool)}{self._build_connect(view)}{self._build_history()}")
        return Html(
            f'<div class="split chosen"><div>{self._build_tool(view, tool)}</div>'
            f'<div class="card tools">{fold}{listed}</div><div>{more}</div></div>'
        )

    def _build_intro(self) -> Html:
        about = join_html(
            Html(f"<p>{escape_text(line)}</p>") for line in self._catalog.description.split("\n") if line.strip()
        )
        some = "Choose a tool to see its arguments and to try it." if self._catalog.names else _NO_TOOLS
        return Html(
            f'<div class="card"><h1>{show_text(self._catalog.title)}</h1>{about}<p>{escape_text(some)}</p></div>'
        )

    def _build_history(self) -> Html:
        """Return the place where the script lists the last calls that were made in this tab."""
        # FD-06: it stays hidden without a script. Neither values that are secret nor results are in it.
        return Html(
            f'<div class="card" data-history="{escape_text(self._root)}" hidden><h2>Last calls</h2>'
            '<ol class="timeline"></ol><p class="muted">Only this tab has them, without results and secrets.</p>'
            '<p><button type="button" class="small">Forget them</button></p></div>'
        )

    def _build_search(self, view: View) -> Html:
        words = escape_text(view.words)
        field = Html(f'<input id="q" type="search" name="q" value="{words}" autocomplete="off" maxlength="200">')
        return Html(
            f'<form method="get" action="{escape_text(self._root)}/" role="search">'
            f'<label for="q">Search the tools</label><div class="search">{field}<button>Search</button></div></form>'
        )

    def _build_list(self, view: View) -> Html:
        """Return the tools that the words describe, or all of them: many in groups."""
        tools: Iterable[Tool] = self._catalog.names.values()
        if view.words.strip():
            from toolwire.find import search_tools  # most servers are asked for no words

            tools = search_tools(self._catalog, view.words, _MAX_LISTED)
        listed = list(tools)
        if not listed:
            words = f"No tool is described by these words. {_OTHER_WORDS}" if view.words.strip() else _NO_TOOLS
            return build_empty(words)
        has_many = not view.words.strip() and len(listed) > _MAX_UNGROUPED
        names = {tool.id: name for name, tool in self._catalog.names.items()}
        groups = _group_tools(listed, by_tag=has_many)
        # A page of thousands of tools would be slow, and the search finds the others: each group shows some.
        most, room, shown = max(_MAX_LISTED // len(groups), 3), _MAX_LIST_CHARS, 0
        parts: list[Html] = []
        for title, members in groups.items():
            items: list[Html] = []
            for tool in members[:most]:
                if room > 0 and tool.id in names:
                    items.append(self._build_item(names[tool.id], tool, view.name))
                    room -= len(items[-1])
            shown += len(items)
            html = build_list(items, "items")
            if len(groups) > 1 and items:
                is_open = not has_many or any(names.get(tool.id) == view.name for tool in members)
                summary = f"{make_visible(title) or 'Others'} ({len(members):,})"
                html = build_fold(summary, html, is_open=is_open, kind="group")
            parts.append(html if items else NO_HTML)
        left_out = len(listed) - shown
        more = Html(f'<p class="muted">{left_out:,} more: search for them.</p>') if left_out else NO_HTML
        return Html(f'<nav aria-label="Tools">{join_html(parts)}</nav>{more}')

    def _build_item(self, name: str, tool: Tool, chosen: str) -> Html:
        current = Html(' aria-current="page"') if name == chosen else NO_HTML
        line = tool.description.partition("\n")[0]
        line = line if len(line) <= _MAX_LINE_LENGTH else f"{line[:_MAX_LINE_LENGTH].rstrip()}…"
        about = Html(f'<span class="muted">{show_text(line)}</span>')
        address = escape_text(f"{self._root}/?tool={quote(name, safe='')}#tool")
        return Html(
            f'<a href="{address}"{current}><span class="name">{show_text(name)}</span> {about}</a>'
            f"{build_list(build_tool_badges(tool), 'badges')}"
        )

    def _build_tool(self, view: View, tool: Tool) -> Html:
        lines = [line.strip() for line in (*tool.description.split("\n"), tool.hint) if line.strip()]
        about = join_html(Html(f"<p>{show_text(line)}</p>") for line in lines)
        answer = NO_HTML if view.answer is None else self._build_answer(view, tool, view.answer)
        note = build_notice(view.note, role="status") if view.note else NO_HTML
        result = Html(f"{build_alert(make_visible(view.problem))}{note}{answer}{view.html}")
        # FD-06: each form of the page leads to it.
        result = Html(f'<div id="result">{result}</div>') if result else NO_HTML
        heading = Html(f'<div class="card" id="tool"><h1>{build_code(view.name)}</h1>')
        if view.html:  # a question says itself what the tool does
            return Html(f"{heading}{result}</div>")
        badges = build_list(build_tool_badges(tool), "badges")
        return Html(f"{heading}{badges}{about}{result}{self._build_form(view, tool)}</div>")

    def _build_form(self, view: View, tool: Tool) -> Html:
        fields = build_form_fields(tool.input_schema, view.arguments, view.faults, view.focus)
        # Enter presses the first button of a form: without this one, that would be a button of a list.
        first = Html('<button class="first" name="step" value="try" tabindex="-1" aria-hidden="true">Try it</button>')
        asks = "You are asked before it runs." if asks_first(tool) else "It is read-only, and runs at once."
        html = Html(
            f"{first if has_lists(tool.input_schema) else ''}{fields or '<p>It takes no arguments.</p>'}"
            f'{self.build_key_field()}<div class="actions"><button class="primary" name="step" value="try">Try it'
            f'</button></div><p class="muted">{escape_text(asks)}</p>'
        )
        return build_form(f"{self._root}/#result", html, [("tool", view.name)])

    def build_call(self, status: CallStatus, name: str) -> Html:
        """Return how a long call stands, with a form that answers what it asks, and one that looks again."""
        summary = ": ".join(part for part in (status.state.value, make_visible(status.message)) if part)
        state = Html(f'<p role="status">{escape_text(summary)}</p>')
        own = Html(f'<a href="{escape_text(link_call(self._root, status.id))}">page of its own</a>')
        if status.is_over:
            result = status.result
            end = NO_HTML if result is None else build_problem(result) if isinstance(result, Problem) else NO_HTML
            end = build_result(result.value) if isinstance(result, Value) else end
            note = Html(f'<p class="muted">It is kept for a while, on a {own}.</p>')
            entry = _write_entry(status.id, name, link_call(self._root, status.id), status.state.value)
            return Html(
                f'<section aria-label="Call" data-call="over"{entry}><h2>Long call</h2>{state}{end}{note}</section>'
            )
        form = self._find_call_form(status.id, name)
        asks = escape_text(next(iter(status.input), ""))
        return Html(
            f'<section aria-label="Call" data-call="open" data-asks="{asks}"><h2>Long call</h2>{state}'
            f"{build_open_part(status, name, form)}"
            f'<p class="muted">It goes on if you leave this page. It has a {own}. Its id is'
            f" <code>{escape_text(status.id)}</code>.</p></section>"
        )

    def build_answer_form(self, call_id: str, name: str, answer: AnswerForm) -> Html:
        """Return the form of an answer to a call, which is shown again."""
        return build_call_question(self._find_call_form(call_id, name), answer)

    def _find_call_form(self, call_id: str, name: str) -> CallForm:
        return CallForm(f"{self._root}/", [("tool", name), ("call", call_id)], self.build_key_field)

    def build_key_form(self, fields: Mapping[str, str]) -> Response:
        """Return the page that asks for a key and names no tool; ``fields`` come back with the key."""
        inputs = Html(f"{self.build_key_field()}{build_submit('Show my tools')}")
        form = build_form(f"{self._root}/", inputs, [*fields.items(), ("step", "show")])
        html = Html(
            '<div class="card"><h1>This server shows its tools to known callers</h1><p>Your key or token opens the '
            f"list of the tools that you may use. The page does not keep it.</p>{form}</div>"
        )
        page = build_html_page("Tools for known callers", html, home=f"{self._root}/", width="narrow")
        return write_page(page, policy=_POLICY)

    def build_key_field(self, field_id: str = "key") -> Html:
        """Return the field for the key of a server that needs one; the page never shows a key again."""
        return build_key_field(field_id) if self._needs_key else NO_HTML

    def _build_answer(self, view: View, tool: Tool, answer: CallAnswer) -> Html:
        fields = write_link_fields(tool.input_schema, view.arguments)
        query = urlencode([("tool", view.name), *fields.items()], quote_via=quote)
        address = f"{self._root}/?{query}"
        link = NO_HTML
        if len(address) <= _MAX_LINK_LENGTH:
            link = Html(f' · <a href="{escape_text(address)}">link to this call</a>')
        entry = _write_entry(answer.id, view.name, address if link else "", answer.end)
        took = Html(f'<p class="muted">{answer.duration_ms:.1f} ms{link}</p>')
        return Html(f'<section aria-label="Answer"{entry}><h2>Answer</h2>{answer.html}{took}</section>')

    def _build_protocols(self, view: View, tool: Tool) -> Html:
        """Return the call in the words of each protocol, as curl and as Python."""
        answered = view.answer.exchanges if view.answer is not None else [(one, "", "") for one in view.exchanges]
        parts: list[Html] = []
        for exchange, notices, response in answered:
            curl = exchange.write_curl(needs_key=self._needs_key)
            texts = (
                ("Request", exchange.write_request()),
                ("As curl", curl),
                ("Notifications", notices),
                ("Response", response),
            )
            html = join_html(_build_text(heading, text, exchange.title) for heading, text in texts if text)
            parts.append(build_fold(exchange.title, html, is_open=bool(response) and not parts))
        program = write_python(
            view.base, view.name, dict(view.arguments), asks=asks_first(tool), needs_key=self._needs_key
        )
        parts.append(build_fold("Python", build_code_block(program, "Python")))
        return Html(f'<div class="card"><h2>The same call elsewhere</h2>{join_html(parts)}</div>')

    def _build_connect(self, view: View) -> Html:
        servers = {"mcpServers": {self._catalog.title: {"type": "http", "url": f"{view.base}mcp"}}}
        has_mcp = any(codec.name == "mcp" for codec, _ in self._protocols)
        url = view.base.removesuffix("/")
        parts = [
            Html("<p>Paste this address into a client of any of these protocols.</p>"),
            build_code_block(url, "Address"),
        ]
        parts.append(build_fold("Command line", build_code_block(f"toolwire tools {url}", "Command line")))
        if has_mcp:
            text = json.dumps(servers, indent=2, ensure_ascii=False)
            parts.append(build_fold("mcp.json of a host", build_code_block(text, "mcp.json")))
        rows = ((codec.title, self._build_links(routes)) for codec, routes in self._protocols)
        parts.append(build_fold("Documents and paths", build_facts(rows)))
        return Html(f'<div class="card"><h2>How to connect</h2>{join_html(parts)}</div>')

    def _build_links(self, routes: Mapping[tuple[str, str], object]) -> Html:
        """Return links to the documents of a protocol, and the requests that run its tools as text."""
        runs = {key: getattr(route, "runs_tool", False) for key, route in routes.items()}
        documents = sorted(
            (path for (method, path), runs_tool in runs.items() if method == "GET" and not runs_tool), key=_sort_key
        )
        links = [
            Html(f'<a href="{escape_text(self._root + path)}">{build_code(self._root + path)}</a>')
            for path in documents
        ]
        requests = sorted(
            {
                (_sort_key(path), method)
                for (method, path), tool in runs.items()
                if method != "QUERY" and (tool or method != "GET")  # each path with QUERY has GET too
            }
        )
        shown = [build_code(f"{method} {self._root}{path}") for (_, path), method in requests[:_MAX_REQUESTS]]
        left = len(requests) - _MAX_REQUESTS
        more = [Html(f"and {left:,} more")] if left > 0 else []
        return build_lines([*links, *shown, *more])


_OTHER_WORDS = "Try fewer or other words, or clear the field to see all tools."
_NO_TOOLS = "There are no tools yet. Add a function with @toolkit.tool and restart the server."


def _build_text(heading: str, text: str, title: str) -> Html:
    """Return one text of a call on the protocol ``title``, such as its request."""
    label = f"{title}: {heading.removeprefix('As ').lower()}"
    return Html(f"<h3>{escape_text(heading)}</h3>{build_code_block(text, label)}")


def _write_entry(call_id: str, tool: str, link: str, end: str) -> Html:
    """Return the attribute with what the script keeps of a call: its tool, a link and how it ended, in words."""
    text = json.dumps({"id": call_id, "tool": tool, "link": link, "end": end})
    return Html(f' data-entry="{escape_text(text)}"')


def _group_tools(tools: Iterable[Tool], *, by_tag: bool) -> dict[str, list[Tool]]:
    """Return ``tools`` by toolkit; those of one toolkit by their first tag in its document, if ``by_tag``."""
    groups: dict[str, list[Tool]] = {}
    for tool in tools:
        groups.setdefault(tool.toolkit, []).append(tool)
    if not by_tag or len(groups) > 1:
        return groups
    tagged: dict[str, list[Tool]] = {}
    for tool in tools:
        tags = get_object(tool.hints, "openapi").get("tags")
        tagged.setdefault(str(tags[0]) if isinstance(tags, list) and tags else "", []).append(tool)
    return tagged


def asks_first(tool: Tool) -> bool:
    """Return whether the page asks before a call of ``tool``: always, unless it only reads and its author allows it."""
    return not (tool.approval == "auto" and tool.safe and str(tool.cost or "free") == "free")


def _sort_key(path: str) -> tuple[int, str]:
    return len(path), path
