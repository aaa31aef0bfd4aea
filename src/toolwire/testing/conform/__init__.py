"""A conformance kit for anybody's server: numbered checks from outside, and a plugin that makes them tests."""

from .asking import Called
from .check import Outcome, Standing
from .conform import PROTOCOLS, Report, conform
from .plugin import pytest_configure, pytest_generate_tests

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
