"""The page at ``/``: the tools of a server, a form for each, and what a call looks like on each protocol."""
