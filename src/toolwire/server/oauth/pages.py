"""Build the pages that users see: sign in, consent, and errors. They have no scripts and load nothing.

Rules:
- What a client says about itself is text: escaped, shortened, and never a link, an image or a style.
- No page can be framed, including the error pages.
"""
# D-23

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from unicodedata import category

from toolwire.core.http import Response
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html
from toolwire.framing.html_page import (
    build_alert,
    build_check,
    build_empty,
    build_facts,
    build_form,
    build_html_page,
    build_input,
    build_link,
    build_list,
    build_notice,
    build_policy,
    build_submit,
    write_page,
)

_NAME_CHARS = 80
_FOCUS: Final = Html(" autofocus")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentForm:
    """What the consent page shows.

    ``scopes`` holds each scope, its description, and whether it is preselected. ``hidden`` are the hidden fields of the
    form. ``form_source`` is the target of the redirect, for the Content-Security-Policy.
    """

    site: str
    app: str
    app_host: str
    redirect_host: str
    is_local: bool
    user_name: str
    scopes: Sequence[tuple[str, str, bool]]
    lifetime: str
    connected_url: str
    notes: Sequence[str]
    action: str
    hidden: Sequence[tuple[str, str]]
    form_source: str


def build_consent_page(form: ConsentForm) -> Response:
    """Return the page that asks a user what a client may do."""
    # The first button denies, because Enter presses the first button of a form.
    # AS-17
    app, site = clean_name(form.app), form.site
    rows = [("App", app), ("Its address", form.app_host or "not known")]
    rows += [("The answer goes to", form.redirect_host), ("You are signed in as", clean_name(form.user_name))]
    facts = build_facts((term, escape_text(text)) for term, text in rows)
    boxes = join_html(_build_checkbox(scope) for scope in form.scopes)
    take_back = Html(" You can revoke it earlier.")
    if form.connected_url:
        link = build_link(form.connected_url, "what you allowed")
        take_back = Html(f" You can revoke it at any time: {link}.")
    notes = list(form.notes)
    if form.is_local:
        text = "The answer goes to a program on this device. Continue only if you have just started that program."
        notes.insert(0, text)
    fields = Html(
        f"<fieldset><legend>It asks to</legend>{boxes}</fieldset>"
        f'<p class="muted">{escape_text(form.lifetime)}{take_back}</p>'
        '<div class="actions bar"><button name="decision" value="deny">Do not allow</button>'
        '<button class="primary" name="decision" value="allow">Allow</button></div>'
    )
    html = Html(
        f"<h1>May “{escape_text(app)}” use {escape_text(site)} for you?</h1>{facts}"
        f"{join_html(build_notice(note, 'costs') for note in notes)}"
        f"{build_form(form.action, fields, form.hidden)}"
    )
    return build_page(f"Allow {app}?", html, product=site, form=f"'self' {form.form_source}")


def build_login_page(
    site: str,
    action: str,
    hidden: Sequence[tuple[str, str]],
    problem: str = "",
    status: int = 403,
    *,
    name: str = "",
    sign_up: str = "",
) -> Response:
    """Return the sign-in page. ``problem`` says why the last attempt failed, and ``name`` is what the user typed.

    ``sign_up`` is the URL of the page where a user creates an account.
    """
    # After a wrong password the name is filled in, and the password is what is typed next.
    first, second = (NO_HTML, _FOCUS) if name else (_FOCUS, NO_HTML)
    user = build_input("Name", "name", name, more=Html(f' autocomplete="username" required{first}'))
    secret = Html(f' type="password" autocomplete="current-password" required{second}')
    fields = Html(f"{user}{build_input('Password', 'password', more=secret)}{build_submit('Sign in')}")
    no_account = Html(f"<p>No account yet? {build_link(sign_up, 'Make an account')}.</p>") if sign_up else NO_HTML
    html = Html(
        f"<h1>Sign in to {escape_text(site)}</h1>{build_alert(problem)}{build_form(action, fields, hidden)}{no_account}"
    )
    return build_page("Sign in", html, product=site, status=status if problem else 200)


class ConnectedApp(NamedTuple):
    """One grant on the page of connected apps: the id of the grant, the app, what it may do, and days in words.

    ``origin`` says where the app comes from, and ``qualifier`` is what another app with the same name does not have.
    """

    grant: str
    name: str
    origin: str
    qualifier: str
    scopes: Sequence[tuple[str, str]]
    since: str
    last_use: str
    until: str


def build_connected_page(
    site: str,
    user: str,
    apps: Sequence[ConnectedApp],
    *,
    base: str,
    token: str,
    home: str,
    logout_url: str | None = None,
) -> Response:
    """Return the page on which a user sees what apps may do, and takes it back.

    ``logout_url`` is the page of the application that ends its session, empty if it is not known, or None if the
    session is one of this server.
    """
    # FU-31, XL-116
    hidden = [("token", token)]
    cards = join_html(_build_app(app, f"{base}/connected", hidden) for app in apps)
    cards = cards or build_empty("You have not allowed any app. An app asks you here when you connect it.")
    about = Html(f"These apps can use {escape_text(site)} for you. When you revoke an app's access, it ends at once.")
    if logout_url is None:
        logout = build_form(f"{base}/logout", Html("<button>Sign out</button>"), [*hidden, ("next", home)])
    else:  # FU-59: that form would end a session of ours, and the user would still be signed in.
        logout = build_link(logout_url, "Sign out") if logout_url else NO_HTML
    account = Html(f"<span>{escape_text(clean_name(user))}</span>{logout}")
    html = Html(f"<h1>Connected apps</h1><p>{about}</p>{cards}")
    return build_page("Connected apps", html, product=site, account_html=account)


def _build_app(app: ConnectedApp, action: str, hidden: Sequence[tuple[str, str]]) -> Html:
    # AO-03: two apps can have one name, and each must be taken back by itself.
    name = escape_text(clean_name(app.name) + (f" ({_drop_invisible(app.qualifier)})" if app.qualifier else ""))
    days = (("Comes from", app.origin), ("Allowed", app.since), ("Last used", app.last_use), ("Ends", app.until))
    rows = [("It may", build_list(_build_scope(scope, words) for scope, words in app.scopes))]
    rows += [(label, escape_text(_drop_invisible(text))) for label, text in days]
    button = Html(f'<button class="danger" aria-label="Take back: {name}">Take back</button>')
    form = build_form(action, button, [*hidden, ("grant", app.grant)])
    return Html(f'<section aria-label="{name}"><h2>{name}</h2>{build_facts(rows)}{form}</section>')


def _build_scope(scope: str, words: str) -> Html:
    return Html(f"{escape_text(words)} <small>{escape_text(scope)}</small>")


def build_error_page(sentence: str, status: int = 400) -> Response:
    """Return a page that says what went wrong. It has no link and no redirect."""
    # AS-01
    html = Html(
        f"<h1>This did not work</h1>{build_alert(sentence)}"
        "<p>Go back to where you came from, and try again from there.</p>"
    )
    return build_page("This did not work", html, status=status)


def build_page(
    title: str,
    html: Html,
    *,
    product: str = "toolwire",
    status: int = 200,
    form: str = "'self'",
    account_html: Html = NO_HTML,
) -> Response:
    """Return a page with ``html`` in a card. ``form`` lists the origins that its forms may lead to."""
    # D-23
    # The one stylesheet is allowed by its digest, so nothing that is injected, not even a style, has an effect.
    card = Html(f'<div class="card">{html}</div>')
    page = build_html_page(title, card, product=product, account_html=account_html, width="narrow")
    return write_page(page, status, policy=build_policy(form=form))


def clean_name(text: str) -> str:
    """Return ``text`` of a client on one line, shortened, without control and invisible characters."""
    cleaned = _drop_invisible(text)
    return cleaned if len(cleaned) <= _NAME_CHARS else cleaned[: _NAME_CHARS - 1] + "…"


def _drop_invisible(text: str) -> str:
    """Return ``text`` on one line, without control and invisible characters, which could reverse or hide parts."""
    cleaned = "".join(" " if character.isspace() else character for character in text)
    return "".join(character for character in cleaned if category(character)[0] != "C")


def _build_checkbox(row: tuple[str, str, bool]) -> Html:
    scope, words, is_preselected = row
    return build_check("scope", scope, _build_scope(scope, words), is_checked=is_preselected)
