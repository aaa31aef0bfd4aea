"""A conformance kit for anybody's server: numbered checks from outside, and a plugin that makes them tests."""

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
