"""An app that registers."""

from __future__ import annotations

from typing import Any

from tests.oauth.conftest import CALLBACK, Site


def register_app(site: Site, **more: Any) -> Any:
    body = {"client_name": "Reg", "redirect_uris": [CALLBACK], **more}
    return site.browser.request(
        "POST", "/oauth/register", json={key: value for key, value in body.items() if value is not None}
    )
