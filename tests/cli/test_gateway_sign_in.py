"""People sign in at a gateway itself, from a program of another maker, and are its callers."""

from __future__ import annotations

import asyncio
import html
import io
import json
import re
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import pytest

from tests.cli.conftest import Outcome
from tests.docs.page import ROOT
from tests.postgres import Postgres, shared_postgres  # noqa: F401 - the fixture
from tests.programs import find_free_port
from tests.support.caller_accounts import QUICK, Site, serve_site
from tests.support.gateway_process import run_gateway, serve_gateway, wait_for_line
from tests.support.inbox import wait_for
from tests.support.people import CALLBACK, PASSWORD, Person, read_fields, use, walk
from tests.support.proxies import run_proxy, trust_certificate
from tests.support.token_storage import Storage
from toolwire.console.sessions import OperatorSessions, SessionUser
from toolwire.hosting.gateway_sign_in import make_user_id
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.consent.open import open_used_nonces
from toolwire.stores.ledger.call_overview import CallOverview
from toolwire.stores.oauth.accounts import Accounts
from toolwire.stores.oauth.database import OAuthStore

LISTEN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "subscriptions/listen",
    "params": {
        "notifications": {"toolsListChanged": True},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        },
    },
}
"""A request to hear of changes."""
TABLES = """
[sign-in]
name = "The <b>team's</b> tools"
{section}

[callers.ann]
scopes = ["tasks", "desk"]

[callers.readers]
scopes = ["desk"]
members = ["bob"]
rate = "3/1m"

[upstreams.tasks]
target = "{tasks}"
agree = true
credentials = "caller"
scopes = ["tasks"]

[upstreams.desk]
target = "desk.py"
scopes = ["desk"]
"""
DESK = '''
from toolwire import Context, Toolkit

desk = Toolkit("Desk")


@desk.tool(safe=True, approval="auto")
def tell_name(context: Context) -> str:
    """Tell who calls."""
    return context.principal
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the gateway's file, with the key of its vault and a file of tools."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLWIRE_SETTINGS", "trust")
    (tmp_path / "desk.py").write_text(DESK)
    key = tmp_path / "vault.key"
    key.touch(mode=0o600)
    key.write_text(secrets.token_hex(32))
    return tmp_path


@pytest.fixture
def tasks(folder: Path) -> Iterator[Site]:
    with serve_site("Tasks", folder) as site:
        yield site


def write_file(folder: Path, site: Site, more: str = "", section: str = "", state: str = "kept") -> str:
    """Write the file of a gateway where people sign in, and return its URL."""
    port = find_free_port()
    head = f'port = {port}\npublic-url = "http://127.0.0.1:{port}"\nkey-file = "vault.key"\nstate = "{state}"\n{more}\n'
    (folder / "toolwire.toml").write_text(head + TABLES.format(section=section, tasks=site.url))
    return f"http://127.0.0.1:{port}"


def add_people(folder: Path, place: str = "") -> None:
    """Add Ann and Bob as `toolwire users add` does, with hashes that cost little: below ``folder``, or at ``place``."""
    if not place:
        (folder / "kept").mkdir(mode=0o700)
    with closing(Accounts(OAuthStore(place or str(folder / "kept" / "oauth.sqlite3")), hasher=QUICK)) as people:
        for name in ("ann", "bob"):
            assert people.add(name, PASSWORD, make_user_id(name)) is not None


def write_inbox(folder: Path, site: Site, section: str = "") -> str:
    """Write the file of a gateway with an inbox, a tool that asks and the people, and return its URL."""
    url = write_file(folder, site, 'consent = "inbox"', section)
    publish = '@desk.tool(approval="per-call")\ndef publish() -> str:\n    """Publish it."""\n    return "published"\n'
    (folder / "desk.py").write_text(f"{DESK}\n\n{publish}")
    add_people(folder)
    return url


@pytest.fixture
def people() -> Iterator[dict[str, Person]]:
    with httpx2.Client(timeout=30) as first, httpx2.Client(timeout=30) as second:
        yield {"ann": Person("ann", first, Storage()), "bob": Person("bob", second, Storage())}


def read_catalog(url: str, person: Person) -> int:
    """Return the status of a request of the list with the token of ``person``."""
    assert person.storage.tokens is not None
    headers = {"authorization": f"Bearer {person.storage.tokens.access_token}"}
    return httpx2.get(f"{url}/openapi.json", headers=headers).status_code


@pytest.mark.requirement("D-38", "GW-02")
@pytest.mark.parametrize("workers", [1, 2])
def test_people_sign_in_from_a_foreign_program_and_are_callers(
    folder: Path, tasks: Site, people: dict[str, Person], workers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    url = write_file(folder, tasks, f"workers = {workers}")
    add_people(folder)
    ann, bob = people["ann"], people["bob"]
    with run_gateway() as (process, _):
        seen: list[str] = []
        of_ann = asyncio.run(use(url, ann, seen=seen))
        assert of_ann == ["tell_name", "who_am_i_at_tasks", "write_at_tasks"]
        assert asyncio.run(use(url, bob, seen=(of_bob := []))) == ["tell_name"]
        # each is asked about their own scopes alone, and the name in the file is text
        assert "Use the tools of tasks" in seen[-1]
        assert "Use the tools of tasks" not in of_bob[-1]
        assert all("<b>team" not in page and "The &lt;b&gt;team&#x27;s&lt;/b&gt; tools" in page for page in seen)
        name = asyncio.run(use(url, ann, "tell_name"))
        assert re.fullmatch(r"user:ann:[0-9a-f]{12}", name)
        assert asyncio.run(use(url, bob, "tell_name")).startswith("user:bob:")
        # each has their own account at the upstream, reached with the session of their own browser
        message = asyncio.run(use(url, ann, "who_am_i_at_tasks"))
        assert f"{url}/sign-in/tasks" in message
        entry = ann.browser.get(f"{url}/sign-in/tasks")
        assert "You are signed in to this gateway as <b>ann</b>" in entry.text
        # without a referrer, a browser that came by http would send its form with "Origin: null"
        assert entry.headers["referrer-policy"] == "same-origin"
        done = walk(ann, f"{url}/sign-in/tasks", f"{url}/sign-in/return", name="Ada")
        assert "You are signed in to tasks" in ann.browser.get(done.headers["location"]).text
        # the authorization server of the upstream, at another port of this host, has signed nobody out here
        assert "signed in to this gateway as <b>ann</b>" in ann.browser.get(f"{url}/sign-in/tasks").text
        at_tasks = asyncio.run(use(url, ann, "who_am_i_at_tasks"))
        assert re.fullmatch(r"[0-9a-f]{32}", at_tasks)
        assert bob.browser.post(f"{url}/sign-in/tasks", data={}).status_code == 404  # not in his catalog
        process.send_signal(signal.SIGHUP)
        wait_for_line(process, "Reloaded")
        assert asyncio.run(use(url, ann, "tell_name")) == name  # a reload signs nobody out
        assert (read_catalog(url, ann), read_catalog(url, bob)) == (200, 200)
    assert ann.storage.tokens is not None
    assert not any(ann.storage.tokens.access_token.encode() in value for value in tasks.seen)
    stored = b"".join(path.read_bytes() for path in (folder / "kept").rglob("*") if path.is_file())
    assert PASSWORD.encode() not in stored
    assert ann.storage.tokens.access_token.encode() not in stored
    log = capfd.readouterr().err
    assert PASSWORD not in log


@pytest.mark.requirement("GW-02", "GW-04")
def test_people_who_signed_in_decide_in_an_inbox_of_their_own(
    toolwire: Any, folder: Path, tasks: Site, people: dict[str, Person]
) -> None:
    url = write_inbox(folder, tasks)
    ann, bob = people["ann"], people["bob"]
    with serve_gateway(url):
        for person in (ann, bob):
            assert f"{url}/inbox" in asyncio.run(use(url, person, "publish"))
        # the session of the browser that signed in is enough, and no other one is
        with httpx2.Client() as stranger:
            answer = stranger.get(f"{url}/inbox/")
            assert (answer.status_code, "publish" in answer.text) == (401, False)
            assert "/oauth/login" in answer.text
        forms = {}
        for person in (ann, bob):
            begun = person.browser.get(f"{url}/inbox/")
            assert (begun.status_code, begun.headers["location"]) == (303, "/inbox/")
            page = person.browser.get(f"{url}/inbox/").text
            assert page.count("<article") == 1
            assert re.search(rf"publish, for user:{person.name}:[0-9a-f]{{12}}", page)
            forms[person.name] = dict(re.findall(r'name="(token|id)" value="([^"]*)"', page.partition("<article")[2]))
        # neither the word of Ann's session nor her question is of use to Bob
        for form in (forms["ann"], {**forms["bob"], "id": forms["ann"]["id"]}):
            bob.browser.post(f"{url}/inbox/", data={**form, "answer": "allow"})
        assert f"{url}/inbox" in asyncio.run(use(url, ann, "publish"))
        done = ann.browser.post(f"{url}/inbox/", data={**forms["ann"], "answer": "allow"})
        assert done.status_code == 303
        assert asyncio.run(use(url, ann, "publish")) == "published"
        assert f"{url}/inbox" in asyncio.run(use(url, bob, "publish"))  # her answer is not his
        assert f"{url}/inbox" in asyncio.run(use(url, ann, "publish"))  # and was for one call
        left = bob.browser.post(f"{url}/inbox/sign-out", data=forms["bob"])
        assert (left.status_code, "You left this page." in left.text) == (200, True)
        assert bob.browser.get(f"{url}/inbox/").status_code == 303  # he did not leave the gateway
        assert bob.browser.get(f"{url}/inbox/").status_code == 200
        # who is signed out at the gateway, or removed, is let in no more: not for a page, a form or an event
        for action, person in (("sign-out", ann), ("remove", bob)):
            assert toolwire("users", action, person.name).code == 0
            form = {**forms[person.name], "answer": "allow"}
            assert person.browser.post(f"{url}/inbox/", data=form).status_code == 401
            assert [person.browser.get(f"{url}/inbox/{path}").status_code for path in ("", "events")] == [401, 401]


@pytest.mark.requirement("GW-02", "LC-05", "D-22")
def test_people_who_signed_in_see_the_pages_of_their_own_long_calls(
    toolwire: Any, folder: Path, tasks: Site, people: dict[str, Person]
) -> None:
    url = write_file(folder, tasks)
    build = (
        '@desk.tool(safe=True, approval="auto", long=True)\ndef build() -> str:\n    """Build."""\n    return "built"\n'
    )
    (folder / "desk.py").write_text(f"{DESK}\n\n{build}")
    add_people(folder)
    ann, bob = people["ann"], people["bob"]
    page, own = {"accept": "text/html"}, {"accept": "text/html", "origin": url}
    with run_gateway():
        for person in (ann, bob):
            asyncio.run(use(url, person))
        assert ann.storage.tokens is not None
        headers = {"authorization": f"Bearer {ann.storage.tokens.access_token}", "prefer": "respond-async"}
        address = url + httpx2.get(f"{url}/api/build", headers=headers).headers["location"]
        # a stranger is led to the page where people sign in, and back
        with httpx2.Client() as stranger:
            answer = stranger.get(address, headers=page)
            assert answer.status_code == 401
            assert f"/oauth/login?next=%2Fcalls%2F{address[-40:]}" in answer.text
            assert "Your key" not in answer.text  # nobody has one here
        assert "build" in ann.browser.get(address, headers=page).text
        assert ann.browser.get(address).status_code == 401  # data is for the token, as ever
        assert bob.browser.get(address, headers=page).status_code == 404
        listed = ann.browser.get(f"{url}/calls", headers=page).text
        assert address.removeprefix(url) in listed
        assert address.removeprefix(url) not in bob.browser.get(f"{url}/calls", headers=page).text
        # a form needs to say that it comes from here
        assert ann.browser.post(address, data={"step": "cancel"}, headers=page).status_code == 403
        foreign = {**page, "origin": "http://127.0.0.1:1"}
        assert ann.browser.post(address, data={"step": "cancel"}, headers=foreign).status_code == 403
        assert ann.browser.post(address, data={"step": "cancel"}, headers=own).status_code == 200
        assert bob.browser.post(address, data={"step": "cancel"}, headers=own).status_code == 404
        assert toolwire("users", "sign-out", "ann").code == 0
        assert ann.browser.get(address, headers=page).status_code == 401


@pytest.mark.requirement("CO-02", "D-22", "D-38", "AT-42")
def test_person_named_as_operator_opens_the_console_and_their_actions_are_recorded(
    toolwire: Any, folder: Path, tasks: Site, people: dict[str, Person]
) -> None:
    url = write_inbox(folder, tasks, 'operators = ["ann"]')
    ann, bob = people["ann"], people["bob"]
    with serve_gateway(url):
        for person in (ann, bob):
            assert f"{url}/inbox" in asyncio.run(use(url, person, "publish"))
        # who is not named, or not signed in, is let in nowhere; nobody has a key here
        with httpx2.Client() as stranger:
            answer = stranger.get(f"{url}/console/log")
            assert answer.status_code == 401
            assert "/oauth/login?next=%2Fconsole%2Flog" in answer.text
            assert 'type="password"' not in answer.text
            assert stranger.post(f"{url}/console/sign-in", data={"key": "x", "next": "/"}).status_code == 403
        for path in ("", "/inbox", "/log"):
            refused = bob.browser.get(f"{url}/console{path}")
            assert (refused.status_code, "publish" in refused.text) == (403, False)
            assert "You are signed in as bob, who is not an operator of this server." in refused.text
        assert bob.browser.get(f"{url}/console/events").status_code == 401
        # what signs the cookies is in the state: with it alone, nobody gets in
        secret = sha256(open_used_nonces(folder / "kept").key + b"console").digest()
        forge = OperatorSessions(lambda _: None, secret=secret).start_for
        for name in ("ann", "key:ann", "user:ann:000000000000"):
            for has_account in (False, True):
                cookie = forge(SessionUser(name, 600.0, has_account=has_account))
                fields = {"cookie": f"toolwire_console_{urlsplit(url).port}={cookie}"}
                assert httpx2.get(f"{url}/console/log", headers=fields).status_code == 401
        # the session of the gateway begins one of the console
        assert ann.browser.get(f"{url}/console/inbox").headers["location"] == "/console/inbox"
        page = ann.browser.get(f"{url}/console/inbox").text
        assert page.count("<article") == 2
        of_bob = page[page.index("for user:bob:") :]
        form = dict(re.findall(r'name="(token|id)" value="([^"]*)"', of_bob))
        foreign = {"origin": "http://127.0.0.1:1", "sec-fetch-site": "same-site"}
        allow = {**form, "answer": "allow"}
        assert ann.browser.post(f"{url}/console/inbox", data=allow, headers=foreign).status_code == 403
        assert ann.browser.post(f"{url}/console/inbox", data={**allow, "token": "x"}).status_code == 403
        assert bob.browser.post(f"{url}/console/inbox", data=allow).status_code == 401
        assert ann.browser.post(f"{url}/console/inbox", data=allow).status_code == 303
        assert asyncio.run(use(url, bob, "publish")) == "published"
        assert f"{url}/inbox" in asyncio.run(use(url, ann, "publish"))
        records = [one for one in read_records(toolwire) if one["channel"] == "console"]
        # the answer, and the call that it let run
        assert [(one["decision"], one["tool"]) for one in records] == [
            ("allowed", "publish"),
            ("allowed", "Desk.publish@1.0.0"),
        ]
        assert re.fullmatch("user:ann:[0-9a-f]{12}", records[0]["principal"])
        # a sign-out of the console, and one of the gateway
        left = ann.browser.post(f"{url}/console/sign-out", data=form)
        assert (left.status_code, "You left this page." in left.text) == (200, True)
        ann.browser.get(f"{url}/console/")
        assert ann.browser.get(f"{url}/console/").status_code == 200
        assert toolwire("users", "sign-out", "ann").code == 0
        assert [ann.browser.get(f"{url}/console/{path}").status_code for path in ("", "events")] == [401, 401]


def read_records(toolwire: Any) -> list[dict[str, Any]]:
    """Return the audit log of the gateway."""
    out = toolwire("approvals", "log", "--path", "kept", "--json").out
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.requirement("CO-02")
@pytest.mark.parametrize("wrong", ['"ann"', '["*"]', '[""]', "[1]"])
def test_operators_are_named_one_by_one(toolwire: Any, folder: Path, tasks: Site, wrong: str) -> None:
    write_file(folder, tasks, section=f"operators = {wrong}")
    outcome = toolwire("gateway", "check")
    assert outcome.code == 2
    assert "operators" in outcome.err or "each person" in outcome.err


@pytest.mark.requirement("CO-02")
def test_nobody_opens_the_console_where_the_file_names_no_operator(
    folder: Path, tasks: Site, people: dict[str, Person]
) -> None:
    url = write_file(folder, tasks)
    add_people(folder)
    with serve_gateway(url):
        sign_in_at(people["ann"].browser, url, "ann", PASSWORD)
        answer = people["ann"].browser.get(f"{url}/console/")
        assert (answer.status_code, "html" in answer.headers["content-type"]) == (
            401,
            False,
        )  # as any path that is none


def add_by_command(toolwire: Any, monkeypatch: pytest.MonkeyPatch, name: str, password: str = PASSWORD) -> Outcome:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
    outcome: Outcome = toolwire("users", "add", name)
    return outcome


@pytest.mark.requirement("D-38", "GW-02")
def test_person_who_is_removed_stops_at_once_and_leaves_nothing_to_a_namesake(
    toolwire: Any, monkeypatch: pytest.MonkeyPatch, folder: Path, tasks: Site, people: dict[str, Person]
) -> None:
    url = write_file(folder, tasks)
    assert add_by_command(toolwire, monkeypatch, "ann").out.startswith("ann can now sign in.")
    ann = people["ann"]
    with serve_gateway(url):
        asyncio.run(use(url, ann))
        walk(ann, f"{url}/sign-in/tasks", f"{url}/sign-in/return", name="Ada")
        assert read_catalog(url, ann) == 200
        (listed,) = json.loads(toolwire("users", "list", "--json").out)
        assert (listed["name"], listed["scopes"]) == ("ann", ["desk", "tasks"])
        assert json.loads(toolwire("users", "sign-out", "ann", "--json").out)["apps"] == 1
        assert read_catalog(url, ann) == 401  # in the process of the gateway too, without a delay
        assert "Sign in to" in ann.browser.get(f"{url}/sign-in/tasks", follow_redirects=True).text
        again = Person("ann", httpx2.Client(timeout=30), Storage())
        with again.browser:
            asyncio.run(use(url, again))
            assert read_catalog(url, again) == 200
            removed = json.loads(toolwire("users", "remove", "ann", "--json").out)
            assert (removed["apps"], read_catalog(url, again)) == (1, 401)
            assert "Wrong name or password." in sign_in_at(again.browser, url, "ann", PASSWORD).text
        assert add_by_command(toolwire, monkeypatch, "ann").code == 0
        other = json.loads(toolwire("users", "list", "--json").out)[0]["caller"]
        assert other != removed["caller"]
    assert PASSWORD not in toolwire("users", "list").out


@pytest.mark.requirement("D-38", "GW-02")
def test_streams_of_a_person_end_with_their_access(
    toolwire: Any, folder: Path, tasks: Site, people: dict[str, Person]
) -> None:
    url = write_file(folder, tasks)
    wait = """@desk.tool(long=True, safe=False, approval="auto")
async def wait() -> str:
    import asyncio
    await asyncio.Event().wait()
    return "never"
"""
    (folder / "desk.py").write_text(f"{DESK}\n\n{wait}")
    add_people(folder)
    ann, bob = people["ann"], people["bob"]
    with run_gateway(), ExitStack() as ending:
        streams = []
        for person in (ann, bob):
            asyncio.run(use(url, person))
            assert person.storage.tokens is not None
            fields = {"authorization": f"Bearer {person.storage.tokens.access_token}", "prefer": "respond-async"}
            call = httpx2.post(f"{url}/api/wait", headers=fields, json={}).headers["location"]
            version = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
            for method, path, more, body in (
                ("GET", call, {"accept": "text/event-stream"}, None),
                ("POST", "/mcp", {**version, "accept": "application/json, text/event-stream"}, LISTEN),
            ):
                opened = httpx2.stream(method, f"{url}{path}", headers=fields | more, json=body, timeout=30)
                stream = ending.enter_context(opened)
                assert (stream.status_code, stream.headers["content-type"]) == (200, "text/event-stream"), path
                pieces = stream.iter_bytes()
                assert next(pieces)
                streams.append(pieces)
        assert toolwire("users", "sign-out", "ann").code == 0
        overdue = time.monotonic() + 60
        for pieces in streams[:2]:
            for _ in pieces:
                assert time.monotonic() < overdue, "the stream goes on"
        assert next(streams[2])  # those of others go on


@pytest.mark.requirement("D-38", "GW-02")
def test_long_calls_of_a_person_who_is_removed_do_not_run(
    toolwire: Any, folder: Path, tasks: Site, people: dict[str, Person]
) -> None:
    url = write_file(folder, tasks)
    file = folder / "toolwire.toml"
    file.write_text(file.read_text().replace("[callers.ann]", '[callers.ann]\nquestions = "inbox"'))
    render = """@desk.tool(long=True, approval="per-call")
def render() -> str:
    from pathlib import Path
    Path("rendered").touch()
    return "rendered"
"""
    (folder / "desk.py").write_text(f"{DESK}\n\n{render}")
    add_people(folder)
    ann = people["ann"]
    calls = CallOverview(folder / "kept" / "calls.sqlite")
    with run_gateway():
        asyncio.run(use(url, ann))
        assert ann.storage.tokens is not None
        fields = {"authorization": f"Bearer {ann.storage.tokens.access_token}", "prefer": "respond-async"}
        assert httpx2.post(f"{url}/api/render", headers=fields, json={}).status_code == 202
        [asked] = wait_for(Approvals(folder / "kept").list_pending)
        wait_for(lambda: calls.list_recent(1)[0].status.state == "waiting")
        assert json.loads(toolwire("users", "remove", "ann", "--json").out)["calls"] == 1
        # The operator answers what still stands in the list.
        assert toolwire("approvals", "--path", "kept", "allow", asked.id).code == 0
        wait_for(lambda: calls.list_recent(1)[0].status.state.is_final)
        assert calls.list_recent(1)[0].status.state == "cancelled"
    assert not (folder / "rendered").exists()


def sign_in_at(browser: httpx2.Client, url: str, name: str, password: str, onward: str = "/", **more: str) -> Any:
    """Send the form of the sign-in page, and return the response to it."""
    page = browser.get(f"{url}/oauth/login", params={"next": onward})
    form = dict(read_fields(page.text)) | {"name": name, "password": password} | more
    return browser.post(f"{url}/oauth/login", data=form)


@pytest.mark.requirement("D-09", "D-38", "GW-02")
def test_nobody_signs_in_at_an_upstream_for_a_caller_who_planted_a_cookie(
    folder: Path, tasks: Site, people: dict[str, Person]
) -> None:
    url = write_file(folder, tasks)
    text = (folder / "toolwire.toml").read_text()
    (folder / "toolwire.toml").write_text(text.replace('scopes = ["desk"]\nmembers', 'scopes = ["tasks"]\nmembers'))
    add_people(folder)
    ann, bob = people["ann"], people["bob"]
    with serve_gateway(url), httpx2.Client(timeout=30) as stranger:
        for person in (ann, bob):
            assert sign_in_at(person.browser, url, person.name, PASSWORD).status_code == 303
        # Bob begins, and has others go on: his cookie comes from another port of this host, or another name of it.
        for victim in (ann.browser, stranger):
            begun = bob.browser.post(f"{url}/sign-in/tasks", data={})
            onward = html.unescape(re.findall(r'class="button primary" href="([^"]*)"', begun.text)[0])
            [(name, value)] = [one for one in bob.browser.cookies.items() if "sign-in" in one[0]]
            victim.cookies.set(name, value, domain="127.0.0.1")
            done = walk(Person("Ada", victim, Storage()), onward, f"{url}/sign-in/return")
            refused = victim.get(done.headers["location"])
            assert (refused.status_code, "did not begin in this browser" in refused.text) == (400, True)
        done = walk(bob, f"{url}/sign-in/tasks", f"{url}/sign-in/return", name="Bob")
        assert "You are signed in to tasks" in bob.browser.get(done.headers["location"]).text


@pytest.mark.requirement("D-38", "GW-02", "AS-19")
def test_form_of_the_password_takes_no_forgery_and_leads_nowhere_else(
    folder: Path, tasks: Site, people: dict[str, Person]
) -> None:
    url = write_file(folder, tasks)
    add_people(folder)
    browser = people["ann"].browser
    with serve_gateway(url):
        page = browser.get(f"{url}/oauth/login")
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-frame-options"] == "DENY"
        # forged: from another site, without a session, and with the word of another session
        form = {"name": "ann", "password": PASSWORD, **read_fields(page.text)}
        foreign = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
        assert browser.post(f"{url}/oauth/login", data=form, headers=foreign).status_code == 403
        assert httpx2.post(f"{url}/oauth/login", data=form).status_code == 403
        assert people["bob"].browser.get(f"{url}/oauth/login").status_code == 200
        assert people["bob"].browser.post(f"{url}/oauth/login", data=form).status_code == 403
        # a host name that leads to this machine is none of the gateway's
        assert browser.get(f"{url}/oauth/login", headers={"host": "evil.example"}).status_code == 421
        # who there is, is not told: both sentences are one, and both count
        for name in ("ann", "nobody"):
            assert "Wrong name or password." in sign_in_at(browser, url, name, "wrong words").text
        for onward in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/\t/evil"):
            done = sign_in_at(browser, url, "ann", PASSWORD, next=onward)
            assert (done.status_code, done.headers["location"]) == (303, "/"), onward
        (name,) = browser.cookies
        assert name.startswith("toolwire-session-")
        planted = browser.cookies[name]
        assert (
            sign_in_at(browser, url, "ann", PASSWORD, onward="/sign-in/tasks").headers["location"] == "/sign-in/tasks"
        )
        assert browser.cookies[name] != planted  # no session of before is one of who signed in
        with httpx2.Client(cookies={name: planted}) as thief:
            assert "signed in to this gateway as" not in thief.get(f"{url}/sign-in/tasks").text
        replies = [sign_in_at(browser, url, "bob", "wrong words").text for _ in range(6)]
        assert "Too many attempts for this name from your address. Wait a minute." in replies[-1]


@pytest.mark.requirement("D-38", "GW-02", "AS-08")
def test_token_of_one_gateway_or_person_is_none_of_another(
    folder: Path, tasks: Site, people: dict[str, Person], tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = write_file(folder, tasks)
    add_people(folder)
    ann, bob = people["ann"], people["bob"]
    with serve_gateway(url):
        asyncio.run(use(url, ann))
        asyncio.run(use(url, bob))
        assert ann.storage.tokens is not None
        assert bob.storage.tokens is not None
        forms = {"client_id": bob.storage.client.client_id, "grant_type": "refresh_token"}  # type: ignore[union-attr]
        stolen = {**forms, "refresh_token": ann.storage.tokens.refresh_token}
        assert httpx2.post(f"{url}/oauth/token", data=stolen).status_code == 400
        headers = {"authorization": f"Bearer {bob.storage.tokens.access_token}", "x-api-key": "key-of-ann"}
        paths = httpx2.get(f"{url}/openapi.json", headers=headers).json()["paths"]
        assert not any("who_am_i_at_tasks" in path for path in paths)
        # and a limit of a group counts for each of its members
        (path,) = (path for path in paths if "tell_name" in path)
        assert [httpx2.get(f"{url}{path}", headers=headers).status_code for _ in range(4)] == [200, 200, 200, 429]
    # another gateway of the same state: its people are the same, and its tokens are not
    elsewhere = write_file(folder, tasks)
    with run_gateway():
        assert read_catalog(elsewhere, bob) == 401


@pytest.mark.requirement("GW-02")
def test_people_are_kept_in_a_postgresql_too(
    folder: Path,
    tasks: Site,
    people: dict[str, Person],
    shared_postgres: Postgres,  # noqa: F811 - the fixture
) -> None:
    place = shared_postgres.create_database()
    url = write_file(folder, tasks, "workers = 2", state=place)
    add_people(folder, place)
    with run_gateway():
        assert asyncio.run(use(url, people["bob"])) == ["tell_name"]
        assert asyncio.run(use(url, people["ann"], "tell_name")).startswith("user:ann:")


CLIENT = '[sign-in.clients.editor]\nname = "Editor"\nredirect-uris = ["http://127.0.0.1/callback"]'


@pytest.mark.requirement("D-38", "GW-02")
def test_only_apps_of_the_operator_are_let_in_where_none_registers_itself(folder: Path, tasks: Site) -> None:
    url = write_file(folder, tasks, section=f"registration = false\n{CLIENT}")
    with serve_gateway(url):
        metadata = httpx2.get(f"{url}/.well-known/oauth-authorization-server").json()
        assert "registration_endpoint" not in metadata
        assert (
            httpx2.post(f"{url}/oauth/register", json={"redirect_uris": [CALLBACK]}).status_code == 401
        )  # no path of the gateway
        asked = {"response_type": "code", "code_challenge": "x" * 43, "code_challenge_method": "S256"}
        known = {**asked, "client_id": "editor", "redirect_uri": CALLBACK}
        assert httpx2.get(f"{url}/oauth/authorize", params=known).status_code == 303
        other = {**known, "redirect_uri": "https://evil.example/callback"}
        assert httpx2.get(f"{url}/oauth/authorize", params=other).status_code == 400
        assert httpx2.get(f"{url}/oauth/authorize", params={**known, "client_id": "app-1"}).status_code == 400


FAULTS = [
    ("[sign-in]\ncolour = 1", 'toolwire.toml:3:1: there is no option "colour" here'),
    ("[sign-in]\ncache = 61", "toolwire.toml:3:1: cache is 0 to 60, not 61."),
    ('[sign-in]\nregistration = "no"', "toolwire.toml:3:1: registration must be true or false, not a string."),
    ('[sign-in]\nname = "a\\u202eb"', "toolwire.toml:3:1: name is a text of at most 60 printable characters."),
    ('[sign-in]\ndefault-scopes = ["x"]', "toolwire.toml:3:1: there is no scope 'x' in this file."),
    ('[sign-in.scopes]\n"a b" = "Words"', "toolwire.toml:3:1: 'a b' is not a scope: one word of ASCII."),
    ("[sign-in.clients.a]", 'toolwire.toml:2:1: a client needs "redirect-uris", an array of URLs.'),
    ('[sign-in.clients.a]\nredirect-uris = ["http://evil.example/"]', "toolwire.toml:3:1: "),
    ("sign-in = 1", "toolwire.toml:2:1: sign-in is a table, not a number."),
    ('public-url = "http://tools.example"\n[sign-in]', "toolwire.toml:2:1: people send passwords there, so"),
    ('public-url = "https://tools.example/?a=1"\n[sign-in]', "toolwire.toml:2:1: where people sign in, public-url has"),
    ('[callers.a]\nmembers = ["b"]\n[callers.b]', "toolwire.toml:3:1: 'b' has a table, or is in another group."),
    ("[callers.a]\nmembers = 1", "toolwire.toml:3:1: members is an array of names of callers."),
    ('[sign-in]\nissuer = "http://login.example"\nclient-id = "a"', "toolwire.toml:3:1: issuer is an https URL"),
    ('[sign-in]\nissuer = "https://login.example"', "toolwire.toml:3:1: an issuer needs client-id"),
    ('[sign-in]\noperator-groups = ["a"]', "toolwire.toml:3:1: operator-groups is for people who sign in elsewhere"),
    (
        '[sign-in]\nissuer = "https://a.example"\nclient-id = "a"\nclaims = [1]',
        "toolwire.toml:5:1: sign-in: condition 1",
    ),
    (
        "[sign-in]",
        (
            "Users and their sign-ins are stored in the state. Set it to a folder or a PostgreSQL URL, such as "
            'state = "state"'
        ),
    ),
]


@pytest.mark.requirement("GW-02")
@pytest.mark.parametrize(("text", "sentence"), FAULTS)
def test_fault_of_a_sign_in_has_its_line_and_column(toolwire: Any, folder: Path, text: str, sentence: str) -> None:
    (folder / "toolwire.toml").write_text(
        f'allow-host = ["127.0.0.1:9"]\n{text}\n[upstreams.desk]\ntarget = "desk.py"\n'
    )
    outcome: Outcome = toolwire("gateway", "check")
    assert outcome.code == 2
    assert sentence in outcome.err, outcome.err


@pytest.mark.requirement("GW-02")
def test_list_and_check_tell_where_people_sign_in(toolwire: Any, folder: Path, tasks: Site) -> None:
    url = write_file(folder, tasks)
    assert f"Users sign in at {url}." in toolwire("gateway", "list").out
    rows = json.loads(toolwire("gateway", "list", "--json").out)
    assert [(one["name"], one["credentials"], one["sign_in"]) for one in rows] == [
        ("tasks", "caller", url),
        ("desk", "gateway", url),
    ]
    assert toolwire("gateway", "check").code == 0


@pytest.mark.requirement("GW-02")
def test_users_command_says_what_is_wrong_in_a_sentence(
    toolwire: Any, monkeypatch: pytest.MonkeyPatch, folder: Path, tasks: Site
) -> None:
    write_file(folder, tasks)
    assert toolwire("users", "list").out == "No users yet. Add one: `toolwire users add NAME`.\n"
    assert add_by_command(toolwire, monkeypatch, "ann").code == 0
    assert "already has an account. `toolwire users password" in add_by_command(toolwire, monkeypatch, "Ann").err
    assert "8 to 1,024 characters" in add_by_command(toolwire, monkeypatch, "bob", "short").err
    for name in ("a b", "key:bob", "-", "é", "x" * 41):
        assert add_by_command(toolwire, monkeypatch, name).code == 2, name
    assert "Unknown user 'bob'" in toolwire("users", "remove", "bob").err
    assert "`users add` needs a user name" in toolwire("users", "add").err
    assert "list prints all users. Leave out the name" in toolwire("users", "list", "ann").err
    monkeypatch.setattr("sys.stdin", io.StringIO("another word\n"))
    assert toolwire("users", "password", "ann").out.startswith("Password changed for ann.")
    (folder / "toolwire.toml").write_text('[upstreams.desk]\ntarget = "desk.py"\n')
    assert "Users cannot sign in at this gateway" in toolwire("users", "list").err


@pytest.mark.requirement("CR-02", "GW-02")
def test_people_sign_in_at_a_gateway_below_a_path(folder: Path, tasks: Site) -> None:
    front, port = find_free_port(), find_free_port()
    url = f"https://127.0.0.1:{front}/team"
    write_file(folder, tasks)
    head = f'port = {port}\npublic-url = "{url}"\nroot-path = "/team"\ntrusted-proxies = ["127.0.0.1"]\n'
    head += 'key-file = "vault.key"\nstate = "kept"\nconsent = "inbox"\n'
    section = 'operators = ["ann"]'
    (folder / "toolwire.toml").write_text(head + TABLES.format(section=section, tasks=tasks.url))
    publish = '@desk.tool(approval="per-call")\ndef publish() -> str:\n    """Publish it."""\n    return "published"\n'
    long = (
        '@desk.tool(safe=True, approval="auto", long=True)\ndef build() -> str:\n    """Build."""\n    return "built"\n'
    )
    (folder / "desk.py").write_text(f"{DESK}\n\n{publish}\n\n{long}")
    add_people(folder)
    with run_gateway(), run_proxy("nginx", folder, port, front, put_below("/team")):
        trust = trust_certificate(folder)
        with httpx2.Client(timeout=30, verify=trust) as browser, httpx2.Client(timeout=30, verify=trust) as stranger:
            ann = Person("ann", browser, Storage())
            seen = ["publish", "tell_name", "who_am_i_at_tasks", "write_at_tasks"]
            assert set(asyncio.run(use(url, ann, verify=trust))) >= set(seen)
            assert f"{url}/sign-in/tasks" in asyncio.run(use(url, ann, "who_am_i_at_tasks", verify=trust))
            # who is not signed in is led to the page below the path, and back
            for page in ("sign-in/tasks", "inbox/", "console/"):
                led = stranger.get(f"{url}/{page}")
                found = led.headers.get("location") or html.unescape(led.text)
                back = quote(f"/team/{page}", safe="")
                assert f"/team/oauth/login?next={back}" in found, led.text
            led = stranger.get(f"{url}/oauth/login", params={"next": "/team/sign-in/tasks"})
            assert 'action="/team/oauth/login"' in led.text
            done = walk(ann, f"{url}/sign-in/tasks", f"{url}/sign-in/return", name="Ada")
            assert "You are signed in to tasks" in browser.get(str(done.headers["location"])).text
            assert re.fullmatch(r"[0-9a-f]{32}", asyncio.run(use(url, ann, "who_am_i_at_tasks", verify=trust)))
            # the inbox, the console and the page of a long call know the user of the browser
            assert f"{url}/inbox" in asyncio.run(use(url, ann, "publish", verify=trust))
            browser.get(f"{url}/inbox/")
            page = browser.get(f"{url}/inbox/").text
            form = dict(re.findall(r'name="(token|id)" value="([^"]*)"', page.partition("<article")[2]))
            origin = {"origin": f"https://127.0.0.1:{front}"}
            assert browser.post(f"{url}/inbox/", data={**form, "answer": "allow"}, headers=origin).status_code == 303
            assert asyncio.run(use(url, ann, "publish", verify=trust)) == "published"
            browser.get(f"{url}/console/")
            assert browser.get(f"{url}/console/").status_code == 200
            assert ann.storage.tokens is not None
            fields = {"authorization": f"Bearer {ann.storage.tokens.access_token}", "prefer": "respond-async"}
            address = str(browser.get(f"{url}/api/build", headers=fields).headers["location"])
            asked = {"accept": "text/html"}
            call = httpx2.URL(f"{url}/").join(address)
            led = stranger.get(call, headers=asked)
            assert f"/team/oauth/login?next={quote(call.path, safe='')}" in html.unescape(led.text)
            assert "build" in browser.get(call, headers=asked).text


def put_below(path: str) -> Callable[[str], str]:
    """Return what changes the configuration of nginx as behind-a-proxy.md says for a server below ``path``."""

    def change(text: str) -> str:
        text = text.replace("proxy_pass http://toolwire;", "proxy_pass http://toolwire/;")
        well_known = "location /.well-known/oauth- { proxy_pass http://toolwire; }"
        assert well_known in (ROOT / "docs/how-to/behind-a-proxy.md").read_text("utf-8")
        return text.replace("    location / {", f"    {well_known}\n    location {path}/ {{")

    return change
