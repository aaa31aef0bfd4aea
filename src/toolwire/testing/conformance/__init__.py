"""The conformance suite: what every protocol of toolwire does alike, for any codec that has both halves.

A behaviour takes a Session and yields one sentence for each fault; nothing means that it conforms.
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
