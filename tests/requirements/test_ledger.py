"""The requirements ledger is complete, names only what exists, and counts only what is proved."""

import importlib.util
import json
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec import runs
from tests.process import amounts

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("ledger", ROOT / "spec" / "ledger.py")
assert _spec is not None
assert _spec.loader is not None
ledger = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(ledger)

PROVED = 'import pytest\n\n@pytest.mark.requirement("OTC-001")\ndef test_an_id_is_unique() -> None: ...\n'
SMALL = """\
# Two requirements.

[OTC-001]
sentence = "A tool has an id."
source = "seed 003"
gap = "not proved by a test yet"

# A remark that stays.

[OTC-002]
sentence = "An id [in brackets] is unique."
source = "seed 003"
gap = "ids are not unique yet"
since = 2026-11-23
"""

GAP = 'gap = "ids are not unique yet"\nsince = 2026-11-23\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of two requirements, one test and one docstring."""
    files = {
        "spec/requirements.toml": SMALL,
        "tests/otc/test_ids.py": PROVED,
        "src/toolwire/ids.py": '"""Where ids are made. [OTC-001]"""\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def markers(*lines: str) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    found = ledger.read_markers("\n".join(lines), "t.py")
    return [(proof.id, proof.place) for proof in found.proofs], found.strays


def tags(docstring: str) -> list[str]:
    families = ["OT", "OTC", "OTRPC", "R", "S", "D"]
    return [tag.id for tag in ledger.read_tags(f'"""{docstring}"""', "m.py", families)]


# This project's own ledger


@cache
def read_own_ledger() -> Any:
    return ledger.read_ledger(ROOT)


def test_ledger_has_every_numbered_requirement_once_and_in_order() -> None:
    # How many there are is a fact of the sources; x-llm leaves room between its sections, the others have no holes.
    xllm = [(1, 57), (60, 67), (70, 77), (80, 90), (100, 106), (110, 118), (120, 124), (130, 137), (140, 144)]
    expected = [
        *(f"OT-{n:03}" for n in range(1, 32)),  # the document, seeds 000 and 001
        *(f"OTRPC-{n:03}" for n in range(1, 30)),  # client and server, seed 002
        *(f"OTC-{n:03}" for n in range(1, 45)),  # the RFC, seed 003
        *(f"OXP-{n:03}" for n in range(1, 18)),  # what OXP 1.0 fixes in it
        *(f"S-{n}" for n in range(1, 18)),  # interop rules of a server
        *(f"C-{n}" for n in range(1, 14)),  # interop rules of a client
        *(f"A-{n:02}" for n in range(1, 54)),  # open points of both, settled
        *(f"XL-{n:03}" for first, last in xllm for n in range(first, last + 1)),  # OpenTools, seed 004
        *(f"OQ-{n}" for n in range(1, 14)),  # the open questions of seed 004 and of its plan
        *(f"CV-{n:02}" for n in range(1, 35)),  # what a converter of OpenAPI must get right
        *(f"AS-{n:02}" for n in range(1, 23)),  # the authorization server
        *(f"AC-{n:02}" for n in range(1, 15)),  # the OAuth client
        *(f"D-{n:02}" for n in range(1, 40)),  # the threat model
        *(f"R{n}" for n in range(1, 21)),  # the reliability goals
        *(f"OB-{n}" for n in range(1, 7)),  # limits, idempotency and observability, reliability goals beside R
        *(f"O-{n:02}" for n in range(1, 13)),  # defects of OpenAPI documents as tools
        *(f"AT-{n:02}" for n in range(1, 22)),  # attacks that worked once
        *(f"I-{n:02}" for n in range(1, 11)),  # defects beside clients, servers and SDKs of others; I-11 is MC-11
        *(f"P-{n:02}" for n in range(1, 11)),  # cost that grew as it should not
    ]
    found = list(read_own_ledger().requirements)
    assert found[: len(expected)] == expected
    # The rows of these lists come one by one, each when a user has it.
    later = [
        *(f"MC-{n:02}" for n in range(1, 15)),  # MCP in full
        *(f"CC-{n:02}" for n in range(1, 9)),  # consent that holds everywhere
        *(f"LC-{n:02}" for n in range(1, 6)),  # long calls
        *(f"ST-{n:02}" for n in range(1, 7)),  # state that spans machines
        *(f"PR-{n:02}" for n in range(1, 9)),  # programs with consent
        *(f"GW-{n:02}" for n in range(1, 7)),  # the gateway
        *(f"CO-{n:02}" for n in range(1, 5)),  # the console
        *(f"FU-{n:02}" for n in range(1, 42)),  # the first use
        *(f"CL-{n:02}" for n in range(1, 5)),  # the command line
        *(f"AT-{n:02}" for n in range(31, 59)),  # faults of 1.0.0rc1: attacks
        *(f"O-{n:02}" for n in range(21, 39)),  # documents, and what comes back
        *(f"I-{n:02}" for n in range(21, 34)),  # clients and servers of others
        *(f"FU-{n:02}" for n in range(51, 64)),  # new users
        *(f"SE-{n:02}" for n in range(1, 11)),  # the five documents
        *(f"GR-{n:02}" for n in range(1, 7)),  # growth
        *(f"RE-{n:02}" for n in range(1, 8)),  # the release
        *(f"TE-{n:02}" for n in range(1, 6)),  # the tests
        *(f"CR-{n:02}" for n in range(1, 6)),  # crossings
        *(f"AO-{n:02}" for n in range(1, 5)),  # applications with users of their own
        *(f"PL-{n:02}" for n in range(1, 9)),  # platform teams
        *(f"QF-{n:02}" for n in range(1, 11)),  # few questions
        *(f"FI-{n:02}" for n in range(1, 10)),  # finding tools
        *(f"FD-{n:02}" for n in range(1, 12)),  # the first hour
    ]
    assert found[len(expected) :] == [name for name in later if name in found]


def test_every_requirement_has_a_sentence_and_a_source() -> None:
    for requirement in read_own_ledger().requirements.values():
        assert requirement.sentence.endswith("."), requirement.id
        assert requirement.source, requirement.id
        assert requirement.gap != "", requirement.id


def test_markers_tags_and_gaps_of_this_project_have_no_fault() -> None:
    assert ledger.faults(read_own_ledger()) == []


# What a fault is


def test_valid_project_has_no_fault(project: Path) -> None:
    assert ledger.faults(ledger.read_ledger(project)) == []


def test_an_unknown_id_in_a_marker_is_a_fault(project: Path) -> None:
    (project / "tests/otc/test_ids.py").write_text(PROVED.replace("OTC-001", "OTC-003"))
    [fault] = ledger.faults(ledger.read_ledger(project))
    assert fault == "tests/otc/test_ids.py::test_an_id_is_unique: the marker names OTC-003, which is not a requirement."


def test_marker_without_a_test_is_a_fault(project: Path) -> None:
    (project / "tests/otc/test_ids.py").write_text(PROVED.replace("def test_", "def make_"))
    [fault] = ledger.faults(ledger.read_ledger(project))
    assert fault.startswith("tests/otc/test_ids.py:3: the marker must stand on a test")


def test_an_unknown_id_in_a_docstring_is_a_fault(project: Path) -> None:
    (project / "src/toolwire/ids.py").write_text('X = 1\n"""One. [OTC-001..003]"""\n')
    [fault] = ledger.faults(ledger.read_ledger(project))
    assert fault == "src/toolwire/ids.py:2: the tag OTC-003 is not a requirement."


def test_requirement_without_test_or_gap_is_a_fault(project: Path) -> None:
    (project / "spec/requirements.toml").write_text(
        SMALL.replace('gap = "ids are not unique yet"\nsince = 2026-11-23\n', "")
    )
    [fault] = ledger.faults(ledger.read_ledger(project))
    assert fault == "spec/requirements.toml: OTC-002 has neither a test nor a gap."


def test_two_requirements_with_one_id_are_refused() -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        ledger.read_requirements(SMALL.replace("OTC-002", "OTC-001"))


def test_unknown_key_is_refused() -> None:
    with pytest.raises(TypeError, match="tests"):
        ledger.read_requirements(SMALL.replace("gap =", "tests ="))


# What counts as a proof


def test_a_marker_counts_on_a_function_a_class_a_method_a_parameter_and_a_module() -> None:
    proofs, strays = markers(
        "pytestmark = [pytest.mark.slow, pytest.mark.requirement('R5')]",
        "CASES = [pytest.param(1, marks=pytest.mark.requirement('S-3'))]",
        "@pytest.mark.requirement('S-1', 'S-2')",
        "async def test_one(): ...",
        "@pytest.mark.requirement('D-05')",
        "class TestTwo:",
        "    @pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.requirement('D-06'))])",
        "    def test_three(self, x): ...",
    )
    assert proofs == [
        ("R5", "t.py"),
        ("S-3", "t.py::CASES"),
        ("S-1", "t.py::test_one"),
        ("S-2", "t.py::test_one"),
        ("D-05", "t.py::TestTwo"),
        ("D-06", "t.py::TestTwo::test_three"),
    ]
    assert strays == ()


@pytest.mark.parametrize("off", ["skip", "skip(reason='later')", "xfail(strict=True)"])
def test_a_test_that_is_skipped_or_expected_to_fail_proves_nothing(off: str) -> None:
    marker, off = "@pytest.mark.requirement('R5')", f"pytest.mark.{off}"
    assert markers(marker, f"@{off}", "def test_one(): ...") == ([], ())
    assert markers(f"@{off}", "class TestOne:", f"    {marker}", "    def test_one(self): ...") == ([], ())
    assert markers(f"pytestmark = {off}", marker, "def test_one(): ...") == ([], ())


def test_conditionally_skipped_test_counts() -> None:
    proofs, _ = markers("@pytest.mark.skipif(x, reason='')", "@pytest.mark.requirement('R5')", "def test_one(): ...")
    assert proofs == [("R5", "t.py::test_one")]


@pytest.mark.parametrize("arguments", ["", "NAME", "'R5', NAME", "*IDS", "id='R5'", "5"])
def test_a_marker_without_literal_ids_is_a_stray(arguments: str) -> None:
    _, strays = markers(f"@pytest.mark.requirement({arguments})", "def test_one(): ...")
    assert strays == ("t.py:1",)


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("A rule. [OTC-017]", ["OTC-017"]),
        ("A rule. [OTC-017, D-04] And [R5].", ["OTC-017", "D-04", "R5"]),
        ("A rule that wraps. [OTC-017,\n    S-4]", ["OTC-017", "S-4"]),
        ("A range. [OTC-009..011]", ["OTC-009", "OTC-010", "OTC-011"]),
        ("A range in full. [S-9..S-10, OTRPC-001]", ["S-9", "S-10", "OTRPC-001"]),
        ("A range that runs backwards is not an id. [S-4..1]", ["S-4..1"]),
        ("A range across families is not an id. [S-4..D-06]", ["S-4..D-06"]),
        ("Prose [see OTC-017], other [RFC-9728], code x[0], names [list[str]].", []),
    ],
)
def test_a_docstring_tag_is_a_bracket_of_ids_alone(docstring: str, expected: list[str]) -> None:
    assert tags(docstring) == expected


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# OTC-017: the reason", ["OTC-017"]),
        ("# OTC-009..011, D-04: the reason, see S-4", ["OTC-009", "OTC-010", "OTC-011", "D-04"]),
        ("# OTC-017", ["OTC-017"]),
        ("# The reason. [OTC-017, D-04]", ["OTC-017", "D-04"]),
        ("# The reason is OTC-017: prose", []),
        ("# OTC-017 is prose too", []),
    ],
)
def test_comment_starts_with_its_tags_or_has_them_in_brackets(comment: str, expected: list[str]) -> None:
    families = ["OTC", "D", "S", "R", "OTRPC"]
    found = list(ledger.read_tags(f"x = 1\nif x:  {comment}\n    pass\n", "m.py", families))
    assert [tag.id for tag in found] == expected
    assert {tag.place for tag in found} <= {"m.py:2"}


def test_tag_in_other_text_is_not_read() -> None:
    assert list(ledger.read_tags("x = 'A [S-1]'\nf('# S-3: no')\n", "m.py", ["S"])) == []


# Counting and settling


def write_results(project: Path, **test: object) -> None:
    """Write what the last test run on this machine found of the one test of the project."""
    one = {
        "ids": ["OTC-001"],
        "passed": 0,
        "skipped": 0,
        "failed": 0,
        "reason": "",
        "date": "2026-11-23",
        "commit": "a",
    }
    (project / ".cache").mkdir(exist_ok=True)
    text = json.dumps({"tests": {"tests/otc/test_ids.py::test_an_id_is_unique": one | test}})
    (project / ".cache/requirements.json").write_text(text)


def write_run(project: Path, name: str, figures: dict[str, object], *, passed: bool = True) -> None:
    (project / "spec/runs").mkdir(exist_ok=True)
    run: dict[str, object] = {
        "date": "2026-11-22",
        "commit": "b",
        "command": "make it",
        "machine": "",
        "passed": passed,
    }
    run["figures"] = figures
    (project / f"spec/runs/{name}.json").write_text(json.dumps(run))


def find_state(project: Path, name: str = "OTC-001") -> tuple[str, str]:
    read = ledger.read_ledger(project)
    return ledger.state(read, read.requirements[name]), ledger.reason(read, read.requirements[name])


@pytest.fixture
def settled_project(project: Path) -> Path:
    """The project without the gap of the requirement that has a test."""
    (project / "spec/requirements.toml").write_text(ledger.finish(SMALL, ["OTC-001"]))
    return project


def test_a_requirement_is_proved_by_a_test_that_passed_and_no_gap(settled_project: Path) -> None:
    assert find_state(settled_project)[0] == "not run", "no test has run anywhere"
    write_results(settled_project, passed=1)
    assert find_state(settled_project) == ("proved", "")
    assert find_state(settled_project, "OTC-002") == ("partial", "ids are not unique yet (2026-11-23)")
    assert ledger.totals(ledger.read_ledger(settled_project))["total"] == {
        "total": 2, "proved": 1, "recorded": 0, "partial": 1, "not run": 0, "missing": 0,
    }  # fmt: skip


def test_requirement_with_a_gap_is_partial_despite_a_passed_test(project: Path) -> None:
    write_results(project, passed=1)
    assert find_state(project)[0] == "partial"


def test_requirement_with_only_skipped_tests_is_not_run_with_the_reason(settled_project: Path) -> None:
    write_results(settled_project, skipped=2, reason="there is no Redis")
    assert find_state(settled_project) == ("not run", "there is no Redis")
    write_results(settled_project, skipped=2, passed=1, reason="there is no Redis")
    assert find_state(settled_project)[0] == "proved"


def test_a_requirement_with_a_test_that_failed_is_not_proved(settled_project: Path) -> None:
    write_results(settled_project, passed=3, failed=1)
    assert find_state(settled_project) == ("partial", "tests/otc/test_ids.py::test_an_id_is_unique failed")


def test_the_result_of_a_test_that_is_gone_does_not_count(settled_project: Path) -> None:
    write_results(settled_project, passed=1)
    (settled_project / "tests/otc/test_ids.py").rename(settled_project / "tests/otc/test_names.py")
    assert find_state(settled_project)[0] == "not run"


def test_recorded_run_counts_without_a_local_run(settled_project: Path) -> None:
    write_run(settled_project, "tests", {"requirements": 1, "not run": {}})
    assert find_state(settled_project)[0] == "proved"
    write_run(settled_project, "tests", {"requirements": 1, "not run": {"OTC-001": "there is no Redis"}})
    assert find_state(settled_project) == ("not run", "there is no Redis")
    write_results(settled_project, passed=1)
    assert find_state(settled_project)[0] == "proved", "this machine has its own result"


def test_requirement_of_a_long_run_needs_its_record(settled_project: Path) -> None:
    write_results(settled_project, passed=1)
    rows = settled_project / "spec/requirements.toml"
    rows.write_text(rows.read_text().replace('003"\n', '003"\nruns = ["kills"]\n', 1))
    assert find_state(settled_project) == ("not run", "no record of the run 'kills'")
    write_run(settled_project, "kills", {"lost": 0})
    assert find_state(settled_project) == ("recorded", "kills of 2026-11-22 on b")


def test_run_that_did_not_pass_or_lacks_the_figures_of_a_requirement_does_not_prove_it(settled_project: Path) -> None:
    write_results(settled_project, passed=1)
    rows = settled_project / "spec/requirements.toml"
    rows.write_text(rows.read_text().replace('003"\n', '003"\nruns = ["kills"]\n', 1))
    write_run(settled_project, "kills", {"lost": 3}, passed=False)
    assert find_state(settled_project) == ("not run", "the run 'kills' of 2026-11-22 on b did not pass")
    write_run(settled_project, "kills", {"OTC-002 lost": 0})
    assert find_state(settled_project) == ("not run", "the record of the run 'kills' has no figures of OTC-001")
    write_run(settled_project, "kills", {"OTC-002 lost": 0, "OTC-001 lost": 0})
    assert find_state(settled_project) == ("recorded", "kills of 2026-11-22 on b")


def test_a_gap_without_a_date_is_a_fault(project: Path) -> None:
    (project / "spec/requirements.toml").write_text(SMALL.replace("since = 2026-11-23\n", ""))
    [fault] = ledger.faults(ledger.read_ledger(project))
    assert fault == "spec/requirements.toml: OTC-002 has a gap, and no date in `since`."


def test_why_shows_one_requirement_with_its_tests_and_its_code(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ledger.main(["--why", "OTC-001"], root=project) == 0
    out = capsys.readouterr().out
    assert out.startswith("OTC-001   partial  A tool has an id.\n")
    assert "test: tests/otc/test_ids.py::test_an_id_is_unique\n" in out
    assert "code: src/toolwire/ids.py:1\n" in out
    assert "OTC-002" not in out
    with pytest.raises(SystemExit):
        ledger.main(["--why", "OTC-999"], root=project)
    assert "there is no requirement OTC-999" in capsys.readouterr().err


def test_record_option_stores_the_local_results(settled_project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ledger.main(["--record"], settled_project) == 1
    assert "run `make test` first" in capsys.readouterr().err
    write_results(settled_project, skipped=1, reason="there is no Redis")
    assert ledger.main(["--record"], settled_project) == 0
    (settled_project / ".cache/requirements.json").unlink()
    assert find_state(settled_project) == ("not run", "there is no Redis")


def test_long_run_writes_its_own_record(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs.record_run("kills", "make kills", {"lost": 0}, project) is None
    monkeypatch.setenv("TOOLWIRE_RECORD", "1")
    for figures in ({"lost": 0}, {"doubled": 0}):
        path = runs.record_run("kills", "make kills", figures, project)
    assert path == project / "spec/runs/kills.json"
    assert path is not None
    record = json.loads(path.read_text())
    assert record["figures"] == {"lost": 0, "doubled": 0}
    assert record["command"] == "make kills"


def test_figures_of_a_test_that_fails_are_not_recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLWIRE_RECORD", "1")
    amounts.report("OTC-001", "kills", lost=3)
    amounts.forget_measured()
    amounts.report("OTC-002", "kills", lost=0)
    amounts.record_measured(project)
    amounts.record_measured(project)
    record = json.loads((project / "spec/runs/kills.json").read_text())
    assert (record["passed"], record["figures"]) == (True, {"OTC-002 lost": 0})
    monkeypatch.setattr(amounts, "_recorded", {("kills", project)})  # not those of other tests of this process
    amounts.mark_failed()
    record = json.loads((project / "spec/runs/kills.json").read_text())
    assert (record["passed"], record["figures"]) == (False, {"OTC-002 lost": 0})


def test_settle_removes_only_the_default_gap_of_proved_requirements() -> None:
    assert ledger.finish(SMALL, ["OTC-001", "OTC-002"]) == SMALL.replace('gap = "not proved by a test yet"\n', "")


def test_settle_restores_the_default_gap_of_a_removed_test() -> None:
    assert ledger.finish(ledger.finish(SMALL, ["OTC-001"]), []) == SMALL


@settings(max_examples=20)  # each example parses the whole ledger twice
@given(st.data())
def test_settling_the_real_ledger_changes_only_default_gaps(data: st.DataObject) -> None:
    text = (ROOT / "spec" / "requirements.toml").read_text(encoding="utf-8")
    before = ledger.read_requirements(text)
    proved = data.draw(st.sets(st.sampled_from(list(before))))
    settled = ledger.finish(text, proved)
    after = ledger.read_requirements(settled)
    for name, requirement in after.items():
        own_gap = before[name].gap if before[name].gap != ledger.DEFAULT_GAP else None
        assert requirement.gap == (own_gap or (None if name in proved else ledger.DEFAULT_GAP))
        assert (requirement.sentence, requirement.source) == (before[name].sentence, before[name].source)
    assert list(after) == list(before)
    assert ledger.finish(settled, proved) == settled
    assert [line for line in settled.splitlines() if line[:1] == "#"] == [
        line for line in text.splitlines() if line[:1] == "#"
    ]


# The command


def test_the_table_has_a_row_for_each_family_and_one_for_all(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ledger.main([], project) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["family", "total", "proved", "recorded", "partial", "not", "run", "missing"],
        ["OTC", "2", "0", "0", "2", "0", "0"],
        ["total", "2", "0", "0", "2", "0", "0"],
        [],
        ["By", "no", "test", "run:", "`make", "test`", "makes", "one."],
        ["OTC-001", "partial", "not", "proved", "by", "a", "test", "yet"],
        ["OTC-002", "partial", "ids", "are", "not", "unique", "yet", "(2026-11-23)"],
    ]


def test_json_output_equals_the_table(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ledger.main(["--json"], project) == 0
    assert json.loads(capsys.readouterr().out) == ledger.totals(ledger.read_ledger(project))


def test_family_is_listed_with_its_tests_and_gaps(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ledger.main(["--family", "OTC"], project) == 0
    assert [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()] == [
        ["OTC-001", "partial  A tool has an id."],
        ["test:", "tests/otc/test_ids.py::test_an_id_is_unique"],
        ["reason:", "not proved by a test yet"],
        ["OTC-002", "partial  An id [in brackets] is unique."],
        ["reason:", "ids are not unique yet (2026-11-23)"],
    ]


def test_an_unknown_family_is_a_usage_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        ledger.main(["--family", "total"], project)
    assert "the families are OTC" in capsys.readouterr().err


def test_missing_option_lists_requirements_without_test_or_gap_and_fails(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "spec/requirements.toml").write_text(
        SMALL.replace('gap = "ids are not unique yet"\nsince = 2026-11-23\n', "")
    )
    assert ledger.main(["--missing"], project) == 1
    printed = capsys.readouterr()
    assert printed.out.split()[:2] == ["OTC-002", "missing"]
    assert "neither a test nor a gap" in printed.err


def test_settle_rewrites_the_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ledger.main(["--settle"], project) == 0
    assert (project / "spec/requirements.toml").read_text() == ledger.finish(SMALL, ["OTC-001"])
    assert "proved" in capsys.readouterr().out


@pytest.mark.requirement("FU-63")
def test_a_recorded_run_is_stale_when_what_it_is_about_has_changed(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        own = ("-c", "user.name=a", "-c", "user.email=a@a.example")
        return subprocess.run(["git", "-C", tmp_path, *own, *words], check=True, capture_output=True, text=True).stdout

    for name in ("src/toolwire/console/page.py", "src/toolwire/stores/ledger/sqlite.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "Begin")
    run = {"date": "2026-11-26", "commit": git("rev-parse", "--short", "HEAD").strip()}
    where = f"2026-11-26 on commit {run['commit']}"
    assert runs.describe_age("states", run, tmp_path) == where
    (tmp_path / "src/toolwire/stores/ledger/sqlite.py").write_text("1")
    git("commit", "--quiet", "-am", "Change")
    text = f"{where}: stale, 1 of the files that it is about have changed since"
    assert runs.describe_age("states", run, tmp_path) == text
    assert runs.describe_age("console", run, tmp_path) == where
    assert runs.describe_age("mutants", run, tmp_path) == text, "a run about all of the source"
    assert runs.describe_age("mutants-console-oauth", run, tmp_path) == where
    assert runs.describe_age("mutants-console-stores", run, tmp_path) == text
    elsewhere = {**run, "commit": "0123456"}
    assert runs.describe_age("states", elsewhere, tmp_path).endswith("does not have the commit")
    assert runs.describe_age("states", {**run, "commit": f"{run['commit']}+"}, tmp_path).endswith("from the commit")


@pytest.mark.requirement("FU-63")
def test_the_list_of_recorded_runs_says_how_old_they_are(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "spec" / "runs").mkdir(exist_ok=True)
    record = {"date": "2026-11-26", "commit": "0123456", "command": "make kills", "passed": True, "figures": {}}
    (project / "spec" / "runs" / "kills.json").write_text(json.dumps(record))
    assert ledger.main([], project) == 0
    out = capsys.readouterr().out
    assert "Recorded runs:\nkills        2026-11-26 on commit 0123456: stale" in out
