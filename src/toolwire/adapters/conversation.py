"""A model in a conversation with tools, whatever SDK it is reached through: it hears, says, and wants calls made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from toolwire.core.errors import ToolwireError
from toolwire.core.model import Json

MOST_STEPS: Final = 20
"""How often a model may ask for calls before it is the person's turn again."""


class ModelError(ToolwireError):
    """The model could not be reached, or gave no answer; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A call that a model asks for: ``arguments`` is what it said, JSON text or data."""

    id: str
    name: str
    arguments: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn:
    """One turn of a model."""

    text: str = ""
    calls: tuple[ModelCall, ...] = ()


class Model(Protocol):
    """A conversation with one model, which it remembers."""

    def hear(self, text: str) -> None:
        """Tell the model what the person says."""
        ...

    def answer(self) -> ModelTurn:
        """Return what the model says now.

        Raises:
            ModelError: it says nothing.
        """
        ...

    def told(self, results: Sequence[tuple[ModelCall, str]]) -> None:
        """Tell the model how all the calls of its last turn ended."""
        ...


Tell: TypeAlias = Callable[[ModelTurn], None]
Made: TypeAlias = Callable[[ModelCall], str]


def converse(model: Model, text: str, made: Made, tell: Tell) -> bool:
    """Say ``text`` to ``model`` and go on until it wants no more calls; return False where it was stopped.

    ``made`` makes one call and returns what the model is told of it; ``tell`` is given each turn as it comes.

    Raises:
        ModelError: the model says nothing; what was heard so far is kept.
    """
    model.hear(text)
    for _ in range(MOST_STEPS):
        said = model.answer()
        tell(said)
        if not said.calls:
            return True
        model.told([(call, made(call)) for call in said.calls])
    return False
