"""JSON Schemas of OpenAPI documents as JSON Schema 2020-12, at a bounded size."""
