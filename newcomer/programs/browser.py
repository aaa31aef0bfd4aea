"""Be the browser of a person who signs in, reads the consent page and agrees: open a URL and follow its pages."""

import re
import sys
from html import unescape
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener


def find_origin(url: str) -> str:
    """Return the origin of a URL, which a browser sends with a form."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def main() -> None:
    """Follow the pages from the URL of the command line to the page that says that the tab can be closed."""
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    with browser.open(sys.argv[1], timeout=30) as answer:
        url, page = answer.url, answer.read().decode()
    while (form := re.search(r"<form[^>]*>.*?</form>", page, re.DOTALL)) is not None:
        fields = {}
        for tag in re.findall(r"<input[^>]*>", form[0]):
            given = {name: unescape(value) for name, value in re.findall(r'([a-z]+)="([^"]*)"', tag)}
            if "name" in given:
                fields[given["name"]] = given.get("value", "ada")
        for name, value in re.findall(r'<button[^>]*name="([^"]*)"[^>]*value="([^"]*)"', form[0]):
            fields[name] = unescape(value)  # the last button, which allows
        action = re.search(r'action="([^"]*)"', form[0])
        target = urljoin(url, unescape(action[1])) if action else url
        with browser.open(
            Request(target, urlencode(fields).encode(), {"Origin": find_origin(target)}), timeout=30
        ) as answer:
            url, page = answer.url, answer.read().decode()


main()
