"""Everything that remembers. What needs a file or a server is imported from its own module."""

from .memory import MemoryAudit, MemoryGrants

__all__ = ["MemoryAudit", "MemoryGrants"]
