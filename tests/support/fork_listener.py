"""Run a Python file as a fork for each ``fork_request.py`` that another program starts.

``python fork_listener.py SOCKET FILE MODULE...`` imports the modules, and says with a line that it listens at SOCKET.
A fork has the files, the folder, the environment and the words of the request, and its exit code is that of the
request. Signals go to the request alone, so this is for programs of which only the work matters.
"""
# TE-05

from __future__ import annotations

import gc
import os
import pickle
import runpy
import signal
import socket
import sys
import traceback
from importlib import import_module

from fork_server import MAX_MESSAGE_BYTES, enter


def run(file: str) -> int:
    """Run ``file`` as the main program; return its exit code."""
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as end:
        if not isinstance(end.code, str):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except Exception:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Listen until somebody ends this process."""
    path, file, *modules = sys.argv[1:]
    for name in modules:
        import_module(name)
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(128)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print("listens", flush=True)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                break
            connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, files, _, _ = socket.recv_fds(connection, MAX_MESSAGE_BYTES, 3)
    program = pickle.loads(message)
    enter(program, files)
    sys.argv = [file, *map(os.fsdecode, program["words"])]
    code = run(file)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    connection.send(str(code).encode())
    os._exit(code)


if __name__ == "__main__":
    main()
