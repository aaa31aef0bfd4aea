"""The pictures of the documentation are the same on every day."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import SAY_AS_BEFORE, SAY_THE_SAME

SAID = "<p>{}, {}:02:03</p><p>Ends {}</p><p>Due {}</p><p>127.0.0.1:{} in {}.5 ms</p>"


@pytest.mark.requirement("FD-06")
def test_a_picture_shows_the_same_day_and_time_whenever_it_is_taken(page: Any) -> None:
    first, later = (
        ("3 Jan", "08", "31 Dec 2025", "2025-12-31", 40_001, 7),
        ("28 Sept", "21", "2 Oct 2027", "2027-10-02", 52_345, 31),
    )
    shown = []
    for values in (first, later):
        page.set_content(SAID.format(*values))
        before = page.inner_text("body")
        page.evaluate(SAY_THE_SAME)
        shown.append(page.inner_text("body"))
        page.evaluate(SAY_AS_BEFORE)
        assert page.inner_text("body") == before
    assert shown[0] == shown[1]
    assert "24 Nov, 09:41:00" in shown[0]
    assert "Ends 24 Nov 2026" in shown[0]
