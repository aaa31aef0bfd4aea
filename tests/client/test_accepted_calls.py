"""Operations of foreign APIs that answer 202 and go on: started, waited for, taken up again, and never sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.accepted_calls import ENDED, RUNNING, Answer, Site
from toolwire import (
    CallError,
    Context,
    Kind,
    LongCallState,
    Problem,
    Progress,
    Question,
    Result,
    Selection,
    Session,
    Value,
    connect,
    connect_sync,
)
from toolwire.client.connection.handle import SyncHandle
from toolwire.stores import MemoryAudit
from toolwire.testing.loopback import background

ALL = Selection(include="all")


@contextmanager
def connected(site: Site, **options: Any) -> Iterator[Any]:
    options = {"approve": lambda _: True, "selection": ALL, **options}
    with background(site) as url, connect_sync(f"{url}/openapi.json", **options) as remote:
        yield remote


def call(site: Site, **options: Any) -> Result:
    with connected(site, **options) as remote:
        result: Result = remote.call("build_report")
        return result


PLACES = [
    {"location": "/jobs/7", "retry-after": "0"},
    {"operation-location": "/jobs/7"},
    {"location": "jobs/7", "retry-after": "0"},
    {"location": "/jobs/7", "preference-applied": "respond-async"},
]


@pytest.mark.requirement("LC-05")
@pytest.mark.parametrize("headers", PLACES, ids=["location", "operation-location", "relative", "preference-applied"])
def test_call_waits_for_the_end_of_an_accepted_operation_and_posts_once(headers: dict[str, str]) -> None:
    site = Site(RUNNING, RUNNING, ENDED, accepted=(202, headers, None))
    assert call(site) == Value({"pages": 3})
    assert site.heard == [("POST", "/reports"), *[("GET", "/jobs/7")] * 3]


ENDS: list[tuple[Answer, Any]] = [
    ((200, {}, {"status": "Succeeded", "output": [1]}), [1]),
    ((200, {}, {"state": "DONE", "response": "x"}), "x"),
    ((200, {}, {"pages": 3, "status": "open"}), {"pages": 3, "status": "open"}),
    ((201, {}, {"id": 7}), {"id": 7}),
    ((204, {}, b""), {"ok": True, "status": 204}),
    ((200, {"content-type": "text/plain"}, b"the report"), "the report"),
]


@pytest.mark.requirement("LC-05")
@pytest.mark.parametrize(("answer", "value"), ENDS)
def test_result_is_read_from_the_status_or_is_the_last_answer(answer: Answer, value: Any) -> None:
    assert call(Site((202, {"retry-after": "0"}, None), answer)) == Value(value)


@pytest.mark.requirement("LC-05")
def test_result_elsewhere_on_the_site_is_fetched() -> None:
    by_name = Site((200, {}, {"status": "succeeded", "resourceLocation": "/results/7"}), (200, {}, [1, 2]))
    assert call(by_name) == Value([1, 2])
    assert by_name.polls == ["/jobs/7", "/results/7"]
    by_redirect = Site((303, {"location": "/results/7"}, None), (200, {}, [1, 2]))
    assert call(by_redirect) == Value([1, 2])


FAILURES: list[tuple[Answer, Kind, str]] = [
    ((200, {}, {"status": "Failed", "error": {"message": "No paper."}}), Kind.TOOL_FAILED, "No paper."),
    ((200, {}, {"status": "canceled"}), Kind.CANCELLED, "was cancelled"),
    ((404, {}, {"message": "Gone."}), Kind.NOT_FOUND, "Gone."),
    ((500, {}, {"message": "Broken."}), Kind.TOOL_FAILED, "Broken."),
]


@pytest.mark.requirement("LC-05")
@pytest.mark.parametrize(("answer", "kind", "text"), FAILURES)
def test_failure_of_an_accepted_operation_is_a_problem_and_is_not_sent_again(
    answer: Answer, kind: Kind, text: str
) -> None:
    site = Site(answer)
    result = call(site, retries=5)
    assert isinstance(result, Problem)
    assert result.kind is kind
    assert text in result.message
    assert site.posts == 1


@pytest.mark.requirement("LC-05")
def test_progress_of_an_accepted_operation_is_passed_on() -> None:
    site = Site(
        (200, {"retry-after": "0"}, {"status": "running", "percentComplete": 20, "message": "Reading."}),
        (200, {"retry-after": "0"}, {"status": "running", "progress": 0.5}),
        ENDED,
    )
    received: list[Any] = []
    hear: Callable[[Progress], None] = lambda progress: received.append(progress.value)  # noqa: E731 - it has a type
    with connected(site) as remote:
        assert remote.call("build_report", notify=hear) == Value({"pages": 3})
    assert received == [{"progress": 0.2, "message": "Reading."}, {"progress": 0.5}]


@pytest.mark.requirement("LC-05")
def test_one_question_covers_the_call_and_its_polls() -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    session = Session()
    assert call(Site(RUNNING, RUNNING, ENDED), approve=approve, session=session) == Value({"pages": 3})
    assert [one.target.split(" ")[0] for one in asked] == ["POST"]
    assert isinstance(session.audit, MemoryAudit)
    assert [one.record.decision for one in session.audit.entries()] == ["allowed"]
    refused = Site(ENDED)
    assert not call(refused, approve=lambda _: False).ok
    assert refused.heard == []


@pytest.mark.requirement("LC-05")
def test_start_asks_for_consent_and_returns_a_handle_at_once() -> None:
    site, asked = Site(RUNNING, RUNNING, ENDED), []

    def approve(question: Question) -> bool:
        asked.append(question.target)
        return True

    with connected(site, approve=approve) as remote:
        handle = remote.start("build_report")
        assert isinstance(handle, SyncHandle)
        assert site.polls == []
        assert site.headers[0]["prefer"] == "respond-async"
        assert handle.id.endswith("/jobs/7")
        assert handle.tool is not None
        assert [status.state for status in handle] == [LongCallState.RUNNING, LongCallState.ENDED]
        assert handle.result() == Value({"pages": 3})
    assert len(asked) == 1
    with connected(site, approve=lambda _: False) as remote:
        refused = remote.start("build_report")
        assert isinstance(refused, Problem)
        assert refused.kind is Kind.DENIED
    assert site.posts == 1


@pytest.mark.requirement("LC-05")
def test_asynchronous_handle_does_the_same() -> None:
    async def talk(site: Site) -> tuple[Any, Any]:
        with background(site) as url:
            async with connect(f"{url}/openapi.json", approve=lambda _: True, selection=ALL) as remote:
                handle = await remote.start("build_report")
                assert not isinstance(handle, (Value, Problem))
                states = [status.state.value async for status in handle]
                return states, await remote.handle(handle.id, tool="build_report").result()

    assert asyncio.run(talk(Site(RUNNING, ENDED))) == (["running", "ended"], Value({"pages": 3}))


@pytest.mark.requirement("LC-05")
def test_handle_is_taken_up_by_another_client() -> None:
    site = Site(RUNNING, ENDED)
    with background(site) as url:
        with connect_sync(f"{url}/openapi.json", approve=lambda _: True, selection=ALL) as remote:
            handle = remote.start("build_report")
            assert isinstance(handle, SyncHandle)
        assert isinstance(handle.status(), Problem), "the connection of the first client is closed"
        with connect_sync(f"{url}/openapi.json", selection=ALL) as remote:
            assert remote.handle(handle.id).result() == Value({"pages": 3})
    assert site.posts == 1


@pytest.mark.requirement("LC-05")
def test_short_operation_is_its_result_also_when_it_is_started() -> None:
    site = Site(ENDED, accepted=(200, {}, {"pages": 1}))
    with connected(site) as remote:
        assert remote.start("build_report") == Value({"pages": 1})


@pytest.mark.requirement("LC-05")
def test_202_without_a_status_is_the_result() -> None:
    for headers in ({}, {"location": "/other/7"}):
        site = Site(ENDED, accepted=(202, headers, {"order": 7}))
        assert call(site) == Value({"order": 7})
        assert site.polls == []


ELSEWHERE = [
    "https://evil.example/jobs/7",
    "//evil.example/jobs/7",
    "http://user:secret@127.0.0.1/jobs/7",
    "https:///evil",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "http://[::1",
    "/jobs/" + "7" * 5_000,
]


@pytest.mark.requirement("LC-05", "D-07")
@pytest.mark.parametrize("location", ELSEWHERE)
def test_status_on_another_origin_is_never_read(location: str) -> None:
    site = Site(ENDED, accepted=(202, {"location": location, "retry-after": "0"}, {"order": 7}))
    result = call(site, allow_origins=lambda _: True)
    assert result == Value({"order": 7})
    assert site.heard == [("POST", "/reports")]
    if location.startswith("https://evil"):
        assert isinstance(result, Value)
        assert (result.notes or {})["status_elsewhere"] == "https://evil.example"
    with connected(site) as remote:
        found = remote.handle(location).status()
        assert isinstance(found, Problem)
        assert "secret" not in f"{found.message}{found.details}{remote.handle(location)!r}"
    assert site.polls == []


@pytest.mark.requirement("LC-05")
def test_redirect_of_a_status_to_another_origin_is_refused() -> None:
    site = Site((303, {"location": "https://evil.example/x"}, None))
    result = call(site)
    assert isinstance(result, Problem)
    assert "evil.example" in result.message
    assert "call" in result.details, "the id is not lost"
    assert len(site.polls) == 1


@pytest.mark.requirement("LC-05")
@pytest.mark.parametrize("answer", [RUNNING, (202, {}, None), (202, {"retry-after": "1"}, {"status": "running"})])
def test_endless_status_ends_the_wait_with_the_id_of_the_call(answer: Answer) -> None:
    site = Site(answer)
    result = call(site, timeout_s=2.0)
    assert isinstance(result, Problem)
    assert result.kind is Kind.ACCEPTED
    assert result.can_retry
    assert result.details["call"]["state"] == "running"
    assert result.details["call"]["id"].endswith("/jobs/7")
    assert "/jobs/7" in result.message
    assert site.posts == 1
    assert len(site.polls) <= 8


@pytest.mark.requirement("LC-05")
def test_wait_of_a_year_ends_the_call_at_once() -> None:
    for accepted, answers in (("31536000", (ENDED,)), ("0", ((202, {"retry-after": "31536000"}, None),))):
        site = Site(*answers, accepted=(202, {"location": "/jobs/7", "retry-after": accepted}, None))
        result = call(site)
        assert isinstance(result, Problem)
        assert result.kind is Kind.ACCEPTED
        assert len(site.polls) == (0 if accepted != "0" else 1)


@pytest.mark.requirement("LC-05")
def test_status_that_changes_without_end_is_read_at_most_four_times_a_second() -> None:
    answers = [(200, {"retry-after": "0"}, {"status": "running", "message": str(number)}) for number in range(100)]
    site = Site(*answers)
    assert call(site, timeout_s=1.5).ok is False
    assert len(site.polls) <= 7


@pytest.mark.requirement("LC-05")
def test_huge_status_is_bounded() -> None:
    site = Site((202, {"retry-after": "0"}, b"[" * (20 << 20)))
    result = call(site)
    assert isinstance(result, Problem)
    assert result.details["reason"] == "too_large"
    large = Site((200, {}, {"status": "running", "x": "y" * (9 << 20)}))
    whole = call(large)
    assert isinstance(whole, Value)
    assert len(str(whole.value)) > 9 << 20


@pytest.mark.requirement("LC-05")
def test_status_that_fails_for_a_moment_is_read_again() -> None:
    site = Site((503, {"retry-after": "0"}, None), (429, {"retry-after": "0"}, None), (502, {}, None), ENDED)
    assert call(site) == Value({"pages": 3})
    assert site.posts == 1


@pytest.mark.requirement("LC-05")
def test_foreign_call_is_not_cancelled_by_deleting_something() -> None:
    site = Site(RUNNING)
    with connected(site) as remote:
        handle = remote.start("build_report")
        refused = handle.cancel()
        assert isinstance(refused, Problem)
        assert refused.message.endswith("nothing was sent. The call continues.")
    assert [method for method, _ in site.heard] == ["POST"]


@pytest.mark.requirement("LC-05")
def test_secret_in_the_address_of_a_status_is_in_no_message() -> None:
    accepted = (202, {"location": "/jobs/7?sig=hunter2secret", "retry-after": "9999999"}, None)
    result = call(Site(ENDED, accepted=accepted))
    assert isinstance(result, Problem)
    assert "hunter2secret" not in result.message
    assert result.details["call"]["id"].endswith("?sig=hunter2secret"), "a program needs it to go on"


@pytest.mark.requirement("LC-05")
def test_iterating_over_a_call_that_is_gone_raises() -> None:
    with connected(Site((404, {}, {"message": "Gone."}))) as remote, pytest.raises(CallError, match="Gone"):
        list(remote.handle("/jobs/8"))


@pytest.mark.requirement("LC-05")
def test_key_of_the_site_goes_with_each_reading_and_nowhere_else() -> None:
    site = Site(RUNNING, ENDED)
    call(site, api_key="letmein", context=Context())
    assert {one["authorization"] for one in site.headers} == {"Bearer letmein"}
