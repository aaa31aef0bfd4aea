"""Test the behaviours that all protocols of toolwire share, for any codec with a client and a server half.

A behaviour takes a ``CodecConnection`` and yields one sentence for each fault. A codec without faults conforms.
"""

from .behaviours import BEHAVIOURS, Behaviour
from .kit import build_kit
from .mutation import generate_edits
from .replies import find_reading_faults, find_replying_faults
from .session import CodecConnection, open_session

__all__ = [
    "BEHAVIOURS",
    "Behaviour",
    "CodecConnection",
    "build_kit",
    "find_reading_faults",
    "find_replying_faults",
    "generate_edits",
    "open_session",
]
