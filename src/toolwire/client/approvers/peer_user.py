"""Find out whether a program of another user of this machine sent a request to a loopback port.

The address of a page is given to the browser on its command line, which other users of the machine can read.
"""
# D-19

from __future__ import annotations

import os
from pathlib import Path

# The page is at 127.0.0.1, so the table of IPv4 is enough.
_TABLE = Path("/proc/net/tcp")
# Root can act as every user anyway.
_ROOT = 0
_LISTENS = "0A"
# The table shows a closed connection with the user 0 and without a socket. It must not pass for one of root.
_NO_SOCKET = "0"


def is_other_user(peer_port: int, own_port: int, table: Path = _TABLE) -> bool:
    """Return whether another user has the other end of a connection from ``peer_port`` to ``own_port``.

    Only Linux can tell. On other systems, and without a table of connections, the result is False. If the other end is
    already closed, it has no user any more and counts as another user's: a browser does not close before it has the
    page.
    """
    try:
        text = table.read_text("ascii")
    except OSError:
        return False
    # The table of a busy machine has thousands of rows, of which few are about this port.
    own = f":{own_port:04X} "
    rows = [line.split() for line in text.splitlines()[1:] if own in line]
    if not any(row[1].endswith(f":{own_port:04X}") and row[3] == _LISTENS for row in rows):
        return False  # a table without our own port says nothing
    ends = (f":{peer_port:04X}", f":{own_port:04X}")
    return not any(
        row[1].endswith(ends[0])
        and row[2].endswith(ends[1])
        and row[9] != _NO_SOCKET
        and int(row[7]) in (os.getuid(), _ROOT)
        for row in rows
    )
