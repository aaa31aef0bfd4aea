"""A question is told by a signed webhook: what it says, when it is repeated, and what never gets into it."""

from __future__ import annotations

import json
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from opentelemetry import metrics
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from tests.support.webhooks import KEY, Receiver
from tests.telemetry.sdk import Sdk
from toolwire.core.errors import DefinitionError
from toolwire.core.http import Request
from toolwire.core.model import Problem, Secret
from toolwire.gateway.webhooks import MAX_WAITING, Webhook, Webhooks
from toolwire.server.asking.inbox import QuestionNotice
from toolwire.telemetry import names

OTHER = b64encode(b"o" * 32).decode()


@pytest.fixture
def open_webhooks() -> Iterator[Callable[..., Webhooks]]:
    with ExitStack() as ending:

        def opened(*arguments: Any, **given: Any) -> Webhooks:
            webhooks = Webhooks(*arguments, **{"pauses_s": (0.05, 0.05), **given})
            ending.callback(webhooks.close)
            return webhooks

        yield opened


def build_notice(id_: str = "1f", **changes: Any) -> QuestionNotice:
    given: dict[str, Any] = {
        "id": id_,
        "tool": "publish",
        "site": "https://shop.example",
        "principal": "key:ann",
        "expires_at": time.time() + 300,
        "url": "https://tools.example/inbox",
        "arguments": {"name": "private-words"},
    }
    return QuestionNotice(**{**given, **changes})


def wait_for(find: Callable[[], Any]) -> None:
    pause, until = threading.Event(), time.monotonic() + 20
    while not find():
        assert time.monotonic() < until
        pause.wait(0.02)


@pytest.mark.requirement("GW-04")
def test_message_is_signed_as_standard_webhooks_says_and_has_no_argument(
    receiver: Receiver, open_webhooks: Callable[..., Webhooks]
) -> None:
    webhooks = open_webhooks(Webhook(url=f"{receiver.url}/hook", secret=Secret(f"whsec_{KEY}")))
    webhooks(build_notice())
    path, fields, message = receiver.take()
    assert (path, fields["webhook-id"], message["type"]) == ("/hook", "question_1f", "question.asked")
    assert abs(int(fields["webhook-timestamp"]) - time.time()) < 60
    assert message["data"] == {
        "id": "1f",
        "tool": "publish",
        "site": "https://shop.example",
        "caller": "key:ann",
        "expires_at": message["data"]["expires_at"],
        "url": "https://tools.example/inbox",
    }
    with pytest.raises(WebhookVerificationError):
        Verifier(OTHER).verify(json.dumps(message).encode(), fields)
    wait_for(lambda: webhooks.counts == {"sent": 1, "failed": 0, "dropped": 0})


@pytest.mark.requirement("GW-04", "D-39")
@pytest.mark.parametrize(
    ("principal", "path"),
    [("key:ann", "/ann"), ("jwt:ann", "/ann"), ("user:ann:0a1b2c3d4e5f", "/ann"), ("key:bob", "/others")],
)
def test_question_of_a_caller_goes_to_their_webhook_alone_however_they_sign_in(
    principal: str, path: str, receiver: Receiver, open_webhooks: Callable[..., Webhooks]
) -> None:
    hooks = {name: Webhook(url=f"{receiver.url}/{name}", secret=Secret(KEY)) for name in ("all", "ann", "others")}
    webhooks = open_webhooks(hooks["all"], callers={"ann": hooks["ann"], "*": hooks["others"]})
    webhooks(build_notice(principal=principal))
    assert receiver.take()[0] == path


@pytest.mark.requirement("GW-04")
def test_arguments_are_sent_where_the_setting_says_so_and_each_caller_has_their_webhook(
    receiver: Receiver, open_webhooks: Callable[..., Webhooks]
) -> None:
    secret = Secret(KEY)
    webhooks = open_webhooks(
        Webhook(url=f"{receiver.url}/all", secret=secret),
        callers={"ann": Webhook(url=f"{receiver.url}/ann", secret=secret, arguments=True)},
    )
    webhooks(build_notice())
    path, _, message = receiver.take()
    assert (path, message["data"]["arguments"]) == ("/ann", {"name": "private-words"})
    webhooks(build_notice(principal="key:bob"))
    path, _, message = receiver.take()
    assert (path, "arguments" in message["data"]) == ("/all", False)
    webhooks(build_notice(arguments={"name": "x" * 100_000}))
    _, _, message = receiver.take()
    assert (message["data"]["arguments"], message["data"]["arguments_left_out"]) == (None, True)


@pytest.mark.requirement("GW-04")
def test_message_that_fails_is_sent_again_with_its_id_and_then_given_up(
    receiver: Receiver,
    open_webhooks: Callable[..., Webhooks],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sdk = Sdk()
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: sdk.meters)
    receiver.answers = [(500, {}), (503, {})]
    webhooks = open_webhooks(Webhook(url=f"{receiver.url}/path-with-a-token", secret=Secret(KEY)))
    webhooks(build_notice())
    ids = {receiver.take()[1]["webhook-id"] for _ in range(3)}
    assert ids == {"question_1f"}
    wait_for(lambda: webhooks.counts["sent"] == 1)
    receiver.answers = [(500, {})] * 3
    webhooks(build_notice("2f"))
    wait_for(lambda: webhooks.counts["failed"] == 1)
    assert webhooks.fault == f"Cannot send a question to the webhook at {receiver.url}: it answered with status 500."
    assert webhooks.fault in caplog.text
    counted = {point.attributes["outcome"]: point.value for point in sdk.points(names.WEBHOOKS)}
    assert counted == {"sent": 1, "failed": 1}
    assert KEY not in caplog.text
    assert "path-with-a-token" not in caplog.text + repr(webhooks._every)


@pytest.mark.requirement("GW-04")
def test_redirect_is_not_followed(receiver: Receiver, open_webhooks: Callable[..., Webhooks]) -> None:
    for where in ("/elsewhere", "http://127.0.0.1:9/elsewhere", "http://169.254.169.254/latest"):
        receiver.answers = [(307, {"location": where})]
        webhooks = open_webhooks(Webhook(url=f"{receiver.url}/hook", secret=Secret(KEY)), pauses_s=())
        webhooks(build_notice())
        wait_for(lambda webhooks=webhooks: webhooks.counts["failed"] == 1)
        assert receiver.received.get(timeout=20)[0] == "/hook"
        assert receiver.received.empty()


@pytest.mark.requirement("GW-04", "D-05")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_name_that_leads_to_this_machine_is_not_connected_to(
    open_webhooks: Callable[..., Webhooks], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    def resolve(_host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    with socket.create_server(("127.0.0.1", 0)) as here:
        here.setblocking(False)
        url = f"https://hooks.example:{here.getsockname()[1]}/questions"
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        webhooks = open_webhooks(Webhook(url=url, secret=Secret(KEY)), pauses_s=())
        webhooks(build_notice())
        wait_for(lambda: webhooks.counts["failed"] == 1)
        with pytest.raises(BlockingIOError):
            here.accept()


@pytest.mark.requirement("GW-04", "D-05")
@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "[fd00:ec2::254]", "[fd00:ec2::23]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]"),
        *("[fd00:c1::a9fe:a9fe]", "0.0.0.0", "[::]", "[fe80::1]", "100.100.100.200", "224.0.0.1"),
        *("0x7f.1", "2130706433", "127.1", "127.0.0.1."),
    ],
)
def test_webhook_of_an_address_that_gives_out_credentials_is_never_sent(
    open_webhooks: Callable[..., Webhooks], host: str
) -> None:
    try:
        webhook = Webhook(url=f"https://{host}/latest", secret=Secret(KEY))
    except DefinitionError:
        return
    webhooks = open_webhooks(webhook, pauses_s=())
    answer = webhooks._open_network(webhook).send(Request("GET", webhook.url))
    assert isinstance(answer, Problem)
    assert "was not contacted" in answer.message or "is written in an unusual form" in answer.message


@pytest.mark.requirement("GW-04")
def test_site_that_hangs_delays_no_caller_and_the_queue_is_bounded(
    receiver: Receiver, open_webhooks: Callable[..., Webhooks]
) -> None:
    receiver.gate.clear()
    webhooks = open_webhooks(Webhook(url=receiver.url, secret=Secret(KEY)))
    for number in range(MAX_WAITING + 10):
        webhooks(build_notice(str(number)))  # returns although nothing was sent
    assert webhooks.counts["dropped"] >= 9
    assert webhooks.counts["sent"] == 0
    receiver.gate.set()  # closing waits for the message that is being sent


@pytest.mark.requirement("GW-04")
def test_question_that_is_over_is_not_told_again(receiver: Receiver, open_webhooks: Callable[..., Webhooks]) -> None:
    receiver.answers = [(500, {})] * 9
    webhooks = open_webhooks(Webhook(url=receiver.url, secret=Secret(KEY)), pauses_s=(1_000.0,))
    webhooks(build_notice())
    wait_for(lambda: webhooks.counts["failed"] == 1)
    assert receiver.received.qsize() == 1


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("ftp://hooks.example", KEY),
        ("http://hooks.example", KEY),
        ("https://user:pass@hooks.example", KEY),
        ("not a url", KEY),
        ("https://hooks.example", "short"),
        ("https://hooks.example", "not base64 at all, but long enough"),
    ],
)
def test_webhook_that_cannot_be_used_is_refused_without_its_secret(url: str, secret: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        Webhook(url=url, secret=Secret(secret))
    assert secret not in str(refused.value)
