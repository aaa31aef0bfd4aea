"""The requirements ledger: which requirement is proved by which test, and what is not proved yet.

**Rules**
- `requirements.toml` says what is required. Tests say what they prove, with ``@pytest.mark.requirement("OTC-017")``
  on a test, on its class, on one of its parameters, or in ``pytestmark``. Both are only read: nothing is imported.
- A test that is always skipped, or expected to fail, proves nothing.
- A requirement is in one of five states. *proved*: a test of it passed in the last run, and none failed. *recorded*: a
  long run that passed proves it, whose figures stand in ``spec/runs``. *partial*: ``gap`` says what is not proved, and
  ``since`` when that was found. *not run*: all its tests were skipped, or a long run that it names has no record that
  proves it. *missing*: it has neither a test nor a gap.
- What passed and what was skipped is read from ``.cache/requirements.json``, which each test run on this machine
  writes; without it, from ``spec/runs/tests.json``, the summary of the last run that was recorded (``--record``).
"""

import argparse
import ast
import io
import json
import re
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from spec.runs import describe_age, describe_run  # noqa: E402 - this file is also run as a program

DEFAULT_GAP = "not proved by a test yet"

State: TypeAlias = Literal["proved", "recorded", "partial", "not run", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One thing asked of toolwire, in one sentence.

    ``gap`` says what of it is not proved, and ``since`` when that was found. ``runs`` names the long runs that prove
    it.
    """

    id: str
    sentence: str
    source: str
    gap: str | None = None
    since: date | None = None
    runs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A place that names a requirement: a test that proves it, or a comment or docstring that tags it."""

    id: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """The markers of one file. ``strays`` are the places of those that stand on no test or hold no literal id."""

    proofs: tuple[Mention, ...]
    strays: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResults:
    """What the last test runs found: the reason why each requirement was not run, and the tests that failed.

    ``origin`` says in words which runs those were. ``known`` are the requirements with a result; None stands for all.
    ``tested_here`` are those with a result of this machine.
    """

    origin: str
    not_run: Mapping[str, str]
    failed: Mapping[str, str]
    known: frozenset[str] | None = None
    tested_here: frozenset[str] = frozenset()


class OwnResults(NamedTuple):
    """What the tests on this machine found; its members are those of ``TestResults``."""

    origin: str
    not_run: Mapping[str, str]
    failed: Mapping[str, str]
    known: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The requirements by id in the order of the file, every place that names one, and what runs found."""

    requirements: Mapping[str, Requirement]
    proofs: Mapping[str, tuple[str, ...]]
    tags: tuple[Mention, ...]
    strays: tuple[str, ...]
    results: TestResults
    runs: Mapping[str, Mapping[str, Any]]


def read_requirements(text: str) -> dict[str, Requirement]:
    """Return the requirements in a TOML text, in its order.

    Raises:
        tomllib.TOMLDecodeError: the text is not TOML, or two requirements share an id.
        TypeError: a requirement lacks its sentence or source, or has a key that means nothing.
    """
    rows = tomllib.loads(text)
    return {name: Requirement(id=name, **row | {"runs": tuple(row.get("runs", ()))}) for name, row in rows.items()}


def family(name: str) -> str:
    """Return the family of a requirement's id: ``OTC`` of ``OTC-017``, ``R`` of ``R5``."""
    return name.rstrip("0123456789").removesuffix("-")


def read_markers(text: str, path: str) -> Markers:
    """Return what the tests in a Python text prove; a proof's place is a pytest node id under ``path``."""
    tree = ast.parse(text)
    placed = list(_placed(tree.body, path, live=True))
    proofs = [Mention(id=name, place=mark.place) for mark in placed if mark.live for name in _literals(mark.call)]
    on_tests = {mark.call for mark in placed}
    strays = [call for call in _marker_calls(tree) if call not in on_tests or len(_literals(call)) != _size(call)]
    return Markers(proofs=tuple(proofs), strays=tuple(f"{path}:{call.lineno}" for call in strays))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    call: ast.Call
    place: str
    live: bool


def _placed(body: Sequence[ast.stmt], place: str, *, live: bool) -> Iterator[_Placed]:
    """Yield the markers that stand on the tests of ``body``, a module's or a class's."""
    live = live and not any(_is_off(mark) for node in body for mark in _pytestmarks(node))
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test"):
                runs = live and not any(map(_is_off, node.decorator_list))
                yield from _under(node.decorator_list, f"{place}::{name}", live=runs)
            case ast.ClassDef(name=name) if name.startswith("Test"):
                runs = live and not any(map(_is_off, node.decorator_list))
                yield from _under(node.decorator_list, f"{place}::{name}", live=runs)
                yield from _placed(node.body, f"{place}::{name}", live=runs)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield from _under([value], place if name == "pytestmark" else f"{place}::{name}", live=live)
            case _:
                pass


def _under(nodes: Iterable[ast.AST], place: str, *, live: bool) -> Iterator[_Placed]:
    for node in nodes:
        for call in _marker_calls(node):
            yield _Placed(call=call, place=place, live=live)


def _marker_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="requirement", value=ast.Attribute(attr="mark"))):
                yield node
            case ast.Call(func=ast.Name(id="requirement")):
                yield node
            case _:
                pass


def _pytestmarks(node: ast.stmt) -> Sequence[ast.expr]:
    match node:
        case ast.Assign(targets=[ast.Name(id="pytestmark")], value=ast.List(elts=marks) | ast.Tuple(elts=marks)):
            return marks
        case ast.Assign(targets=[ast.Name(id="pytestmark")], value=mark):
            return [mark]
        case _:
            return []


def _is_off(mark: ast.expr) -> bool:
    match mark.func if isinstance(mark, ast.Call) else mark:
        case ast.Attribute(attr="skip" | "xfail", value=ast.Attribute(attr="mark")):
            return True
        case _:
            return False


def _literals(call: ast.Call) -> list[str]:
    return [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]


def _size(call: ast.Call) -> int:
    """Return how many literal ids a call should hold: at least one, and nothing else."""
    return max(1, len(call.args) + len(call.keywords))


def read_tags(text: str, path: str, families: Iterable[str]) -> Iterator[Mention]:
    """Yield the requirements that a Python text follows, by the tags in its comments and docstrings.

    A comment begins with its tags: ``# OTC-017, D-04: the reason``. In a docstring, and anywhere in a comment, they
    stand in brackets: ``[OTC-017, D-04]``, ``[OTC-028..032]``. Brackets that hold anything but ids of ``families`` are
    prose. A place is ``path`` and the line of the comment, or the docstring's first line.
    """
    names = "|".join(sorted(map(re.escape, families), key=len, reverse=True))
    item = rf"(?:{names})-?\d+(?:\.\.(?:(?:{names})-?)?\d+)?"
    items = rf"{item}(?:,\s*{item})*"
    group = re.compile(rf"\[({items})\]")
    opening = re.compile(rf"#\s*({items})(?=:|$)")
    for line, words in _comments(text):
        found = opening.match(words)
        for group_of_ids in [*([found[1]] if found else []), *(match[1] for match in group.finditer(words))]:
            yield from _mentions(group_of_ids, f"{path}:{line}")
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                for match in group.finditer(docstring):
                    yield from _mentions(match[1], f"{path}:{node.lineno}")
            case _:
                pass


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.strip()


def _mentions(ids: str, place: str) -> Iterator[Mention]:
    for name in re.split(r",\s*", ids):
        yield from (Mention(id=one, place=place) for one in _each(name))


def _each(name: str) -> list[str]:
    """Return the ids of a range, or the name itself; a range that runs backwards stays as written, which no id is."""
    first, dots, last = name.partition("..")
    if not dots:
        return [name]
    digits = first[len(first.rstrip("0123456789")) :]
    prefix = first.removesuffix(digits)
    numbers = range(int(digits), int(last.removeprefix(prefix)) + 1) if last.removeprefix(prefix).isdigit() else ()
    return [f"{prefix}{number:0{len(digits)}}" for number in numbers] or [name]


def read_ledger(root: Path) -> Ledger:
    """Return the ledger of the project at ``root``: its requirements, its tests and its tags."""
    requirements = read_requirements((root / "spec" / "requirements.toml").read_text(encoding="utf-8"))
    families = {family(name) for name in requirements}
    markers = [read_markers(text, path) for path, text in _sources(root, "tests")]
    proofs: defaultdict[str, list[str]] = defaultdict(list)
    for mention in (proof for found in markers for proof in found.proofs):
        if mention.place not in proofs[mention.id]:
            proofs[mention.id].append(mention.place)
    return Ledger(
        requirements=requirements,
        proofs={name: tuple(places) for name, places in proofs.items()},
        tags=tuple(tag for path, text in _sources(root, "src/toolwire") for tag in read_tags(text, path, families)),
        strays=tuple(stray for found in markers for stray in found.strays),
        results=read_results(root),
        runs={path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (root / "spec/runs").glob("*.json")},
    )


def read_results(root: Path) -> TestResults:
    """Return what the tests found: in the runs of this machine, and where it has none, in the recorded run."""
    here, recorded = root / ".cache" / "requirements.json", root / "spec" / "runs" / "tests.json"
    found = TestResults(origin="no test run: `make test` makes one", not_run={}, failed={}, known=frozenset())
    if recorded.exists():
        run = json.loads(recorded.read_text(encoding="utf-8"))
        origin = f"the recorded run of `make test` of {run['date']} on commit {run['commit']}"
        found = TestResults(origin=origin, not_run=run["figures"]["not run"], failed={})
    if not here.exists():
        return found
    own = summarize_tests(json.loads(here.read_text(encoding="utf-8"))["tests"], root)
    elsewhere = {name: why for name, why in found.not_run.items() if name not in own.known}
    return TestResults(
        origin=f"{own.origin}; other requirements by {found.origin}",
        not_run={**elsewhere, **own.not_run},
        failed=own.failed,
        known=None if found.known is None else own.known,
        tested_here=own.known,
    )


def summarize_tests(tests: Mapping[str, Mapping[str, Any]], root: Path) -> OwnResults:
    """Return what single tests on this machine found, by requirement; tests whose file is gone do not count."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, str] = {}
    failed: dict[str, str] = {}
    dates = set()
    for name, test in tests.items():
        if not (root / name.partition("::")[0]).exists():
            continue
        dates.add(f"{test['date']} on commit {test['commit']}")
        for one in test["ids"]:
            counts[one].update({outcome: test[outcome] for outcome in ("passed", "skipped", "failed")})
            if test["reason"]:
                reasons[one] = test["reason"]
            if test["failed"]:
                failed[one] = name
    skipped = {one for one, count in counts.items() if not count["passed"] and not count["failed"]}
    return OwnResults(
        origin=f"the tests on this machine, last {max(dates, default='never')}",
        not_run={one: reasons.get(one, "") for one in skipped},
        failed=failed,
        known=frozenset(counts),
    )


def _sources(root: Path, folder: str) -> Iterator[tuple[str, str]]:
    for path in sorted((root / folder).rglob("*.py")):
        yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def state(ledger: Ledger, requirement: Requirement) -> State:
    """Return how far a requirement is proved."""
    name, results = requirement.id, ledger.results
    if name not in ledger.proofs and not requirement.runs:
        return "partial" if requirement.gap else "missing"
    if requirement.gap or name in results.failed:
        return "partial"
    tested = name in ledger.proofs
    if tested and (name in results.not_run or (results.known is not None and name not in results.known)):
        return "not run"
    if any(_find_fault_of_run(ledger, run, name) for run in requirement.runs):
        return "not run"
    return "recorded" if requirement.runs else "proved"


def _find_fault_of_run(ledger: Ledger, run: str, name: str) -> str:
    """Return why the record of ``run`` does not prove the requirement ``name``, or ``""`` if it does.

    Where several tests of one run record figures, each figure begins with the id of its requirement.
    """
    if run not in ledger.runs:
        return f"no record of the run {run!r}"
    record = ledger.runs[run]
    if not record.get("passed", True):
        return f"the run {run!r} of {record['date']} on {record['commit']} did not pass"
    owners = {figure.partition(" ")[0] for figure in record["figures"]}
    if owners & ledger.requirements.keys() and name not in owners:
        return f"the record of the run {run!r} has no figures of {name}"
    return ""


def reason(ledger: Ledger, requirement: Requirement) -> str:
    """Return why a requirement is in no better state, with a date; empty for one that the tests prove."""
    name, results = requirement.id, ledger.results
    if requirement.gap:
        return requirement.gap if requirement.since is None else f"{requirement.gap} ({requirement.since})"
    if name in results.failed:
        return f"{results.failed[name]} failed"
    if name in results.not_run:
        return results.not_run[name]
    return "; ".join(
        _find_fault_of_run(ledger, run, name) or f"{run} of {ledger.runs[run]['date']} on {ledger.runs[run]['commit']}"
        for run in requirement.runs
    )


def missing(ledger: Ledger) -> list[str]:
    """Return the ids of the requirements with neither a test nor a stated gap."""
    return [name for name, requirement in ledger.requirements.items() if state(ledger, requirement) == "missing"]


def faults(ledger: Ledger) -> list[str]:
    """Return what is wrong with the ledger, one sentence each; an empty list is a good ledger."""
    known = ledger.requirements
    unknown = [(name, place) for name, places in ledger.proofs.items() if name not in known for place in places]
    return [
        *(f"{place}: the marker names {name}, which is not a requirement." for name, place in unknown),
        *(f"{place}: the marker must stand on a test and hold literal ids." for place in ledger.strays),
        *(f"{tag.place}: the tag {tag.id} is not a requirement." for tag in ledger.tags if tag.id not in known),
        *(f"spec/requirements.toml: {name} has neither a test nor a gap." for name in missing(ledger)),
        *(
            f"spec/requirements.toml: {name} has a gap, and no date in `since`."
            for name, requirement in known.items()
            if requirement.gap not in {None, DEFAULT_GAP} and requirement.since is None
        ),
    ]


def totals(ledger: Ledger) -> dict[str, dict[str, int]]:
    """Return how many requirements of each family, and of all as ``total``, stand where."""
    counts: dict[str, Counter[State]] = {}
    for name, requirement in ledger.requirements.items():
        counts.setdefault(family(name), Counter())[state(ledger, requirement)] += 1
    counts["total"] = sum(counts.values(), Counter())
    return {
        name: {"total": row.total()} | {kind: row[kind] for kind in get_args(State)} for name, row in counts.items()
    }


def finish(text: str, proved: Iterable[str]) -> str:
    """Return a TOML text of requirements whose default gaps are true: gone where a test is, there where nothing is.

    Any other gap, the order and the comments stay as they are. ``proved`` holds the ids that have a test.
    """
    proved = frozenset(proved)
    line = f'gap = "{DEFAULT_GAP}"\n'

    def settled(block: str) -> str:
        name = block.partition("]")[0].removeprefix("[")
        if name in proved:
            return block.replace(line, "")
        if re.search(r"(?m)^gap = ", block):
            return block
        return re.sub(r"(?m)^source = .*\n", lambda found: found[0] + line, block, count=1)

    return "".join(settled(block) for block in re.split(r"(?m)^(?=\[)", text))


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command and return its exit code: 0, or 1 when the ledger has faults."""
    parser = argparse.ArgumentParser(prog="ledger", description="How far the requirements are proved.")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--family", metavar="NAME", help="list each requirement of a family with its tests and its gap")
    what.add_argument("--why", metavar="ID", help="show one requirement, its tests, and the code that names it")
    what.add_argument("--missing", action="store_true", help="list the requirements with neither a test nor a gap")
    what.add_argument("--record", action="store_true", help="write the results of this machine to spec/runs/tests.json")
    what.add_argument("--settle", action="store_true", help=f"keep the gaps that say '{DEFAULT_GAP}' true")
    options = parser.parse_args(argv)
    ledger = read_ledger(root)
    if options.settle:
        path = root / "spec" / "requirements.toml"
        path.write_text(finish(path.read_text(encoding="utf-8"), ledger.proofs), encoding="utf-8")
        ledger = read_ledger(root)
    if options.record:
        return record_tests(ledger, root)
    families = list(dict.fromkeys(map(family, ledger.requirements)))
    if options.family and options.family not in families:
        parser.error(f"there is no family {options.family}; the families are {', '.join(families)}")
    if options.why and options.why not in ledger.requirements:
        parser.error(f"there is no requirement {options.why}; `make requirements` lists the families")
    if options.why:
        (row,) = _describe(ledger, [options.why])
        shown: _Table | _Rows = [
            row | {"code": list(dict.fromkeys(tag.place for tag in ledger.tags if tag.id == options.why))}
        ]
    else:
        shown = _shown(ledger, options.family, options.missing)
    sys.stdout.write(json.dumps(shown, indent=2, default=str) + "\n" if options.json else _plain(shown, ledger))
    sys.stderr.writelines(f"{fault}\n" for fault in faults(ledger))
    return 1 if faults(ledger) else 0


def record_tests(ledger: Ledger, root: Path) -> int:
    """Write which requirements the tests on this machine proved; return 1 where they have no results or failed."""
    here = ledger.results.tested_here
    if not here or ledger.results.failed:
        sys.stderr.write("There are no results of tests that passed: run `make test` first.\n")
        return 1
    untested = {name: "no test of it ran" for name in ledger.proofs if name not in here}
    figures = {"requirements": len(ledger.proofs), "not run": {**ledger.results.not_run, **untested}}
    path = root / "spec" / "runs" / "tests.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(describe_run("make test", figures, root), indent=2) + "\n", encoding="utf-8")
    return 0


_Table: TypeAlias = dict[str, dict[str, int]]
_Rows: TypeAlias = list[dict[str, Any]]


def _shown(ledger: Ledger, name: str | None, missing_only: bool) -> _Table | _Rows:  # noqa: FBT001 - as the options
    """Return what the command prints: the table, or one row for each requirement asked for."""
    if not (name or missing_only):
        return totals(ledger)
    wanted = missing(ledger) if missing_only else [one for one in ledger.requirements if family(one) == name]
    return _describe(ledger, wanted)


def _describe(ledger: Ledger, wanted: Iterable[str]) -> _Rows:
    """Return a row for each of the requirements ``wanted``."""
    return [
        asdict(ledger.requirements[one])
        | {
            "state": state(ledger, ledger.requirements[one]),
            "reason": reason(ledger, ledger.requirements[one]),
            "tests": list(ledger.proofs.get(one, ())),
        }
        for one in wanted
    ]


def _plain(shown: _Table | _Rows, ledger: Ledger) -> str:
    if isinstance(shown, dict):
        names = get_args(State)
        lines = [f"{'family':8}{'total':>7}" + "".join(f"{name:>10}" for name in names)]
        lines += [
            f"{name:8}{row['total']:7}" + "".join(f"{row[column]:10}" for column in names)
            for name, row in shown.items()
        ]
        rows = [
            f"{one.id:9} {state(ledger, one):9} {reason(ledger, one)}"
            for one in ledger.requirements.values()
            if state(ledger, one) != "proved"
        ]
        ages = [f"{name:13}{describe_age(name, run)}" for name, run in sorted(ledger.runs.items())]
        recorded = ["", "Recorded runs:", *ages] if ages else []
        return "".join(f"{line}\n" for line in [*lines, "", f"By {ledger.results.origin}.", *rows, *recorded])
    return "".join(map(_paragraph, shown))


def _paragraph(row: Mapping[str, Any]) -> str:
    lines = [f"{row['id']:10}{row['state']:9}{row['sentence']}"]
    lines += [f"{'':19}test: {test}" for test in row["tests"] or ()]
    lines += [f"{'':19}code: {place}" for place in row.get("code", ())]
    lines += [f"{'':19}reason: {row['reason']}"] if row["reason"] else []
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
