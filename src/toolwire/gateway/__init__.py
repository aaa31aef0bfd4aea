"""Wrappers that make one Toolbox of several: a gateway is a Toolbox made of remote ones."""

from .merged import merged

__all__ = ["merged"]
