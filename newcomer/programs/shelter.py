"""An API that knows nothing of toolwire: animals of a shelter, with FastAPI."""

from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI(title="Shelter", version="2.1.0")


class Animal(BaseModel):
    """An animal that looks for a home."""

    name: str
    kind: str


ANIMALS = [Animal(name="Rex", kind="dog"), Animal(name="Tom", kind="cat")]


@app.get("/animals", operation_id="list_animals", summary="List the animals")
def list_animals(kind: str | None = None) -> list[Animal]:
    """List the animals of a kind, or all."""
    return [animal for animal in ANIMALS if kind in {None, animal.kind}]


@app.post("/animals", operation_id="add_animal", summary="Add an animal", status_code=201)
def add_animal(animal: Animal) -> Animal:
    """Add an animal."""
    ANIMALS.append(animal)
    return animal
