"""Read the scripts of our pages: files beside the modules that serve them, each read once, at its first use."""
# FU-32, D-25

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def load_script(name: str, module: str) -> bytes:
    """Return the script ``name``, which is beside the file ``module``, after the part that all scripts share."""
    return Path(__file__).with_name("page.js").read_bytes() + Path(module).with_name(name).read_bytes()
