"""Run a tool call: checks, consent, questions, retries. Imports client.discovery and client.transport."""
