"""The checks of Open Tool Calling: the RFC, and OXP if the server lists ``items``."""

from __future__ import annotations

from typing import Final

from .answers import ANSWERS
from .listing import LISTING
from .refusals import KEYS, REFUSALS

CHECKS: Final = (*LISTING, *REFUSALS, *KEYS, *ANSWERS)
