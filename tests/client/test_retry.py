"""Which calls are made again, under which id, after how long, and how often at most."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from toolwire import Context, Kind, Problem, Tool, Value, connect
from toolwire.client.calls.retry import RetryLimits, find_next_attempt, send_with_retries
from toolwire.client.connection.options import ConnectOptions
from toolwire.client.transport.drivers import MAX_PAUSE_S, arun, run, stream_progress
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Flow, Pause, Peer, pause
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.core.model import Call, Result
from toolwire.protocols.otc import CODEC as OTC

KEEPS = Peer(protocol="otc", url="http://a.example", catalog=Catalog(), deduplicates_calls=True)
FORGETS = replace(KEEPS, deduplicates_calls=False)
WRITES = Tool(name="send", toolkit="Mail")
BUSY = Problem(kind=Kind.OVERLOADED, message="Busy.", can_retry=True, retry_after_ms=1_000)
LIMITED = Problem(kind=Kind.RATE_LIMITED, message="Too often.")
LOST = Problem(kind=Kind.UNREACHABLE, message="Gone.", details={"reason": "closed", "sent": True})
BLOCKED = Problem(kind=Kind.UNREACHABLE, message="Not allowed.", details={"reason": "blocked", "sent": False})
FAILED = Problem(kind=Kind.TOOL_FAILED, message="Failed.")
TRY_AGAIN = Problem(kind=Kind.TOOL_FAILED, message="Not now.", can_retry=True, retry_after_ms=500)


class Talk:
    """A codec whose server answers one result after the other, the last for ever; ``log`` is what happened."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._results = list(results)
        self.log: list[str | float] = []

    def send(self, peer: Peer, call: Call) -> Flow[Result]:
        yield from ()
        self.log.append(call.call_id)
        return self._results.pop(0) if len(self._results) > 1 else self._results[0]

    def end(self, tool: Tool = WRITES, peer: Peer = KEEPS, *, is_confirmed: bool = False, **options: Any) -> Result:
        """Make a call ``c0``; new ids are ``c1``, ``c2``..., and chance spreads nothing."""
        ids = iter(range(1, 100))
        retries = RetryLimits(chance=lambda: 0.0, new_id=lambda: f"c{next(ids)}", **options)
        codec = replace(OTC, send=self.send)
        flow = send_with_retries(codec, peer, Call(tool, {}, "c0"), retries, is_confirmed=is_confirmed)
        return run(flow, NOWHERE, sleep=self.log.append)


class Nowhere:
    def send(self, request: Any) -> Any:
        raise AssertionError("nothing is sent here")

    listen = pieces = send

    def close(self) -> None:
        """Do nothing."""


NOWHERE = Nowhere()


@pytest.mark.parametrize(
    ("problem", "waits"), [(LOST, [0.2, 0.4]), (LIMITED, [0.2, 0.4]), (BUSY, [1.0, 1.0])], ids=["lost", "429", "503"]
)
@pytest.mark.requirement("C-11", "A-41", "A-42", "OTC-019")
def test_call_that_did_not_run_or_is_recorded_is_repeated_under_its_id(problem: Problem, waits: list[float]) -> None:
    talk = Talk([problem, problem, Value(3)])
    result = talk.end()
    assert talk.log == ["c0", waits[0], "c0", waits[1], "c0"]
    assert result == Value(3)
    assert isinstance(result, Value)
    assert result.notes == {"attempts": 3}


UNCONFIRMED = Problem(kind=Kind.UNCONFIRMED, message="Confirm it.")


@pytest.mark.parametrize("problem", [LOST, LIMITED, BUSY], ids=["lost", "429", "503"])
@pytest.mark.requirement("XL-056")
def test_a_used_confirmation_does_not_hide_why_the_call_failed(problem: Problem) -> None:
    talk = Talk([problem, UNCONFIRMED])
    result = talk.end(is_confirmed=True)
    assert result == replace(problem, details={**problem.details, "attempts": 2})
    assert [one for one in talk.log if isinstance(one, str)] == ["c0", "c0"]
    assert Talk([problem, Value(3)]).end(is_confirmed=True) == Value(3, {"attempts": 2})
    assert Talk([problem, UNCONFIRMED]).end() == replace(UNCONFIRMED, details={"attempts": 2}), "the first challenge"


@pytest.mark.requirement("XL-056")
def test_confirmed_call_is_not_repeated_as_a_new_call() -> None:
    talk = Talk([TRY_AGAIN, Value(3)])
    assert talk.end(is_confirmed=True) == TRY_AGAIN
    assert talk.log == ["c0"]


@pytest.mark.requirement("C-11", "OTC-030", "OTC-032", "OXP-015", "A-42")
def test_tool_marked_retryable_is_called_anew_after_its_retry_time() -> None:
    talk = Talk([TRY_AGAIN, replace(TRY_AGAIN, retry_after_ms=2_000), Value("sent")])
    assert talk.end() == Value("sent")
    assert talk.log == ["c0", 0.5, "c1", 2.0, "c2"]


@pytest.mark.requirement("OTC-030")
def test_failure_without_a_retry_mark_is_not_repeated() -> None:
    talk = Talk([FAILED])
    assert talk.end() is FAILED
    assert talk.log == ["c0"]


@pytest.mark.parametrize("problem", [LOST, LIMITED, BUSY, TRY_AGAIN], ids=["lost", "429", "503", "can_retry"])
@pytest.mark.requirement("C-11")
def test_call_that_may_have_run_is_not_repeated_without_a_ledger(problem: Problem) -> None:
    talk = Talk([problem])
    assert talk.end(peer=FORGETS) is problem
    assert talk.log == ["c0"]


@pytest.mark.parametrize(
    "tool", [replace(WRITES, safe=True), replace(WRITES, idempotent=True)], ids=["safe", "idempotent"]
)
@pytest.mark.requirement("C-11")
def test_safe_or_idempotent_call_is_repeated_without_a_ledger(tool: Tool) -> None:
    talk = Talk([LOST, Value(1)])
    assert talk.end(tool, FORGETS) == Value(1)
    assert talk.log == ["c0", 0.2, "c0"]


def test_streaming_call_is_not_repeated_after_progress() -> None:
    talk = Talk([LOST])
    assert talk.end(replace(WRITES, streams=True)) is LOST


@pytest.mark.parametrize(
    "problem",
    [
        BLOCKED,
        Problem(kind=Kind.INVALID_ARGUMENTS, message="No."),
        Problem(kind=Kind.CONFLICT, message="Another call has this id."),
        Problem(kind=Kind.UNAUTHORIZED, message="No."),
        Problem(kind=Kind.BAD_ANSWER, message="What?"),
    ],
    ids=lambda problem: problem.kind,
)
def test_problem_that_would_recur_is_not_retried(problem: Problem) -> None:
    assert find_next_attempt(KEEPS, Call(WRITES, {}, "c0"), problem, lambda: "c1") is None


@pytest.mark.requirement("C-11", "OTC-032")
def test_retries_are_counted_in_the_result() -> None:
    talk = Talk([TRY_AGAIN])
    result = talk.end(retries=3)
    assert talk.log == ["c0", 0.5, "c1", 0.5, "c2", 0.5, "c3"]
    assert result == replace(TRY_AGAIN, details={"attempts": 4})
    assert Talk([TRY_AGAIN]).end(retries=0) is TRY_AGAIN


@pytest.mark.requirement("OTC-032")
def test_retry_above_the_total_time_is_not_started() -> None:
    talk = Talk([replace(BUSY, retry_after_ms=20_000)])
    result = talk.end()
    assert talk.log == ["c0", 20.0, "c0"]
    assert isinstance(result, Problem)
    assert result.details == {"attempts": 2}
    assert Talk([replace(BUSY, retry_after_ms=40_000)]).end() == replace(BUSY, retry_after_ms=40_000)


def test_jitter_only_lengthens_the_retry_wait() -> None:
    for chance, wait in ((0.0, 0.5), (1.0, 0.625)):
        talk = Talk([TRY_AGAIN, Value(None)])
        flow = send_with_retries(
            replace(OTC, send=talk.send),
            KEEPS,
            Call(WRITES, {}, "c0"),
            RetryLimits(chance=lambda: chance),  # noqa: B023 - it is run at once
        )
        assert run(flow, NOWHERE, sleep=talk.log.append) == Value(None)
        assert talk.log[1] == wait


def test_new_call_has_a_new_id_in_its_context() -> None:
    call = Call(WRITES, {}, "c0", Context(call_id="c0", principal="ann"))
    following = find_next_attempt(KEEPS, call, TRY_AGAIN, lambda: "c1")
    assert following is not None
    assert (following.call_id, following.context.call_id, following.context.principal) == ("c1", "c1", "ann")


def test_new_call_ids_are_unique() -> None:
    ids = {RetryLimits().new_id() for _ in range(100)}
    assert len(ids) == 100


def test_each_driver_waits_no_longer_than_the_maximum_pause() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    def talk() -> Flow[str]:
        yield from pause(1.5)
        yield Pause(10 * MAX_PAUSE_S)
        return "done"

    assert asyncio.run(arun(talk(), NOWHERE, sleep=sleep)) == "done"  # type: ignore[arg-type]  # nothing goes through it
    assert run(talk(), NOWHERE, sleep=waits.append) == "done"
    assert list(stream_progress(talk(), NOWHERE, sleep=waits.append)) == []  # type: ignore[arg-type]  # nothing goes through it
    assert waits == [1.5, MAX_PAUSE_S] * 3


@pytest.mark.parametrize("wrong", [-1, 11, True, 2.0])
def test_a_number_of_retries_that_cannot_be_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="retries must be a number from 0 to 10, not"):
        connect("http://a.example", retries=wrong)
    with pytest.raises(ValueError, match="total_s"):
        RetryLimits(total_s=-1)


def test_connect_documents_and_accepts_the_retries_option() -> None:
    assert ConnectOptions("http://a.example").retries == 2
    assert "retries" in (connect.__doc__ or "")
    with pytest.raises(TypeError):
        connect("http://a.example", retry=3)  # type: ignore[call-arg]  # that is the point


@pytest.mark.parametrize(
    ("body", "keeps"),
    [
        (b'{"$schema": "x", "tools": []}', True),
        (b'{"items": []}', True),
        (b'[{"id": "add@1.0.0", "name": "add", "input_schema": {}}]', False),
        (b'[{"name": "add", "inputSchema": {}}]', False),
    ],
    ids=["rfc", "oxp", "universal-tool", "open-tool"],
)
@pytest.mark.requirement("C-11")
def test_the_rfc_and_oxp_keep_calls_and_the_older_dialects_do_not(body: bytes, keeps: bool) -> None:
    flow = OTC.find("http://a.example")
    next(flow)
    with pytest.raises(StopIteration) as found:
        flow.send(Response(200, JSON_HEADERS, body))
    peer = found.value.value.peer
    assert peer.deduplicates_calls is keeps
