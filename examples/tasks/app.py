"""The product put together: pages for people, operations for assistants, and an authorization server between them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio import to_thread
from argon2 import PasswordHasher
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from toolwire.integrations.fastapi import publish_tools
from toolwire.oauth import Accounts, OAuthStore, authorization_server
from toolwire.server import Callers, CombinedCallers

from .api import SCOPES, api
from .callers import RefusedError, StoredKeys
from .guard import guarded
from .pages import error_page
from .store import Store
from .web import Site, web

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the product is run. ``url`` is what people type; ``database`` an SQLAlchemy URL.

    ``api_keys`` lets people make keys for programs that know no OAuth. ``hasher`` takes the place of argon2's defaults.
    """

    url: str = "http://127.0.0.1:9627"
    database: str = "sqlite:///tasks.db"
    api_keys: bool = False
    hasher: PasswordHasher | None = None


def create_app(settings: Settings) -> Callable[..., Any]:
    """Return the product as an ASGI application; its databases are opened now, and made where there are none."""
    store, accounts = Store(settings.database), OAuthStore(settings.database)
    people = Accounts(accounts, hasher=settings.hasher)
    oauth = authorization_server(
        issuer=settings.url,
        name="Tasks",
        store=accounts,
        users=people,
        scopes=SCOPES,
        registration=True,
        connected_url="/connected",
        sign_up_url="/sign-up",
    )
    callers: Callers = CombinedCallers(StoredKeys(store), oauth.callers) if settings.api_keys else oauth.callers
    app = FastAPI(
        title="Tasks",
        version="1.0.0",
        description="A list of tasks.",
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(api(store, callers, keys=settings.api_keys))
    site = Site(url=settings.url, store=store, people=people, oauth=oauth, keys=settings.api_keys)
    app.include_router(web(site), include_in_schema=False)
    app.mount("/static", StaticFiles(directory=_HERE / "static"))
    _answer_errors(app)
    publish_tools(app, name="Tasks", description="Remember what there is to do.", include="marked")
    return guarded(oauth.serve_before(app), settings.url)


def from_environment() -> Callable[..., Any]:
    """Return the product as TASKS_URL, TASKS_DATABASE and TASKS_API_KEYS say: for ``uvicorn --factory``."""
    default = Settings()
    return create_app(
        Settings(
            url=os.environ.get("TASKS_URL", default.url),
            database=os.environ.get("TASKS_DATABASE", default.database),
            api_keys=os.environ.get("TASKS_API_KEYS", "") == "1",
        )
    )


def _answer_errors(app: FastAPI) -> None:
    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> Response:
        answer = error.response
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
        return Response(answer.body, answer.status, headers)

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> Response:
        if request.url.path.startswith("/api/"):
            return JSONResponse({"detail": error.detail}, error.status_code, error.headers)
        if error.headers is not None and "location" in error.headers:
            return RedirectResponse(error.headers["location"], error.status_code)
        return await to_thread.run_sync(error_page, error.status_code, str(error.detail))
