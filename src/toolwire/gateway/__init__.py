"""Wrappers that make one Toolbox of several: a gateway is a Toolbox made of remote ones."""

from .caller_consent import CallerConsent
from .connections import ListedConnection, read_connections, write_connections
from .merged_toolbox import merge_toolboxes

__all__ = ["CallerConsent", "ListedConnection", "merge_toolboxes", "read_connections", "write_connections"]
