"""The protocols we speak, in the order in which a URL is tried."""

from toolwire.core.codec import Codec

from . import mcp, openapi, opentool, otc

BUILTIN: tuple[Codec, ...] = (openapi.CODEC, opentool.CODEC, otc.CODEC, mcp.CODEC)

__all__ = ["BUILTIN"]
