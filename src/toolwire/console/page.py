"""Put a page of the console together: its frame, its navigation, its header fields, and what a page is asked with."""
# CO-02, FU-32, D-25

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

from toolwire.consent.grant import GRANT_LIFETIME
from toolwire.core.http import Response
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html, show_text
from toolwire.framing.html_page import (
    NO_STORE,
    build_alert,
    build_form,
    build_html_page,
    build_input,
    build_link,
    build_login_link,
    build_navigation,
    build_notice,
    build_page_headers,
    build_policy,
    build_submit,
    write_page,
)
from toolwire.server.access.browser_session import BrowserSession

SCRIPT_PATH: Final = "/console.js"
_OWN_HEADERS: Final = ((b"cross-origin-resource-policy", b"same-origin"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request for a page: who asks, and the fields of the query and of the form."""

    session: BrowserSession
    root: str = ""
    path: str = "/"
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def get(self, name: str) -> str:
        """Return the first value of a field of the form, or an empty text."""
        values = self.form.get(name, ())
        return values[0] if values else ""

    def list_first_values(self) -> dict[str, str]:
        """Return the first value of each field of the form."""
        return {name: values[0] for name, values in self.form.items() if values}

    def link(self, path: str, **query: str) -> str:
        """Return the address of a page of this console; empty values are left out."""
        given = {name: value for name, value in query.items() if value}
        return f"{self.root}{quote(path)}{'?' if given else ''}{urlencode(given)}"

    def build_form(
        self, path: str, html: Html, hidden: Sequence[tuple[str, str]] = (), *, more: Html = NO_HTML
    ) -> Html:
        """Return a form that posts to ``path``; ``more`` are attributes."""
        return build_form(self.link(path), html, [("token", self.session.form_token), *hidden], more=more)

    def build_button(
        self, path: str, hidden: Sequence[tuple[str, str]], words: str, about: str = "", kind: str = "small"
    ) -> Html:
        """Return a form that has one button. ``about`` says to a screen reader what the button is for."""
        label = Html(f' aria-label="{escape_text(about)}"') if about else NO_HTML
        style = Html(f' class="{escape_text(kind)}"') if kind else NO_HTML
        button = Html(f"<button{style}{label}>{escape_text(words)}</button>")
        return self.build_form(path, button, hidden)

    def build_link(self, path: str, words: str, kind: str = "", **query: str) -> Html:
        """Return a link to a page of this console, as ``link`` and ``build_link`` make it."""
        return build_link(self.link(path, **query), words, kind)


class Page(NamedTuple):
    """A page: its title, its HTML, and the topics whose news change it. ``width`` is ``wide`` or empty."""

    title: str
    html: Html
    topics: Sequence[str] = ()
    status: int = 200
    width: str = "wide"
    shows_media: bool = False


class Download(NamedTuple):
    """A file that the browser saves: its name, its media type and its bytes."""

    name: str
    media_type: str
    body: bytes


class SignInWords(NamedTuple):
    """The words of the page that asks for a key: its place, its heading, a hint, and what a wrong key is told."""

    place: str
    heading: str
    hint: str
    wrong: str


class Redirect(NamedTuple):
    """The page to go to after a form, and the note that it shows: a key of ``NOTES``."""

    path: str
    note: str = ""


Action: TypeAlias = Callable[[PageRequest], "Page | Redirect | Download"]

NOTES: Final[Mapping[str, tuple[str, str]]] = {
    "allowed": ("Allowed. The call can run now, once, as it was shown.", "safe"),
    "allowed-later": (
        f"Allowed, and later calls too for at most {GRANT_LIFETIME}. You can revoke this on the Permissions page.",
        "safe",
    ),
    "denied": ("Denied. The call does not run. The assistant is notified.", ""),
    "over": ("That question is closed: it was answered elsewhere, or it expired. Nothing was changed.", "costs"),
    "revoked": ("Revoked. The next call asks again.", "safe"),
    "not-there": ("That item no longer exists. Nothing was changed.", "costs"),
    "rule": ("Saved. The rule applies from the next call on.", "safe"),
    "no-rule": ("Deleted. The server's own approval level applies from the next call on.", "safe"),
    "tried": ("Trying now. Its status changes here when it answers.", ""),
    "upstream-added": ("Added. The running gateway is loading it, and it appears here in a moment.", "safe"),
    "upstream-removed": ("Removed. Its tools leave the lists in a moment, and its running calls finish.", "safe"),
    "cancelled": ("The call is being cancelled.", ""),
    "connected": ("Connecting. The server's tools appear here.", ""),
    "removed": ("Disconnected. Your sign-in is still stored. `toolwire logout` ends it.", ""),
    "model": ("Saved. The next message goes to this model.", "safe"),
    "cleared": ("This is a new conversation. The model has forgotten the one before.", ""),
}
"""What a page says after a form, by the word in its address: no text of an address is ever shown."""


def build_page(request: PageRequest, page: Page, places: Sequence[tuple[str, str]]) -> Response:
    """Return the response with ``page`` in the frame of the console; ``places`` are the addresses and words of all."""
    note = NOTES.get(request.query.get("note", ""))
    note_html = build_notice(note[0], note[1], role="status") if note else NO_HTML
    links = [(f"{request.root}{path}", words) for path, words in places]
    out = request.build_form("/sign-out", Html('<button class="small">Sign out</button>'))
    topics = escape_text(" ".join(page.topics))
    html = build_html_page(
        f"{_find_count(places)}{page.title} - toolwire",
        Html(f'{note_html}<div data-topics="{topics}">{page.html}</div>'),
        home=f"{request.root}/",
        navigation_html=build_navigation(links, f"{request.root}{request.path}"),
        account_html=Html(f'<span class="muted">{show_text(request.session.name)}</span>{out}'),
        width=page.width,
        script=f"{request.root}{SCRIPT_PATH}",
    )
    policy = build_policy(script="'self'", is_live=True, shows_media=page.shows_media)
    return write_page(html, page.status, policy=policy, more=_OWN_HEADERS)


def _find_count(places: Sequence[tuple[str, str]]) -> str:
    """Return the number of questions that wait, as it stands in the navigation, for a tab that is not looked at."""
    found = next((words.partition(" (")[2] for _, words in places if words.endswith(")")), "")
    return f"({found} " if found else ""


def build_download(file: Download) -> Response:
    """Return the response with ``file``, which no browser shows as a page."""
    headers = [(name, value) for name, value in build_page_headers(build_policy()) if name != b"content-type"]
    kind = (b"content-type", file.media_type.encode())
    saved = (b"content-disposition", f'attachment; filename="{file.name}"'.encode())
    return Response(200, (*headers, kind, saved, NO_STORE, *_OWN_HEADERS), file.body)


def build_sign_in_page(
    root: str,
    path: str,
    words: SignInWords,
    notice: str = "",
    status: int = 401,
    *,
    login_path: str = "",
    takes_keys: bool = True,
    takes_link_keys: bool = False,
) -> Response:
    """Return the page that asks for the key; ``path`` is where the user wanted to go. ``notice`` says what happened.

    With ``login_path``, a person can sign in at the server there instead; without ``takes_keys``, only there.
    With ``takes_link_keys``, the script of the page sends the key in the fragment of the URL.
    """
    kind, role = ("", "status") if status == 200 else ("destroys", "alert")
    notice_html = build_notice(notice, kind, role=role) if notice else NO_HTML
    parts = [Html(f"<h1>{escape_text(words.heading)}</h1>{notice_html}")]
    if takes_keys:
        # AT-50: a link of any other site could bring somebody else's key.
        links = Html(f' id="sign-in"{" data-link-keys" if takes_link_keys else ""}')
        typed = Html(' type="password" autocomplete="off" required autofocus')
        key = build_input("Key", "key", hint=words.hint, more=typed)
        parts.append(
            build_form(f"{root}/sign-in", Html(f"{key}{build_submit('Sign in')}"), [("next", path)], more=links)
        )
    if login_path:
        parts.append(build_login_link(login_path, root + path, is_only=not takes_keys))
    html = Html(f'<div class="card">{join_html(parts)}</div>')
    page = build_html_page("Sign in", html, place=words.place, width="narrow", script=f"{root}{SCRIPT_PATH}")
    return write_page(page, status, policy=build_policy(script="'self'"), more=_OWN_HEADERS)


def build_refusal(sentence: str, status: int) -> Response:
    """Return a page that says why a request is not answered. It has no link and no script."""
    html = Html(f'<div class="card"><h1>This did not work</h1>{build_alert(sentence)}</div>')
    page = build_html_page("This did not work", html, place="console", width="narrow")
    return write_page(page, status, more=_OWN_HEADERS)


def build_heading(words: str, about: str = "") -> Html:
    """Return the heading of a page, and one sentence about it."""
    more = Html(f'<p class="muted">{escape_text(about)}</p>') if about else NO_HTML
    return Html(f"<h1>{escape_text(words)}</h1>{more}")


def build_empty_card(text: str, html: Html) -> Html:
    """Return what stands in place of the cards of a page that has none: ``text``, and what to do next."""
    return Html(f'<div class="card empty" data-key="empty"><p>{escape_text(text)}</p><p>{html}</p></div>')


def build_part(name: str, html: Html, heading: str = "") -> Html:
    """Return a card whose content is replaced when there is news."""
    above = Html(f"<h2>{escape_text(heading)}</h2>") if heading else NO_HTML
    return Html(f'{above}<div class="card" data-part="{escape_text(name)}">{html}</div>')


def count_words(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as ``1 call`` and ``2 calls``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
