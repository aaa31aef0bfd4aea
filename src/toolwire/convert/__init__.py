"""Convert any document of tools into any other, with a list of losses. Imports ``core``, ``framing``, ``protocols``."""

from .converter import KINDS, ConvertedDocument, ReadDocument, WrittenDocument, convert, detect_kind, read, write
from .loss import Loss
from .source_positions import Source

__all__ = [
    "KINDS",
    "ConvertedDocument",
    "Loss",
    "ReadDocument",
    "Source",
    "WrittenDocument",
    "convert",
    "detect_kind",
    "read",
    "write",
]
