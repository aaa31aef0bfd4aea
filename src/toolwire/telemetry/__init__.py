"""What a server says of its calls to whoever runs it: spans, metrics and logs, without arguments, results or secrets.

Rules:
- OpenTelemetry is used by its API alone, and only where somebody has set an SDK up; else it is not even imported.
- A secret of a call is text in none of them.
"""
# D-26, R20
