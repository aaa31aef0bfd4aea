"""Conversions: any document of tools into any other, each with the list of what was lost."""

from .converter import KINDS, Converted, Read, Written, convert, kind_of, read, write
from .loss import Loss
from .source_positions import Source

__all__ = ["KINDS", "Converted", "Loss", "Read", "Source", "Written", "convert", "kind_of", "read", "write"]
