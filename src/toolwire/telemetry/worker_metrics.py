"""Add up the metrics of all worker processes of a server, for the one that serves them.

Each process writes its metrics to a file of a shared folder, once a second and when they are asked for. The counters of
a process that ended stay in the sums, so that no sum goes back. A file lock says whether a process lives.
"""
# PL-04

from __future__ import annotations

import fcntl
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from prometheus_client import REGISTRY, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

_EVERY_S: Final = 1.0
_SUFFIX: Final = ".metrics"
# All other gauges count something, so they are added up.
_TAKE_MAX: Final = ("toolwire_build_info", "target_info", "python_info", "toolwire_upstream_breaker_state")
_TAKE_MIN: Final = ("toolwire_upstream_up", "process_start_time_seconds")
_COUNTERS: Final = frozenset({"counter", "histogram", "summary"})
_INSTANCE: Final = "service_instance_id"


class WorkerMetrics:
    """The metrics of the processes that share ``folder``; a collector of Prometheus."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stopped = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._write_regularly, name="toolwire-worker-metrics", daemon=True)

    def start(self) -> None:
        """Write the metrics of this process from now on."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
        self._lock = os.open(self._file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._write()
        self._thread.start()

    def stop(self) -> None:
        """Write them for the last time. Their counters stay."""
        self._stopped.set()
        self._thread.join()
        self._write()
        os.close(self._lock)

    def collect(self) -> Iterator[Metric]:
        """Yield the sums over all processes."""
        self._write()
        sums: dict[str, Metric] = {}
        values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
        for file in sorted(self._folder.glob(f"*{_SUFFIX}")):
            is_alive = _is_alive(file)
            for family in text_string_to_metric_families(file.read_text(encoding="utf-8")):
                if not is_alive and family.type not in _COUNTERS:
                    continue
                sums.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                found = values.setdefault(family.name, {})
                for sample in family.samples:
                    labels = tuple(sorted((key, text) for key, text in sample.labels.items() if key != _INSTANCE))
                    key = sample.name, labels
                    found[key] = _combine(sample.name, found[key], sample.value) if key in found else sample.value
        for name, family in sums.items():
            for (sample_name, labels), value in values[name].items():
                family.add_sample(sample_name, dict(labels), value)
            yield family

    def _write_regularly(self) -> None:
        while not self._stopped.wait(_EVERY_S):
            self._write()

    def _write(self) -> None:
        with self._writing, suppress(OSError):  # such as a full disk: the figures are then those of before
            new = self._file.with_suffix(".new")
            new.write_bytes(generate_latest(REGISTRY))
            new.replace(self._file)


def _combine(name: str, one: float, other: float) -> float:
    if name in _TAKE_MAX:
        return max(one, other)
    return min(one, other) if name in _TAKE_MIN or name.endswith("_created") else one + other


def _is_alive(file: Path) -> bool:
    """Return whether the process that writes ``file`` lives: it holds the lock beside it."""
    handle: Any = None
    try:
        handle = os.open(file.with_suffix(".lock"), os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return False
