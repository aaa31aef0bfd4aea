"""Check over HTTP whether any server conforms to its protocols.

As a pytest plugin, it makes each check of a protocol one test of your server::

    # pytest -p toolwire.testing.server_checks
    @pytest.mark.conform("otc")
    def test_our_server(conformance, our_url):
        conformance(our_url)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .check import Check, CheckStatus, Outcome, run_check
from .probe import ProbeTool, open_probe
from .run_checks import PROTOCOLS, CheckReport, conform

if TYPE_CHECKING:
    import pytest

__all__ = [
    "PROTOCOLS",
    "CheckReport",
    "CheckStatus",
    "Outcome",
    "ProbeTool",
    "conform",
    "pytest_configure",
    "pytest_generate_tests",
]


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker ``conform``."""
    config.addinivalue_line("markers", "conform(protocol): run the test once for each check of a protocol")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test marked ``conform`` once for each check. The test gets the check as ``conformance``."""
    marker = metafunc.definition.get_closest_marker("conform")
    if marker is None or "conformance" not in metafunc.fixturenames:
        return
    (protocol,) = marker.args
    rows = [(f"{protocol}-{place:02}", check) for place, check in enumerate(PROTOCOLS[protocol], 1)]
    metafunc.parametrize("conformance", [_build_fixture(*row) for row in rows], ids=[number for number, _ in rows])


def _build_fixture(number: str, check: Check) -> Callable[..., None]:
    def conformance(url: str, *, key: str | None = None, call: tuple[str, dict[str, object]] | None = None) -> None:
        import pytest  # this package also works without pytest

        probe = open_probe(url, key=key, call=None if call is None else ProbeTool(*call))
        try:
            ended = run_check(check, number, probe)
        finally:
            probe.close()
        text = f"{ended.requirement} {ended.sentence} {ended.why}"
        if ended.standing is CheckStatus.SKIPPED:
            pytest.skip(text)
        if ended.standing is CheckStatus.FAILED:
            pytest.fail(text, pytrace=False)

    return conformance
