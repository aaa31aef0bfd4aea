"""The conformance suite: what every protocol of toolwire does alike, for any codec that has both halves.

A behaviour takes a Session and yields one sentence for each fault; nothing means that it conforms.
"""

from .behaviours import BEHAVIOURS, Behaviour
from .kit import kit
from .mutation import one_edit_away
from .replies import reading_faults, replying_faults
from .session import CodecConnection, session

__all__ = [
    "BEHAVIOURS",
    "Behaviour",
    "CodecConnection",
    "kit",
    "one_edit_away",
    "reading_faults",
    "replying_faults",
    "session",
]
