"""Which paths are inside a folder: only those that every server reads alike."""

from __future__ import annotations

from pathlib import PurePosixPath
from posixpath import normpath
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.consent.bound_text import parse_bound
from toolwire.consent.conditions import is_met
from toolwire.consent.grant import covers_call
from toolwire.core.condition import read_conditions, read_grant_conditions
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Condition, Tool

pytestmark = pytest.mark.requirement("QF-03")

FOLDER = "/srv/reports"
TOOL = Tool(name="read", description="")
INSIDE = (Condition("/path", "within", FOLDER),)
# What servers may read as a step up, a separator or an escape.
PIECES = [
    "a",
    "..",
    ".",
    "...",
    "..;",
    ".. ",
    "",
    "b.txt",
    "%2e%2e",
    "%2f",
    "\\",
    "\uff0e\uff0e",
    "\u2025",
    "\u2215",
    "~",
    "\x00",
]


def read_as_servers_do(path: str) -> list[str]:
    """Return where a path may lead: as it stands, unescaped, with backslashes as slashes, and with compatible forms."""
    forms = {path, unquote(path), path.replace("\\", "/"), unquote(path).replace("\\", "/")}
    forms |= {one.replace("\uff0e", ".").replace("\u2025", "..").replace("\u2215", "/") for one in forms}
    forms |= {"/".join(part.rstrip(" ") for part in one.split("/")) for one in forms}
    return [normpath(one.partition("\x00")[0].replace("..;", "..")) for one in forms]


@given(st.lists(st.sampled_from(PIECES), max_size=5), st.sampled_from(["/", "\\", "//"]))
def test_path_that_may_lead_out_of_the_folder_is_never_inside(pieces: list[str], separator: str) -> None:
    path = separator.join([FOLDER, *pieces])
    if covers_call(INSIDE, {"path": path}):
        assert all(PurePosixPath(one).is_relative_to(FOLDER) for one in read_as_servers_do(path))


@given(st.text(max_size=30))
def test_no_text_without_the_folder_at_its_beginning_is_inside(text: str) -> None:
    assert not covers_call(INSIDE, {"path": text}) or text == FOLDER or text.startswith(f"{FOLDER}/")


@given(st.lists(st.from_regex(r"[a-zäé0-9_-][a-zäé0-9._ -]{0,8}[a-z0-9]", fullmatch=True), max_size=4))
def test_plain_path_below_the_folder_is_inside(names: list[str]) -> None:
    assert covers_call(INSIDE, {"path": "/".join([FOLDER, *names])})


@pytest.mark.parametrize(
    ("path", "met"),
    [
        ("/srv/reports", True),
        ("/srv/reports/", True),
        ("/srv/reports/.hidden", True),
        ("/srv/reports2/a", False),
        ("/srv", False),
        ("srv/reports/a", False),
        (["/srv/reports/a", "/srv/reports/b"], True),
        (["/srv/reports/a", "/etc/passwd"], False),
        (["/srv/reports/a", "/srv/reports/../x"], None),
        ([], None),
        (7, None),
        ({"path": "/srv/reports/a"}, None),
        ("/srv/reports/a\n", None),
        ("file:///srv/reports/a", None),
    ],
)
def test_path_is_inside_or_not_or_cannot_be_judged(path: object, met: bool | None) -> None:
    assert is_met(INSIDE[0], TOOL, {"path": path}) is met


def test_folder_of_the_whole_machine_holds_each_absolute_path() -> None:
    whole = (Condition("/path", "within", "/"),)
    assert [covers_call(whole, {"path": one}) for one in ("/", "/etc", "etc", "/a/../b")] == [True, True, False, False]


@pytest.mark.parametrize("folder", ["", "/srv/../etc", "/srv//a", "a\\b", "/srv/%2e", 7, ["/srv"]])
def test_folder_that_is_no_plain_path_is_refused(folder: object) -> None:
    data = [{"pointer": "/path", "op": "within", "value": folder}]
    assert read_grant_conditions(data) is None
    assert covers_call((Condition("/path", "within", folder),), {"path": folder}) is False
    if isinstance(folder, str) and folder:
        with pytest.raises(DefinitionError, match="is not a plain folder path"):
            parse_bound("path", "/srv/a", f"within {folder}")


def test_user_types_a_folder_and_no_tool_declares_one() -> None:
    assert parse_bound("path", "/srv/reports/a", "within /srv/reports") == INSIDE[0]
    assert read_conditions([{"pointer": "/path", "op": "within", "value": FOLDER}]) is None
