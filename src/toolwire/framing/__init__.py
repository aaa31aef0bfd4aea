"""Read and write the formats that are shared: JSON, YAML, JSON-RPC, SSE, ``x-llm``, HTML. Imports only ``core``."""
