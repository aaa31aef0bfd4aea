"""Find the right tool among many, by words and offline.

This room is pure, and nothing is imported or indexed before somebody looks for a tool.
"""

from .answer import DEFAULT_LIMIT, Found, View, find_tools
from .index import search_tools

__all__ = ["DEFAULT_LIMIT", "Found", "View", "find_tools", "search_tools"]
