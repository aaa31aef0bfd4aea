"""A gateway whose upstream is a program, where there is no terminal: the file holds the agreement and the limits."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from tests.support.gateway_folder import folder
from tests.support.gateway_process import run_gateway
from toolwire import Value, connect_sync

__all__ = ["folder"]  # a fixture

pytestmark = pytest.mark.requirement("PL-06")
DESK = '''
import os
import resource
import subprocess
import sys

from toolwire import Toolkit

kit = Toolkit("Desk")


@kit.tool(approval="auto", safe=True)
def limits() -> list[int]:
    """Return the limits of this process."""
    return [
        resource.getrlimit(resource.RLIMIT_AS)[1] >> 20,
        resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        len(os.sched_getaffinity(0)),
    ]


@kit.tool(approval="auto", safe=True)
def child() -> int:
    """Return the limit of open files of a process that this one starts."""
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[1])"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
'''

OWN = '''
import os

from toolwire import Toolkit

own = Toolkit("Own")


@own.tool(approval="auto", safe=True)
def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))
'''


def write_file(folder: Path, more: str = "", words: str = "") -> Path:
    (folder / "desk.py").write_text(DESK)
    (folder / "own.py").write_text(OWN)
    file = folder / "toolwire.toml"
    file.write_text(
        "# The team's gateway.\nport = 0\n\n"
        f'[upstreams.desk] # a program\ntarget = "stdio:{sys.executable} -m toolwire serve desk.py --stdio{words}"\n'
        f'agree = true\n{more}\n[upstreams.other]\ntarget = "own.py"\n'
    )
    return file


@pytest.fixture
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a folder to write to, as in a container."""
    monkeypatch.setenv("HOME", "/proc/nowhere")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


@pytest.mark.usefixtures("no_home")
def test_an_agreement_in_the_file_needs_no_terminal_and_no_home(folder: Path, toolwire: Callable[..., Outcome]) -> None:
    file = write_file(folder)
    agreed = toolwire("gateway", "agree", "desk")
    assert agreed.code == 0, agreed.err
    text = file.read_text()
    assert re.search(r'\[upstreams\.desk\] # a program\nagreed-command = "[0-9a-f]{64}"\ntarget', text)
    assert toolwire("gateway", "agree", "desk").code == 0
    assert file.read_text() == text, "once"
    with run_gateway() as (_, url), connect_sync(url, protocol="otc", agree=lambda _: True) as remote:
        found = remote.call("limits")
        assert isinstance(found, Value)
    file.write_text(text.replace("--stdio", "--stdio --limit running=9"))
    refused = toolwire("gateway", "check", "desk")
    assert refused.code == 4
    assert "it is not the command that the file agrees to" in " ".join(refused.out.split())


@pytest.mark.usefixtures("no_home")
def test_limits_hold_for_the_program_and_for_what_it_starts(folder: Path, toolwire: Callable[..., Outcome]) -> None:
    write_file(folder, "program-limits = {memory-mb = 4096, processors = 1, files = 99}\n")
    assert toolwire("gateway", "agree", "desk").code == 0
    with run_gateway() as (_, url), connect_sync(url, protocol="otc", agree=lambda _: True) as remote:
        assert remote.call("limits") == Value([4096, 99, 1])
        assert remote.call("child") == Value(99)
        other = remote.call("processors")
        assert isinstance(other, Value)
        assert other.value == len(os.sched_getaffinity(0)), "the gateway itself has no such limit"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("agreed-command = 'all'", "agreed-command must be what `toolwire gateway agree NAME` writes"),
        ("program-limits = {memory = 1}", "memory"),
        ("program-limits = {files = 0}", "files is 1 to 1,048,576, not 0"),
        ("program-limits = 5", "program-limits is a table"),
    ],
)
def test_a_wrong_agreement_or_limit_is_one_sentence(
    folder: Path, toolwire: Callable[..., Outcome], more: str, sentence: str
) -> None:
    write_file(folder, f"{more}\n")
    outcome = toolwire("gateway", "list")
    assert outcome.code == 2
    assert sentence in outcome.err


def test_only_a_program_of_a_trusted_file_can_be_agreed_to(
    folder: Path, toolwire: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_file(folder)
    before = file.read_text()
    outcome = toolwire("gateway", "agree", "other")
    assert (outcome.code, "other runs no program" in outcome.err) == (2, True)
    assert toolwire("gateway", "agree", "desc").code == 2
    monkeypatch.delenv("TOOLWIRE_SETTINGS")
    assert toolwire("gateway", "agree", "desk").code == 2, "the file of a stranger is no order"
    assert file.read_text() == before
