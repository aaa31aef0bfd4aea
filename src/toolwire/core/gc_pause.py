"""Garbage collection put off while a large document is read, or the tables of many tools are built.

Either makes many objects and keeps them all. The collector would look through the whole of them again and again and
find nothing: two thirds of the time of parsing, and half of the time of building.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_MANY = 20_000


@contextmanager
def pause_collection() -> Generator[None, None, None]:
    """Put collecting off until the block ends; inside another such block, or where it is off, do nothing.

    Where the block made many objects they count as old from then on: they wait for the next full collection.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _MANY and not gc.get_freeze_count():  # what the program itself froze stays so
            gc.freeze()
            gc.unfreeze()
        gc.enable()
