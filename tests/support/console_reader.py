"""Read the pages of a console and send their forms, as a browser does that has signed in."""

from __future__ import annotations

import http.client
from urllib.parse import urlencode, urlsplit


class Reader:
    """A browser that has signed in with the key of the link."""

    def __init__(self, url: str, key: str, root: str = "") -> None:
        self._host, self._root = urlsplit(url).netloc, root
        form = urlencode({"key": key, "next": "/"})
        _, headers, _ = self._send("POST", f"{root}/sign-in", form, {})
        self._cookie = headers["set-cookie"].partition(";")[0]

    def get(self, path: str) -> str:
        return self._send("GET", self._root + path, None, {"cookie": self._cookie})[2]

    def submit(self, path: str, **fields: str) -> str:
        token = self.get("/").partition('name="token" value="')[2].partition('"')[0]
        form = urlencode({"token": token, **fields})
        _, headers, text = self._send("POST", self._root + path, form, {"cookie": self._cookie})
        return self.get(headers["location"].removeprefix(self._root)) if "location" in headers else text

    def _send(
        self, method: str, path: str, body: str | None, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], str]:
        connection = http.client.HTTPConnection(self._host, timeout=20)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text
