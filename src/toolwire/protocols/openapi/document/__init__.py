"""Reading OpenAPI documents: versions, references, overlays, policy, findings."""
