"""One call of a tool: checks, consent, the question, retries. Imports client.transport and client.discovery."""
