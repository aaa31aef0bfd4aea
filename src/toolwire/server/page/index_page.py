"""Write the page of ``GET /``: the tools, a form for the chosen one, and how to connect. No link on it runs a tool."""
# CO-01, FU-07

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from typing import NamedTuple
from urllib.parse import quote

from toolwire.consent.question_page import build_tool_badges
from toolwire.core.call_status import CallStatus
from toolwire.core.catalog import Catalog
from toolwire.core.http import Response
from toolwire.core.model import Json, Problem, Tool, Value
from toolwire.framing.html_form import build_form_fields, has_lists
from toolwire.framing.html_page import (
    NO_STORE,
    build_code_block,
    build_facts,
    build_fold,
    build_hidden_fields,
    build_html_page,
    build_notice,
    build_page_headers,
    build_policy,
)
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
from .wire_exchange import WireExchange, Wires, write_python

_MOST_LISTED = 200
_POLICY = build_policy(script="'self'")
_MOST_REQUESTS = 4
_NOTHING: Mapping[str, Json] = {}
_NO_FAULTS: Mapping[str, str] = {}


class Answer(NamedTuple):
    """How a call ended: its result as HTML, and the call on each protocol with the response to it.

    ``shows_media`` says that the HTML may have images and sounds.
    """

    html: str
    exchanges: Sequence[tuple[WireExchange, str]]
    duration_ms: float
    shows_media: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one request shows.

    ``base`` is the URL of the page; ``words`` are searched for; ``name`` is the chosen tool, with the ``arguments`` in
    its form and ``faults`` in them; ``problem`` is said above the form; ``html`` stands in place of the form.
    ``is_live`` says that a script on the page asks this server how a call stands.
    """

    base: str
    words: str = ""
    name: str = ""
    arguments: Mapping[str, Json] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    html: str = ""
    is_live: bool = False
    answer: Answer | None = None
    exchanges: Sequence[WireExchange] = ()


class IndexPage:
    """The page of one catalog. ``root`` is the mount path, ``needs_key`` says that calls need an API key."""

    def __init__(self, catalog: Catalog, wires: Wires, *, root: str = "", needs_key: bool = False) -> None:
        self._catalog, self._wires = catalog, wires
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
        chosen = self._build_intro() if tool is None else self._build_tool(view, tool)
        right = f"{chosen}{self._build_connect(view)}"
        left = f'<div class="card">{self._build_search(view)}{self._build_list(view)}</div>'
        columns = f'<div class="split"><div>{left}</div><div>{right}</div></div>'
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

    def _build_intro(self) -> str:
        about = "".join(f"<p>{escape(line)}</p>" for line in self._catalog.description.split("\n") if line.strip())
        some = "Choose a tool to see what it takes, and to try it." if self._catalog.names else _NO_TOOLS
        return f'<div class="card"><h1>{escape(make_visible(self._catalog.title))}</h1>{about}<p>{some}</p></div>'

    def _build_search(self, view: View) -> str:
        return (
            f'<form method="get" action="{escape(self._root)}/" role="search"><label for="q">Search the tools</label>'
            f'<div class="search"><input id="q" type="search" name="q" value="{escape(view.words)}" autocomplete="off"'
            ' maxlength="200"><button>Search</button></div></form>'
        )

    def _build_list(self, view: View) -> str:
        """Return the tools that the words describe, or all of them, by toolkit."""
        names = {tool.id: name for name, tool in self._catalog.names.items()}
        tools: Iterable[Tool] = self._catalog.names.values()
        if view.words.strip():
            tools = self._catalog.search(view.words, _MOST_LISTED)
        # A page of thousands of tools would be slow, and the search finds the others.
        shown = list(tools)[:_MOST_LISTED]
        if not shown:
            words = "No tool is described by these words." if view.words.strip() else _NO_TOOLS
            return f'<p class="empty">{words}</p>'
        groups: dict[str, list[Tool]] = {}
        for tool in shown:
            groups.setdefault(tool.toolkit, []).append(tool)
        parts = []
        for toolkit, members in groups.items():
            heading = f"<h2>{escape(make_visible(toolkit))}</h2>" if len(groups) > 1 else ""
            items = "".join(self._build_item(names[tool.id], tool, view.name) for tool in members if tool.id in names)
            parts.append(f'{heading}<ul class="items">{items}</ul>')
        left_out = len(self._catalog.names) - len(shown)
        more = f'<p class="muted">{left_out:,} more: search for them.</p>' if left_out and not view.words else ""
        return f'<nav aria-label="Tools">{"".join(parts)}</nav>{more}'

    def _build_item(self, name: str, tool: Tool, chosen: str) -> str:
        current = ' aria-current="page"' if name == chosen else ""
        about = f'<span class="muted">{escape(make_visible(tool.description.partition(chr(10))[0]))}</span>'
        badges = "".join(f"<li>{badge}</li>" for badge in build_tool_badges(tool))
        return (
            f'<li><a href="{escape(self._root)}/?tool={quote(name, safe="")}#tool"{current}>'
            f'<span class="name">{escape(make_visible(name))}</span> {about}'
            f'</a><ul class="badges">{badges}</ul></li>'
        )

    def _build_tool(self, view: View, tool: Tool) -> str:
        badges = "".join(f"<li>{badge}</li>" for badge in build_tool_badges(tool))
        lines = [line.strip() for line in (*tool.description.split("\n"), tool.hint) if line.strip()]
        about = "".join(f"<p>{escape(make_visible(line))}</p>" for line in lines)
        problem = build_notice(make_visible(view.problem), "destroys", role="alert") if view.problem else ""
        form = view.html or self._build_form(view, tool)
        answer = "" if view.answer is None else self._build_answer(view.answer)
        return (
            f'<div class="card" id="tool"><h1><code>{escape(make_visible(view.name))}</code></h1>'
            f'<ul class="badges">{badges}</ul>'
            f"{about}{problem}{answer}{form}</div>{self._build_wires(view, tool)}"
        )

    def _build_form(self, view: View, tool: Tool) -> str:
        fields = build_form_fields(tool.input_schema, view.arguments, view.faults) or "<p>It takes no arguments.</p>"
        # Enter presses the first button of a form: without this one, that would be a button of a list.
        first = '<button class="first" name="step" value="try" tabindex="-1" aria-hidden="true">Try it</button>'
        opening = first if has_lists(tool.input_schema) else ""
        asks = "You are asked before it runs." if asks_first(tool) else "It only reads, and runs at once."
        return (
            f'<form method="post" action="{escape(self._root)}/#tool" autocomplete="off">{opening}'
            f"{build_hidden_fields([('tool', view.name)])}{fields}{self.build_key_field()}"
            f'<div class="actions"><button class="primary" name="step" value="try">Try it</button></div>'
            f'<p class="muted">{asks}</p></form>'
        )

    def build_call(self, status: CallStatus, name: str) -> str:
        """Return how a long call stands, with a form that answers what it asks, and one that looks again."""
        said = ": ".join(part for part in (status.state.value, make_visible(status.message)) if part)
        state = f'<p role="status">{escape(said)}</p>'
        own = f'<a href="{escape(link_call(self._root, status.id))}">page of its own</a>'
        if status.is_over:
            result = status.result
            end = "" if result is None else build_problem(result) if isinstance(result, Problem) else ""
            end = build_result(result.value) if isinstance(result, Value) else end
            kept = f'<p class="muted">It is kept for a while, on a {own}.</p>'
            return f'<section aria-label="Call" data-call="over"><h2>Long call</h2>{state}{end}{kept}</section>'
        form = self._find_call_form(status.id, name)
        asks = escape(next(iter(status.input), ""))
        return (
            f'<section aria-label="Call" data-call="open" data-asks="{asks}"><h2>Long call</h2>{state}'
            f"{build_open_part(status, name, form)}"
            f'<p class="muted">It goes on if you leave this page. It has a {own}. Its id is'
            f" <code>{escape(status.id)}</code>.</p></section>"
        )

    def build_answer_form(self, call_id: str, name: str, answer: AnswerForm) -> str:
        """Return the form of an answer to a call, which is shown again."""
        return build_call_question(self._find_call_form(call_id, name), answer)

    def _find_call_form(self, call_id: str, name: str) -> CallForm:
        return CallForm(f"{self._root}/", [("tool", name), ("call", call_id)], self.build_key_field)

    def build_key_form(self, fields: Mapping[str, str]) -> Response:
        """Return the page that asks for a key and names no tool; ``fields`` come back with the key."""
        html = (
            "<h1>This server shows its tools to known callers</h1><p>Your key or token opens the list of the tools that"
            f' you may use. The page does not keep it.</p><form method="post" action="{escape(self._root)}/"'
            f' autocomplete="off">{build_hidden_fields([*fields.items(), ("step", "show")])}{self.build_key_field()}'
            '<div class="actions"><button class="primary">Show my tools</button></div></form>'
        )
        page = build_html_page(
            "Tools for known callers", f'<div class="card">{html}</div>', home=f"{self._root}/", width="narrow"
        )
        return Response(200, (*build_page_headers(_POLICY), NO_STORE), page.encode("utf-8", "replace"))

    def build_key_field(self, field_id: str = "key") -> str:
        """Return the field for the key of a server that needs one; the page never shows a key again."""
        return build_key_field(field_id) if self._needs_key else ""

    def _build_answer(self, answer: Answer) -> str:
        took = f'<p class="muted">{answer.duration_ms:.1f} ms</p>'
        return f'<section aria-label="Answer"><h2>Answer</h2>{answer.html}{took}</section>'

    def _build_wires(self, view: View, tool: Tool) -> str:
        """Return the call in the words of each protocol, as curl and as Python."""
        answered = view.answer.exchanges if view.answer is not None else [(one, "") for one in view.exchanges]
        parts: list[str] = []
        for exchange, response in answered:
            html = "<h3>Request</h3>" + build_code_block(exchange.write_request(), f"{exchange.title}: request")
            html += "<h3>As curl</h3>"
            html += build_code_block(exchange.write_curl(needs_key=self._needs_key), f"{exchange.title}: curl")
            if response:
                html += "<h3>Response</h3>" + build_code_block(response, f"{exchange.title}: response")
            parts.append(build_fold(exchange.title, html, is_open=bool(response) and not parts))
        program = write_python(
            view.base, view.name, dict(view.arguments), asks=asks_first(tool), needs_key=self._needs_key
        )
        parts.append(build_fold("Python", build_code_block(program, "Python")))
        return f'<div class="card"><h2>The same call elsewhere</h2>{"".join(parts)}</div>'

    def _build_connect(self, view: View) -> str:
        servers = {"mcpServers": {self._catalog.title: {"type": "http", "url": f"{view.base}mcp"}}}
        has_mcp = any(codec.name == "mcp" for codec, _ in self._wires)
        url = view.base.removesuffix("/")
        parts = ["<p>Paste this address into a client of any of these protocols.</p>", build_code_block(url, "Address")]
        parts.append(build_fold("Command line", build_code_block(f"toolwire tools {url}", "Command line")))
        if has_mcp:
            text = json.dumps(servers, indent=2, ensure_ascii=False)
            parts.append(build_fold("mcp.json of a host", build_code_block(text, "mcp.json")))
        rows = ((codec.title, self._build_links(routes)) for codec, routes in self._wires)
        parts.append(build_fold("Documents and paths", build_facts(rows)))
        return f'<div class="card"><h2>How to connect</h2>{"".join(parts)}</div>'

    def _build_links(self, routes: Mapping[tuple[str, str], object]) -> str:
        """Return links to the documents of a protocol, and the requests that run its tools as text."""
        root, runs = escape(self._root), {key: getattr(route, "runs_tool", False) for key, route in routes.items()}
        documents = sorted(
            (path for (method, path), tool in runs.items() if method == "GET" and not tool), key=_sort_key
        )
        links = [f'<a href="{root}{escape(path)}"><code>{root}{escape(path)}</code></a>' for path in documents]
        requests = sorted(
            {(_sort_key(path), method) for (method, path), tool in runs.items() if tool or method != "GET"}
        )
        shown = [f"<code>{method} {root}{escape(path)}</code>" for (_, path), method in requests[:_MOST_REQUESTS]]
        more = [f"and {len(requests) - _MOST_REQUESTS:,} more"] if len(requests) > _MOST_REQUESTS else []
        return "<br>".join([*links, *shown, *more])


_NO_TOOLS = "There is no tool here yet. Add a function with @toolkit.tool and start the server again."


def asks_first(tool: Tool) -> bool:
    """Return whether the page asks before a call of ``tool``: always, unless it only reads and its author allows it."""
    return not (tool.approval == "auto" and tool.safe and str(tool.cost or "free") == "free")


def _sort_key(path: str) -> tuple[int, str]:
    return len(path), path
