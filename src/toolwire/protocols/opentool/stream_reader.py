"""Read a stream of ``/streamCall`` event by event: progress while it runs, the result at its end.

Rules:
- ``done`` ends a call well, ``error`` ends it badly; a stream that ends with neither was cut off.
- ``start`` says nothing new; every other event is progress, whatever its name.
- All progress is part of the result but that named ``progress``, which only says how far the tool is.
"""
#

from __future__ import annotations

from collections.abc import Iterator

from toolwire.core.http import Response
from toolwire.core.model import Json, Kind, Problem, Progress, Result, Value
from toolwire.framing import jsontext, sse
from toolwire.framing.jsontext import get_object
from toolwire.framing.response_fields import HEADERS

from . import error_object, quirks, result
from .document import PROGRESS
from .result import Shape

MAX_EVENTS = 100_000


class StreamReader:
    """Hears one call. ``ended`` is how it ended, None as long as the stream has not said.

    ``name`` is that of the return and ``shape`` what each piece can be; without a name each is left as it came.
    With ``whole`` the last piece is the result, rather than the list of all. With ``takes_items`` the pieces are only
    passed on, and the list is empty.
    """

    def __init__(
        self, name: str | None, shape: Shape = Shape.ANY, *, whole: bool = False, takes_items: bool = False
    ) -> None:
        self._name = name
        self._shape = shape
        self._whole = whole
        self._events = sse.Decoder()
        self._takes_items = takes_items and not whole
        self._values: list[Json] = []
        self._count = 0
        self.ended: Result | None = None

    def feed(self, piece: bytes) -> Iterator[Progress]:
        """Yield the progress that ``piece`` completes.

        Raises:
            ValueError: an event is not JSON, or too large, or there are more than 100,000.
        """
        for event in self._events.feed(piece):
            data = jsontext.read(event.data.encode())
            if isinstance(data, Problem):
                raise ValueError(f"an event is not JSON ({data.message.rstrip('.')})")
            if self.ended is not None:
                return
            yield from self._read_event(event.name, data)

    def result(self, response: Response) -> Result:
        """Return how the call ended, now that the stream has."""
        if self.ended is not None:
            return self.ended
        text = f"The stream ended after {self._count} events, before the call was complete. Its result is unknown."
        return Problem(kind=Kind.BAD_ANSWER, message=text, details={"status": response.status})

    def _read_event(self, name: str, data: Json) -> Iterator[Progress]:
        mended = quirks.mend(data, quirks.ANSWER)
        match name, mended:
            case "start", _:
                return
            case "done", _:
                value = self._values if not self._whole else self._values[-1] if self._values else None
                fields = get_object(mended, HEADERS) if isinstance(mended, dict) else {}  # CR-04
                self.ended = Value(value, {HEADERS: fields} if fields else None)
            case "error", {"error": dict(error)} | dict(error):
                self.ended = error_object.read(error)
            case "error", _:
                self.ended = error_object.read({})
            case _, {"error": dict(error)} if isinstance(data, dict) and data.keys() & {"jsonrpc", "result"}:
                self.ended = error_object.read(error)  # an answer that is an error, and no piece that is called so
            case _:
                value = self._read_result(mended, Shape.ANY if name == PROGRESS else self._shape)
                if name != PROGRESS:
                    self._add(value)
                if name == PROGRESS or not self._whole:
                    yield Progress(value, name)

    def _add(self, value: Json) -> None:
        # GR-02
        self._count += 1
        if self._whole:
            self._values = [value]
        elif not self._takes_items:
            self._values.append(value)

    def _read_result(self, data: Json, shape: Shape) -> Json:
        if self._count == MAX_EVENTS:
            raise ValueError(f"it contains more than {MAX_EVENTS:,} events")
        returned = data["result"] if isinstance(data, dict) and "result" in data else data
        return returned if self._name is None else result.read(returned, shape, self._name)
