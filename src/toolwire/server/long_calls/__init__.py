"""Run long calls, and answer requests about them. Imports server.asking and server.http."""
