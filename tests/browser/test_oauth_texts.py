"""Hostile and long texts on the pages to sign in, to allow an app and to take it back, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.support.hostile_pages import PAYLOADS, Watched
from toolwire.core.http import Response
from toolwire.server.oauth.pages import (
    ConnectedApp,
    ConsentForm,
    build_connected_page,
    build_consent_page,
    build_error_page,
    build_login_page,
)

TEXTS = [*PAYLOADS, "\u202egpj.exe\x1b[2J\U000e0041\u200b", "W" * 5_000, "漢字" * 900, "a b " * 900]
PAGES = ("login", "wrong", "consent", "connected", "error")


def build(kind: str, text: str) -> Response:
    match kind:
        case "login" | "wrong":
            problem = "Wrong name or password." if kind == "wrong" else ""
            return build_login_page(text[:80], "/oauth/login", [("next", text)], problem, name=text[:200])
        case "consent":
            form = ConsentForm(
                site="Desk",
                app=text,
                app_host=text[:200],
                redirect_host=text[:200],
                is_local=True,
                user_name=text,
                scopes=[("sums", text, True), (text[:100], "Words", False)],
                lifetime="It ends after 30 days.",
                connected_url="/oauth/connected",
                notes=[text],
                action="/oauth/consent",
                hidden=[("token", text)],
                form_source="https://app.example",
            )
            return build_consent_page(form)
        case "connected":
            app = ConnectedApp("g1", text, text, text, [("sums", text)], "today", "today", "tomorrow")
            return build_connected_page("Desk", text, [app] * 2, base="/oauth", token=text, home="/oauth/connected")
        case _:
            return build_error_page(text)


async def answer(scope: Any, _receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
    response = build(scope["path"].strip("/"), TEXTS[int(query.get("text", "0"))])
    await send({"type": "http.response.start", "status": 200, "headers": list(response.headers)})
    await send({"type": "http.response.body", "body": response.body})


@pytest.mark.requirement("D-25", "D-03", "D-23", "AS-17", "AT-52")
@pytest.mark.parametrize("kind", PAGES)
def test_hostile_texts_do_nothing_on_the_pages_of_a_sign_in(kind: str, page: Any, serve: Callable[..., str]) -> None:
    url = serve(lambda _: answer)
    watched = Watched(page, url)
    for number in range(len(TEXTS)):
        page.goto(f"{url}/{kind}?text={number}")
        assert page.locator("h1").count() == 1
        assert page.locator("iframe, object, embed, main img, main svg, main script").count() == 0
        assert watched.unharmed(), (kind, number)
        for width in (320, 1_280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (kind, number, width)
    if kind in ("consent", "connected"):
        page.goto(f"{url}/{kind}?text={len(PAYLOADS)}")
        names = page.locator("h1, h2, .account").all_inner_texts()
        assert not {"\u202e", "\x1b", "\U000e0041", "\u200b"} & set("".join(names))
