"""Two servers on one host, at two ports: who signs in at one stays signed in at the other, in a real browser."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from examples.tasks.app import Settings, create_app
from tests.browser.conftest import PASSWORD, QUICK
from tests.programs import find_free_port
from toolwire.hosting.gateway_sign_in import make_user_id
from toolwire.stores.oauth.accounts import Accounts
from toolwire.stores.oauth.database import OAuthStore

FILE = """
port = {port}
public-url = "http://127.0.0.1:{port}"
state = "kept"
consent = "inbox"

[sign-in]
name = "{name}"
operators = ["ann"]

[upstreams.desk]
target = "desk.py"
"""
DESK = '''
from toolwire import Toolkit

desk = Toolkit("Desk")


@desk.tool(approval="per-call")
def publish() -> str:
    """Publish it."""
    return "published"
'''


@contextmanager
def run_gateway(folder: Path, name: str) -> Iterator[str]:
    """Run a gateway at which Ann, its operator, and Bob may sign in, and give its URL."""
    (folder / "kept").mkdir(parents=True, mode=0o700)
    (folder / "desk.py").write_text(DESK)
    port = find_free_port()
    (folder / "toolwire.toml").write_text(FILE.format(port=port, name=name))
    with closing(Accounts(OAuthStore(str(folder / "kept" / "oauth.sqlite3")), hasher=QUICK)) as people:
        for person in ("ann", "bob"):
            assert people.add(person, PASSWORD, make_user_id(person)) is not None
    argv = [sys.executable, "-m", "toolwire", "gateway", "run"]
    process = subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        assert any("Ctrl-C" in line for line in process.stdout)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[list[str]]:
    with ExitStack() as ending:
        yield [ending.enter_context(run_gateway(tmp_path / name, name)) for name in ("First", "Second")]


def sign_in(page: Any, site: str) -> None:
    """Sign in at a gateway from its inbox on, as a person does."""
    page.goto(f"{site}/inbox/")
    page.get_by_role("link", name="Sign in with your account").click()
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Questions").wait_for()


@pytest.mark.requirement("AS-19", "GW-02", "D-38")
def test_sign_in_at_one_gateway_ends_none_at_another_on_the_same_host(page: Any, gateways: list[str]) -> None:
    for site in gateways:
        sign_in(page, site)
    names = {one["name"].rpartition("-")[0] for one in page.context.cookies() if one["path"] == "/"}
    assert names == {"toolwire-session"}
    assert len([one for one in page.context.cookies() if one["path"] == "/"]) == 2
    for site in gateways:
        page.goto(f"{site}/inbox/permissions")
        page.get_by_role("heading", name="Permissions").wait_for()
    # the first one forgets its own cookie of the inbox, and knows the person by their account still
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("You left this page.").wait_for()
    page.goto(f"{gateways[0]}/inbox/permissions")
    page.get_by_role("heading", name="Permissions").wait_for()


@pytest.mark.requirement("CO-02", "CO-04")
def test_operator_who_signs_in_opens_the_console_and_nobody_else_does(
    page: Any, tmp_path: Path, look: Callable[[str], None]
) -> None:
    with run_gateway(tmp_path / "Only", "Only") as site:
        page.goto(f"{site}/console/calls")
        look("console-people")
        for name, heading in (("bob", "Sign in to the console"), ("ann", "Calls")):
            page.get_by_role("link", name="Sign in with your account").click()
            page.get_by_label("Name").fill(name)
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("heading", name=heading, exact=True).wait_for()
            if name == "bob":
                page.get_by_text("You are signed in as bob, who is not an operator of this server.").wait_for()
                look("console-no-operator")
        look("console-operator")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_text("You left this page.").wait_for()
        look("console-left")


@pytest.mark.requirement("AS-19")
def test_sign_out_at_one_server_leaves_the_other_on_the_same_host(
    page: Any, tmp_path: Path, serve: Callable[..., str], sign_up: Callable[..., None]
) -> None:
    def build(name: str, url: str) -> Any:
        return create_app(Settings(url=url, database=f"sqlite:///{tmp_path}/{name}", hasher=QUICK))

    sites = [serve(partial(build, name)) for name in ("first.db", "second.db")]
    for site in sites:
        sign_up(page, site)
    for site in sites:
        page.goto(site)
        page.get_by_label("What is there to do?").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("link", name="Sign in").first.wait_for()
    page.goto(sites[0])
    page.get_by_label("What is there to do?").wait_for()
