"""Find the folders of toolwire on the disk, and where a server keeps what must last."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from socket import gethostname
from typing import NamedTuple
from urllib.parse import urlsplit

from toolwire.core.errors import DefinitionError

STATE_VARIABLE = "TOOLWIRE_STATE"
WAKE_VARIABLE = "TOOLWIRE_WAKE"


class NoHomeError(DefinitionError):
    """This user has no home folder, as in many containers."""


def find_home() -> Path:
    """Return the home folder of this user.

    Raises:
        NoHomeError: there is none.
    """
    # RE-05
    try:
        return Path.home()
    except RuntimeError:
        text = f"This user has no home folder. Set HOME, or set {STATE_VARIABLE} and XDG_STATE_HOME to a folder."
        raise NoHomeError(text) from None


def find_state_folder() -> Path:
    """Return the folder of the stored state of this user: below XDG_STATE_HOME or ~/.local/state.

    Raises:
        NoHomeError: there is none.
    """
    given = os.environ.get("XDG_STATE_HOME", "")
    # The XDG Base Directory Specification says to ignore a path that is not absolute.
    return (Path(given) if given.startswith("/") else find_home() / ".local" / "state") / "toolwire"


def find_cache_folder() -> Path:
    """Return the folder of what this user can delete at any time: below XDG_CACHE_HOME or ~/.cache.

    Raises:
        NoHomeError: there is none.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if given.startswith("/") else find_home() / ".cache") / "toolwire"


def is_postgres_url(where: str) -> bool:
    """Return whether ``where`` names a database of PostgreSQL."""
    return where.partition("://")[0] in ("postgresql", "postgres", "postgresql+psycopg")


def name_in_redis(state: Path | str) -> str:
    """Return what the server of ``state``, a file or the URL of a database, calls its data in a Redis.

    Servers of other states that use the same Redis do not take its messages, and count for themselves. Processes that
    write the same place in two ways have two queues, and find each other's calls in the state within a second.
    """
    # CR-01
    url = urlsplit(str(state))  # without the user, the password and the options, which differ between processes
    place = f"{url.hostname}:{url.port}{url.path}" if url.hostname else f"{gethostname()} {Path(state).absolute()}"
    return f"toolwire-{sha256(place.encode()).hexdigest()[:16]}"


class StatePlaces(NamedTuple):
    """Where a server keeps calls, rate limits, confirmations, receipts, questions, OAuth and MCP sessions.

    Empty: in the memory of the process; receipts are then not kept, and questions where the user's own are.
    """

    ledger: str | None = None
    rates: str = ""
    confirmations: str = ""
    receipts: str = ""
    inbox: str = ""
    oauth: str = ""
    sessions: str = ""


def find_state_places(where: str | Path) -> StatePlaces:
    """Return the places of the state at ``where``: ``memory``, a folder, which is created, or a PostgreSQL URL.

    ``""`` means the environment variable TOOLWIRE_STATE, or memory if that is not set.

    Raises:
        DefinitionError: it is another URL, or the folder cannot be used.
    """
    # ST-01: a place that is named in the program wins over the variable.
    text = str(where) or os.environ.get(STATE_VARIABLE, "") or "memory"
    if text == "memory":
        return StatePlaces()
    if is_postgres_url(text):
        return StatePlaces(*[text] * len(StatePlaces._fields))
    if ":/" in text:  # one slash, because a Path of a URL has lost the second
        raise DefinitionError("State must be memory, a folder or a URL such as postgresql://HOST/DATABASE.")
    folder = Path(text)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        advice = f"Choose another location with --state or {STATE_VARIABLE}."
        raise DefinitionError(f"Cannot store state in {folder}: {reason}. {advice}") from error
    return StatePlaces(
        ledger=str(folder / "calls.sqlite"),
        rates=str(folder),
        confirmations=str(folder / "confirmations"),
        receipts=str(folder),
        inbox=str(folder),
        oauth=str(folder / "oauth.sqlite3"),
        sessions=str(folder / "sessions.sqlite3"),
    )


def find_decisions_place() -> Path | str:
    """Return where the decisions of this user are: the state that TOOLWIRE_STATE names, or the user's own folder."""
    # ST-01: one setting for all that lasts. "memory" is for servers: what a user decided is always kept.
    named = os.environ.get(STATE_VARIABLE, "")
    if named in ("", "memory"):
        return find_state_folder()
    return named if is_postgres_url(named) else Path(find_state_places(named).inbox)


def find_credentials_place() -> Path | str:
    """Return where the credentials of this user are: in the state of TOOLWIRE_STATE, or in the user's folder."""
    place = find_decisions_place()
    return place / "credentials" if isinstance(place, Path) else place


def has_credentials_place() -> bool:
    """Return whether there may be credentials of this user, without asking a database."""
    try:
        place = find_credentials_place()
    except NoHomeError:
        return False
    return isinstance(place, str) or place.is_dir()
