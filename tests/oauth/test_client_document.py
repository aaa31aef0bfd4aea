"""Our own client metadata document: an application of ours shows it, and signs in elsewhere by it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import toolwire
from tests.oauth.conftest import Walker
from tests.oauth.running_site import Running, tasks
from tests.support.wire import AppTransport
from toolwire.auth.client_metadata import read_document
from toolwire.auth.clients import Client
from toolwire.client.login import SignInOptions
from toolwire.core.errors import DefinitionError
from toolwire.core.http import Request, Response, get_header

PLACE = "/.well-known/oauth-client.json"


def request_document(app: toolwire.App, url: str, method: str = "GET") -> Response:
    answer = asyncio.run(AppTransport(app).send(Request(method, url)))
    assert isinstance(answer, Response)
    return answer


@pytest.mark.requirement("XL-113", "OQ-11")
@pytest.mark.parametrize("where", [f"https://tools.example{PLACE}", "https://tools.example/apps/toolwire.json"])
def test_application_serves_our_client_document_at_the_configured_url(where: str) -> None:
    given = where.removesuffix(PLACE)  # an origin is enough for the usual place
    app = toolwire.asgi(tasks(), api_keys=["key"], client_document=given, hosts=["tools.example"])
    answer = request_document(app, where)
    assert answer.status == 200
    assert get_header(answer.headers, b"content-type") == "application/json"
    client = read_document(where, answer)  # as an authorization server reads it
    assert isinstance(client, Client)
    assert (client.id, client.name, client.method) == (where, "toolwire", "none")
    assert client.redirect_uris == ("http://127.0.0.1/callback", "http://[::1]/callback")
    assert json.loads(answer.body)["client_uri"] == "https://tools.example"
    assert request_document(app, where, "POST").status == 405
    assert request_document(toolwire.asgi(tasks(), hosts=["tools.example"]), where).status == 404


@pytest.mark.parametrize("url", ["tools.example", "ftp://tools.example/c", "http://tools.example", "https://x/a/../c"])
def test_unusable_client_document_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(DefinitionError, match="is not a valid URL for a client metadata document"):
        toolwire.asgi(tasks(), client_document=url)


@pytest.mark.requirement("XL-113", "XL-114", "AC-04")
def test_user_signs_in_with_our_client_document_without_registration(
    tmp_path: Path, serve: Callable[[Callable[[str], Any]], str]
) -> None:
    ours = serve(lambda base: toolwire.asgi(tasks(), client_document=base)) + PLACE
    site = Running(tmp_path, serve, clients=(), local_documents=True)
    walker = Walker()
    found = site.signed_in(walker, SignInOptions(document_url=ours))
    assert (found.client_id, found.registered) == (ours, False)
    with toolwire.connect_sync(
        site.url, protocol="otc", agree=lambda _: True, credential_store=site.credentials
    ) as remote:
        assert remote.call("list_tasks") == toolwire.Value(["wash up"])
