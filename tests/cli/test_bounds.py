"""A user sets the bounds of an "always" at the terminal or for a stored question, and sees what is left of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.silent_bank import SilentBank
from tests.support.waiting import wait_until
from toolwire import Toolkit, asgi
from toolwire.stores.consent.approvals import Approvals
from toolwire.testing import background

ASKED = b"a, or only within bounds: b. Call it? [y/N] "
LAST = b"Call it, and allow that too? [y/N] "


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the decisions of a test are kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "toolwire"


@pytest.fixture
def bank() -> Iterator[tuple[str, list[Any]]]:
    """The URL of a bank, and what it paid."""
    kit, paid = Toolkit("Bank"), list[Any]()

    @kit.tool(approval="per-call", blanket_allowed=True)
    def pay(to: str, amount: float) -> str:
        """Pay somebody."""
        paid.append((to, amount))
        return "paid"

    with background(asgi(kit)) as url:
        yield url, paid


def pay(toolwire: Callable[..., Any], url: str, to: str, amount: float) -> bool:
    return bool(toolwire("call", url, "pay", f"to={to}", f"amount={amount}").code == 0)


@pytest.mark.requirement("CC-03")
def test_grant_bounds_are_set_at_the_terminal_listed_and_used_up(
    bank: tuple[str, list[Any]], terminal: Callable[..., Any], toolwire: Callable[..., Any]
) -> None:
    url, paid = bank
    at = terminal("call", url, "pay", "to=Ada", "amount=20", NO_COLOR="1", TZ="UTC")
    at.wait_for(ASKED)
    at.type("b")
    for prompt, entry in (
        (b'to = "Ada" [this value only]: ', "in Ada, Bob"),
        (b"amount = 20 [this value only]: ", "cheap"),
        (b"not 'cheap'.", "<= 50"),
        (b"amount at least [0; * for no lower bound]: ", "*"),
        (b"How many calls? [10]: ", "2"),
        (b"Until when, such as friday or 12h? [30 days]: ", "7d"),
        (LAST, "y"),
    ):
        at.wait_for(prompt)
        at.type(entry)
    assert at.end() == 0
    reply = '/to is one of ["Ada", "Bob"] and /amount is at most 50; 2 more calls'
    assert f"Without a question: {reply}; until 20".encode() in at.shown
    assert reply in toolwire("approvals").out
    [grant] = json.loads(toolwire("approvals", "--json").out)["grants"]
    assert grant["uses_left"] == 2
    assert grant["covers"] == reply
    assert grant["conditions"][1] == {"pointer": "/amount", "op": "le", "value": 50}
    assert not pay(toolwire, url, "Eve", 1)
    assert not pay(toolwire, url, "Ada", 51)
    assert pay(toolwire, url, "Bob", 50)
    assert "1 more call" in toolwire("approvals").out
    assert pay(toolwire, url, "Ada", 1)
    assert toolwire("approvals").out.startswith("No questions are pending")
    assert not pay(toolwire, url, "Ada", 1)
    assert paid == [("Ada", 20), ("Bob", 50), ("Ada", 1)]


@pytest.mark.requirement("QF-03")
def test_sum_of_later_payments_is_set_at_the_terminal_and_listed_with_what_it_covered(
    bank: tuple[str, list[Any]], terminal: Callable[..., Any], toolwire: Callable[..., Any]
) -> None:
    url, paid = bank
    at = terminal("call", url, "pay", "to=Ada", "amount=20", NO_COLOR="1")
    for prompt, entry in (
        (ASKED, "b"),
        (b"to = ", ""),
        (b"amount = ", "<= 50 and sum 60.5"),
        (b"amount at least", ""),
        (b"calls?", "*"),
        (b"Until", ""),
        (LAST, "y"),
    ):
        at.wait_for(prompt)
        at.type(entry)
    assert at.end() == 0
    assert "/amount of all these calls is together at most 60.5" in toolwire("approvals").out
    assert [pay(toolwire, url, "Ada", amount) for amount in (51, 40, 20.6, 20.5)] == [False, True, False, True]
    assert "2 calls, 60.5 of 60.5, last" in toolwire("approvals").out
    assert json.loads(toolwire("approvals", "--json").out)["grants"][0]["covered_sum"] == "60.5 of 60.5"
    assert [amount for _, amount in paid] == [20, 40, 20.5]


@pytest.mark.requirement("CC-03")
def test_empty_bound_means_this_value_only_and_revoke_ends_the_grant(
    bank: tuple[str, list[Any]], terminal: Callable[..., Any], toolwire: Callable[..., Any]
) -> None:
    url, paid = bank
    at = terminal("call", url, "pay", "to=Ada", "amount=20", NO_COLOR="1")
    for prompt, entry in (
        (ASKED, "b"),
        *((one, "") for one in (b"to = ", b"amount = ", b"calls?", b"Until")),
        (LAST, "y"),
    ):
        at.wait_for(prompt)
        at.type(entry)
    assert at.end() == 0
    listed = toolwire("approvals").out
    assert '/to is "Ada" and /amount is 20; 10 more calls' in listed
    assert pay(toolwire, url, "Ada", 20)
    assert not pay(toolwire, url, "Ada", 20.5)
    assert toolwire("approvals", "revoke", listed.splitlines()[1].split()[0]).code == 0
    assert not pay(toolwire, url, "Ada", 20)
    assert len(paid) == 2


@pytest.mark.requirement("CC-03", "XL-053")
@pytest.mark.parametrize("entries", [["b", "*", "*", "", "", ""], ["b", "*", "*", "*", ""], ["b", "a", "b", "c"]])
def test_without_final_confirmation_nothing_is_called_or_stored(
    bank: tuple[str, list[Any]], terminal: Callable[..., Any], toolwire: Callable[..., Any], entries: list[str]
) -> None:
    url, paid = bank
    at = terminal("call", url, "pay", "to=Ada", "amount=20", NO_COLOR="1")
    at.wait_for(ASKED)
    for entry in entries:
        at.type(entry)
    assert at.end() == 3
    assert paid == []
    assert toolwire("approvals").out.startswith("No questions are pending")


@pytest.mark.requirement("AT-49")
def test_arguments_that_the_user_did_not_see_are_asked_about(
    terminal: Callable[..., Any], toolwire: Callable[..., Any]
) -> None:
    kit, sent = Toolkit("Mail"), list[Any]()

    @kit.tool(approval="per-call", blanket_allowed=True)
    def send(to: str, amount: float, bcc: str = "", repeat: int = 1) -> str:
        """Send something."""
        sent.append((to, amount, bcc, repeat))
        return "sent"

    with background(asgi(kit)) as url:
        at = terminal("call", url, "send", "to=Ada", "amount=20", NO_COLOR="1")
        for prompt, entry in (
            (ASKED, "b"),
            (b"to = ", "matches Ada|Bob"),
            (b"amount = ", "<= 50"),
            (b"amount at least [0; * for no lower bound]: ", ""),
            (b"Other arguments (bcc, repeat) [never; * for any]: ", "perhaps"),
            (b"or nothing.", ""),
            (b"calls?", "*"),
            (b"Until", ""),
            (LAST, "y"),
        ):
            at.wait_for(prompt)
            at.type(entry)
        assert at.end() == 0
        listed = toolwire("approvals").out
        assert '/to matches "Ada|Bob" as a whole and /amount is at most 50 and /amount is at least 0' in listed
        for covered, words in (
            (True, ("to=Bob", "amount=50")),
            (True, ("to=Ada", "amount=0")),
            (False, ("to=Ada", "amount=-1000")),
            (False, ("to=Ada Eve", "amount=1")),
            (False, ("to=Eve, Ada", "amount=1")),
            (False, ("to=Ada", "amount=1", "bcc=Eve")),
            (False, ("to=Ada", "amount=1", "repeat=100")),
            (False, ("to=Ada", "amount=1", "bcc=")),
        ):
            assert (toolwire("call", url, "send", *words).code == 0) is covered, words
    assert sent == [("Ada", 20, "", 1), ("Bob", 50, "", 1), ("Ada", 0, "", 1)]


@pytest.mark.requirement("QF-03")
@pytest.mark.parametrize("answers", [["a"], ["b", "*", ">= 0", "3", "", "y"]])
def test_terminal_offers_bounds_alone_where_the_server_says_nothing(
    answers: list[str], terminal: Callable[..., Any], toolwire: Callable[..., Any]
) -> None:
    bank = SilentBank()
    with background(bank) as url:
        words = (
            "call",
            f"{url}/openapi.json",
            "pay",
            "to=Ada",
            "amount=20",
            "--include",
            "all",
            "--protocol",
            "openapi",
        )
        refused = terminal(*words, NO_COLOR="1")
        refused.wait_for(b"do not ask again within bounds, for 30 days at most: b. Call it? [y/N] ")
        for entry in answers:
            refused.type(entry)
        assert refused.end() == 3
        assert refused.shown.count(b"a permission needs a condition that limits an argument, or a sum.") == 1
        assert bank.paid == []
        at = terminal(*words, NO_COLOR="1")
        for prompt, entry in ((b"[y/N] ", "b"), (b"to = ", ""), (b"amount = ", "<= 50"), (b"at least", "")):
            at.wait_for(prompt)
            at.type(entry)
        for prompt, entry in ((b"calls?", "1"), (b"Until", ""), (LAST, "y")):
            at.wait_for(prompt)
            at.type(entry)
        assert at.end() == 0
        assert [toolwire(*words).code == 0 for _ in range(2)] == [True, False]
    assert len(bank.paid) == 2


@pytest.mark.requirement("CC-03", "XL-050")
def test_a_stored_question_is_answered_with_bounds_by_another_process(
    bank: tuple[str, list[Any]], state: Path, toolwire: Callable[..., Any]
) -> None:
    url, paid = bank
    line = [sys.executable, "-m", "toolwire", "call", url, "pay", "to=Ada", "amount=20", "--ask", "store"]
    approvals = Approvals(state)
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as call:
        assert call.stderr is not None
        assert "toolwire approvals" in call.stderr.readline()
        waiting: Any = wait_until(lambda: call.poll() is not None or approvals.list_pending())
        assert call.poll() is None
        id_ = waiting[0].id
        for wrong in (("--bound", "amount"), ("--times", "0"), ("--until", "soon"), ("--times", "*")):
            assert toolwire("approvals", "allow", id_, *wrong).code == 2, wrong
        assert toolwire("approvals", "deny", id_, "--times", "2").code == 2
        bounds = ("--bound", "amount <= 50", "--bound", "to in Ada, Bob", "--times", "1")
        assert toolwire("approvals", "allow", id_, *bounds).code == 0
        _, errors = call.communicate(timeout=20)
    assert (call.returncode, errors) == (0, "")
    approvals.close()
    assert "1 more call" in toolwire("approvals").out
    assert not pay(toolwire, url, "Eve", 1)
    assert pay(toolwire, url, "Bob", 50)
    assert not pay(toolwire, url, "Bob", 50)
    assert len(paid) == 2
