"""The requirements ledger: which requirement is proved by which test, and what is not proved yet.

**Rules**
- `requirements.toml` says what is required. Tests say what they prove, with ``@pytest.mark.requirement("OTC-017")``
  on a test, on its class, on one of its parameters, or in ``pytestmark``. Both are only read: nothing is imported.
- A test that is always skipped, or expected to fail, proves nothing.
- A requirement is *covered* by a test and no gap, *partial* with both, and *gap* with a gap alone. None is *missing*.
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
from pathlib import Path
from typing import Literal, TypeAlias, get_args

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_GAP = "not proved by a test yet"

Standing: TypeAlias = Literal["covered", "partial", "gap", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One thing asked of toolwire, in one sentence. ``gap`` says what of it is not proved yet."""

    id: str
    sentence: str
    source: str
    gap: str | None = None


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
class Ledger:
    """The requirements by id in the order of the file, and every place that names one."""

    requirements: Mapping[str, Requirement]
    proofs: Mapping[str, tuple[str, ...]]
    tags: tuple[Mention, ...]
    strays: tuple[str, ...]


def read_requirements(text: str) -> dict[str, Requirement]:
    """Return the requirements in a TOML text, in its order.

    Raises:
        tomllib.TOMLDecodeError: the text is not TOML, or two requirements share an id.
        TypeError: a requirement lacks its sentence or source, or has a key that means nothing.
    """
    return {name: Requirement(id=name, **row) for name, row in tomllib.loads(text).items()}


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
    )


def _sources(root: Path, folder: str) -> Iterator[tuple[str, str]]:
    for path in sorted((root / folder).rglob("*.py")):
        yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def standing(ledger: Ledger, requirement: Requirement) -> Standing:
    """Return how far a requirement is proved."""
    if requirement.id in ledger.proofs:
        return "partial" if requirement.gap else "covered"
    return "gap" if requirement.gap else "missing"


def missing(ledger: Ledger) -> list[str]:
    """Return the ids of the requirements with neither a test nor a stated gap."""
    return [name for name, requirement in ledger.requirements.items() if standing(ledger, requirement) == "missing"]


def faults(ledger: Ledger) -> list[str]:
    """Return what is wrong with the ledger, one sentence each; an empty list is a good ledger."""
    known = ledger.requirements
    unknown = [(name, place) for name, places in ledger.proofs.items() if name not in known for place in places]
    return [
        *(f"{place}: the marker names {name}, which is no requirement." for name, place in unknown),
        *(f"{place}: the marker must stand on a test and hold literal ids." for place in ledger.strays),
        *(f"{tag.place}: the tag {tag.id} is no requirement." for tag in ledger.tags if tag.id not in known),
        *(f"spec/requirements.toml: {name} has neither a test nor a gap." for name in missing(ledger)),
    ]


def totals(ledger: Ledger) -> dict[str, dict[str, int]]:
    """Return how many requirements of each family, and of all as ``total``, stand where."""
    counts: dict[str, Counter[Standing]] = {}
    for name, requirement in ledger.requirements.items():
        counts.setdefault(family(name), Counter())[standing(ledger, requirement)] += 1
    counts["total"] = sum(counts.values(), Counter())
    return {
        name: {"total": row.total()} | {kind: row[kind] for kind in get_args(Standing)} for name, row in counts.items()
    }


def settle(text: str, proved: Iterable[str]) -> str:
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
    what.add_argument("--missing", action="store_true", help="list the requirements with neither a test nor a gap")
    what.add_argument("--settle", action="store_true", help=f"keep the gaps that say '{DEFAULT_GAP}' true")
    options = parser.parse_args(argv)
    ledger = read_ledger(root)
    if options.settle:
        path = root / "spec" / "requirements.toml"
        path.write_text(settle(path.read_text(encoding="utf-8"), ledger.proofs), encoding="utf-8")
        ledger = read_ledger(root)
    families = list(dict.fromkeys(map(family, ledger.requirements)))
    if options.family and options.family not in families:
        parser.error(f"there is no family {options.family}; the families are {', '.join(families)}")
    shown = _shown(ledger, options.family, missing_only=options.missing)
    sys.stdout.write(json.dumps(shown, indent=2) + "\n" if options.json else _plain(shown))
    sys.stderr.writelines(f"{fault}\n" for fault in faults(ledger))
    return 1 if faults(ledger) else 0


_Table: TypeAlias = dict[str, dict[str, int]]
_Rows: TypeAlias = list[dict[str, str | list[str] | None]]


def _shown(ledger: Ledger, name: str | None, *, missing_only: bool) -> _Table | _Rows:
    """Return what the command prints: the table, or one row for each requirement asked for."""
    if not (name or missing_only):
        return totals(ledger)
    wanted = missing(ledger) if missing_only else [one for one in ledger.requirements if family(one) == name]
    return [
        asdict(ledger.requirements[one])
        | {"standing": standing(ledger, ledger.requirements[one]), "tests": list(ledger.proofs.get(one, ()))}
        for one in wanted
    ]


def _plain(shown: _Table | _Rows) -> str:
    if isinstance(shown, dict):
        lines = [f"{'family':8}{'total':>7}{'covered':>9}{'partial':>9}{'gap only':>10}"]
        lines += [
            f"{name:8}{row['total']:7}{row['covered']:9}{row['partial']:9}{row['gap']:10}"
            for name, row in shown.items()
        ]
        return "".join(f"{line}\n" for line in lines)
    return "".join(map(_paragraph, shown))


def _paragraph(row: Mapping[str, str | list[str] | None]) -> str:
    lines = [f"{row['id']:10}{row['standing']:9}{row['sentence']}"]
    lines += [f"{'':19}test: {test}" for test in row["tests"] or ()]
    lines += [f"{'':19}gap: {row['gap']}"] if row["gap"] else []
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
