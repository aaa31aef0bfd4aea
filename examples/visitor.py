"""A person at a browser, played by a script: cookies, forms and redirects of a site, over the network."""

from __future__ import annotations

import re
import threading
from html import unescape
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, Request, build_opener

_HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)"')


class Visitor:
    """A browser with its own cookies, at the site ``url``."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._decision = "allow"
        self._browser = build_opener(HTTPCookieProcessor(CookieJar()))

    def sign_up(self, name: str, password: str) -> None:
        """Make an account; who makes one is signed in."""
        self._post("/sign-up", {"name": name, "password": password})

    def open_page(self, url: str) -> bool:
        """Open ``url`` as a browser does: beside the program that asks for it, which waits for the answer."""
        threading.Thread(target=self.allow, args=(url,), daemon=True).start()
        return True

    def allow(self, url: str) -> None:
        """Open the consent page at ``url`` and allow all that is asked, or nothing after ``take_back``."""
        page = self._get(url)
        scopes = re.findall(r'name="scope" value="([^"]*)"', page)
        self._post("/oauth/consent", {**_read_hidden(page), "scope": scopes, "decision": self._decision})

    def take_back(self) -> None:
        """Take back all that was allowed, on the page of connected apps, and allow nothing from now on."""
        self._decision = "deny"
        page = self._get(f"{self._url}/oauth/connected")
        for grant in re.findall(r'name="grant" value="([^"]*)"', page):
            self._post("/oauth/connected", {**_read_hidden(page), "grant": grant})

    def read(self, part: str) -> str:
        """Return the text of a part of the start page."""
        found = re.search(rf'id="{part}">([^<]*)<', self._get(self._url))
        return "" if found is None else unescape(found[1])

    def _get(self, url: str) -> str:
        with self._browser.open(url, timeout=10) as response:
            text: str = response.read().decode()
        return text

    def _post(self, path: str, fields: dict[str, str | list[str]] | dict[str, str]) -> None:
        body = urlencode(fields, doseq=True).encode()
        with self._browser.open(Request(urljoin(self._url, path), body, {"origin": self._url}), timeout=10) as response:  # noqa: S310 - a server of our own, on loopback
            response.read()


def _read_hidden(page: str) -> dict[str, str]:
    return {unescape(name): unescape(value) for name, value in _HIDDEN.findall(page)}
