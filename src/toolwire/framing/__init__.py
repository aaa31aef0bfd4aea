"""Read and write the formats that protocols share: JSON, YAML, JSON-RPC, SSE, ``x-llm``. Imports only ``core``."""
