"""Ask ``fork_listener.py`` for a fork, and end as it does: ``python -I -S fork_request.py SOCKET WORD...``."""

import os
import pickle
import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
    connection.connect(sys.argv[1])
    program = {
        "words": [os.fsencode(word) for word in sys.argv[2:]],
        "environment": [name + b"=" + value for name, value in os.environb.items()],
        "folder": os.getcwdb(),
        "umask": 0o022,
        "new_session": False,
        "group": -1,
        "module": "",
    }
    socket.send_fds(connection, [pickle.dumps(program)], [0, 1, 2])
    said = connection.recv(16)
sys.exit(int(said) if said else 1)
