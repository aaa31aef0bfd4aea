"""Convert schemas of OpenAPI documents to JSON Schema 2020-12 of bounded size. May import ``document``."""
