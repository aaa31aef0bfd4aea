"""Check over HTTP whether any server conforms to its protocols.

In the tests of a server::

    def test_our_server(our_url):
        assert [report.failures for report in conform(our_url, protocol="otc")] == [()]
"""

from .check import CheckStatus, Outcome
from .probe import ProbeTool
from .run_checks import PROTOCOLS, CheckReport, conform

__all__ = ["PROTOCOLS", "CheckReport", "CheckStatus", "Outcome", "ProbeTool", "conform"]
