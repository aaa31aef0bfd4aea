"""An unknown name brings the name that was probably meant."""

from __future__ import annotations

import pytest

from toolwire.core.suggestion import find_nearest

GENERATED = ["get_item_items__item_id__get", "get_item_price_prices__item_id__get", "list_items_items__get", "add"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("get_item", "get_item_items__item_id__get"),
        ("getItemPrice", "get_item_price_prices__item_id__get"),
        ("list_items", "list_items_items__get"),
        ("ad", "add"),
        ("add", "add"),
        ("g", ""),
        ("", ""),
        ("unrelated", ""),
    ],
)
def test_name_that_a_generated_name_begins_with_is_found(written: str, meant: str) -> None:
    assert find_nearest(written, GENERATED) == meant
