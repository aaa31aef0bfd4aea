"""A small product for people, which assistants can use too: tasks, accounts, consent. ``python -m examples.tasks``."""
