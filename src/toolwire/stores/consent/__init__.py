"""Store what a user decided: grants ("always"), waiting questions and the log of decisions.

``grants`` has what is allowed for later calls, ``preferences`` the stricter levels of a user, ``approvals`` the
questions that wait, and ``audit`` the log.

This room imports ``consent`` for the rules, and ``stores.database``.
"""
