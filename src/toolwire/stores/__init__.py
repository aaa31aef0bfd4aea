"""Everything that remembers."""

from .memory import MemoryGrants

__all__ = ["MemoryGrants"]
