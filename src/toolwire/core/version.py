"""The version of this package, which clients and servers also tell each other."""

__version__ = "1.0.0rc2"
