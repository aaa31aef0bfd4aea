"""The document by which an app names itself, as the response of its own site."""

from __future__ import annotations

import json
from typing import Any

from tests.oauth.conftest import document
from toolwire.core.http import Response

URL = "https://app.example/oauth-client.json"
JSON = (b"content-type", b"application/json")


def build_document_response(*headers: tuple[bytes, bytes], status: int = 200, **more: Any) -> Response:
    return Response(status, (JSON, *headers), json.dumps(document(URL, **more)).encode())
