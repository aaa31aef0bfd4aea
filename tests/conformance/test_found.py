"""What fuzzing found once is read for good."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.mutations import edit_data, scratch_bytes
from toolwire.core.model import Problem
from toolwire.framing import jsontext

ROOT = Path(__file__).parents[2]
MUTATED = 5_000
"""Mutated texts for each reader; ``make fuzz`` reads ten million."""
FOUND = sorted((ROOT / "tests" / "vectors" / "found").glob("*.bin"))
sys.path.insert(0, str(ROOT))

from fuzz.readers import READERS, read  # noqa: E402 - the folder is beside the package, not in it


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_inputs_found_by_fuzzing_are_read(path: Path) -> None:
    read(path.read_bytes())


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("reader", range(len(READERS)), ids=READERS)
@pytest.mark.parametrize("text", [b"", b"{}", b"[", b'{"a":' * 300, b"\xff", b'"\\ud800"', b"[1e999]", b"9" * 5_000])
def test_hostile_input_is_a_problem_for_each_reader(reader: int, text: bytes) -> None:
    read(bytes([reader]) + text)


def list_known_inputs() -> list[Any]:
    """Return data that readers are made for: the vectors of the protocols, and the documents in ``spec``."""
    found: list[Any] = []
    for path in sorted((ROOT / "tests" / "vectors").glob("*.json")):
        found += [vector.get("body") for vector in json.loads(path.read_bytes())]
    texts = [path.read_bytes() for path in sorted((ROOT / "spec").rglob("*.json")) if path.parent.name != "runs"]
    documents = [jsontext.read(text) for text in texts if len(text) < 20_000]
    return [*found, *(document for document in documents if not isinstance(document, Problem))]


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("reader", range(len(READERS)), ids=READERS)
def test_mutated_input_is_a_value_or_a_problem(reader: int) -> None:
    chance, seeds = random.Random(reader), list_known_inputs()
    for _ in range(MUTATED):
        data = chance.choice(seeds)
        for _ in range(chance.randint(0, 3)):
            data = edit_data(data, chance)
        text = json.dumps(data).encode()
        read(bytes([reader]) + (scratch_bytes(text, chance) if chance.random() < 0.25 else text))
