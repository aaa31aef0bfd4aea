"""Read OpenAPI documents: load, resolve references, list operations, read policies. Imports no other room."""
