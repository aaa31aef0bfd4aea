"""A program is named where its permissions, rules and decisions are listed; its address stands nowhere."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.console.conftest import Started
from toolwire.cli import main
from toolwire.client.transport.server_command import read_server_command
from toolwire.consent.decision_record import Decision
from toolwire.consent.grant import GrantKey
from toolwire.consent.origin_display import name_programs
from toolwire.core.model import Approval
from toolwire.core.url_origin import get_host, get_origin


@pytest.mark.requirement("FU-58")
def test_no_list_shows_the_address_that_stands_for_a_program(
    start: Callable[..., Started], capsys: pytest.CaptureFixture[str]
) -> None:
    command = read_server_command("stdio:python3 server.py")
    assert command is not None
    origin, name = get_origin(command.url), get_host(command.url)
    console = start(stores_actions=True)
    source = console.source
    source.grants.add(GrantKey("me", name, origin, "pay", "d1"))
    source.grants.pin_definition(GrantKey("me", name, origin, "pay", "d1"), {"name": "d"})
    source.preferences.set(origin, "pay", Approval.PER_CALL)
    record = Decision(
        at=1.0, principal="me", connection=name, tool="pay", binding="b", decision="allowed", channel="x", site=origin
    )
    source.audit.append(record)
    browser, words = console.browser(), f"program python3 ({command.digest[:8]})"
    for path in ("/", "/permissions", "/rules", "/log"):
        # The form that deletes a rule names its site in a field that nobody sees.
        page = re.sub(r'value="[^"]*"', "", browser.get(path).text)
        assert "stdio.invalid" not in page, path
        assert (words in page) is (path != "/" or "timeline" in page), path
    for arguments in ([], ["log"]):
        assert main(["approvals", "--path", str(source.place), *arguments]) == 0
        printed = capsys.readouterr().out
        assert "stdio.invalid" not in printed
        assert words in printed


@pytest.mark.requirement("FU-58")
@pytest.mark.parametrize(
    "address",
    [
        "https://bank.example",
        "https://stdio.invalid",
        "https://npx-0123456789abcdef.stdio.invalid",
        "https://npx-0123456789abcdef0123456789abcdef.stdio.invalid.evil.example",
        "me",
    ],
)
def test_only_the_address_of_a_program_is_named_so(address: str) -> None:
    assert name_programs(address) == address
