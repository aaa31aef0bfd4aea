"""A server that asks before it destroys, and does not take its client's word for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import Clock
from tests.support.wire import HERE, SyncAppTransport
from toolwire import Answer, DefinitionError, Kind, Problem, Question, ToolError, Toolkit, Value, asgi, connect_sync
from toolwire.core.check import ALLOW, Check, Deny
from toolwire.core.codec import Codec
from toolwire.core.http import Request, get_header
from toolwire.core.model import Call, Context, Tool
from toolwire.server import App
from toolwire.server.asking.confirmation import (
    CONFIRMATION,
    VALID_S,
    ConfirmationTokens,
    ask_about_destructive,
    build_challenge,
    build_confirmation_check,
)
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing.loopback import background

ERASE = Tool(name="erase", toolkit="Disk", destructive=True)


def disk() -> tuple[App, list[str]]:
    kit, ran = Toolkit("Disk"), []

    @kit.tool(approval="auto", destructive=True)
    def erase(what: str) -> str:
        """Erase something."""
        ran.append(what)
        return f"{what} is gone"

    @kit.tool(approval="auto")
    def look() -> str:
        """Look."""
        return "fine"

    return asgi(kit, require_confirmation=ask_about_destructive), ran


@pytest.mark.requirement("XL-056")
def test_confirmation_challenge_is_428_and_the_confirmed_call_runs_once() -> None:
    app, ran = disk()
    transport = SyncAppTransport(app)

    def post(what: str, word: str = "") -> Any:
        fields = [(b"host", b"127.0.0.1:9627"), (b"content-type", b"application/json")]
        fields += [(CONFIRMATION, word.encode())] if word else []
        return transport.send(Request("POST", f"{HERE}/api/erase", tuple(fields), b'{"what":"%s"}' % what.encode()))

    try:
        asked = post("a")
        assert (asked.status, get_header(asked.headers, b"content-type"), ran) == (428, "application/problem+json", [])
        from json import loads

        challenge = loads(asked.body)["details"]["confirmation"]
        assert challenge["question"] == "erase cannot be undone. Call it?"
        assert (challenge["header"], challenge["valid_s"]) == ("toolwire-confirmation", 300)
        assert post("a", challenge["word"]).status == 200
        assert ran == ["a"]
        assert post("a", challenge["word"]).status == 428
        assert post("a", "made up").status == 428
        other = loads(post("b").body)["details"]["confirmation"]["word"]
        assert post("a", other).status == 428
        assert ran == ["a"]
    finally:
        transport.close()


@pytest.mark.requirement("XL-056")
def test_confirmation_word_is_bound_to_caller_tool_and_arguments_and_expires() -> None:
    clock = Clock(1.0)
    check = build_confirmation_check(ask_about_destructive, ConfirmationTokens(clock=clock))

    def word(call: Call) -> str:
        verdict = check(call)
        assert isinstance(verdict, Deny)
        return str(verdict.problem.details["confirmation"]["word"])

    def said(call: Call, word: str) -> Call:
        return call._replace(context=Context(principal=call.context.principal, confirmation=word))

    ada = Call(ERASE, {"what": "a"}, "1", Context(principal="ada"))
    for other in (
        ada._replace(context=Context(principal="bob")),
        ada._replace(arguments={"what": "b"}),
        ada._replace(tool=Tool(name="wipe", toolkit="Disk", destructive=True)),
    ):
        assert check(said(other, word(ada))) is not ALLOW
    late = word(ada)
    clock.now += VALID_S
    assert check(said(ada, late)) is not ALLOW
    assert check(said(ada._replace(call_id="2"), word(ada))) is ALLOW
    assert check(Call(Tool(name="look"), {})) is ALLOW


def ask_word(check: Check, call: Call) -> str:
    verdict = check(call)
    assert isinstance(verdict, Deny)
    return str(verdict.problem.details["confirmation"]["word"])


@pytest.mark.requirement("XL-056")
def test_many_open_challenges_do_not_invalidate_those_of_another_caller() -> None:
    check = build_confirmation_check(ask_about_destructive, ConfirmationTokens(clock=Clock(1.0)))
    ada = Call(ERASE, {"what": "a"}, "1", Context(principal="ada"))
    word = ask_word(check, ada)
    for number in range(10_001):
        check(Call(ERASE, {"what": str(number)}, "1", Context(principal="eve")))
    assert check(ada._replace(context=Context(principal="ada", confirmation=word))) is ALLOW


@pytest.mark.requirement("XL-056")
def test_confirmation_word_is_valid_in_every_worker_but_only_once(tmp_path: Path) -> None:
    folder, clock = tmp_path / "words", Clock(1.0)
    workers = [
        build_confirmation_check(ask_about_destructive, ConfirmationTokens(folder, clock=clock)) for _ in range(3)
    ]
    call = Call(ERASE, {"what": "a"}, "1", Context(principal="ada"))
    for issuer in workers:
        reply = call._replace(context=Context(principal="ada", confirmation=ask_word(issuer, call)))
        assert [worker(reply) is ALLOW for worker in workers] == [True, False, False]
        other = call._replace(context=Context(principal="bob", confirmation=ask_word(issuer, call)))
        assert [worker(other) is ALLOW for worker in workers] == [False, False, False]
    late = call._replace(context=Context(principal="ada", confirmation=ask_word(workers[0], call)))
    clock.now += VALID_S
    assert workers[1](late) is not ALLOW
    again = call._replace(context=Context(principal="ada", confirmation=ask_word(workers[0], call)))
    assert [workers[2](again) is ALLOW, workers[2](again) is ALLOW] == [True, False]
    stranger = build_confirmation_check(ask_about_destructive, ConfirmationTokens(tmp_path / "others", clock=clock))
    assert stranger(again) is not ALLOW


@pytest.mark.requirement("XL-056")
def test_confirmation_word_that_cannot_be_recorded_is_refused(tmp_path: Path) -> None:
    words = ConfirmationTokens(tmp_path / "words", clock=Clock(1.0))
    word = words.issue(b"a")
    (tmp_path / "words" / "spent-1").write_text("a file where the folder of this period should be")
    assert words.redeem(word, b"a") is False


@pytest.mark.requirement("XL-056")
@pytest.mark.parametrize("how", ["open to others", "a link", "a file", "a short key"])
def test_confirmation_folder_that_others_can_change_is_refused(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "words"
    match how:
        case "open to others":
            folder.mkdir()
            folder.chmod(0o770)
        case "a link":
            (tmp_path / "theirs").mkdir(mode=0o700)
            folder.symlink_to(tmp_path / "theirs")
        case "a file":
            folder.write_text("")
        case _:
            folder.mkdir(mode=0o700)
            (folder / "key").write_bytes(b"short")
    with pytest.raises(DefinitionError, match="onfirmations"):
        ConfirmationTokens(folder)


@pytest.mark.requirement("XL-056")
@pytest.mark.parametrize("word", ["", "a", "\xe9", "A" * 96, "A" * 10_000, "_-" * 48])
def test_invented_confirmation_words_are_refused(word: str) -> None:
    assert ConfirmationTokens(clock=Clock(1.0)).redeem(word, b"a") is False


def build_approver(*answers: bool | Answer) -> tuple[Callable[[Question], bool | Answer], list[Question]]:
    asked: list[Question] = []

    def approve(question: Question) -> bool | Answer:
        asked.append(question)
        return answers[len(asked) - 1]

    return approve, asked


@pytest.mark.requirement("XL-056")
def test_client_turns_a_challenge_into_a_question_in_every_protocol(codec: Codec) -> None:
    app, ran = disk()
    approve, asked = build_approver(True, True)
    with background(app) as url, connect_sync(url, protocol=codec.name, approve=approve) as remote:
        assert remote.call("erase", {"what": "a"}) == Value("a is gone")
    assert ran == ["a"]
    assert "erase cannot be undone. Call it?" in asked[-1].reasons[0]
    assert (asked[-1].always_allowed, asked[-1].call.arguments, asked[-1].target != "") == (False, {"what": "a"}, True)


@pytest.mark.requirement("XL-056", "XL-053")
@pytest.mark.parametrize("answers", [(True, False), (True, Answer(allowed=True, arguments={"what": "b"}))])
def test_call_denied_at_the_challenge_does_not_run(codec: Codec, answers: Any) -> None:
    app, ran = disk()
    approve, asked = build_approver(*answers)
    with background(app) as url, connect_sync(url, protocol=codec.name, approve=approve) as remote:
        result = remote.call("erase", {"what": "a"})
    assert isinstance(result, Problem)
    assert (result.kind, result.details.get("denied")) == (Kind.DENIED, True)
    assert (len(asked), ran) == (2, [])


@pytest.mark.requirement("XL-056", "C-11")
def test_failure_of_a_confirmed_call_is_returned_without_a_new_challenge(codec: Codec) -> None:
    kit, ran = Toolkit("Disk"), []

    @kit.tool(approval="auto", destructive=True, idempotent=True)
    def erase(what: str) -> str:
        """Erase something."""
        ran.append(what)
        raise ToolError("The disk is busy.", can_retry=True, retry_after_ms=1)

    app = asgi(kit, require_confirmation=ask_about_destructive)
    approve, asked = build_approver(True, True)
    with background(app) as url, connect_sync(url, protocol=codec.name, approve=approve) as remote:
        result = remote.call("erase", {"what": "a"})
    assert isinstance(result, Problem)
    assert result.kind is Kind.TOOL_FAILED
    assert "The disk is busy." in result.message
    assert (len(asked), ran) == (2, ["a"])


@pytest.mark.requirement("XL-056", "XL-050")
@pytest.mark.parametrize(
    ("reasons", "questions"),
    [([], 1), (["The server declares that this tool is destructive."], 1), (["This costs money."], 2), (None, 2)],
)
def test_first_approval_answers_only_a_challenge_without_new_text(reasons: list[str] | None, questions: int) -> None:
    words = ConfirmationTokens(clock=Clock(1.0))
    kit, ran = Toolkit("Disk"), []

    @kit.tool(approval="auto", destructive=True)
    def erase(what: str) -> str:
        """Erase something."""
        ran.append(what)
        return "gone"

    def check(call: Call) -> Any:
        if words.redeem(call.context.confirmation, b"erase"):
            return ALLOW
        return Deny(build_challenge(call, "Really?", words.issue(b"erase"), reasons=reasons))

    toolbox = FunctionToolbox(kit)
    app = asgi(toolbox)
    service = app._runner.service
    service._checks = (*service._checks, check)
    approve, asked = build_approver(*[True] * questions)
    with background(app) as url, connect_sync(url, protocol="otc", approve=approve) as remote:
        assert remote.call("erase", {"what": "a"}) == Value("gone")
    assert (len(asked), ran) == (questions, ["a"])


@pytest.mark.requirement("XL-056", "D-17")
@pytest.mark.parametrize("ahead_s", [0.5, 2.0])
def test_word_from_before_a_restart_of_the_machine_is_invalid(tmp_path: Path, ahead_s: float) -> None:
    word = ConfirmationTokens(tmp_path / "words", clock=lambda: 100.0 + ahead_s).issue(b"subject")
    assert not ConfirmationTokens(tmp_path / "words", clock=lambda: 100.0).redeem(word, b"subject")
