"""A session that has read text of strangers and holds private data asks before anything leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.listed_tools import ListedTools, list_tool
from toolwire import Answer, Preferences, Question, Session, SyncRemote, connect_sync
from toolwire.consent import NO_PREFERENCES
from toolwire.consent.session_marks import SessionMarks
from toolwire.core.model import Call, Context, Tool
from toolwire.testing import background

FILES = (
    list_tool("read_file", names=("name",), readOnlyHint=True, openWorldHint=False),
    list_tool("count_files", readOnlyHint=True, openWorldHint=False),
)
WEB = (
    list_tool("search", names=("words",), readOnlyHint=True, openWorldHint=True),
    list_tool("fetch", names=("url",), readOnlyHint=True),
    list_tool("clock", readOnlyHint=True),
)


@contextmanager
def connect_both(
    preferences: Preferences = NO_PREFERENCES, files: ListedTools | None = None, web: ListedTools | None = None
) -> Iterator[tuple[SyncRemote, SyncRemote, list[Question]]]:
    """Give connections to files and to the web in one session that trusts all their reads, and what it asked."""
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=True, always=True)

    session = Session(preferences=preferences)
    with ExitStack() as opened:
        files, web = (
            opened.enter_context(
                connect_sync(
                    f"{opened.enter_context(background(server))}/mcp",
                    session=session,
                    name=name,
                    approve=approve,
                    agree=lambda _: True,
                )
            )
            for name, server in (("files", files or ListedTools(*FILES)), ("web", web or ListedTools(*WEB)))
        )
        yield files, web, asked


@pytest.mark.requirement("QF-06")
def test_question_before_data_leaves_names_both_sources_and_the_way_out() -> None:
    with connect_both() as (files, web, asked):
        assert web.call("fetch", {"url": "https://a.example"}).ok
        assert web.call("search", {"words": "tea"}).ok
        assert web.call("fetch", {"url": "https://b.example"}).ok  # nothing private was read yet
        assert files.call("read_file", {"name": "a"}).ok
        assert web.call("clock", {}).ok  # it carries nothing out
        assert files.call("count_files", {}).ok
        assert asked == []
        for _ in range(2):  # an "always" does not cover it
            assert web.call("fetch", {"url": "https://c.example"}).ok
    reasons = [" ".join(question.reasons) for question in asked]
    assert len(reasons) == 2
    assert not asked[0].always_allowed
    for part in ("takes a destination: url", "search of web returned text", "read_file of files returned private data"):
        assert part in reasons[0]


@pytest.mark.requirement("QF-06")
def test_only_the_path_of_a_closed_read_is_no_way_out() -> None:
    closed = {"readOnlyHint": True, "openWorldHint": False}
    files = ListedTools(
        list_tool("read_text_file", names=("path", "head"), **closed),
        list_tool("read_media", names=("filePath",), **closed),
        list_tool("copy_file", names=("path",), openWorldHint=False),
        list_tool("load", names=("path", "url"), **closed),
        list_tool("read_any", names=("path",), readOnlyHint=True),
    )
    with connect_both(files=files) as (near, web, asked):
        assert web.call("search", {"words": "tea"}).ok
        for name, argument in (("read_text_file", "path"), ("read_media", "filePath")):
            for _ in range(2):
                assert near.call(name, {argument: "/notes"}).ok
        assert asked == []
        for name in ("copy_file", "load", "read_any"):
            assert near.call(name, {"path": "/notes"}).ok
    reasons = [" ".join(question.reasons) for question in asked]
    assert len(reasons) == 3
    assert all("can send data out (takes a destination: path" in one for one in reasons)


@pytest.mark.requirement("QF-06")
def test_server_that_takes_its_hint_back_does_not_take_the_mark_back() -> None:
    web = ListedTools(*WEB)
    with connect_both(web=web) as (files, remote, asked):
        assert remote.call("search", {"words": "tea"}).ok
        assert files.call("read_file", {"name": "a"}).ok
        web.tools = [list_tool("search", readOnlyHint=True, openWorldHint=False), *web.tools[1:]]
        remote.refresh()
        assert remote.call("fetch", {"url": "https://b.example"}).ok
    assert len(asked) == 1


@pytest.mark.requirement("QF-06")
def test_marks_end_with_the_session_of_a_caller_and_the_latest_callers_have_theirs() -> None:
    now = [0.0]
    marks = SessionMarks(lambda: now[0], idle_s=60)

    def call(tool: Tool, who: int) -> Call:
        return Call(tool, {}, context=Context(principal=f"user:{who}"))

    stranger, private = (
        Tool(name=name, hints={"mcp": {"annotations": {"openWorldHint": is_open}}})
        for name, is_open in (("search", True), ("read", False))
    )
    fetch = Tool(name="fetch", input_schema={"properties": {"url": {"type": "string"}}})
    for who in (0, 1):
        for tool in (stranger, private):
            marks.add_result("web", call(tool, who), NO_PREFERENCES)
    assert marks.find_reason(call(fetch, 0))
    now[0] = 60.0
    assert marks.find_reason(call(fetch, 0))
    marks.add_result("web", call(private, 1), NO_PREFERENCES)
    now[0] = 61.0
    assert (bool(marks.find_reason(call(fetch, 0))), bool(marks.find_reason(call(fetch, 1)))) == (False, True)
    for who in range(2, 10_001):  # as many as are remembered, and the first is the oldest
        marks.add_result("web", call(private, who), NO_PREFERENCES)
    assert len(marks._callers) == 10_000
    assert marks.find_reason(call(fetch, 1))


@pytest.mark.requirement("QF-06")
@pytest.mark.parametrize(
    "preferences",
    [
        Preferences(private=frozenset({"files"}), untrusted=frozenset({"web"})),
        Preferences(private=frozenset({"read_file"}), untrusted=frozenset({"clock"})),
    ],
    ids=["connections", "tools"],
)
def test_user_marks_what_servers_say_nothing_about(preferences: Preferences) -> None:
    files = ListedTools(list_tool("read_file", readOnlyHint=True))
    web = ListedTools(list_tool("clock", readOnlyHint=True), list_tool("fetch", names=("url",), readOnlyHint=True))
    for given, count in ((NO_PREFERENCES, 0), (preferences, 1)):
        with connect_both(given, files, web) as (near, far, asked):
            for remote, name in ((near, "read_file"), (far, "clock")):
                assert remote.call(name, {}).ok
            assert far.call("fetch", {"url": "https://a.example"}).ok
        assert len(asked) == count
