"""Describe a long call that goes on when its user has decided."""
# GW-04

from __future__ import annotations

from typing import NamedTuple


class ResumableCall(NamedTuple):
    """A long call that goes on when the question ``question`` is over: its id, and the principal of its caller."""

    question: str
    principal: str
    call: str
