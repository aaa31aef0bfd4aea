"""Hold a conversation between a user and a model that may call tools, whatever SDK reaches the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from toolwire.core.content import Image
from toolwire.core.errors import ToolwireError
from toolwire.core.model import Json

MAX_STEPS: Final = 20
"""How many turns with calls a model may take before it is the user's turn again."""


class ModelError(ToolwireError):
    """The model could not be reached, or gave no answer. The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A call that a model asks for. ``arguments`` are as the model wrote them: JSON text or data."""

    id: str
    name: str
    arguments: Json


def read_call_data(data: Mapping[str, Any], *, id_name: str = "id", arguments_name: str = "arguments") -> ModelCall:
    """Return the call that a model asks for in ``data``, the JSON of its provider. What is missing is empty."""
    id_, name = data.get(id_name), data.get("name")
    arguments: Json = data.get(arguments_name)
    return ModelCall(
        id=id_ if isinstance(id_, str) else "",
        name=name if isinstance(name, str) else "",
        arguments={} if arguments is None else arguments,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn:
    """One turn of a model: its text, and the calls it asks for."""

    text: str = ""
    calls: tuple[ModelCall, ...] = ()


class ModelResult(NamedTuple):
    """The result of a call for a model: JSON text, whether it describes a failure or a denial, and images beside it."""

    text: str
    is_error: bool
    images: tuple[Image, ...] = ()


class Model(Protocol):
    """A conversation with one model. It keeps the messages of all turns."""

    def add_user_message(self, text: str) -> None:
        """Add a message of the user."""
        ...

    def get_turn(self) -> ModelTurn:
        """Send the conversation to the model and return its turn.

        Raises:
            ModelError: the model could not be reached, or gave no answer.
        """
        ...

    def add_tool_results(self, results: Sequence[tuple[ModelCall, ModelResult]]) -> None:
        """Add the results of all calls of the model's last turn."""
        ...


CallRunner: TypeAlias = Callable[[ModelCall], ModelResult]
"""Runs one call of a model."""

TurnObserver: TypeAlias = Callable[[ModelTurn], None]
"""Is given each turn of a model as it comes, before its calls run."""


def converse(model: Model, text: str, run_call: CallRunner, show_turn: TurnObserver) -> bool:
    """Give ``text`` to ``model`` and run its calls until it wants no more of them.

    Returns False where the model still wanted calls after ``MAX_STEPS`` turns.

    Raises:
        ModelError: the model could not be reached, or gave no answer. The messages so far are kept.
    """
    model.add_user_message(text)
    for _ in range(MAX_STEPS):
        turn = model.get_turn()
        show_turn(turn)
        if not turn.calls:
            return True
        model.add_tool_results([(call, run_call(call)) for call in turn.calls])
    return False
