"""The protocols, in the order in which discovery tries them. Imports core, framing and validation."""

from toolwire.core.codec import Codec

from . import mcp, openapi, opentool, otc

BUILTIN: tuple[Codec, ...] = (openapi.CODEC, opentool.CODEC, otc.CODEC, mcp.CODEC)

STRICT_JSONRPC: tuple[Codec, ...] = tuple(opentool.STRICT if codec is opentool.CODEC else codec for codec in BUILTIN)
"""The same, where OpenTool answers in the strict form of JSON-RPC. [A-12]"""

__all__ = ["BUILTIN", "STRICT_JSONRPC"]
