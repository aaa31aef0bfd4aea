"""The pictures of the documentation: each page kind, in both themes and widths, in small files."""

from __future__ import annotations

import re
import struct

import pytest

from .page import ROOT

pytestmark = pytest.mark.requirement("FD-06")
PICTURES = ROOT / "docs" / "pictures"
TEXT = (ROOT / "docs" / "how-to" / "pictures.md").read_text(encoding="utf-8")


def test_each_picture_is_linked_and_each_page_has_four() -> None:
    linked = re.findall(r"\.\./pictures/(.+?)-(light|dark)-(360|1280)\.png", TEXT)
    assert {"-".join(one) for one in linked} == {file.stem for file in PICTURES.iterdir()}
    assert len(set(linked)) == 4 * len({name for name, _, _ in linked})
    assert len({name for name, _, _ in linked}) >= 13


def test_pictures_take_at_most_two_megabytes() -> None:
    assert sum(file.stat().st_size for file in PICTURES.iterdir()) <= 2_000_000


def test_pictures_have_the_width_in_their_names_and_one_screen_or_two() -> None:
    for file in PICTURES.iterdir():
        width, height = struct.unpack(">II", file.read_bytes()[16:24])
        assert file.stem.endswith(f"-{width}"), file.name
        assert height <= 1200, file.name
