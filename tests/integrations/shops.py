"""The same small shop in five frameworks: say who I am, and drop an order. Its users bring a Bearer token."""
# Frameworks read annotations when a route is made, so they are no strings here.

import json
from collections.abc import Callable
from typing import Annotated, Any

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.urls import path
from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPBearer
from flask import Flask, jsonify
from flask import request as flask_request
from litestar import Litestar, delete, get
from litestar.connection import Request as LitestarRequest
from litestar.exceptions import NotAuthorizedException
from litestar.openapi import OpenAPIConfig
from litestar.params import FromPath
from ninja import NinjaAPI
from ninja.security import HttpBearer
from starlette.applications import Starlette
from starlette.exceptions import HTTPException as StarletteError
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from toolwire.integrations import asgi, fastapi, starlette, wsgi

USERS = {"token-of-ann": "ann", "token-of-bob": "bob"}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1.0.0"},
    "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    "security": [{"token": []}],
    "paths": {
        "/me": {"get": {"operationId": "me", "summary": "Say who I am", "responses": {"200": {"description": "It."}}}},
        "/orders/{number}": {
            "delete": {
                "operationId": "drop",
                "summary": "Drop an order",
                "parameters": [{"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "It."}},
            }
        },
    },
}

urlpatterns: list[Any] = []


def find_user(authorization: str | None) -> str | None:
    return USERS.get((authorization or "").removeprefix("Bearer "))


def build_fastapi(dropped: list[str]) -> Any:
    app = FastAPI(title="Shop", version="1.0.0")

    def get_user(brought: Annotated[Any, Depends(HTTPBearer())]) -> str:
        user = USERS.get(brought.credentials)
        if user is None:
            raise HTTPException(401, "Sign in.")
        return user

    @app.get("/me", operation_id="me", summary="Say who I am", openapi_extra=fastapi.x_llm())
    def me(user: Annotated[str, Depends(get_user)]) -> str:
        return user

    @app.delete("/orders/{number}", operation_id="drop", summary="Drop an order", openapi_extra=fastapi.x_llm())
    async def drop(number: int, user: Annotated[str, Depends(get_user)]) -> str:
        dropped.append(f"{user} {number}")
        return dropped[-1]

    return fastapi.publish_tools(app)


def build_starlette(dropped: list[str]) -> Any:
    def get_user(request: Request) -> str:
        user = find_user(request.headers.get("authorization"))
        if user is None:
            raise StarletteError(401, "Sign in.")
        return user

    async def me(request: Request) -> JSONResponse:
        return JSONResponse(get_user(request))

    async def drop(request: Request) -> JSONResponse:
        dropped.append(f"{get_user(request)} {request.path_params['number']}")
        return JSONResponse(dropped[-1])

    app = Starlette(routes=[Route("/me", me), Route("/orders/{number}", drop, methods=["DELETE"])])
    return starlette.publish_tools(app, DOCUMENT, include="all")


def build_litestar(dropped: list[str]) -> Any:
    def get_user(request: LitestarRequest[Any, Any, Any]) -> str:
        user = find_user(request.headers.get("authorization"))
        if user is None:
            raise NotAuthorizedException("Sign in.")
        return user

    @get("/me", operation_id="me", summary="Say who I am", sync_to_thread=False)
    def me(request: LitestarRequest[Any, Any, Any]) -> dict[str, str]:
        return {"user": get_user(request)}

    @delete("/orders/{number:int}", operation_id="drop", summary="Drop an order", status_code=200, sync_to_thread=False)
    def drop(number: FromPath[int], request: LitestarRequest[Any, Any, Any]) -> dict[str, str]:
        dropped.append(f"{get_user(request)} {number}")
        return {"dropped": dropped[-1]}

    config = OpenAPIConfig(title="Shop", version="1.0.0")
    app = Litestar([me, drop], openapi_config=config, logging_config=None)  # its default configures every logger
    return asgi.publish_tools(app, app.openapi_schema.to_schema(), include="all")


class _Bearer(HttpBearer):
    def authenticate(self, request: Any, token: str) -> str | None:
        return USERS.get(token)


def build_django(dropped: list[str]) -> Any:
    api = NinjaAPI(title="Shop", version="1.0.0", urls_namespace=f"shop-{id(dropped)}")

    @api.get("/me", auth=_Bearer(), operation_id="me", summary="Say who I am", openapi_extra=asgi.x_llm())
    def me(request: Any) -> str:
        return str(request.auth)

    @api.delete("/orders/{number}", auth=_Bearer(), operation_id="drop", openapi_extra=asgi.x_llm(hint="It is gone."))
    def drop(request: Any, number: int) -> str:
        """Drop an order."""
        dropped.append(f"{request.auth} {number}")
        return dropped[-1]

    urlpatterns[:] = [path("api/", api.urls)]
    for name, value in {"ROOT_URLCONF": __name__, "ALLOWED_HOSTS": ["*"], "MIDDLEWARE": []}.items():
        setattr(settings, name, value)
    document = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/")))
    return asgi.publish_tools(get_asgi_application(), document)


def build_flask(dropped: list[str]) -> Any:
    app = Flask("shop")

    @app.get("/me")
    def me() -> Any:
        user = find_user(flask_request.headers.get("Authorization"))
        return jsonify(user) if user else (jsonify(detail="Sign in."), 401)

    @app.delete("/orders/<int:number>")
    def drop(number: int) -> Any:
        user = find_user(flask_request.headers.get("Authorization"))
        if user is None:
            return jsonify(detail="Sign in."), 401
        dropped.append(f"{user} {number}")
        return jsonify(dropped[-1])

    return wsgi.publish_tools(app, DOCUMENT, include="all")


SHOPS: dict[str, Callable[[list[str]], Any]] = {
    "fastapi": build_fastapi,
    "starlette": build_starlette,
    "litestar": build_litestar,
    "django": build_django,
    "flask": build_flask,
}
