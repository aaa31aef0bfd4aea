"""What fuzzing found once is read for good."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOUND = sorted((ROOT / "tests" / "vectors" / "found").glob("*.bin"))
sys.path.insert(0, str(ROOT))

from fuzz.readers import READERS, read  # noqa: E402 - the folder is beside the package, not in it


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_fuzzing_found_is_read(path: Path) -> None:
    read(path.read_bytes())


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("reader", range(len(READERS)), ids=READERS)
@pytest.mark.parametrize("text", [b"", b"{}", b"[", b'{"a":' * 300, b"\xff", b'"\\ud800"', b"[1e999]", b"9" * 5_000])
def test_what_is_hostile_to_any_reader_is_a_problem(reader: int, text: bytes) -> None:
    read(bytes([reader]) + text)
