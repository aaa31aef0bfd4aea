"""What the pages of a console show and do, over the files that every other command uses."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from html import unescape
from pathlib import Path

import pytest

from tests.console.conftest import Browser, Started, build_question
from tests.support.decisions import SHOP, build_decision
from toolwire.client.approvers.store_approver import store_approver
from toolwire.consent.decision_record import FIRST_DIGEST, compute_chain_digest
from toolwire.consent.grant import GrantKey
from toolwire.console import CallRow, ConnectionRow, LimitRow, ToolRow
from toolwire.core.check import Answer
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.health import UpstreamHealth
from toolwire.core.model import Approval, Condition, Kind, Problem
from toolwire.stores.consent.audit import StoredAudit, list_audit_files


def fill_log(folder: Path, count: int) -> None:
    """Write ``count`` records in one transaction: one for each, as a user makes them, would take minutes."""
    with closing(sqlite3.connect(folder / "audit.sqlite3")) as database:
        found = database.execute("SELECT digest FROM begins").fetchone()
    digest, rows = found[0] if found else FIRST_DIGEST, []
    for number in range(1, count + 1):
        name = f"A rather long name of a toolkit.and_a_tool_with_a_long_name_{number % 7}@1.0.0"
        record = build_decision(number, tool=name)
        digest = compute_chain_digest(digest, number, record)
        rows.append((number, json.dumps(asdict(record)), digest))
    with closing(sqlite3.connect(folder / "audit.sqlite3")) as database, database:
        database.executemany("INSERT INTO audit VALUES (?, ?, ?)", rows)


@pytest.mark.requirement("CO-02", "XL-050")
def test_question_of_a_program_is_answered_in_the_inbox_once(start: Callable[..., Started]) -> None:
    console = start()
    answers: list[Answer] = []
    asking = threading.Thread(
        target=lambda: answers.append(store_approver(console.source.approvals)(build_question())), daemon=True
    )
    asking.start()
    browser = console.browser()
    while not (waiting := console.source.approvals.list_pending()):
        asking.join(0.01)
    page = unescape(browser.get("/inbox").text)
    for text in (
        "May <code>pay</code> be called at https://bank.example?",
        "Ada",
        "20",
        "Pay somebody.",
        "Later calls",
    ):
        assert text in page
    assert "Allowed. The call can run now" in browser.submit("/inbox", id=waiting[0].id, answer="allow").text
    asking.join(10)
    assert [(one.allowed, one.always, one.bounds) for one in answers] == [(True, False, None)]
    assert "That question is closed" in browser.submit("/inbox", id=waiting[0].id, answer="allow").text
    assert "No pending questions." in browser.get("/inbox").text


@pytest.mark.requirement("CO-02", "CC-03")
def test_inbox_allows_later_calls_within_bounds(start: Callable[..., Started]) -> None:
    console = start()
    id_ = console.source.approvals.ask(build_question())
    browser = console.browser()
    fields = {"id": id_, "answer": "allow", "always": "bounds", "bound 1": "<=", "bound uses": "3"}
    wrong = browser.submit("/inbox", **fields, **{"value 1": "many"})
    assert (wrong.status, 'role="alert"' in wrong.text) == (400, True)
    assert "later calls too" in browser.submit("/inbox", **fields, **{"value 1": "50"}).text
    answer = console.source.approvals.take(id_, "pay")
    conditions = (Condition("/to", "eq", "Ada"), Condition("/amount", "le", 50))
    assert answer is not None
    assert answer.bounds == GrantBounds(conditions=conditions, uses=3)


@pytest.mark.requirement("CO-02", "QF-03")
def test_inbox_offers_bounds_alone_where_the_server_says_nothing(start: Callable[..., Started]) -> None:
    console = start()
    id_ = console.source.approvals.ask(build_question(always_allowed=None))
    browser = console.browser()
    page = browser.get("/inbox").text
    assert "Do not ask again within the bounds below" in page
    assert "Do not ask again for <code>pay</code>" not in page
    bounds = {"id": id_, "answer": "allow", "always": "bounds", "bound uses": "3"}
    for fields in ({**bounds, "always": "yes"}, {**bounds, "bound 0": "any", "bound 1": "any"}):
        reply = browser.submit("/inbox", **fields)
        assert (reply.status, reply.text.count("needs a condition that limits an argument, or a sum.")) == (400, 1)
    assert "later calls too" in browser.submit("/inbox", **bounds, **{"bound 0": "any"}).text
    answer = console.source.approvals.take(id_, "pay")
    assert answer is not None
    assert answer.bounds == GrantBounds(conditions=(Condition("/amount", "eq", 20),), uses=3)


@pytest.mark.requirement("CO-02", "D-19")
def test_destructive_call_is_allowed_with_the_typed_words_only(start: Callable[..., Started]) -> None:
    console = start()
    id_ = console.source.approvals.ask(build_question("wipe", destructive=True, always_allowed=False))
    browser = console.browser()
    for typed in ("", "yes", "WIPE YES"):
        reply = browser.submit("/inbox", id=id_, answer="allow", confirm=typed)
        assert (reply.status, "To allow this call, type: wipe yes" in reply.text) == (400, True)
    # A permission for later calls that no question offered is refused at once.
    reply = browser.submit("/inbox", id=id_, answer="allow", confirm="wipe yes", always="yes")
    assert (reply.status, "can only be allowed one call at a time" in reply.text) == (400, True)
    browser.submit("/inbox", id=id_, answer="allow", confirm="wipe yes")
    answer = console.source.approvals.take(id_, "wipe")
    assert answer is not None
    assert (answer.allowed, answer.always) == (True, False)


@pytest.mark.requirement("CO-02", "XL-052")
def test_denial_tells_the_assistant_why(start: Callable[..., Started]) -> None:
    console = start()
    id_ = console.source.approvals.ask(build_question())
    assert "Denied." in console.browser().submit("/inbox", id=id_, answer="deny", reason="Too dear").text
    answer = console.source.approvals.take(id_, "pay")
    assert answer is not None
    assert (answer.allowed, answer.reason) == (False, "Too dear")


@pytest.mark.requirement("CO-02")
def test_secrets_of_a_question_are_in_no_field_of_the_inbox(start: Callable[..., Started]) -> None:
    console = start()
    arguments = {"to": "Ada", "pin": "81-93-27"}
    console.source.approvals.ask(build_question(arguments=arguments, secrets=frozenset({"pin"})))
    page = console.browser().get("/inbox").text
    assert "81-93-27" not in page
    assert "********" in page
    assert 'name="value 1"' not in page


@pytest.mark.requirement("FU-55")
def test_permissions_of_one_tool_are_one_row_whatever_the_protocol(start: Callable[..., Started]) -> None:
    console = start()
    for tool, definition in (("order", "a"), ("order", "b"), ("order unasked", "a"), ("order unasked", "c")):
        console.source.grants.add(
            GrantKey("me", "shop", SHOP, tool.replace("order", "Shop.order@1.0.0"), definition * 64)
        )
    browser = console.browser()
    page = unescape(browser.get("/permissions").text)
    assert page.count("<code>Shop.order@1.0.0</code>") == 1
    assert "every call, in 3 forms such as by several protocols" in page
    browser.submit("/permissions", id=console.source.grants.list_grants()[0].id)
    assert console.source.grants.list_grants() == []


@pytest.mark.requirement("CO-02", "CC-03", "QF-03")
def test_permission_is_shown_with_its_bounds_and_taken_back(start: Callable[..., Started]) -> None:
    console = start()
    key = GrantKey("me", "shop", SHOP, "Shop.order@1.0.0", "d" * 64)
    console.source.grants.add(key, GrantBounds(conditions=[("/price", "le", 50), ("/price", "sum", 120)], uses=3))
    browser = console.browser()
    page = unescape(browser.get("/permissions").text)
    covers = "/price is at most 50 and /price of all these calls is together at most 120; 3 more calls"
    for text in ("Shop.order@1.0.0", SHOP, covers, "nothing yet"):
        assert text in page
    assert console.source.grants.spend(key, {"price": 40.5})
    assert "1 call, 40.5 of 120, last" in browser.get("/permissions").text
    id_ = console.source.grants.list_grants()[0].id
    assert "Revoked. The next call asks again." in browser.submit("/permissions", id=id_).text
    assert console.source.grants.list_grants() == []
    assert "no longer exists" in browser.submit("/permissions", id=id_).text


@pytest.mark.requirement("GR-06")
def test_page_of_permissions_shows_a_hundred_and_links_to_the_others(start: Callable[..., Started]) -> None:
    console = start()
    for number in range(201):
        console.source.grants.add(GrantKey("me", "shop", SHOP, f"Shop.tool_{number}@1.0.0", "d" * 64))
    browser = console.browser()
    counts = {}
    for asked, shown in {"": 1, "?page=2": 2, "?page=3": 3, "?page=99": 3, "?page=x": 1, "?page=0": 1}.items():
        page = unescape(browser.get(f"/permissions{asked}").text)
        assert f"Page {shown} of 3, 201 permissions" in page
        assert ("page=2" in page) is (shown != 2)
        counts[shown] = page.count("<code>Shop.tool_")
    assert counts == {1: 100, 2: 100, 3: 1}


@pytest.mark.requirement("CO-02", "XL-042")
def test_rule_is_added_and_deleted_and_never_loosens(start: Callable[..., Started]) -> None:
    console = start()
    browser = console.browser()
    assert "Saved." in browser.submit("/rules", site="shop.example", tool="order", level="deny").text
    assert "Saved." in browser.submit("/rules", site=SHOP, kind="*writes", level="per-call").text
    stored = [(one.tool, one.level) for one in console.source.preferences.list_levels()]
    assert stored == [("*writes", Approval.PER_CALL), ("order", Approval.DENY)]
    for fields in (
        {"site": "shop.example", "tool": "order", "level": "auto"},
        {"site": "shop.example", "tool": "order", "level": ""},
        {"site": "", "tool": "order", "level": "deny"},
        {"site": "shop.example", "tool": "", "level": "deny"},
        {"site": "http://[", "tool": "order", "level": "deny"},
    ):
        assert browser.submit("/rules", **fields).status == 400
    assert "Deleted." in browser.submit("/rules", site=SHOP, tool="order", change="delete").text
    assert [one.tool for one in console.source.preferences.list_levels()] == ["*writes"]


@pytest.mark.requirement("CO-02")
def test_first_page_of_a_log_of_ten_thousand_has_at_most_60_kb(start: Callable[..., Started], folder: Path) -> None:
    console = start()
    fill_log(folder, 10_000)
    browser = console.browser()
    first = browser.get("/log")
    assert first.status == 200
    assert len(first.text.encode()) <= 60_000
    assert len(browser.get("/").text.encode()) <= 60_000
    assert first.text.count("<tr>") == 51
    numbers = [10_000 - 50 * page for page in range(3)]
    path = "/log"
    for number in numbers:
        page = unescape(browser.get(path).text)
        assert f"<summary>{number}</summary>" in page
        path = page.partition(">Older<")[0].rpartition('href="')[2].partition('"')[0]
    assert "10,000 records are as written" in browser.get("/log?verify=chain").text


@pytest.mark.requirement("CO-02")
def test_log_is_filtered_by_tool_site_person_decision_and_day(start: Callable[..., Started]) -> None:
    console = start()
    audit = console.source.audit
    for number in range(3):
        audit.append(build_decision(number))
    audit.append(build_decision(5, tool="Books.find@1.0.0", site="https://books.example", decision="denied"))
    audit.append(build_decision(86_400 * 3, principal="ada", decision="timeout"))
    browser = console.browser()
    for query, count in (
        ("tool=Books", 1),
        ("site=shop.example", 4),
        ("who=ada", 1),
        ("decision=denied", 1),
        ("since=2026-11-26", 1),
        ("tool=Shop&who=me", 3),
        ("tool=%3Cscript%3E", 0),
    ):
        page = browser.get(f"/log?{query}").text
        assert max(0, page.count("<tr>") - 1) == count, query
    assert "No decision fits." in browser.get("/log?tool=nothing").text
    assert browser.get("/log?since=soon").status == 400


@pytest.mark.requirement("CO-02", "CC-07")
def test_log_is_saved_as_csv_and_as_json_lines_by_its_filters(start: Callable[..., Started], folder: Path) -> None:
    console = start()
    audit = console.source.audit
    for number in range(3):
        audit.append(build_decision(number))
    audit.append(build_decision(5, tool='=HYPERLINK("https://evil.example")', site="https://books.example"))
    browser = console.browser()
    for path in ("/log/decisions.csv", "/log/decisions.jsonl"):
        assert Browser(console.url).get(path).status == 401
        assert f'href="{path}?site=books"' in unescape(browser.get("/log?site=books").text)
        assert browser.get(f"{path}?since=soon").status == 400
    saved = browser.get("/log/decisions.csv?site=books")
    assert saved.headers["content-type"] == "text/csv; charset=utf-8"
    assert saved.headers["content-disposition"] == 'attachment; filename="decisions.csv"'
    [row] = csv.DictReader(saved.text.splitlines())
    # a spreadsheet computes nothing that a site wrote
    assert (row["number"], row["tool"]) == ("4", '\'=HYPERLINK("https://evil.example")')
    assert row["at"] == "2026-11-24T06:00:05Z"
    lines = [json.loads(line) for line in browser.get("/log/decisions.jsonl").text.splitlines()]
    assert [one["number"] for one in lines] == [4, 3, 2, 1]
    assert (lines[0]["tool"], lines[0]["binding"]) == ('=HYPERLINK("https://evil.example")', "ab" * 32)
    assert lines[-1]["digest"] == next(iter(audit.entries())).digest


@pytest.mark.requirement("CO-02", "D-03")
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_no_cell_of_the_saved_log_is_a_formula_whatever_separates_cells(
    start: Callable[..., Started], separator: str
) -> None:
    console = start()
    formula = '=HYPERLINK("https://evil.example")'
    for number, text in enumerate(
        (formula, f"a;{formula};b", f"a\t+{formula}", f"a\r\n {formula}", "\uff1d1", 'a";@b')
    ):
        console.source.audit.append(build_decision(number, tool=text, principal=text))
    saved = console.browser().get("/log/decisions.csv").text
    cells = [cell for row in csv.reader(io.StringIO(saved, newline=""), delimiter=separator) for cell in row]
    assert "evil.example" in saved
    assert not [cell for cell in cells if cell.strip(' "').startswith(("=", "+", "-", "@", "\t", "\uff1d"))]


@pytest.mark.requirement("CO-02")
def test_saved_log_has_the_ten_thousand_newest_decisions(start: Callable[..., Started], folder: Path) -> None:
    console = start()
    fill_log(folder, 10_020)
    lines = console.browser().get("/log/decisions.csv").text.splitlines()
    assert (len(lines), lines[1].partition(",")[0], lines[-1].partition(",")[0]) == (10_001, "10020", "21")


@pytest.mark.requirement("CO-02")
def test_tab_says_how_many_questions_wait(start: Callable[..., Started]) -> None:
    console = start()
    browser = console.browser()
    assert "<title>Log - toolwire</title>" in browser.get("/log").text
    console.source.approvals.ask(build_question())
    assert "<title>(1) Log - toolwire</title>" in browser.get("/log").text


@pytest.mark.requirement("CO-02", "D-22")
def test_form_after_the_end_of_its_session_says_that_nothing_was_changed(start: Callable[..., Started]) -> None:
    console = start()
    refused = Browser(console.url).send("POST", "/rules", "site=shop.example&level=deny&kind=every")
    assert refused.status == 401
    assert "nothing was changed" in refused.text
    assert console.source.preferences.list_levels() == []


@pytest.mark.requirement("CO-02", "XL-055")
def test_log_that_was_changed_is_found(start: Callable[..., Started], folder: Path) -> None:
    console = start()
    for number in range(3):
        console.source.audit.append(build_decision(number))
    with closing(sqlite3.connect(folder / "audit.sqlite3")) as database, database:
        database.execute("DROP TRIGGER audit_is_not_changed")
        database.execute("UPDATE audit SET record = replace(record, 'allowed', 'denied') WHERE number = 2")
    page = console.browser().get("/log?verify=chain").text
    assert "Record 2 was changed after it was written." in page


@pytest.mark.requirement("CO-02")
def test_log_goes_back_over_several_files(start: Callable[..., Started], folder: Path) -> None:
    audit = StoredAudit(folder, file_bytes=30_000)
    for number in range(80):
        audit.append(build_decision(number))
    audit.close()
    assert len(list_audit_files(folder)) > 1
    browser = start().browser()
    page = unescape(browser.get("/log").text)
    assert "<summary>80</summary>" in page
    older = page.partition(">Older<")[0].rpartition('href="')[2].partition('"')[0]
    assert "<summary>30</summary>" in browser.get(older).text


@pytest.mark.requirement("CO-02")
def test_connections_are_listed_and_looked_at_only_when_asked(start: Callable[..., Started]) -> None:
    looked: list[str] = []

    def look(url: str) -> list[ToolRow]:
        looked.append(url)
        return [ToolRow(name="wipe", description="Delete <b>all</b>", effect="destroys", level="deny")]

    rows = [ConnectionRow(url=SHOP, access="signed in", scopes=("orders",)), ConnectionRow(url="stdio:x", access="run")]
    browser = start(list_connections=lambda: rows, list_site_tools=look).browser()
    assert "orders" in browser.get("/connections").text
    assert looked == []
    assert "no longer exists" in browser.submit("/connections", url="https://evil.example").text
    page = browser.submit("/connections", url=SHOP).text
    assert looked == [SHOP]
    assert "destroys something" in page
    assert "Delete &lt;b&gt;all&lt;/b&gt;" in page


@pytest.mark.requirement("CO-02")
def test_lock_differences_are_shown_for_a_locked_site(start: Callable[..., Started]) -> None:
    found = {SHOP: ["Shop.order@1.0.0: changed, wider"], "https://a.example": []}
    browser = start(
        list_locked=lambda: [(url, 2) for url in found] + [("https://gone.example", 1)],
        find_differences=lambda url: found.get(url, Problem(kind=Kind.UNREACHABLE, message="It cannot be reached.")),
    ).browser()
    assert "changed, wider" in browser.submit("/lock", url=SHOP).text
    assert "The server has not changed since it was locked" in browser.submit("/lock", url="https://a.example").text
    assert "It cannot be reached." in browser.submit("/lock", url="https://gone.example").text
    assert "no longer exists" in browser.submit("/lock", url="https://other.example").text


@pytest.mark.requirement("CO-02")
def test_health_calls_and_limits_of_a_server_are_shown(start: Callable[..., Started]) -> None:
    ended: list[str] = []
    browser = start(
        list_upstreams=lambda: [
            UpstreamHealth(name="shop", state="ok", tools=3, latency_ms=20.0),
            UpstreamHealth(
                name="books",
                state="failing",
                tools=0,
                failures=3,
                last_failure="The connection was refused.",
                last_failure_at=1e9,
            ),
        ],
        list_calls=lambda: [
            CallRow(id="7", tool="film", caller="ada", state="running", started_at=1e9, progress=0.42, can_cancel=True)
        ],
        cancel_call=lambda id_: ended.append(id_) is None,
        list_limits=lambda: [LimitRow(what="ada, film", used=60, most=60, per="a minute")],
    ).browser()
    assert "books: not answering" in browser.get("/").text
    page = browser.get("/upstreams").text
    assert "The connection was refused." in page
    assert '<progress max="100" value="42"' in browser.get("/calls").text
    assert "being cancelled" in browser.submit("/calls", id="7").text
    assert ended == ["7"]
    assert "used up" in browser.get("/limits").text


@pytest.mark.requirement("CO-02")
def test_page_whose_part_fails_says_so_and_the_others_work(start: Callable[..., Started]) -> None:
    def fail() -> list[UpstreamHealth]:
        raise LookupError("a defect")

    browser = start(list_upstreams=fail).browser()
    reply = browser.get("/upstreams")
    assert (reply.status, "a defect" in reply.text) == (500, False)
    assert browser.get("/log").status == 200
