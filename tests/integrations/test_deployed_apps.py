"""Applications as their owners run them, with uvicorn behind nginx with TLS: a tool call is a call of the route."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.programs import find_free_port
from tests.support.proxies import run_program, run_proxy, trust_certificate
from tests.support.waiting import wait_until
from toolwire import Kind, Problem, Value, connect_sync

PROTOCOLS = ("openapi", "opentool", "otc", "mcp")

DJANGO = """
import os
from django.conf import settings

settings.configure(
    SECRET_KEY="only for this test", ALLOWED_HOSTS=["*"], ROOT_URLCONF="app", USE_X_FORWARDED_HOST=True,
    SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"), SECURE_SSL_REDIRECT=True,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes"], LOGIN_URL="/welcome/login/",
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware", "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
)

from django.core.asgi import get_asgi_application
from django.http import HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import path
from toolwire.integrations.asgi import publish_tools


def tell(request):
    return JsonResponse(
        {"secure": request.is_secure(), "url": request.build_absolute_uri("/x"),
         "client": request.headers.get("X-Forwarded-For")}
    )


django_app = get_asgi_application()

from django.contrib.auth.decorators import login_required

mine = login_required(tell)
latest = lambda request: HttpResponseRedirect("/news/")
news = lambda request: HttpResponse("<p>The news</p>")
welcome = lambda request: HttpResponse("<form><input name='p' type='password'></form>")
views = {"tell": tell, "mine": mine, "latest": latest, "news": news, "welcome/login": welcome}
urlpatterns = [path(f"{name}/", view) for name, view in views.items()]
document = {
    "openapi": "3.1.0",
    "info": {"title": "Desk", "version": "1.0.0"},
    "paths": {
        f"/{name}/": {"get": {"operationId": name, "summary": name, "responses": {}}}
        for name in ("tell", "mine", "latest")
    },
}
app = publish_tools(django_app, document, include="all")
"""
FASTAPI = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from fastapi import BackgroundTasks, FastAPI
from toolwire.integrations.fastapi import publish_tools, x_llm


@asynccontextmanager
async def live(app):
    yield
    Path("closed").write_text("")


app = FastAPI(title="Shop", version="1.0.0", lifespan=live)


async def send_mail() -> None:
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    Path("sent").write_text("after the database was closed" if Path("closed").exists() else "in time")


@app.post("/orders", operation_id="order", summary="Order", openapi_extra=x_llm())
async def order(background: BackgroundTasks) -> str:
    background.add_task(send_mail)
    return "ordered"


publish_tools(app)
"""


@contextmanager
def run_app(text: str, folder: Path) -> Iterator[tuple[Any, int]]:
    """Run the application of ``text``, and give its process and its port."""
    (folder / "app.py").write_text(text)
    port = find_free_port()
    argv = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port), "--log-level", "warning"]
    with run_program(argv, port, folder) as process:
        yield process, port


def open_app(url: str, protocol: str, **more: Any) -> Any:
    return connect_sync(url, protocol=protocol, approve=lambda _: True, agree=lambda _: True, **more)


@pytest.mark.requirement("FU-30", "CR-02")
def test_route_knows_its_proxy_and_a_sign_in_page_is_a_refusal(tmp_path: Path) -> None:
    with run_app(DJANGO, tmp_path) as (_, port), run_proxy("nginx", tmp_path, port) as front:
        url = f"https://127.0.0.1:{front}"
        trust_certificate(tmp_path)
        for protocol in PROTOCOLS:
            with open_app(url, protocol, ca_file=tmp_path / "fullchain.pem") as desk:
                told = desk.call("tell")
                assert isinstance(told, Value), (protocol, told)
                assert told.value == {"secure": True, "url": f"{url}/x", "client": "127.0.0.1"}
                refused = desk.call("mine")  # a redirect to the page for browsers is no result
                assert isinstance(refused, Problem), refused
                assert refused.kind is Kind.FORBIDDEN
                assert "redirected this call to its sign-in page, /welcome/login/" in refused.message
                latest = desk.call("latest")  # and another page is one
                assert isinstance(latest, Value), latest
                assert latest.value == "<p>The news</p>"


@pytest.mark.requirement("FU-30", "CR-03")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_call_does_not_wait_for_background_tasks_and_a_stop_does(tmp_path: Path, protocol: str) -> None:
    with run_app(FASTAPI, tmp_path) as (process, port):
        with open_app(f"http://127.0.0.1:{port}", protocol) as shop:
            ordered = shop.call("order")  # the task ends only after it
            assert isinstance(ordered, Value), ordered
            assert ordered.value == "ordered"
        process.send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        wait_until((tmp_path / "closed").exists)
    assert (tmp_path / "sent").read_text() == "in time"
