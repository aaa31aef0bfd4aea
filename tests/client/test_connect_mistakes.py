"""A mistake in the options of ``connect`` is named where it is written, before anything is sent."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire import DefinitionError, Toolkit, connect, connect_sync

CONNECTING: tuple[Callable[..., Any], ...] = (connect, connect_sync)


async def answer(*_: object) -> bool:
    return True


@pytest.mark.parametrize("opens", CONNECTING)
@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({"approve": "yes"}, "approve is a function, not str."),
        ({"agree": True}, "agree is a function, not bool."),
        (
            {"agree": answer},
            ("agree must be a plain function, because a blocking connection cannot await a coroutine function."),
        ),
        ({"approve_relocation": answer}, "approve_relocation must be a plain function"),
        ({"provide_input": {}}, "provide_input is a function, not dict."),
        ({"headers": ["a: b"]}, 'headers is a mapping, such as {"x-tenant": "a"}, not list.'),
        ({"selection": {"tags": ["a"]}}, "selection is a Selection, not dict."),
        ({"preferences": "deny"}, "preferences is Preferences, not str."),
        ({"session": "s"}, "session is a Session, not str."),
        ({"context": {"user_id": "ann"}}, "context is a Context, not dict."),
        ({"locked": "toolwire.lock"}, "locked is what read_lock(file) returns, not str."),
        ({"api_key": 5}, "api_key must be a string or a Secret, not int."),
        ({"token": b"hidden"}, "token must be a string or a Secret, not bytes."),
        ({"timeout_s": "5"}, "timeout_s must be a number of seconds above 0, not '5'."),
        ({"timeout_s": 0}, "timeout_s must be a number of seconds above 0, not 0."),
        ({"timeout_s": float("nan")}, "timeout_s must be a number of seconds above 0, not nan."),
    ],
)
def test_option_of_a_wrong_type_is_named(opens: Callable[..., Any], option: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(sentence)):
        opens(Toolkit("K"), **option)


@pytest.mark.parametrize("opens", CONNECTING)
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("protocl", ": did you mean 'protocol'?"),
        ("aprove", ": did you mean 'approve'?"),
        ("qqq", "."),
        ("include", ": write selection=Selection(include=...)."),
        ("tags", ": write selection=Selection(tags=...)."),
        ("auth", ": write token=..., api_key=... or headers=...."),
    ],
)
def test_mistyped_option_is_answered_by_what_was_meant(opens: Callable[..., Any], name: str, hint: str) -> None:
    with pytest.raises(TypeError) as raised:
        opens("https://example.com", **{name: "mcp"})
    assert str(raised.value) == f"{opens.__name__} has no option {name!r}{hint}"


@pytest.mark.parametrize("opens", CONNECTING)
@pytest.mark.parametrize("name", ["nosuch.json", "./nosuch.yaml", "/nosuch/api.yml", Path("nosuch.json")])
def test_document_that_is_not_there_is_no_site(opens: Callable[..., Any], name: str | Path) -> None:
    with pytest.raises(DefinitionError, match=f"^File not found: {re.escape(str(name))}\\.$"):
        opens(name)
    opens(f"api.example.com/{Path(name).name}")


def test_wrong_kind_of_with_is_answered_by_the_form_that_was_meant() -> None:
    form = r"^connect opens a connection with `async with connect\(\.\.\.\) as remote:`"
    with pytest.raises(TypeError, match=form), connect("http://127.0.0.1:1"):  # type: ignore[attr-defined]  # the mistake
        pass

    async def open_it() -> None:
        async with connect_sync("http://127.0.0.1:1"):  # type: ignore[attr-defined]  # the mistake
            pass

    with pytest.raises(
        TypeError, match=r"^connect_sync opens a connection with `with connect_sync\(\.\.\.\) as remote:`"
    ):
        asyncio.run(open_it())


WITHOUT_POSIX = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "pwd", "resource", "termios"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in ("fcntl", "pwd", "resource", "termios"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
"""


@pytest.mark.parametrize(
    "use",
    [
        "from toolwire import connect_sync",
        "import sys; from toolwire.cli import main; sys.exit(main(['tools', 'http://127.0.0.1:1']))",
    ],
)
def test_other_system_is_refused_in_one_sentence(use: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX + use], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode in (1, 2)
    last = ran.stderr.splitlines()[-1]
    assert "toolwire needs Linux or macOS: Python has no module" in last
    assert last.endswith("On Windows, use WSL.")
    assert ("Traceback" in ran.stderr) == ("cli" not in use)


@pytest.mark.parametrize("opens", CONNECTING)
def test_file_of_code_is_no_site(opens: Callable[..., Any]) -> None:
    with pytest.raises(DefinitionError, match=r"^shop\.py is code\. Import it, and connect to its toolkit\.$"):
        opens("shop.py")


def test_awaited_connection_is_answered_by_what_keeps_it_open() -> None:
    async def open_it() -> None:
        await connect("http://127.0.0.1:1")  # type: ignore[misc]  # the mistake

    with pytest.raises(TypeError, match=r"^connect opens a connection with .*stack\.enter_async_context\(connect\("):
        asyncio.run(open_it())
