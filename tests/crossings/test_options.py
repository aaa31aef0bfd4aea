"""Each option of a server is in at least two crossings."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import pytest

from tests.crossings.covering import cover
from tests.crossings.options import MATRIX, choose_extras, find_flavour, list_needed
from toolwire.core.command_option import list_command_options
from toolwire.server.options import ServerOptions

LEAST = 2


def list_options() -> dict[str, str]:
    """Return the options of a server by the names of their fields: what each is called where it is given."""
    typed = {one.field or one.name.replace("-", "_"): one.name for one in list_command_options(ServerOptions)}
    return {one.name: typed.get(one.name, one.name) for one in fields(ServerOptions)}


def count_options() -> Counter[str]:
    """Return in how many rows of strength 2 each option is."""
    counted: Counter[str] = Counter()
    for row in cover(MATRIX, 2)[0]:
        deployment, flavour = row["deployment"], find_flavour(row)
        counted.update(set(choose_extras(deployment, flavour)) | list_needed(deployment, flavour))
        if deployment == "mounted in FastAPI":
            counted.update(MATRIX.python["mounted"])
            counted.update([] if flavour.wants_receipts else MATRIX.python["with_an_inbox"])
            counted.update(MATRIX.python["with_keys"] if flavour.callers == "keys" else [])
    return counted


@pytest.mark.requirement("CR-05")
def test_each_option_of_a_server_is_in_two_crossings() -> None:
    counted = count_options()
    assert [name for name in list_options().values() if counted[name] < LEAST] == []
