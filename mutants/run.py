"""Put small mistakes into each room of the source, one at a time: how many of them do its own tests notice? [TE-04]

``python mutants/run.py [--each N] [--seed S] [--jobs N] [ROOM...]``

The tests of a room are collected once. For each mistake a copy of that process replaces the code of
the running functions, and runs the tests that reach the line until one fails. A mistake that no test reaches survives.
So does one that could only be noticed in a program which a test starts, because that runs the code without the mistake.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from mutants.mistakes import Place, describe_place, find_places, make_mistake  # noqa: E402 - the path first
from mutants.reach import Reach, ReachPlugin, digest_files, find_caches, read_reach  # noqa: E402 - the path first
from spec.runs import record_run  # noqa: E402 - the path first

SOURCE = ROOT / "src" / "toolwire"
OWN_TESTS = {
    "auth": ["tests/auth", "tests/oauth", "tests/server/test_jwt.py", "tests/server/test_receipts.py"],
    "consent": [
        "tests/consent",
        "tests/cli/test_approvals.py",
        "tests/client/test_bounded_grants.py",
        "tests/client/test_browser_approver.py",
        "tests/client/test_call_pipeline.py",
        "tests/client/test_input_page.py",
        "tests/client/test_session_marks.py",
        "tests/client/test_similar_tools.py",
        "tests/client/test_trust_of_many_tools.py",
        "tests/interop/test_operator_rules.py",
        "tests/server/test_decision_log.py",
        "tests/stores/test_decisions.py",
        "tests/stores/test_memory.py",
        "tests/stores/test_wrong_clocks.py",
        "tests/story/test_consent.py",
    ],
    "console": ["tests/console", "tests/gateway/test_inbox.py"],
    "engines": ["tests/process/test_engines.py"],
    "gateway": [
        "tests/gateway",
        "tests/hosting",
        "tests/auth/test_journey.py",
        "tests/cli/test_gateway_sign_in.py",
        "tests/interop/test_mcp_gateway_questions.py",
        "tests/server/test_own_host.py",
    ],
    "limits": [
        "tests/limits",
        "tests/gateway/test_inbox.py",
        "tests/hosting/test_approvers.py",
        "tests/hosting/test_tool_rights.py",
    ],
    "oauth": ["tests/oauth"],
    "protocols": ["tests/protocols", "tests/conformance"],
    "server": ["tests/server", "tests/oauth"],
}
"""The tests of a room that are not in the folder of its name alone: a rule is tested where a user meets it."""

EACH = 15
MAX_S = 60.0
"""The tests that are tried on one mistake take at most so long. One with which they take far longer is noticed."""
PATIENCE_S = 60
MAX_BYTES = 4 * 2**30
UNTRIED = 99
"""How the process of a mistake ends that cannot be put into a running function."""

PASS_MARK = 90.0


class Trial(NamedTuple):
    """A mistake in a file, and the tests that may notice it."""

    file: Path
    number: int
    place: Place
    tests: list[str]

    def describe(self) -> str:
        """Return the file, the line and the mistake."""
        line = getattr(self.place.node, "lineno", self.place.statement.lineno)
        return f"{self.file.relative_to(SOURCE)}:{line}: {describe_place(self.place)}"


class Running(NamedTuple):
    """A mistake whose tests run, until when they may, and where they keep their files."""

    trial: Trial
    until: float
    folder: str


class Found(NamedTuple):
    """What came of the mistakes in a room: how many were tried, which survived, and tests that fail without any."""

    tried: int
    survivors: list[str]
    failed: list[str]


class Room:
    """The code of one room as it runs in this process."""

    def __init__(self, name: str) -> None:
        self.files = sorted((SOURCE / name).rglob("*.py"))
        self.functions: dict[tuple[str, str, int], list[types.FunctionType]] = defaultdict(list)
        gc.unfreeze()  # tests/conftest.py hides what it has collected
        names = {str(file) for file in self.files}
        for one in gc.get_objects():
            if isinstance(one, types.FunctionType) and one.__code__.co_filename in names:
                self.functions[_name_code(one.__code__)].append(one)
        self.modules = {
            str(module.__file__): module for module in list(sys.modules.values()) if hasattr(module, "__file__")
        }

    def find_lines(self, file: Path, place: Place) -> list[tuple[Path, range]]:
        """Return the lines that run with the mistake; for a value of the module, those of functions that use it."""
        if place.function is not None:
            return [(file, place.list_lines())]
        name = _read_name(place.statement)
        return [
            (Path(code.co_filename), range(code.co_firstlineno + 1, max(line or 0 for *_, line in code.co_lines()) + 1))
            for functions in self.functions.values()
            for code in [functions[0].__code__]
            if name in _list_names(code)
        ]

    def put(self, file: Path, number: int) -> bool:
        """Put the mistake with this number into the running code of ``file``; return whether it could be done."""
        tree = ast.parse(file.read_text("utf-8"))
        place = find_places(tree)[number]
        make_mistake(place)
        with warnings.catch_warnings(action="ignore"):
            if place.function is None:
                return self._put_value(file, place.statement)
            codes = {_name_code(code): code for code in _walk_code(compile(tree, str(file), "exec"))}
        changed = False
        try:
            for name, code in codes.items():
                for function in self.functions.get(name, ()):
                    changed |= function.__code__ != code
                    function.__code__ = code
        except ValueError:  # other variables of the function around it than before
            return False
        return changed  # else it does the same, or another version of the file runs

    def _put_value(self, file: Path, statement: ast.stmt) -> bool:
        module, name = self.modules.get(str(file)), _read_name(statement)
        if module is None or name not in vars(module):
            return False
        old = vars(module)[name]
        value = ast.Expression(statement.value)  # type: ignore[attr-defined]  # an assignment
        try:
            new = eval(compile(value, str(file), "eval"), vars(module))
        except Exception:  # noqa: BLE001 - the module could not even be imported
            return False
        for other in self.modules.values():
            if vars(other).get(name) is old:
                setattr(other, name, new)
        return True


def _read_name(statement: ast.stmt) -> str:
    """Return the name that an assignment in a module gives a value."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target  # type: ignore[attr-defined]  # an annotated one
    return target.id if isinstance(target, ast.Name) else ""


def _name_code(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _walk_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _walk_code(one)


def _list_names(code: types.CodeType) -> set[str]:
    return {name for one in _walk_code(code) for name in one.co_names}


class Mutants:
    """Runs the tests of one room, in a process of its own for each mistake, instead of once in this one."""

    def __init__(self, room: str, options: argparse.Namespace, seed: int) -> None:
        self._name, self._options = room, options
        self._chance = random.Random(f"{seed} {room}")
        self._tried = 0
        self._survivors: list[str] = []
        self.is_child = False
        self.found: Found | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> object:
        """Try each mistake; return None only in the process of one, so that pytest goes on with the chosen tests."""
        room = Room(self._name)
        reach = self._find_reach(session)
        if reach is None:
            return None
        running: dict[int, Running] = {}
        for trial in self._draw(room, reach):
            if not trial.tests:
                self._count(trial, noticed=False)
                continue
            while len(running) >= self._options.jobs:
                self._wait(running)
            folder = tempfile.mkdtemp(prefix="mutant-")
            if (pid := self._fork(folder)) == 0:
                return self._begin(session, room, trial)
            limit = PATIENCE_S + 5 * sum(reach.seconds[test] for test in trial.tests)
            running[pid] = Running(trial, time.monotonic() + limit, folder)
        while running:
            self._wait(running)
        self.found = Found(self._tried, self._survivors, reach.failed)
        return True

    def _find_reach(self, session: pytest.Session) -> Reach | None:
        """Return which tests reach which lines, measured first if need be; None in the process that measures."""
        kept = ROOT / ".cache" / "mutants" / f"{self._name}.json"
        digest = digest_files([SOURCE / self._name, *(ROOT / one for one in list_own_tests(self._name))])
        if (reach := read_reach(kept, digest)) is None:
            print(f"{self._name}: which tests reach which lines is measured first", flush=True)
            folder = tempfile.mkdtemp(prefix="mutant-")
            if (pid := self._fork(folder)) == 0:
                session.config.option.maxfail = 0
                session.config.pluginmanager.register(ReachPlugin(SOURCE / self._name, kept, digest))
                return None
            os.waitpid(pid, 0)
            shutil.rmtree(folder, ignore_errors=True)
            reach = read_reach(kept, digest)
            assert reach is not None, "the tests could not be measured"
        return reach

    def _draw(self, room: Room, reach: Reach) -> Iterator[Trial]:
        """Yield mistakes of all kinds in turn, so that one which is rare in the code is not rare in the sample."""
        by_kind: dict[str, list[tuple[Path, int, Place]]] = defaultdict(list)
        for file in room.files:
            for number, place in enumerate(find_places(ast.parse(file.read_text("utf-8")))):
                if place.function is not None or _read_name(place.statement):
                    by_kind[place.kind].append((file, number, place))
        for places in by_kind.values():
            self._chance.shuffle(places)
        for _ in range(self._options.each):
            if not any(by_kind.values()):
                return
            kind = self._chance.choice(sorted(kind for kind, places in by_kind.items() if places))
            file, number, place = by_kind[kind].pop()
            lines = room.find_lines(file, place)
            yield Trial(file, number, place, reach.find_tests(lines, MAX_S))

    def _fork(self, folder: str) -> int:
        """Start a copy of this process, which prints nothing and keeps its files in ``folder``; return its id, or 0."""
        sys.stdout.flush()
        if pid := os.fork():
            return pid
        self.is_child = True
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        for name in ("HOME", "TMPDIR", "PYTEST_DEBUG_TEMPROOT", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            os.environ[name] = folder
        tempfile.tempdir = folder
        return 0

    def _begin(self, session: pytest.Session, room: Room, trial: Trial) -> None:
        """Make the mistake in this process, and choose the tests that pytest runs next."""
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
        if not room.put(trial.file, trial.number):
            os._exit(UNTRIED)
        for one in find_caches():
            one.cache_clear()
        place = {test: number for number, test in enumerate(trial.tests)}
        session.items[:] = sorted(
            (one for one in session.items if one.nodeid in place), key=lambda one: place[one.nodeid]
        )

    def _wait(self, running: dict[int, Running]) -> None:
        """Wait until a process has ended; one whose time is over is ended."""
        pid, status = os.waitpid(-1, os.WNOHANG)
        while pid == 0:
            time.sleep(0.02)
            for late in [one for one, (_, until, _) in running.items() if time.monotonic() > until]:
                os.kill(late, signal.SIGKILL)
            pid, status = os.waitpid(-1, os.WNOHANG)
        trial, _, folder = running.pop(pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # programs that its tests have started
        shutil.rmtree(folder, ignore_errors=True)
        if (code := os.waitstatus_to_exitcode(status)) != UNTRIED:
            self._count(trial, noticed=code != 0)

    def _count(self, trial: Trial, *, noticed: bool) -> None:
        self._tried += 1
        if not noticed:
            self._survivors.append(f"{trial.describe()}{'' if trial.tests else ' (no test comes here)'}")


def list_own_tests(room: str) -> list[str]:
    """Return the folders and files with the tests of a room."""
    return OWN_TESTS.get(room, [f"tests/{room}"])


def try_room(name: str, options: argparse.Namespace, seed: int) -> Found:
    """Try mistakes in one room; return what came of it."""
    os.chdir(ROOT)
    mutants = Mutants(name, options, seed)
    words = ["-x", "-qq", "--capture=sys", "-p", "no:randomly", "-p", "no:cacheprovider"]
    # A test that hangs with a mistake is ended from outside; one that is only slow while it is measured goes on.
    words += ["-o", "timeout=0", "-o", "faulthandler_timeout=0"]
    code = pytest.main([*words, *list_own_tests(name)], plugins=[mutants])
    if mutants.is_child:
        os._exit(int(code))
    assert mutants.found is not None, f"the tests of {name} could not be collected"
    return mutants.found


def try_room_apart(name: str, options: argparse.Namespace, seed: int) -> Found:
    """Do ``try_room`` in another process, because what the tests import stays."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        file = Path(folder) / "found.json"
        if (pid := os.fork()) == 0:
            try:
                file.write_text(json.dumps(try_room(name, options, seed)), "utf-8")
            except BaseException:  # noqa: BLE001 - it is said, and the file is missing
                traceback.print_exc()
            os._exit(0)
        os.waitpid(pid, 0)
        return Found(*json.loads(file.read_text("utf-8")))


def main() -> int:
    """Try all rooms and print the share for each; 1 where it is below the mark, or tests fail without any mistake."""
    rooms = sorted(one.name for one in SOURCE.iterdir() if one.is_dir() and one.name != "__pycache__")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=EACH, help=f"the number of mistakes for each room ({EACH})")
    parser.add_argument("--seed", type=int, help="the number that a run has printed, to draw the same mistakes")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many are tried at the same time")
    parser.add_argument("rooms", nargs="*", choices=[[], *rooms], help="the rooms to put mistakes into (all)")
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    figures: dict[str, int | float] = {"seed": seed, "mistakes": 0, "noticed": 0}
    failed: list[str] = []
    for name in options.rooms or rooms:
        found = try_room_apart(name, options, seed)
        noticed = found.tried - len(found.survivors)
        print(f"{name}: {noticed} of {found.tried} noticed", *found.survivors, sep="\n  ", flush=True)
        figures["mistakes"] += found.tried
        figures["noticed"] += noticed
        figures[f"{name}, percent"] = round(100 * noticed / max(found.tried, 1))
        failed += found.failed
    figures["percent"] = round(100 * figures["noticed"] / max(figures["mistakes"], 1), 1)
    print(f"{figures['noticed']} of {figures['mistakes']} mistakes noticed: {figures['percent']:.0f}%")
    for test in failed:
        print(f"{test} fails without any mistake")
    good = figures["percent"] >= PASS_MARK and not failed
    words = " ".join([f"--each {options.each}", f"--seed {seed}", *options.rooms])
    command = f"make mutants ARGS='{words}'" if options.rooms else "make mutants"
    record_run("-".join(["mutants", *options.rooms]), command, figures, passed=good)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
