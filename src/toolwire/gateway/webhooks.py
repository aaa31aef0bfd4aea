"""Tell of each new question in the inbox by a webhook, signed by the scheme of Standard Webhooks.

Rules:
- A webhook only tells: the answer is given in the inbox or at the terminal.
- A call never waits for a webhook. A thread sends, and repeats what failed until the question ends, at most six times.
- At most 1,000 messages wait; one more is dropped, and that is counted and logged.
- A message has no argument of the call, unless the webhook says so. The secret, and all of the URL but its origin, stay
  out of logs.
- A redirect is not followed: it counts as a failure.
"""
# GW-04

from __future__ import annotations

import heapq
import logging
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hmac import digest
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.errors import DefinitionError
from toolwire.core.http import Request
from toolwire.core.model import Json, Problem, Secret
from toolwire.core.url_origin import get_host, get_origin, read_origin
from toolwire.framing import jsontext
from toolwire.limits import list_rule_names
from toolwire.server.asking.inbox import QuestionNotice
from toolwire.telemetry.counts import count_webhook

MAX_WAITING: Final = 1_000
PAUSES_S: Final = (1.0, 5.0, 15.0, 45.0, 120.0)
"""How many seconds pass before each repetition of a message that failed."""
_LIMITS: Final = TransportLimits(total_s=10.0, response_bytes=65_536, redirects=0)
_HERE: Final = ("localhost", "127.0.0.1", "::1")
_MIN_SECRET: Final = 24
_MAX_SECRET: Final = 64
_MAX_ARGUMENTS: Final = 65_536
_PREFIX: Final = "whsec_"
_log = logging.getLogger("toolwire")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A receiver of questions: its ``url``, and the secret that signs messages.

    ``secret`` is 24 to 64 bytes as base64, with or without ``whsec_``. With ``arguments``, a message includes the
    call's arguments.

    Raises:
        DefinitionError: ``url`` is neither HTTPS nor HTTP on this machine, or the secret is not valid.
    """

    url: str = field(repr=False)
    secret: Secret = field(repr=False)
    arguments: bool = False

    def __post_init__(self) -> None:
        origin = read_origin(self.url)
        if origin is None or origin.has_user_info or (origin.scheme != "https" and get_host(self.url) not in _HERE):
            text = "without a password; http is for this machine alone."
            raise DefinitionError(f"The URL of a webhook must be like https://hooks.example/questions, {text}")
        self.read_secret()

    def read_secret(self) -> bytes:
        """Return the secret as bytes.

        Raises:
            DefinitionError: the secret is not base64 of 24 to 64 bytes.
        """
        try:
            key = b64decode(self.secret.reveal().strip().removeprefix(_PREFIX), validate=True)
        except ValueError:
            key = b""
        if not _MIN_SECRET <= len(key) <= _MAX_SECRET:
            text = f"is {_MIN_SECRET} to {_MAX_SECRET} bytes as base64, such as `openssl rand -base64 32` prints."
            raise DefinitionError(f"The secret of a webhook {text}")
        return key


class _Message(NamedTuple):
    due: float
    number: int
    attempt: int
    until: float
    id: str
    body: bytes
    webhook: Webhook


class Webhooks:
    """Sends each question to the caller's webhook in ``callers``, or else to ``every``. Pass it as ``on_question``.

    - ``callers``: webhooks by the caller's name in the gateway file, such as ``ann``. ``*`` stands for everyone else.
    - ``allow_private``: allow webhooks at a private address.
    - ``ca_file``: a PEM file with certificates to trust in addition to the system's.
    - ``clock``: returns seconds since 1970.
    - ``pauses_s``: the delay before each retry, in seconds.
    """

    def __init__(
        self,
        every: Webhook | None = None,
        *,
        callers: Mapping[str, Webhook] | None = None,
        allow_private: bool = True,
        ca_file: str | Path | None = None,
        clock: Callable[[], float] = time.time,
        pauses_s: tuple[float, ...] = PAUSES_S,
    ) -> None:
        self._every, self._callers = every, dict(callers or {})
        self._clock, self._pauses_s = clock, pauses_s
        self._allow_private, self._ca_file = allow_private, ca_file
        self._networks: dict[str, SyncNetwork] = {}
        self._waiting: list[_Message] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._counts = {"sent": 0, "failed": 0, "dropped": 0}
        self._fault = ""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many messages were sent, failed for good, or were dropped because too many were waiting."""
        return dict(self._counts)

    @property
    def fault(self) -> str:
        """Why the last message failed, as a sentence for operators. Empty if it was sent."""
        return self._fault

    def __call__(self, notice: QuestionNotice) -> None:
        """Send a message about a question soon. It returns at once."""
        webhook = self._find_webhook(notice.principal)
        if webhook is None:
            return
        now = self._clock()
        body = write_message(notice, now, with_arguments=webhook.arguments)
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                self._count("dropped", f"Too many messages are waiting for {get_origin(webhook.url)}. One was dropped.")
                return
            message = _Message(now, next(self._numbers), 0, notice.expires_at, f"question_{notice.id}", body, webhook)
            heapq.heappush(self._waiting, message)
            if self._thread is None:
                # A daemon: a server that stops does not wait for a site that hangs.
                self._thread = threading.Thread(target=self._run, name="toolwire-webhooks", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Stop sending. A message that is already being sent can finish."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_LIMITS.total_s)

    def _find_webhook(self, principal: str) -> Webhook | None:
        found = (self._callers.get(name) for name in list_rule_names(principal))
        return next((one for one in found if one is not None), self._every)

    def _run(self) -> None:
        while (message := self._take()) is not None:
            try:
                fault = self._send(message)
            except Exception as error:  # noqa: BLE001 - the thread goes on with the next message
                fault = f"it could not be sent ({type(error).__name__})"
            self._record_delivery(message, fault)

    def _take(self) -> _Message | None:
        """Return the next message when it is due, or None when this is closed."""
        with self._changed:
            while not self._is_closed:
                rest = self._waiting[0].due - self._clock() if self._waiting else None
                if rest is not None and rest <= 0:
                    return heapq.heappop(self._waiting)
                self._changed.wait(rest)
            return None

    def _send(self, message: _Message) -> str:
        """Return what went wrong, as the end of a sentence; empty if the message was taken."""
        webhook, moment = message.webhook, int(self._clock())
        signature = sign_message(webhook.read_secret(), message.id, moment, message.body)
        headers = (
            (b"content-type", b"application/json"),
            (b"webhook-id", message.id.encode()),
            (b"webhook-timestamp", str(moment).encode()),
            (b"webhook-signature", signature.encode()),
        )
        answer = self._open_network(webhook).send(Request("POST", webhook.url, headers, message.body))
        if isinstance(answer, Problem):
            is_redirect = answer.details.get("reason") == "redirect"
            return "it redirects, which is not followed" if is_redirect else "it cannot be reached"
        return "" if 200 <= answer.status < 300 else f"it answered with status {answer.status}"

    def _open_network(self, webhook: Webhook) -> SyncNetwork:
        origin = get_origin(webhook.url)
        if origin not in self._networks:
            private = (origin,) if self._allow_private else ()
            self._networks[origin] = SyncNetwork(
                allow_private=private, origins=(origin,), ca_file=self._ca_file, limits=_LIMITS
            )
        return self._networks[origin]

    def _record_delivery(self, message: _Message, fault: str) -> None:
        origin = get_origin(message.webhook.url)
        with self._changed:
            if not fault:
                self._counts["sent"] += 1
                count_webhook("sent")
                self._fault = ""
                return
            pause = self._pauses_s[message.attempt] if message.attempt < len(self._pauses_s) else None
            due = 0.0 if pause is None else self._clock() + pause
            if pause is None or due >= message.until or self._is_closed:
                self._count("failed", f"Cannot send a question to the webhook at {origin}: {fault}.")
                return
            heapq.heappush(self._waiting, message._replace(due=due, attempt=message.attempt + 1))
            self._fault = f"The webhook at {origin} failed: {fault}. The message will be sent again."

    def _count(self, what: str, sentence: str) -> None:
        self._counts[what] += 1
        count_webhook(what)
        self._fault = sentence
        _log.warning("%s", sentence)


def write_message(notice: QuestionNotice, now: float, *, with_arguments: bool) -> bytes:
    """Return the body of the message about a question, as JSON."""
    data: dict[str, Json] = {
        "id": notice.id,
        "tool": notice.tool,
        "site": notice.site,
        "caller": notice.principal,
        "expires_at": _write_time(notice.expires_at),
        "url": notice.url or None,
    }
    if with_arguments:
        arguments = dict(notice.arguments)
        is_short = len(jsontext.write(arguments)) <= _MAX_ARGUMENTS
        data |= {"arguments": arguments} if is_short else {"arguments": None, "arguments_left_out": True}
    return jsontext.write({"type": "question.asked", "timestamp": _write_time(now), "data": data})


def sign_message(key: bytes, id_: str, moment: int, body: bytes) -> str:
    """Return the signature of a message as Standard Webhooks writes it; ``moment`` is in seconds since 1970."""
    signed = f"{id_}.{moment}.".encode() + body
    return f"v1,{b64encode(digest(key, signed, 'sha256')).decode()}"


def _write_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
