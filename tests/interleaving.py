"""Run something else at one `await` of a coroutine: what is checked before it may have changed after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from tests.support.wire import App, AppResponse, build_scope
from toolwire.core.http import Request, Response

T = TypeVar("T")


class Interrupted(Generic[T]):
    """Awaits ``first``. Where it waits for the ``number``th time, ``rival`` runs to its end before it goes on.

    ``reached`` says afterwards whether there was such a place.
    """

    def __init__(self, first: Coroutine[Any, Any, T], number: int, rival: Callable[[], Awaitable[object]]) -> None:
        self._first, self._number, self._rival = first, number, rival
        self.reached = False

    def __await__(self) -> Generator[Any, Any, T]:
        count, failure = 0, None
        while True:
            try:
                waited_for = self._first.send(None) if failure is None else self._first.throw(failure)
            except StopIteration as end:
                result: T = end.value
                return result
            failure = None
            try:
                yield waited_for
            except BaseException as error:  # noqa: BLE001 - it is for the coroutine
                failure = error
            count += 1
            if count == self._number:
                self.reached = True
                yield from self._rival().__await__()


async def interrupt_each_await(
    make: Callable[[], tuple[Coroutine[Any, Any, T], Callable[[], Awaitable[object]]]],
    check: Callable[[T], object],
    most: int = 200,
) -> int:
    """Run what ``make`` returns, a coroutine and its rival, once for each `await`; return how many there are.

    ``check`` gets each result.
    """
    for number in range(1, most):
        first, rival = make()
        interrupted = Interrupted(first, number, rival)
        check(await interrupted)
        if not interrupted.reached:
            return number - 1
    raise AssertionError(f"it waits more than {most} times")


async def answer_request(app: App, request: Request) -> Response:
    """Return the answer of ``app``, which runs in this coroutine: so each of its awaits is one of the coroutine."""
    answer = AppResponse(request)
    await app(build_scope(request), answer.receive, answer.send)
    answer.end()
    return await answer.read_all()
