"""Read the styles and scripts of our pages: files beside the modules that serve them, read once, at first use."""
# FU-32, D-25

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def load_style() -> str:
    """Return the one stylesheet of all pages. Its tokens come first; dark follows the setting of the system."""
    return _read("page.css", __file__).strip()


@cache
def load_script(name: str, module: str) -> bytes:
    """Return the script ``name``, which is beside the file ``module``, after the part that all scripts share."""
    return (_read("page.js", __file__) + _read(name, module)).encode()


def _read(name: str, module: str) -> str:
    return Path(module).with_name(name).read_text(encoding="utf-8")
