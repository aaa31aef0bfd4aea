"""Put a page of the console together: its frame, its navigation, its header fields, and what a page is asked with."""
# CO-02, FU-32, D-25

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

from toolwire.core.http import Response
from toolwire.framing.html_page import (
    NO_STORE,
    build_hidden_fields,
    build_html_page,
    build_navigation,
    build_notice,
    build_page_headers,
    build_policy,
)
from toolwire.framing.visible_text import make_visible

from .sessions import OperatorSession

SCRIPT_PATH: Final = "/console.js"
_OWN_HEADERS: Final = ((b"cross-origin-resource-policy", b"same-origin"), NO_STORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request for a page: who asks, and the fields of the query and of the form."""

    session: OperatorSession
    root: str = ""
    path: str = "/"
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def get(self, name: str) -> str:
        """Return the first value of a field of the form, or an empty text."""
        values = self.form.get(name, ())
        return values[0] if values else ""

    def link(self, path: str, **query: str) -> str:
        """Return the address of a page of this console; empty values are left out."""
        given = {name: value for name, value in query.items() if value}
        return f"{self.root}{quote(path)}{'?' if given else ''}{urlencode(given)}"

    def open_form(self, path: str, hidden: Sequence[tuple[str, str]] = (), *, style: str = "") -> str:
        """Return the beginning of a form that posts to ``path``."""
        fields = build_hidden_fields([("token", self.session.form_token), *hidden])
        kind = f' class="{style}"' if style else ""
        return f'<form method="post" action="{escape(self.link(path))}" autocomplete="off"{kind}>{fields}'


class Page(NamedTuple):
    """A page: its title, its HTML, and the topics whose news change it. ``width`` is ``wide`` or empty."""

    title: str
    html: str
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
    "allowed-later": ("Allowed, and later calls too. Permissions lists it, with a button to take it back.", "safe"),
    "denied": ("Denied. The call does not run, and the assistant is told.", ""),
    "over": ("That question is over: it was answered elsewhere, or its time has ended. Nothing was changed.", "costs"),
    "revoked": ("Taken back. The next call asks again.", "safe"),
    "not-there": ("That is not there any more. Nothing was changed.", "costs"),
    "rule": ("Kept. The rule holds from the next call on.", "safe"),
    "no-rule": ("Deleted. The site's own level holds from the next call on.", "safe"),
    "cancelled": ("The call was told to end.", ""),
    "connected": ("Connecting. What the site offers appears here.", ""),
    "removed": ("Disconnected. What you are signed in with is kept: toolwire logout ends that too.", ""),
    "model": ("Kept. The next message goes to this model.", "safe"),
    "cleared": ("This is a new conversation. The model has forgotten the one before.", ""),
}
"""What a page says after a form, by the word in its address: no text of an address is ever shown."""


def build_page(request: PageRequest, page: Page, places: Sequence[tuple[str, str]]) -> Response:
    """Return the response with ``page`` in the frame of the console; ``places`` are the addresses and words of all."""
    note = NOTES.get(request.query.get("note", ""))
    said = build_notice(note[0], note[1], role="status") if note else ""
    links = [(f"{request.root}{path}", words) for path, words in places]
    account = (
        f'<span class="muted">{escape(make_visible(request.session.name))}</span>'
        f"{request.open_form('/sign-out')}<button>Sign out</button></form>"
    )
    topics = escape(" ".join(page.topics))
    html = build_html_page(
        f"{_find_count(places)}{page.title} - toolwire",
        f'{said}<div data-topics="{topics}">{page.html}</div>',
        home=f"{request.root}/",
        navigation_html=build_navigation(links, f"{request.root}{request.path}"),
        account_html=account,
        width=page.width,
        script=f"{request.root}{SCRIPT_PATH}",
    )
    policy = build_policy(script="'self'", is_live=True, shows_media=page.shows_media)
    return Response(page.status, (*build_page_headers(policy), *_OWN_HEADERS), html.encode("utf-8", "replace"))


def _find_count(places: Sequence[tuple[str, str]]) -> str:
    """Return the number of questions that wait, as it stands in the navigation, for a tab that is not looked at."""
    found = next((words.partition(" (")[2] for _, words in places if words.endswith(")")), "")
    return f"({found} " if found else ""


def build_download(file: Download) -> Response:
    """Return the response with ``file``, which no browser shows as a page."""
    headers = [(name, value) for name, value in build_page_headers(build_policy()) if name != b"content-type"]
    kind = (b"content-type", file.media_type.encode())
    saved = (b"content-disposition", f'attachment; filename="{file.name}"'.encode())
    return Response(200, (*headers, kind, saved, *_OWN_HEADERS), file.body)


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
    login = f"{login_path}?{urlencode({'next': root + path})}"
    style = "" if takes_keys else ' class="button primary"'
    other = f'<p><a{style} href="{escape(login)}">Sign in with your account</a></p>' if login_path else ""
    kind, role = ("", "status") if status == 200 else ("destroys", "alert")
    told = build_notice(notice, kind, role=role) if notice else ""
    # AT-50: a link of any other site could bring somebody else's key.
    links = " data-link-keys" if takes_link_keys else ""
    form = (
        f'<form method="post" action="{escape(root)}/sign-in" id="sign-in"{links}>'
        f"{build_hidden_fields([('next', path)])}"
        f'<p class="field"><label>Key <small>{escape(words.hint)}</small>'
        '<input name="key" type="password" autocomplete="off" required autofocus></label></p>'
        '<div class="actions"><button class="primary">Sign in</button></div></form>'
    )
    html = f'<div class="card"><h1>{escape(words.heading)}</h1>{told}{form if takes_keys else ""}{other}</div>'
    page = build_html_page("Sign in", html, place=words.place, width="narrow", script=f"{root}{SCRIPT_PATH}")
    return Response(
        status,
        (*build_page_headers(build_policy(script="'self'")), *_OWN_HEADERS),
        page.encode("utf-8", "replace"),
    )


def build_refusal(sentence: str, status: int) -> Response:
    """Return a page that says why a request is not answered. It has no link and no script."""
    html = f'<div class="card"><h1>This did not work</h1>{build_notice(sentence, "destroys", role="alert")}</div>'
    page = build_html_page("This did not work", html, place="console", width="narrow")
    return Response(
        status,
        (*build_page_headers(build_policy()), *_OWN_HEADERS),
        page.encode("utf-8", "replace"),
    )


def build_heading(words: str, about: str = "") -> str:
    """Return the heading of a page, and one sentence about it."""
    return f"<h1>{escape(words)}</h1>" + (f'<p class="muted">{escape(about)}</p>' if about else "")


def count_words(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as ``1 call`` and ``2 calls``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
