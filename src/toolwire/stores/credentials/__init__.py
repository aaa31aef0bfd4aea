"""The credentials of a user, in the system's keyring or in private files."""
