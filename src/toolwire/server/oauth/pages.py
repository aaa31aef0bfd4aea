"""Build the pages that users see: sign in, consent, and errors. They have no scripts and load nothing.

Rules:
- What a client says about itself is text: escaped, shortened, and never a link, an image or a style.
- No page can be framed, including the error pages.
"""
# D-23

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple
from unicodedata import category

from toolwire.core.http import Response
from toolwire.framing.html_page import (
    NO_STORE,
    build_facts,
    build_hidden_fields,
    build_html_page,
    build_notice,
    build_page_headers,
    build_policy,
)

_NAME_CHARS = 80


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
    facts = build_facts((term, escape(text)) for term, text in rows)
    boxes = "".join(_build_checkbox(scope) for scope in form.scopes)
    take_back = ""
    if form.connected_url:
        take_back = f' You can take it back at any time: <a href="{escape(form.connected_url)}">what you allowed</a>.'
    notes = list(form.notes)
    if form.is_local:
        text = "The answer goes to a program on this device. Go on only if you have just started it yourself."
        notes.insert(0, text)
    body = (
        f"<h1>May “{escape(app)}” use {escape(site)} for you?</h1>{facts}"
        f"{''.join(build_notice(note, 'costs') for note in notes)}"
        f'<form method="post" action="{escape(form.action)}">{build_hidden_fields(form.hidden)}'
        f"<fieldset><legend>It asks to</legend>{boxes}</fieldset>"
        f'<p class="muted">{escape(form.lifetime)}{take_back}</p>'
        '<div class="actions bar"><button name="decision" value="deny">Do not allow</button>'
        '<button class="primary" name="decision" value="allow">Allow</button></div></form>'
    )
    return build_page(f"Allow {app}?", body, product=site, form=f"'self' {form.form_source}")


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
    focused = ("", " autofocus") if name else (" autofocus", "")
    no_account = f'<p>No account yet? <a href="{escape(sign_up)}">Make an account</a>.</p>' if sign_up else ""
    alert = build_notice(problem, "destroys", role="alert") if problem else ""
    body = (
        f"<h1>Sign in to {escape(site)}</h1>{alert}"
        f'<form method="post" action="{escape(action)}">{build_hidden_fields(hidden)}'
        f'<p class="field"><label>Name<input name="name" value="{escape(name)}" autocomplete="username" required'
        f'{focused[0]}></label></p><p class="field"><label>Password<input name="password" type="password"'
        f' autocomplete="current-password" required{focused[1]}></label></p>'
        f'<div class="actions"><button class="primary">Sign in</button></div></form>{no_account}'
    )
    return build_page("Sign in", body, product=site, status=status if problem else 200)


class ConnectedApp(NamedTuple):
    """One grant on the page of connected apps: the id of the grant, the app, what it may do, and days in words."""

    grant: str
    name: str
    scopes: Sequence[tuple[str, str]]
    since: str
    last_use: str
    until: str


def build_connected_page(
    site: str, user: str, apps: Sequence[ConnectedApp], *, base: str, token: str, home: str, can_sign_out: bool = True
) -> Response:
    """Return the page on which a user sees what apps may do, and takes it back.

    Without ``can_sign_out``, the session belongs to the application, which has a place of its own to end it.
    """
    # FU-31, XL-116
    hidden = build_hidden_fields([("token", token)])
    cards = "".join(_build_app(app, f"{base}/connected", hidden) for app in apps)
    none = '<p class="empty">You have allowed no app anything. An app asks you here when you connect it.</p>'
    body = f"<h1>Connected apps</h1><p>These apps may use {escape(site)} for you. What you take back ends at once.</p>"
    logout = (
        f'<form method="post" action="{escape(base)}/logout">{hidden}'
        f"{build_hidden_fields([('next', home)])}<button>Sign out</button></form>"
    )
    # FU-59: that form would end a session of ours, and the user would still be signed in.
    account = f"<span>{escape(clean_name(user))}</span>{logout if can_sign_out else ''}"
    return build_page("Connected apps", f"{body}{cards or none}", product=site, account_html=account)


def _build_app(app: ConnectedApp, action: str, hidden: str) -> str:
    name = escape(clean_name(app.name))
    scopes = "".join(f"<li>{escape(words)} <small>{escape(scope)}</small></li>" for scope, words in app.scopes)
    rows = [("It may", f'<ul class="value-list">{scopes}</ul>')]
    rows += [("Allowed", escape(app.since)), ("Last used", escape(app.last_use)), ("Ends", escape(app.until))]
    return (
        f'<section aria-label="{name}"><h2>{name}</h2>{build_facts(rows)}<form method="post" action="{escape(action)}">'
        f"{hidden}{build_hidden_fields([('grant', app.grant)])}"
        f'<button class="danger" aria-label="Take back: {name}">Take back</button></form></section>'
    )


def build_error_page(sentence: str, status: int = 400) -> Response:
    """Return a page that says what went wrong. It has no link and no redirect."""
    # AS-01
    body = (
        f"<h1>This did not work</h1>{build_notice(sentence, 'destroys', role='alert')}"
        "<p>Go back to where you came from, and try again from there.</p>"
    )
    return build_page("This did not work", body, status=status)


def build_page(
    title: str,
    body: str,
    *,
    product: str = "toolwire",
    status: int = 200,
    form: str = "'self'",
    account_html: str = "",
) -> Response:
    """Return a page with the HTML ``body``. ``form`` lists the origins that its forms may lead to."""
    # D-23
    # The one stylesheet is allowed by its digest, so nothing that is injected, not even a style, has an effect.
    html = build_html_page(
        title, f'<div class="card">{body}</div>', product=product, account_html=account_html, width="narrow"
    )
    return Response(status, (*build_page_headers(build_policy(form=form)), NO_STORE), html.encode("utf-8", "replace"))


def clean_name(text: str) -> str:
    """Return ``text`` of a client on one line, shortened, without control and invisible characters."""
    cleaned = "".join(" " if character.isspace() else character for character in text)
    # Control and invisible characters could reverse or hide parts of the name.
    cleaned = "".join(character for character in cleaned if category(character)[0] != "C")
    return cleaned if len(cleaned) <= _NAME_CHARS else cleaned[: _NAME_CHARS - 1] + "…"


def _build_checkbox(row: tuple[str, str, bool]) -> str:
    scope, words, is_preselected = row
    return (
        f'<label class="check"><input type="checkbox" name="scope" value="{escape(scope)}"'
        f"{' checked' if is_preselected else ''}> <span>{escape(words)} <small>{escape(scope)}</small></span></label>"
    )
