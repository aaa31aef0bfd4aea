"""Finding tools by words."""

import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.model import Tool

CATALOG = Catalog(
    tools=(
        Tool(name="sendMail", description="Send a message to somebody."),
        Tool(name="listUsers", description="List the people of a group."),
        Tool(name="delete_calendar_event", description="Delete one."),
        Tool(name="get_calendar", description="Show the events of a day."),
        Tool(name="ping"),
    )
)


@pytest.mark.requirement("CV-25")
@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("mail", "sendMail"),
        ("SEND message", "sendMail"),
        ("user", "listUsers"),
        ("users of a group", "listUsers"),
        ("calendar events", "delete_calendar_event"),
        ("calen day", "get_calendar"),
        ("ping", "ping"),
    ],
)
def test_search_ranks_the_best_match_first(words: str, first: str) -> None:
    assert CATALOG.search(words)[0].name == first


@pytest.mark.requirement("CV-25")
def test_search_without_a_match_finds_nothing_and_respects_its_limit() -> None:
    assert CATALOG.search("weather") == ()
    assert CATALOG.search("") == ()
    assert len(CATALOG.search("calendar", limit=1)) == 1


@pytest.mark.requirement("CV-25")
def test_only_the_newest_version_of_a_tool_is_found() -> None:
    catalog = Catalog(tools=(Tool(name="save"), Tool(name="save", version="2.0.0"), Tool(name="load")))
    assert [tool.version for tool in catalog.search("save")] == ["2.0.0"]
