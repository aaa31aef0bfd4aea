"""Build the pages that users see: sign in, consent, and errors. They have no scripts and load nothing.

Rules:
- What a client says about itself is text: escaped, shortened, and never a link, an image or a style.
- No page can be framed, including the error pages.
"""
# D-23

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from unicodedata import category

from toolwire.core.http import Response

_STYLE = """
:root{color-scheme:light dark;font:17px/1.5 system-ui,sans-serif;
--page:#f4f5f8;--card:#fff;--text:#1b1f27;--soft:#545c6b;--line:#d5d9e2;--blue:#1f5fd0;--on:#fff;--red:#b3261e;--amber:#8a4b00}
@media (prefers-color-scheme:dark){:root{--page:#12151b;--card:#1b2029;--text:#e9ecf2;--soft:#a5adbd;--line:#343b49;
--blue:#8ab4ff;--on:#0c1a33;--red:#ff9a92;--amber:#ffc27a}}
*{box-sizing:border-box}body{margin:0;padding:2rem 1rem;background:var(--page);color:var(--text)}
main{max-width:30rem;margin:0 auto;padding:.6rem 1.4rem 1.4rem;background:var(--card);border:1px solid var(--line);
border-radius:.75rem}h1{font-size:1.4rem;line-height:1.3}label{display:block;margin:.8rem 0}
dt,small{color:var(--soft);font-size:.9rem}dd{margin:0 0 .6rem;overflow-wrap:anywhere}
input:not([type=checkbox]){display:block;width:100%;font:inherit;padding:.5rem .65rem;min-height:2.75rem;
color:var(--text);background:var(--page);border:1px solid var(--soft);border-radius:.5rem}
[type=checkbox]{width:1.1rem;height:1.1rem;vertical-align:-.15rem;accent-color:var(--blue)}
button{font:inherit;font-weight:600;padding:.5rem 1.2rem;min-height:2.75rem;margin:.4rem .5rem 0 0;cursor:pointer;
color:var(--on);background:var(--blue);border:1px solid var(--blue);border-radius:.5rem}
button[value=deny]{color:var(--blue);background:none}:focus-visible{outline:3px solid var(--blue);outline-offset:2px}
fieldset{border:1px solid var(--line);border-radius:.5rem;margin:1rem 0}
.note{border-left:.3rem solid var(--amber);padding-left:.8rem}
[role=alert]{border-left:.3rem solid var(--red);padding-left:.8rem}
""".strip()
_STYLE_DIGEST = b64encode(sha256(_STYLE.encode()).digest()).decode()
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
    app = clean_name(form.app)
    rows = [("App", app), ("Its address", form.app_host or "not known")]
    rows += [("The answer goes to", form.redirect_host), ("You are signed in as", clean_name(form.user_name))]
    facts = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in rows)
    boxes = "".join(_build_checkbox(scope) for scope in form.scopes)
    lasts = escape(form.lifetime)
    if form.connected_url:
        lasts += f' See <a href="{escape(form.connected_url)}">what you allowed</a>.'
    notes = list(form.notes)
    if form.is_local:
        text = "The answer goes to a program on this device. Go on only if you have just started it yourself."
        notes.insert(0, text)
    paragraphs = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    body = (
        f"<h1>May “{escape(app)}” use {escape(form.site)} for you?</h1><dl>{facts}</dl>{paragraphs}"
        f'<form method="post" action="{escape(form.action)}">{_build_hidden_fields(form.hidden)}'
        f"<fieldset><legend>It asks to</legend>{boxes}</fieldset><p><small>{lasts}</small></p>"
        '<button name="decision" value="deny">Do not allow</button>'
        '<button name="decision" value="allow">Allow</button></form>'
    )
    return build_page(f"Allow {app}?", body, form=f"'self' {form.form_source}")


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
    alert = f'<p role="alert">{escape(problem)}</p>' if problem else ""
    body = (
        f"<h1>Sign in to {escape(site)}</h1>{alert}"
        f'<form method="post" action="{escape(action)}">{_build_hidden_fields(hidden)}'
        f'<label>Name <input name="name" value="{escape(name)}" autocomplete="username" required{focused[0]}></label>'
        '<label>Password <input name="password" type="password" autocomplete="current-password" required'
        f"{focused[1]}></label><button>Sign in</button></form>{no_account}"
    )
    return build_page("Sign in", body, status=status if problem else 200)


def build_error_page(sentence: str, status: int = 400) -> Response:
    """Return a page that says what went wrong. It has no link and no redirect."""
    # AS-01
    return build_page(
        "This did not work", f'<h1>This did not work</h1><p role="alert">{escape(sentence)}</p>', status=status
    )


def build_page(title: str, body: str, *, status: int = 200, form: str = "'self'") -> Response:
    """Return a page with the HTML ``body``. ``form`` lists the origins that its forms may lead to."""
    # D-23
    # The one style is allowed by its digest, so nothing that is injected, not even a style, has an effect.
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_DIGEST}'; form-action {form}; frame-ancestors 'none'; "
        "base-uri 'none'"
    )
    html = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><main>{body}</main></html>"
    )
    headers = (
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", policy.encode("latin-1", "replace")),
        (b"x-frame-options", b"DENY"),
        (b"x-content-type-options", b"nosniff"),
        # The address of these pages may hold a code, which no other site may see.
        (b"referrer-policy", b"same-origin"),
        (b"cache-control", b"no-store"),
        (b"cross-origin-opener-policy", b"same-origin"),
    )
    return Response(status, headers, html.encode("utf-8", "replace"))


def clean_name(text: str) -> str:
    """Return ``text`` of a client on one line, shortened, without control and invisible characters."""
    cleaned = "".join(" " if character.isspace() else character for character in text)
    # Control and invisible characters could reverse or hide parts of the name.
    cleaned = "".join(character for character in cleaned if category(character)[0] != "C")
    return cleaned if len(cleaned) <= _NAME_CHARS else cleaned[: _NAME_CHARS - 1] + "…"


def _build_checkbox(row: tuple[str, str, bool]) -> str:
    scope, words, is_preselected = row
    return (
        f'<label><input type="checkbox" name="scope" value="{escape(scope)}"{" checked" if is_preselected else ""}> '
        f"{escape(words)} "
        f"<small>({escape(scope)})</small></label>"
    )


def _build_hidden_fields(fields: Sequence[tuple[str, str]]) -> str:
    return "".join(f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in fields)
