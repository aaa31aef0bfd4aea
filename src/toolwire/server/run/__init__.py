"""How one call runs: checks, idempotency, deadlines, worker threads. Imports server.http and server.access."""
