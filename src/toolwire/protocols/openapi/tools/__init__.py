"""Make tools of operations: names, arguments, schemas, hints. May import ``document``, ``schema`` and ``request``."""
