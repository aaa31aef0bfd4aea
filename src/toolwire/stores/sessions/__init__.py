"""Keep the sessions of MCP clients of up to 2025-11-25 where several processes find them."""

from __future__ import annotations
