"""One ASGI exchange: a request that is given up while its body comes."""

import asyncio
from typing import Any

import pytest

from toolwire.server.deadline_scheduler import DeadlineScheduler
from toolwire.server.http.exchange import MessageExchange
from toolwire.server.http.messages import read_body, split_mount_path
from toolwire.server.limits import ServerLimits


def test_cancelled_request_is_not_reported_as_slow() -> None:
    async def give_up() -> None:
        asked = asyncio.Event()

        async def receive() -> Any:
            asked.set()
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            raise AssertionError(message)

        task = asyncio.create_task(read_body(MessageExchange(receive, send), {}, ServerLimits(), DeadlineScheduler()))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())


@pytest.mark.parametrize(
    ("root", "path", "found"),
    [
        ("/root", "/root/a", ("/root", "/a")),
        ("/root/", "/root/a", ("/root", "/a")),
        ("/root", "/root", ("/root", "/")),
        ("/root", "/a", ("/root", "/a")),
    ],
)
def test_path_is_relative_to_the_mount_path(root: str, path: str, found: tuple[str, str]) -> None:
    assert split_mount_path(root, path) == found
