"""A browser of one page that asks."""

from __future__ import annotations

import re
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit


class Visitor:
    """A browser of one page, or somebody who pretends to be one."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.port = parts.port or 0
        self.path = parts.path
        self.own = f"127.0.0.1:{parts.port}"

    def get(self, path: str | None = None, **headers: str) -> tuple[int, dict[str, str], str]:
        return self._send("GET", path or self.path, "", headers)

    def post(self, **fields: str) -> tuple[int, dict[str, str], str]:
        return self.post_as({}, **fields)

    def post_as(self, headers: dict[str, str], **fields: str) -> tuple[int, dict[str, str], str]:
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{self.own}"}
        return self._send("POST", self.path, urlencode(fields), {**form, **headers})

    def token(self) -> str:
        found = re.search(r'name="token" value="([^"]+)"', self.get()[2])
        assert found is not None
        return found[1]

    def _send(self, method: str, path: str, body: str, headers: dict[str, str]) -> tuple[int, dict[str, str], str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
        finally:
            connection.close()
