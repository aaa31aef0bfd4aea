"""Close the door of a listening socket before the socket itself, so that nobody who was let in is lost."""
# CR-03

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import sys
from typing import Final

_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
_DROP_SYN: Final = (
    (0x30, 0, 0, 13),  # load the flags of the TCP segment
    (0x54, 0, 0, 0x12),  # keep SYN and ACK
    (0x15, 0, 1, 0x02),  # SYN alone begins a connection
    (0x06, 0, 0, 0),  # drop it
    (0x06, 0, 0, 0xFFFF_FFFF),  # take anything else
)
"""A program of the Berkeley Packet Filter: each step is its code, two jumps and a number."""


def refuse_new_connections(listener: int) -> None:
    """Let no client open a connection to ``listener`` any more; those that are being opened go on.

    A listener that is closed resets what it has not accepted yet. Clients that are not let in try again, and find it
    closed then. Only Linux can do that, and only for TCP.
    """
    if sys.platform != "linux":
        return
    program = b"".join(struct.pack("HBBI", *step) for step in _DROP_SYN)
    memory = ctypes.create_string_buffer(program)
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(listener)) as copy:
        if copy.family != socket.AF_UNIX:
            # struct sock_fprog: the number of steps, and where they are.
            copy.setsockopt(
                socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(_DROP_SYN), ctypes.addressof(memory))
            )


def let_in_connections(listener: socket.socket) -> None:
    """Undo ``refuse_new_connections``, for a new worker at the listener of one that was told to stop."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # there is nothing to undo
            listener.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
