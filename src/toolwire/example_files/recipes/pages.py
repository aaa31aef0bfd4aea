"""The pages of RecipeApp: the book, an account, and what apps may do. They look like those of the sign-in."""

# No ``from __future__ import annotations``: FastAPI reads the annotations of the routes below.

from dataclasses import dataclass
from hmac import compare_digest
from urllib.parse import parse_qs, quote

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from toolwire.framing.html import NO_HTML, Html, escape_text
from toolwire.framing.html_page import (
    build_alert,
    build_check,
    build_form,
    build_html_page,
    build_input,
    build_link,
    build_navigation,
    build_notice,
    build_policy,
    build_submit,
    build_table,
)
from toolwire.oauth import Account, Accounts, AuthorizationServer

from .book import Books, Choices, Recipe

_PASSWORDS_AT_ONCE = 2
_HEADERS = {"content-security-policy": build_policy(), "cache-control": "no-store"}
_WELCOME = Html("""<div class="card"><h1>Your recipes, and an assistant that knows them</h1>
<p>Save, organize, and discover recipes. If you let it, your assistant does that for you: you say what it may do, and
take that back at any time.</p><div class="actions"><a class="button primary" href="/sign-up">Make an account</a>
<a class="button" href="/oauth/login?next=%2F">Sign in</a></div></div>""")


@dataclass(frozen=True, slots=True)
class Site:
    """What the pages work with."""

    url: str
    books: Books
    people: Accounts
    oauth: AuthorizationServer

    async def build(self, request: Request, title: str, html: Html, status: int = 200) -> HTMLResponse:
        """Return a page for whoever is signed in."""
        person = await self.oauth.find_user(request.headers.raw)
        account = NO_HTML if person is None else _build_account(person, await self.token(request), request.url.path)
        page = build_html_page(title, html, product="RecipeApp", home="/", account_html=account)
        return HTMLResponse(page, status, _HEADERS)

    async def token(self, request: Request) -> str:
        """Return what each form of the session must bring back."""
        return await self.oauth.form_token(request.headers.raw)

    async def find_account(self, request: Request) -> Account:
        """Return who is signed in.

        Raises:
            HTTPException: nobody is; the browser is sent to where one signs in.
        """
        person = await self.oauth.find_user(request.headers.raw)
        if person is None:
            onward = quote(request.url.path if request.method == "GET" else "/", safe="")
            raise HTTPException(303, "Sign in first.", {"location": f"/oauth/login?next={onward}"})
        return person

    async def read_form(self, request: Request, *, with_token: bool = True) -> dict[str, str]:
        """Return the fields of a form that one of our own pages sent.

        Raises:
            HTTPException: another site sent it, or it is too old.
        """
        origin, fetched = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin != self.url.rstrip("/") or fetched not in (None, "same-origin"):
            raise HTTPException(403, "This form was sent from another site.")
        given = parse_qs((await request.body()).decode("ascii", "replace"), keep_blank_values=True, max_num_fields=20)
        fields = {name: values[0] for name, values in given.items()}
        if with_token and not compare_digest(fields.get("token", "").encode(), (await self.token(request)).encode()):
            raise HTTPException(403, "This form has expired. Go back, reload the page, and try again.")
        return fields


def add_pages(app: FastAPI, site: Site) -> None:
    """Add the pages to ``app``."""
    _add_book(app, site)
    _add_account(app, site)
    _add_settings(app, site)

    @app.exception_handler(AnyHTTPException)
    async def fail(request: Request, error: AnyHTTPException) -> Response:
        if error.headers is not None and "location" in error.headers:
            return RedirectResponse(error.headers["location"], error.status_code)
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse({"detail": error.detail}, error.status_code)
        back = Html('<p><a href="/">Back to the recipes</a></p>')
        html = Html(f'<div class="card"><h1>This did not work</h1>{build_alert(str(error.detail))}{back}</div>')
        page = build_html_page("This did not work", html, product="RecipeApp")
        return HTMLResponse(page, error.status_code, _HEADERS)


def _add_book(app: FastAPI, site: Site) -> None:
    @app.get("/", include_in_schema=False)
    async def home(request: Request) -> Response:
        person = await site.oauth.find_user(request.headers.raw)
        if person is None:
            return await site.build(request, "RecipeApp", _WELCOME)
        recipes = await to_thread.run_sync(site.books.list_recipes, person.id)
        token = await site.token(request)
        rows = [
            [
                _build_name(one),
                escape_text(one.cuisine),
                Html(f"{one.minutes} min"),
                _build_change(f"/favorites/{one.id}", "Remove" if favorite else "Save", one.name, token),
                _build_change(f"/recipes/{one.id}/delete", "Delete", one.name, token, style="danger"),
            ]
            for one, favorite in recipes
        ]
        saved = [one.name for one, favorite in recipes if favorite]
        text = f"Your favorites: {', '.join(saved)}." if saved else "You have no favorites yet. Save a recipe below."
        html = Html(
            f'<div class="card"><h1>Your recipes</h1><p id="favorites">{escape_text(text)}</p>'
            f"{build_table(['recipe', 'cuisine', 'time', 'favorite', 'delete'], rows)}</div>"
            '<div class="card"><h2>Let an assistant help</h2><p>Give it this address. You sign in and say what it may '
            'do. Take that back under <a href="/oauth/connected">Connected apps</a>, or limit all apps in your '
            f'<a href="/settings">Settings</a>.</p><pre class="block" tabindex="0">{escape_text(site.url)}</pre></div>'
        )
        return await site.build(request, "Your recipes", html)

    @app.post("/favorites/{recipe}", include_in_schema=False)
    async def save(request: Request, recipe: str) -> Response:
        person, fields = await site.find_account(request), await site.read_form(request)
        favorite = fields.get("change") == "Save"
        await to_thread.run_sync(lambda: site.books.save(person.id, recipe, favorite=favorite))
        return RedirectResponse("/", 303)

    @app.post("/recipes/{recipe}/delete", include_in_schema=False)
    async def delete(request: Request, recipe: str) -> Response:
        person, _ = await site.find_account(request), await site.read_form(request)
        await to_thread.run_sync(site.books.delete, person.id, recipe)
        return RedirectResponse("/", 303)


def _add_account(app: FastAPI, site: Site) -> None:
    at_once = CapacityLimiter(_PASSWORDS_AT_ONCE)

    async def show(request: Request, onward: str, name: str = "", problem: str = "") -> Response:
        about_name = Html(' autocomplete="username" maxlength="100" required')
        about_password = Html(' type="password" autocomplete="new-password" minlength="8" maxlength="1024" required')
        password = build_input("Password", "password", hint="At least 8 characters.", more=about_password)
        fields = Html(
            f"{build_input('Name', 'name', name, more=about_name)}{password}{build_submit('Make the account')}"
        )
        link = build_link(f"/oauth/login?next={quote(onward, safe='')}", "Sign in")
        html = Html(
            f'<div class="card"><h1>Make an account</h1>{build_alert(problem)}'
            f"{build_form('/sign-up', fields, [('next', onward)])}<p>You have one? {link}.</p></div>"
        )
        return await site.build(request, "Make an account", html, 422 if problem else 200)

    @app.get("/sign-up", include_in_schema=False)
    async def ask(request: Request) -> Response:
        return await show(request, _keep_inside(request.query_params.get("next", "/")))

    @app.post("/sign-up", include_in_schema=False)
    async def sign_up(request: Request) -> Response:
        fields = await site.read_form(request, with_token=False)  # there is no session yet
        onward, name = _keep_inside(fields.get("next", "/")), fields.get("name", "")
        try:
            person = await to_thread.run_sync(site.people.add, name, fields.get("password", ""), limiter=at_once)
        except ValueError as error:
            return await show(request, onward, name, str(error))
        if person is None:
            return await show(request, onward, name, "That name is already taken.")
        await to_thread.run_sync(site.books.open, person.id)
        response = RedirectResponse(onward, 303)
        response.raw_headers.append(await site.oauth.start_session(request.headers.raw, person.id))
        return response


def _add_settings(app: FastAPI, site: Site) -> None:
    @app.get("/settings", include_in_schema=False)
    async def settings(request: Request) -> Response:
        person = await site.find_account(request)
        choices = await to_thread.run_sync(site.books.find_choices, person.id)
        save = build_check("save", "yes", Html("save recipes to my favorites"), is_checked=choices.save)
        delete = build_check("delete", "yes", Html("delete recipes"), is_checked=choices.delete)
        is_kept = "kept" in request.query_params
        notice = build_notice("Your settings were saved.", "safe", role="status") if is_kept else NO_HTML
        fields = Html(
            f"<fieldset><legend>Apps that I connected may</legend>{save}{delete}</fieldset>"
            '<p class="muted">This holds for every app, whatever it asked for: RecipeApp refuses the rest. Apps that '
            f"show you each call before they make it ask you there as well.</p>{build_submit('Keep')}"
        )
        form = build_form("/settings", fields, [("token", await site.token(request))])
        html = Html(f'<div class="card"><h1>Settings</h1>{notice}{form}</div>')
        return await site.build(request, "Settings", html)

    @app.post("/settings", include_in_schema=False)
    async def choose(request: Request) -> Response:
        person, fields = await site.find_account(request), await site.read_form(request)
        choices = Choices(save="save" in fields, delete="delete" in fields)
        await to_thread.run_sync(site.books.choose, person.id, choices)
        return RedirectResponse("/settings?kept=1", 303)


def _build_account(person: Account, token: str, path: str) -> Html:
    places = (("/", "Recipes"), ("/settings", "Settings"), ("/oauth/connected", "Connected apps"))
    logout = build_form("/oauth/logout", Html("<button>Sign out</button>"), [("token", token), ("next", "/")])
    return Html(f"{build_navigation(places, path)}<span>{escape_text(person.name)}</span>{logout}")


def _build_name(recipe: Recipe) -> Html:
    ingredients = escape_text(", ".join(recipe.ingredients))
    return Html(f"<strong>{escape_text(recipe.name)}</strong><br><small>{ingredients}</small>")


def _build_change(action: str, word: str, name: str, token: str, style: str = "") -> Html:
    about = Html(f'class="{escape_text(style)}" aria-label="{escape_text(f"{word}: {name}")}"')
    button = Html(f'<button {about} name="change" value="{escape_text(word)}">{escape_text(word)}</button>')
    return build_form(action, button, [("token", token)])


def _keep_inside(path: str) -> str:
    """Return ``path`` if it is a path of this site, else the start page."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"
