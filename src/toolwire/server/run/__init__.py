"""Run one call: checks, idempotency, deadlines, worker threads. Imports server.http."""
