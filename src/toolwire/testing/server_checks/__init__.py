"""A conformance kit for anybody's server: numbered checks from outside, and a plugin that makes them tests."""

from .check import Outcome, Standing
from .plugin import pytest_configure, pytest_generate_tests
from .probe import Called
from .run_checks import PROTOCOLS, Report, conform

__all__ = [
    "PROTOCOLS",
    "Called",
    "Outcome",
    "Report",
    "Standing",
    "conform",
    "pytest_configure",
    "pytest_generate_tests",
]
