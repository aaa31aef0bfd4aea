"""Store the credentials of a user, in the system's keyring or in private files.

This room imports ``auth`` for what a credential is.
"""
