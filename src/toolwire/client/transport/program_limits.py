"""Say which program an operator agreed to beforehand, and what it may use: memory, processors and open files."""
# PL-06

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Final, NamedTuple

from .server_command import ServerCommand

MIB: Final = 1 << 20
MAX_PROGRAM_LIMITS: Final[Mapping[str, int]] = {"memory-mb": 1 << 22, "processors": 4_096, "files": 1 << 20}
"""The names of the limits in a file, each with the largest number for it."""
# It runs in the new process, and then becomes the program. So the limits hold from its first instruction on, and for
# all that it starts. What the system limits more strictly stays.
_START: Final = """
import json, os, resource, sys
limits, program = json.loads(sys.argv[1]), sys.argv[2]
for name, most in limits["resources"].items():
    kind = getattr(resource, name)
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))
if limits["processors"] and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: limits["processors"]])
os.execv(program, [program, *sys.argv[3:]])
"""


class ProgramLimits(NamedTuple):
    """What a program and each process that it starts may use; 0 is no limit. Processors are limited on Linux alone."""

    memory_mb: int = 0
    processors: int = 0
    files: int = 0

    def wrap(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command that starts ``words`` within these limits; the first word is the path of the program."""
        if self == NO_LIMITS:
            return words
        found = {"RLIMIT_AS": self.memory_mb * MIB, "RLIMIT_NOFILE": self.files}
        given = {"resources": {name: most for name, most in found.items() if most}, "processors": self.processors}
        # -I: nothing of the folder or the environment of the program decides what this Python loads.
        return (sys.executable, "-I", "-S", "-c", _START, json.dumps(given), *words)


NO_LIMITS: Final = ProgramLimits()


class CommandAgreement:
    """The answer to whether a program may run: it is the one with ``digest``, or ``ask`` says so if there is none.

    ``limits`` hold for it, whoever agreed. ``name`` is what callers of a gateway are told of it: its command can hold
    secrets, and so can its error output.
    """

    def __init__(
        self,
        digest: str,
        limits: ProgramLimits = NO_LIMITS,
        ask: Callable[[ServerCommand], bool] | None = None,
        name: str = "",
    ) -> None:
        self.digest: str = digest
        self.limits: ProgramLimits = limits
        self.name: str = name
        self.ask: Callable[[ServerCommand], bool] | None = ask

    def __call__(self, command: ServerCommand) -> bool:
        """Return whether ``command`` may run."""
        if self.digest:
            return compare_digest(self.digest.encode(), command.digest.encode())
        return self.ask is not None and self.ask(command)
