"""People sign in to a gateway at an OpenID provider of another maker, and their groups say what they may do."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from tests.programs import find_free_port
from tests.support.openid import needs_provider, run_gateway_at, run_provider
from tests.support.people import Person, Storage, use, walk
from toolwire import Toolkit, asgi
from toolwire.cli import main
from toolwire.testing import background

pytestmark = [pytest.mark.requirement("PL-03"), needs_provider]

DESK = '''
from toolwire import Context, Toolkit

desk = Toolkit("Desk")


@desk.tool(safe=True, approval="auto")
def tell_name(context: Context) -> str:
    """Tell who calls."""
    return context.principal


@desk.tool(approval="per-call")
def publish() -> str:
    """Publish it."""
    return "published"


@desk.tool(safe=True, approval="auto")
def audit() -> str:
    """Look at the books."""
    return "all is well"
'''
TABLES = """
self-approval = false

[sign-in]
name = "Team tools"
issuer = "{issuer}"
client-id = "gateway"
client-secret-env = "GATEWAY_SECRET"
operators = ["sub-nobody"]
operator-groups = ["platform"]

[callers.auditors]
claims = [["/groups", "eq", "leads"]]

[callers."*"]
tools = ["desk.tell_name", "desk.publish", "tasks"]

[upstreams.desk]
target = "desk.py"

[upstreams.tasks]
target = "{tasks}"
approvers = {{"close*" = ["leads"]}}
"""


tasks = Toolkit("Tasks")


@tasks.tool(approval="per-call")
def close() -> str:
    """Close the task."""
    return "closed"


class Place(NamedTuple):
    """A gateway, and the issuer at which its people sign in."""

    url: str
    issuer: str
    folder: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A gateway whose people sign in at an issuer."""
    folder, port = tmp_path_factory.mktemp("gateway"), find_free_port()
    (folder / "desk.py").write_text(DESK)
    with (
        run_provider(folder, [f"http://127.0.0.1:{port}/oauth/callback"]) as issuer,
        background(asgi(tasks)) as site,
        run_gateway_at(port, folder, TABLES.format(issuer=issuer, tasks=site)) as url,
    ):
        yield Place(url, issuer, folder)


@pytest.fixture
def people() -> Iterator[dict[str, Person]]:
    """Ann, Bob and Eve, each with a browser."""
    names = ("sub-ann", "sub-bob", "sub-eve")
    found = {name.removeprefix("sub-"): Person(name, httpx2.Client(timeout=30), Storage()) for name in names}
    yield found
    for one in found.values():
        one.browser.close()


def test_program_of_a_person_calls_as_the_subject_that_the_issuer_names(
    place: Place, people: dict[str, Person]
) -> None:
    assert re.fullmatch(r"user:sub-ann:[0-9a-f]{12}", asyncio.run(use(place.url, people["ann"], "tell_name")))
    assert asyncio.run(use(place.url, people["ann"])) == ["audit", "close", "publish", "tell_name"]
    # The names that a person chooses at the issuer give no rights.
    assert asyncio.run(use(place.url, people["eve"], "tell_name")).startswith("user:sub-eve:")
    assert asyncio.run(use(place.url, people["eve"])) == ["close", "publish", "tell_name"]


def sign_in(place: Place, person: Person) -> httpx2.Client:
    """Sign in at the issuer, and return the browser."""
    page = f"{place.url}/oauth/connected"
    assert walk(person, f"{place.url}/oauth/login?next=/oauth/connected", page).status_code == 200
    return person.browser


def test_groups_of_a_person_open_the_console(place: Place, people: dict[str, Person]) -> None:
    console = f"{place.url}/console/"
    assert "Overview" in sign_in(place, people["ann"]).get(console, follow_redirects=True).text
    for name in ("bob", "eve"):
        refused = sign_in(place, people[name]).get(console, follow_redirects=True)
        assert refused.status_code == 403
        assert "who is not an operator" in refused.text


def begin(place: Place, person: Person, onward: str = "/oauth/connected") -> str:
    """Begin a sign-in, and return the URL by which the issuer sends the browser back."""
    answer = walk(person, f"{place.url}/oauth/login?next={onward}", f"{place.url}/oauth/callback")
    return answer.headers["location"]


def test_request_to_the_issuer_has_pkce_a_state_a_nonce_and_the_exact_redirect_uri(
    place: Place, people: dict[str, Person]
) -> None:
    first, second = (people[name].browser.get(f"{place.url}/oauth/login") for name in ("ann", "bob"))
    asked, other = (parse_qs(urlsplit(one.headers["location"]).query) for one in (first, second))
    assert asked["redirect_uri"] == [f"{place.url}/oauth/callback"]
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["scope"] == ["openid profile groups"]
    assert all(asked[name] != other[name] for name in ("state", "nonce", "code_challenge"))


def test_answer_of_the_issuer_counts_once_and_in_its_own_browser_alone(place: Place, people: dict[str, Person]) -> None:
    ann, bob = people["ann"], people["bob"]
    back = begin(place, ann)
    bob.browser.get(f"{place.url}/oauth/login")
    stolen = bob.browser.get(back)
    assert stolen.status_code == 403
    assert "another browser" in stolen.text
    assert bob.browser.get(f"{place.url}/oauth/connected").status_code == 303
    assert ann.browser.get(back).headers["location"] == "/oauth/connected"
    assert ann.browser.get(f"{place.url}/oauth/connected").status_code == 200
    assert ann.browser.get(back).status_code == 403


@pytest.mark.parametrize("change", ["iss", "state", "code", "error"])
def test_changed_answer_signs_nobody_in(place: Place, people: dict[str, Person], change: str) -> None:
    parts = urlsplit(begin(place, people["ann"]))
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    query[change] = {"iss": "https://evil.example", "error": "<b>access_denied"}.get(
        change, query.get(change, "")[::-1]
    )
    answer = people["ann"].browser.get(f"{place.url}{parts.path}", params=query)
    assert answer.status_code in (403, 502)
    assert "<b>" not in answer.text
    assert people["ann"].browser.get(f"{place.url}/oauth/connected").status_code == 303


@pytest.mark.parametrize("onward", ["https://evil.example/", "//evil.example", "/\\evil.example"])
def test_sign_in_leads_to_no_other_site(place: Place, people: dict[str, Person], onward: str) -> None:
    assert people["ann"].browser.get(begin(place, people["ann"], onward)).headers["location"] == "/"


def test_password_of_the_gateway_is_asked_for_nowhere(place: Place, people: dict[str, Person]) -> None:
    assert people["ann"].browser.post(f"{place.url}/oauth/login", data={"name": "ann"}).status_code == 405


def answer(browser: httpx2.Client, page: str) -> httpx2.Response:
    """Allow the call of the newest question on a page."""
    text = browser.get(page, follow_redirects=True).text
    form = dict(re.findall(r'name="(token)" value="([^"]*)"', text))
    newest = re.findall(r'<article class="card" data-key="([^"]*)"', text)[-1]
    return browser.post(page, data={**form, "id": newest, "answer": "allow"})


def test_person_does_not_answer_the_questions_of_their_own_apps(place: Place, people: dict[str, Person]) -> None:
    inbox, console = f"{place.url}/inbox/", f"{place.url}/console/inbox"
    ann, bob = (sign_in(place, people[name]) for name in ("ann", "bob"))
    assert inbox.rstrip("/") in asyncio.run(use(place.url, people["bob"], "publish"))
    refused = answer(bob, inbox)
    assert (refused.status_code, "your own app makes this call" in refused.text) == (403, True)
    assert answer(ann, console).status_code == 303
    assert asyncio.run(use(place.url, people["bob"], "publish")) == "published"
    # Nor does an operator, whose console shows the questions of all.
    assert inbox.rstrip("/") in asyncio.run(use(place.url, people["ann"], "publish"))
    for page in (inbox, console):
        assert answer(ann, page).status_code == 403


def test_group_of_the_issuer_answers_the_questions_about_a_tool(place: Place, people: dict[str, Person]) -> None:
    inbox = f"{place.url}/inbox/"
    browsers = {name: sign_in(place, one) for name, one in people.items()}
    assert inbox.rstrip("/") in asyncio.run(use(place.url, people["bob"], "close"))
    refused = answer(browsers["bob"], inbox)
    assert (refused.status_code, "for the users of leads" in refused.text) == (403, True)
    assert "close, for" not in browsers["eve"].get(inbox, follow_redirects=True).text
    assert answer(browsers["ann"], inbox).status_code == 303
    assert asyncio.run(use(place.url, people["bob"], "close")) == "closed"
    # One of the group does not answer for herself either.
    assert inbox.rstrip("/") in asyncio.run(use(place.url, people["ann"], "close"))
    assert answer(browsers["ann"], inbox).status_code == 403


def write_file(folder: Path, issuer: str) -> None:
    head = 'public-url = "http://127.0.0.1:9"\nstate = "kept"\n'
    text = TABLES.format(issuer=issuer, tasks="").partition("[upstreams.tasks]")[0]
    (folder / "toolwire.toml").write_text(head + text.replace(', "tasks"', ""))
    (folder / "desk.py").write_text(DESK)


def test_check_says_what_keeps_people_from_signing_in(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLWIRE_SETTINGS", "trust")
    write_file(tmp_path, place.issuer)
    assert main(["gateway", "check"]) == 2
    assert "environment variable GATEWAY_SECRET" in capsys.readouterr().err
    monkeypatch.setenv("GATEWAY_SECRET", "a secret of the tests")
    assert main(["gateway", "check"]) == 0
    assert "Nobody" not in capsys.readouterr().err
    write_file(tmp_path, f"{place.issuer}/")
    assert main(["gateway", "check"]) == 0
    assert "names another issuer" in capsys.readouterr().err
    assert main(["users", "add", "ann"]) == 2
    assert "Users sign in at" in capsys.readouterr().err


def test_operator_lists_who_signed_in_and_ends_what_they_began(
    place: Place, people: dict[str, Person], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place.folder)
    browser = sign_in(place, people["bob"])
    assert main(["users", "list", "--json"]) == 0
    bob = next(one for one in json.loads(capsys.readouterr().out) if one["name"] == "bob")
    assert bob["caller"].startswith("user:sub-bob:")
    assert main(["users", "sign-out", bob["caller"]]) == 0
    assert browser.get(f"{place.url}/oauth/connected").status_code == 303
