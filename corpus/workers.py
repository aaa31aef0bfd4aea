"""Documents judged in processes of their own, which are ended when they take too long."""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

READING = 60.0
"""Seconds after which reading one document is ended: six times what it may take, where the machine is busy."""

JUDGING = 1_800.0
"""Seconds after which looking at everything that came of one document is ended."""

Judge = Callable[[Path], Iterator[dict[str, Any]]]
_METHOD = multiprocessing.get_context("spawn")


def each(
    paths: Sequence[Path], judge: Judge, *, workers: int = 2, reading: float = READING
) -> Iterator[dict[str, Any]]:
    """Yield what ``judge`` last said of each of ``paths``, as they are done; a crash or a hang is a fault."""
    waiting: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    for path in paths:
        waiting.put(path)
    for _ in range(workers):
        waiting.put(None)
        threading.Thread(target=_work, args=(judge, reading, waiting, done), daemon=True).start()
    for _ in paths:
        yield done.get()


def _work(
    judge: Judge, reading: float, waiting: queue.SimpleQueue[Path | None], done: queue.SimpleQueue[dict[str, Any]]
) -> None:
    worker: _Worker | None = None
    while (path := waiting.get()) is not None:
        worker = worker or _Worker(judge)
        said = worker.judged(path, reading)
        if "ended" in said:
            worker.end()
            worker = None
        done.put({**said, "path": str(path)})
    if worker is not None:
        worker.end()


class _Worker:
    def __init__(self, judge: Judge) -> None:
        self._ours, theirs = _METHOD.Pipe()
        self._process = _METHOD.Process(target=_serve, args=(judge, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._ours.recv()  # it is ready: what it imports takes none of a document's time

    def judged(self, path: Path, reading: float) -> dict[str, Any]:
        """Return the last that was said of ``path`` in time; ``ended`` says that the process is of no more use."""
        said: dict[str, Any] = {}
        self._ours.send(path)
        for stage, seconds in (("reading", reading), ("judging", JUDGING)):
            try:
                if not self._ours.poll(seconds):
                    return {**said, "ended": True, "faults": [f"{stage} takes over {seconds:.0f} s"]}
                answer = self._ours.recv()
            except EOFError:
                return {**said, "ended": True, "faults": [f"the process ended while {stage}"]}
            said |= answer
            if "faults" in answer:
                break
        return said

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._ours.close()


def _serve(judge: Judge, theirs: Connection) -> None:
    os.nice(5)
    theirs.send("ready")
    while True:
        try:
            path = theirs.recv()
        except EOFError:
            return
        try:
            for said in judge(path):
                theirs.send(said)
        except Exception as error:  # noqa: BLE001 - any at all is a fault of the reader
            theirs.send({"faults": [f"raised {type(error).__name__}: {str(error)[:300]}"]})
