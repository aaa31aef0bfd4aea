"""Define the rules of OAuth as values and functions: what may be requested, what is granted, when a token is valid.

This room is pure: it imports ``core`` and ``framing`` only. Clocks, randomness and responses come in as arguments.

Rules:
- URLs of other parties are compared as text; nothing is normalised before a comparison.
- An expected refusal is an ``OAuthError``, with the error codes of the OAuth specifications.
"""
