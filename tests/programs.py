"""What tests need of the machine beside Python, and what a test says where it is not there."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

import pytest

ON_DEBIAN = "`make test` installs it as root on Debian; or install the package {}"


def require_redis() -> str:
    """Return the path of ``redis-server``; skip the test where there is none."""
    if found := shutil.which("redis-server"):
        return found
    pytest.skip(f"there is no redis-server: {ON_DEBIAN.format('redis-server')}")


def require_postgres(name: str) -> str:
    """Return the path of a program of PostgreSQL, which Debian keeps out of the path; skip the test without it."""
    kept = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = shutil.which(name) or (str(kept[-1]) if kept else None)
    if found is None:
        pytest.skip(f"there is no PostgreSQL server: {ON_DEBIAN.format('postgresql')}")
    if os.getuid() == 0 and not any(user.pw_name == "postgres" for user in pwd.getpwall()):
        pytest.skip("PostgreSQL refuses to run as root, and there is no user postgres: run the tests as another user")
    return found


def postgres_user() -> str | None:
    """Return as whom PostgreSQL runs: it refuses to run as root. ``None`` is whoever runs the tests."""
    return "postgres" if os.getuid() == 0 else None
