"""Check over HTTP whether any server conforms to its protocols; a pytest plugin makes each check a test."""

from .check import CheckStatus, Outcome
from .plugin import pytest_configure, pytest_generate_tests
from .probe import ProbeTool
from .run_checks import PROTOCOLS, CheckReport, conform

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
