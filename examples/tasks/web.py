"""What people do in their browser: their tasks, their account, and the apps they allowed.

Rules:
- A form is taken from our own pages only, with the token of its session; nothing else changes anything. [D-22]
- What went wrong is said on the page it was done on.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from functools import partial
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qs, quote

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from toolwire.oauth import Account, Accounts, AuthorizationServer
from toolwire.server import load_style

from .api import SCOPES, NewTask, TaskChange
from .callers import PREFIX
from .pages import board, board_tag, page, show_day
from .store import Store, TooManyError

_PASSWORDS_AT_ONCE, _PASSWORDS_WAITING = 2, 32
_LOCAL_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]*")
_TRIED = {"name": "Say what there is to do, in at most 200 characters.", "dueDate": "The day is not a date."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the pages work with."""

    url: str
    store: Store
    people: Accounts
    oauth: AuthorizationServer
    keys: bool

    async def person(self, request: Request) -> Account:
        """Return who is signed in.

        Raises:
            HTTPException: nobody is; the browser is sent to where one signs in.
        """
        person = await self.oauth.find_user(request.headers.raw)
        if person is None:
            onward = quote(request.url.path if request.method == "GET" else "/", safe="")
            raise HTTPException(303, "Sign in first.", {"location": f"/oauth/login?next={onward}"})
        return person

    async def form(self, request: Request) -> tuple[Account, dict[str, str]]:
        """Return who sent a form, and what is in it.

        Raises:
            HTTPException: the form did not come from one of our pages in their session.
        """
        fields = await _fields(self, request)
        person = await self.person(request)
        token = await self.oauth.form_token(request.headers.raw)
        if not compare_digest(fields.pop("token", "").encode(), token.encode()):
            raise HTTPException(403, "This form has expired. Go back, reload the page, and try again.")
        return person, fields

    async def shown(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page for whoever is signed in."""
        person = await self.oauth.find_user(request.headers.raw)
        token = await self.oauth.form_token(request.headers.raw)
        name = "" if person is None else person.name
        return page(template, status, name=name, token=token, path=request.url.path, site=self, **values)

    async def tasks_page(self, request: Request, person: Account, problem: str = "", **typed: str) -> Response:
        """Return the page of somebody's tasks; ``problem`` says what could not be done, ``typed`` what was typed."""
        tasks = await to_thread.run_sync(self.store.tasks, person.id)
        token = await self.oauth.form_token(request.headers.raw)
        values = {"board": board(tasks, token), "tag": board_tag(tasks), "problem": problem, "typed": typed}
        return await self.shown(request, "tasks.html", 422 if problem else 200, **values)

    async def connected_page(self, request: Request, person: Account, problem: str = "", key: str = "") -> Response:
        """Return the page of the apps somebody allowed; ``key`` is a new key, which is shown this once."""
        used = await self.oauth.list_last_uses(person.id)
        grants = [
            (grant, show_day(grant.created), show_day(used.get(grant.id, grant.created)), show_day(grant.until))
            for grant in await self.oauth.list_grants(person.id)
        ]
        keys = await to_thread.run_sync(self.store.keys, person.id) if self.keys else []
        values = {"grants": grants, "keys": keys, "scopes": SCOPES, "problem": problem, "key": key}
        return await self.shown(request, "connected.html", 422 if problem else 200, **values)


def web(site: Site) -> APIRouter:
    """Return the pages of ``site``."""
    router = APIRouter()
    _add_looking(router, site)
    _add_changing(router, site)
    _add_account(router, site)
    _add_connected(router, site)
    if site.keys:
        _add_keys(router, site)
    return router


def _add_looking(router: APIRouter, site: Site) -> None:
    @router.get("/style.css")
    async def style() -> Response:
        """The stylesheet of the sign-in and consent pages: all pages look alike."""
        return Response(load_style(), media_type="text/css", headers={"cache-control": "max-age=3600"})

    @router.get("/")
    async def home(request: Request) -> Response:
        person = await site.oauth.find_user(request.headers.raw)
        return await (site.shown(request, "welcome.html") if person is None else site.tasks_page(request, person))

    @router.get("/board")
    async def live(request: Request) -> Response:
        person = await site.oauth.find_user(request.headers.raw)
        if person is None:
            return Response(status_code=401)
        tasks = await to_thread.run_sync(site.store.tasks, person.id)
        headers = {"etag": board_tag(tasks), "cache-control": "no-store"}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        html = board(tasks, await site.oauth.form_token(request.headers.raw))
        return Response(html, headers=headers, media_type="text/html")


def _add_changing(router: APIRouter, site: Site) -> None:
    @router.post("/tasks")
    async def add(request: Request) -> Response:
        person, fields = await site.form(request)
        try:
            task = NewTask.model_validate(_without_empty(fields))
            await to_thread.run_sync(site.store.add, person.id, task.model_dump())
        except ValidationError as error:
            return await site.tasks_page(request, person, _sentence(error), **fields)
        except TooManyError as error:
            return await site.tasks_page(request, person, str(error), **fields)
        return _to("/")

    @router.post("/tasks/{task_id}")
    async def change(request: Request, task_id: str) -> Response:
        person, fields = await site.form(request)
        try:
            given = TaskChange.model_validate({**fields, "dueDate": fields.get("dueDate") or None})
        except ValidationError as error:
            return await site.tasks_page(request, person, _sentence(error))
        changes = {name: value for name, value in given.model_dump().items() if name in fields}
        await to_thread.run_sync(site.store.change, person.id, task_id, changes)
        return _to("/")

    @router.post("/tasks/{task_id}/delete")
    async def delete(request: Request, task_id: str) -> Response:
        person, _ = await site.form(request)
        await to_thread.run_sync(site.store.delete, person.id, task_id)
        return _to("/")


def _add_account(router: APIRouter, site: Site) -> None:
    at_once = CapacityLimiter(_PASSWORDS_AT_ONCE)

    @router.get("/sign-up")
    async def sign_up(request: Request) -> Response:
        onward = _inside(request.query_params.get("next", "/"))
        return await site.shown(request, "sign-up.html", problem="", typed="", onward=onward)

    @router.post("/sign-up")
    async def signed_up(request: Request) -> Response:
        fields = await _fields(site, request)
        name, problem = fields.get("name", ""), "That name is already taken."
        onward = _inside(fields.get("next", "/"))
        if at_once.statistics().tasks_waiting >= _PASSWORDS_WAITING:
            text = "Too many people make an account at this moment: try again in a few seconds."
            return await site.shown(request, "sign-up.html", 503, problem=text, typed=name, onward=onward)
        try:
            person = await to_thread.run_sync(site.people.add, name, fields.get("password", ""), limiter=at_once)
        except ValueError as error:
            person, problem = None, str(error)
        if person is None:
            return await site.shown(request, "sign-up.html", 422, problem=problem, typed=name, onward=onward)
        answer = _to(onward)
        answer.raw_headers.append(await site.oauth.start_session(request.headers.raw, person.id))
        return answer


def _add_connected(router: APIRouter, site: Site) -> None:
    @router.get("/connected")
    async def connected(request: Request) -> Response:
        return await site.connected_page(request, await site.person(request))

    @router.post("/connected/{grant}/revoke")
    async def revoke(request: Request, grant: str) -> Response:
        person, _ = await site.form(request)
        await site.oauth.disconnect(person.id, grant)
        return _to("/connected")


def _add_keys(router: APIRouter, site: Site) -> None:
    @router.post("/keys")
    async def make(request: Request) -> Response:
        person, fields = await site.form(request)
        name, key = fields.get("name", "").strip(), PREFIX + secrets.token_urlsafe(32)
        if not 0 < len(name) <= 100:
            return await site.connected_page(request, person, "Say what the key is for, in at most 100 characters.")
        try:
            await to_thread.run_sync(site.store.add_key, person.id, name, key)
        except TooManyError as error:
            return await site.connected_page(request, person, str(error))
        return await site.connected_page(request, person, key=key)

    @router.post("/keys/{handle}/revoke")
    async def end(request: Request, handle: str) -> Response:
        person, _ = await site.form(request)
        if len(handle) == 16 and handle.isalnum():
            await to_thread.run_sync(partial(site.store.revoke_key, person.id, handle))
        return _to("/connected")


async def _fields(site: Site, request: Request) -> dict[str, str]:
    """Return the fields of a form that one of our own pages sent.

    Raises:
        HTTPException: another site sent it, or it is no form.
    """
    origin, fetched = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin != site.url.rstrip("/") or fetched not in (None, "same-origin"):
        raise HTTPException(403, "This form was sent from another site.")
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise HTTPException(415, "This is no form.")
    try:
        given = parse_qs((await request.body()).decode("ascii"), keep_blank_values=True, max_num_fields=20)
    except ValueError as error:
        raise HTTPException(400, "This form cannot be read.") from error
    return {name: values[0] for name, values in given.items()}


def _without_empty(fields: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value or name == "name"}


def _sentence(error: ValidationError) -> str:
    where = {str(one["loc"][0]) for one in error.errors() if one["loc"]}
    return next((text for name, text in _TRIED.items() if name in where), "Something in this form cannot be.")


def _inside(path: str) -> str:
    """Return ``path`` if it is a path of this site, else the start page."""
    return path if _LOCAL_PATH.fullmatch(path) else "/"


def _to(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303)
