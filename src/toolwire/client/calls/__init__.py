"""Run one call of a tool: checks, consent, questions, retries. Imports client.discovery and client.transport."""
