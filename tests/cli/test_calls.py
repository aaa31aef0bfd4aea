"""``toolwire calls`` and calls that go on: started, shown, waited for, interrupted and taken up again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.accepted_calls import ENDED, RUNNING, Site
from toolwire.testing.loopback import background

HALF = (200, {"retry-after": "0"}, {"status": "running", "percentComplete": 50, "message": "Half\x1b[2J."})
WAITING = (202, {"retry-after": "1"}, {"status": "running", "progress": 0.5})


@pytest.mark.requirement("LC-05")
def test_call_that_goes_on_is_waited_for_with_progress(toolwire: Callable[..., Any]) -> None:
    site = Site(HALF, ENDED)
    with background(site) as url:
        outcome = toolwire("call", f"{url}/openapi.json", "build_report", "--yes", "--json")
    assert json.loads(outcome.out) == {"ok": True, "value": {"pages": 3}}
    assert (outcome.code, outcome.err) == (0, "50%  Half.\n")
    assert site.posts == 1


@pytest.mark.requirement("LC-05")
def test_started_call_is_an_id_that_wait_and_show_take(toolwire: Callable[..., Any]) -> None:
    site = Site(HALF, HALF, ENDED)
    with background(site) as url:
        target = f"{url}/openapi.json"
        started = toolwire("call", target, "build_report", "--yes", "--start")
        assert (started.code, started.err) == (0, "")
        id_ = started.out.strip()
        shown = toolwire("calls", "show", target, id_)
        assert shown.code == 0
        assert "state     running\nprogress  50%\nmessage   Half.\n" in shown.out
        waited = toolwire("calls", "wait", target, id_)
        assert (waited.code, json.loads(waited.out)) == (0, {"pages": 3})
        over = json.loads(toolwire("calls", "show", target, id_, "--json").out)
        assert (over["id"], over["state"], over["result"]) == (id_, "ended", {"pages": 3})
        again = json.loads(toolwire("call", target, "build_report", "--yes", "--start", "--json").out)
        assert again == {"ok": True, "call": id_}
    assert site.posts == 2


@pytest.mark.requirement("LC-05")
def test_call_beyond_its_time_ends_with_5_and_says_how_to_go_on(toolwire: Callable[..., Any]) -> None:
    with background(Site(RUNNING)) as url:
        target = f"{url}/openapi.json"
        late = toolwire("call", target, "build_report", "--yes", "--timeout", "1")
        assert (late.code, late.out) == (5, "")
        assert f"toolwire calls wait {target} {url}/jobs/7\n" in late.err
        assert "might succeed" not in late.err
        waited = toolwire("calls", "wait", target, f"{url}/jobs/7", "--timeout", "1", "--json")
        data = json.loads(waited.out)
        assert (waited.code, data["kind"], data["details"]["call"]["id"]) == (5, "accepted", f"{url}/jobs/7")


@pytest.mark.requirement("LC-05")
def test_ctrl_c_tells_how_to_take_the_call_up_again(terminal: Callable[..., Any]) -> None:
    site = Site(WAITING)
    with background(site) as url:
        target = f"{url}/openapi.json"
        at = terminal("call", target, "build_report", "--yes")
        at.wait_for(b"50%")
        at.interrupt()
        assert at.end() == 130
        assert f"toolwire calls wait {target} {url}/jobs/7".encode() in at.shown.replace(b"\r\n", b"\n")
        assert b"Traceback" not in at.shown
    assert [method for method, _ in site.heard if method != "GET"] == ["POST"]


@pytest.mark.requirement("LC-05")
def test_cancel_of_a_foreign_call_says_that_nothing_was_sent(toolwire: Callable[..., Any]) -> None:
    site = Site(RUNNING)
    with background(site) as url:
        outcome = toolwire("calls", "cancel", f"{url}/openapi.json", f"{url}/jobs/7")
    assert outcome.code == 1
    assert "nothing was sent" in outcome.err
    assert site.heard == []


@pytest.mark.requirement("LC-05")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["show", "http://127.0.0.1:9"], "needs a call ID. `toolwire calls list URL` prints them"),
        (["list", "http://127.0.0.1:9", "x"], "list prints all your calls"),
        (["show", "http://127.0.0.1:9", "x", "--output", "f"], "--output is only for `calls wait`"),
        (["wait", "http://127.0.0.1:9", "x", "--force"], "--force needs --output FILE"),
        (["list", "desk.py"], "Calls of local code end with their program. Give the URL of a server"),
        (["list", "http://127.0.0.1:9", "--limit", "0"], "--limit: '0' must be a number of calls from 1 to 10000"),
        (["stop", "http://127.0.0.1:9", "x"], "invalid choice"),
    ],
)
def test_words_that_do_not_go_together_are_wrong_usage(
    words: list[str], text: str, toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("calls", *words)
    assert (outcome.code, outcome.out, text in outcome.err) == (2, "", True)


@pytest.mark.requirement("LC-05")
def test_unknown_call_and_a_site_without_calls_are_sentences(toolwire: Callable[..., Any]) -> None:
    with background(Site((404, {}, {"message": "Gone."}))) as url:
        target = f"{url}/openapi.json"
        gone = toolwire("calls", "show", target, f"{url}/jobs/8", "--json")
        assert (gone.code, json.loads(gone.out)["message"]) == (1, "Gone.")
        none = toolwire("calls", "list", target)
        assert (none.code, none.out) == (1, "")
        assert "no long calls" in none.err or "nothing here" in none.err
        elsewhere = toolwire("calls", "show", target, "https://evil.example/jobs/1")
        assert (elsewhere.code, "is not on this connection's server, so it was not read" in elsewhere.err) == (1, True)
