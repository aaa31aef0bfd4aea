"""Every deployment, caller, protocol, client, way to consent and kind of tool, tested together: see ``matrix.toml``."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.crossings.checks import Bench, check_row
from tests.crossings.covering import Row, cover, read_matrix
from tests.crossings.deployments import Deployments
from tests.interop.mcp_makers import INSTALLED, MISSING

pytestmark = [
    pytest.mark.requirement("CR-01"),
    pytest.mark.skipif(not INSTALLED, reason=MISSING),
]
MATRIX = read_matrix()
ROWS, UNREACHABLE = cover(MATRIX, 3 if os.environ.get("TOOLWIRE_LONG") else 2)


def name_row(row: Row) -> str:
    return "-".join(value.replace(" ", "_") for value in row.values())


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(Deployments(tmp_path_factory.mktemp("crossings")))
    yield bench
    bench.close()


@pytest.mark.parametrize("row", ROWS, ids=name_row)
def test_a_user_gets_what_the_documentation_says(row: Row, bench: Bench) -> None:
    check_row(row, bench)
