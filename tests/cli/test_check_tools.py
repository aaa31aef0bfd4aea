"""``toolwire check file.py``: what the author of tools reads about them, at the start of a server and before."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire import Toolkit
from toolwire.testing.tool_checks import RULES, check_tools, compute_score

pytestmark = pytest.mark.requirement("FD-05")

TOOLS = """
    from typing import Any
    from toolwire import Toolkit

    desk = Toolkit("Desk")

    @desk.tool(approval="auto")
    def delete_note(note: str) -> str:
        return note

    @desk.tool()
    def get_notes(filter: Any) -> str:
        \"\"\"Read the notes.\"\"\"
        return ""

    @desk.tool()
    def notes_get(text: str) -> str:
        \"\"\"Read every note.\"\"\"
        return text
"""
GOOD = """
    from toolwire import Toolkit

    desk = Toolkit("Desk")

    @desk.tool(approval="auto")
    def count_notes(text: str) -> int:
        \"\"\"Count the notes that contain a text.\"\"\"
        return len(text)
"""


def test_check_lists_the_faults_of_tools_with_their_lines_and_a_score(
    write: Callable[..., Path], toolwire: Callable[..., Any]
) -> None:
    file = write("desk.py", TOOLS)
    outcome = toolwire("check", file)
    lines = outcome.out.splitlines()
    found = [(int(line.split(":")[1]), line.split("[")[1].split("]")[0]) for line in lines[:-1]]
    decorators = [place for place, line in enumerate(file.read_text().splitlines(), 1) if line.startswith("@")]
    assert found == [
        (decorators[0], "no-description"),
        (decorators[0], "unasked-write"),
        (decorators[1], "untyped-argument"),
        (decorators[2], "similar-tools"),
    ]
    assert all(": " in line and line.endswith(".") for line in lines)
    assert lines[-1] == f"1 file checked: 0 errors, 4 warnings. Tool score: {file}: 75 of 100."
    assert (outcome.code, toolwire("check", file, "--strict").code) == (0, 1)


def test_good_tools_have_the_whole_score(write: Callable[..., Path], toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("check", f"{write('desk.py', GOOD)}:desk", "--strict")
    assert (outcome.code, outcome.out.endswith("100 of 100.\n")) == (0, True)


def test_json_has_the_faults_and_the_score(write: Callable[..., Path], toolwire: Callable[..., Any]) -> None:
    file = write("desk.py", TOOLS)
    data = json.loads(toolwire("check", file, "--json").out)
    assert data["scores"] == {str(file): 75}
    assert next(one["rule"] for one in data["faults"]) == "no-description"
    assert {one["pointer"] for one in data["faults"]} == {"/delete_note", "/get_notes", "/notes_get"}


def test_sarif_has_a_rule_and_a_place_for_each_fault(write: Callable[..., Path], toolwire: Callable[..., Any]) -> None:
    file, document = write("desk.py", TOOLS), write("broken.json", '{"opentool": "1.1.0"}')
    data = json.loads(toolwire("check", file, document, "--sarif").out)
    assert (data["version"], len(data["runs"])) == ("2.1.0", 1)
    (run,) = data["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert {one["ruleId"] for one in run["results"]} == set(rules)
    assert len(rules) == len(set(rules))
    for one in run["results"]:
        (place,) = one["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"] in (file.as_uri(), document.as_uri())
        assert place["physicalLocation"]["region"]["startLine"] >= 1
        assert one["level"] in ("error", "warning")
        assert one["message"]["text"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [("import nothing_here", "nothing_here"), ("x = 1", "Toolkit"), ("kit = None\n1 / 0", "ZeroDivisionError")],
)
def test_code_that_cannot_be_read_is_named_and_the_other_files_are_checked(
    code: str, reason: str, write: Callable[..., Path], toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("check", write("bad.py", code), write("desk.py", GOOD))
    assert outcome.code == 2
    assert reason in outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.out.startswith("1 file checked")


def test_start_of_a_server_counts_the_faults(write: Callable[..., Path]) -> None:
    def start(file: Path) -> str:
        command = [sys.executable, "-m", "toolwire", "serve", str(file), "--stdio"]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stderr

    warned = start(write("desk.py", TOOLS))
    assert "delete_note is declared as read-only without a question" in warned
    assert "3 things could confuse a model: `toolwire check FILE` lists them. delete_note has no desc" in warned
    assert "confuse" not in start(write("good.py", GOOD))


def build_tools(count: int, *, text: str = "Read.", name: str = "read_{}") -> Toolkit:
    kit = Toolkit("Desk")
    for number in range(count):

        def read(text: str) -> str:
            return text

        kit.tool(
            name=name.format("abcdefghijklmnop"[number % 16] * (number // 16 + 1)), description=f"{number} {text}"
        )(read)
    return kit


@pytest.mark.parametrize(
    ("kit", "rules"),
    [
        (build_tools(1, text="x" * 1300), []),
        (build_tools(1, text="x" * 1700), ["large-tool"]),
        (build_tools(25, text="x" * 1300), []),
        (build_tools(30, text="x" * 1300), ["large-list"]),
        (build_tools(2, text=". Read"), []),
    ],
)
def test_limits_of_tokens(kit: Toolkit, rules: list[str]) -> None:
    faults = check_tools(kit.functions)
    assert [fault.rule for fault in faults] == rules
    assert compute_score(kit.functions, faults) == 100 - (
        0 if not rules else -(-100 * len(rules) // (len(kit.functions) * 5 + 1))
    )


def test_every_rule_has_a_sentence() -> None:
    assert all(sentence.endswith(".") for sentence in RULES.values())
