"""What cannot work because of the proxy in front is said in one sentence, with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.core.errors import UsageError
from toolwire.hosting.build_settings import build_gateway_settings, read_tls
from toolwire.hosting.deployment_faults import list_proxy_faults
from toolwire.hosting.gateway_file import parse_gateway_file

DESK = '[upstreams.desk]\ntarget = "desk.py"\n'
PUBLIC = 'public-url = "https://tools.example"\n'


def find_faults(above: str, tables: str = "") -> list[str]:
    file = parse_gateway_file(f'state = "kept"\n{above}{tables}{DESK}'.encode(), "toolwire.toml")
    return list(list_proxy_faults(file.arguments, build_gateway_settings(file)))


@pytest.mark.requirement("CR-02")
@pytest.mark.parametrize(
    ("above", "tables", "words"),
    [
        (PUBLIC, "[sign-in]\n", ["Nobody can sign in at https://tools.example", 'trusted-proxies = ["127.0.0.1"]']),
        (f'{PUBLIC}host = "unix:/run/t.sock"\n', "[sign-in]\n", ["Nobody can sign in", 'trusted-proxies = ["unix"]']),
        (PUBLIC, "", ["Limits by address count all clients"]),
        (f'{PUBLIC}root-path = "/shop"\ntrusted-proxies = ["127.0.0.1"]\n', "", ["public-url with /shop at its end"]),
        ('public-url = "http://tools.example/shop"\n', "", ['root-path = "/shop"']),
        ('trusted-proxies = ["0.0.0.0/0"]\n', "", ["Any client can claim any address"]),
    ],
)
def test_fault_is_one_sentence_with_its_remedy(above: str, tables: str, words: list[str]) -> None:
    (fault,) = find_faults(above, tables)
    for one in words:
        assert one in fault


@pytest.mark.requirement("CR-02")
@pytest.mark.parametrize(
    ("above", "tables"),
    [
        ("", ""),
        ('public-url = "http://tools.example"\n', ""),
        (f'{PUBLIC}trusted-proxies = ["10.0.0.0/8"]\n', "[sign-in]\n"),
        (f'{PUBLIC}tls-cert = "a.pem"\ntls-key = "b.pem"\n', "[sign-in]\n"),
        ('public-url = "https://tools.example/shop"\nroot-path = "/shop/"\ntrusted-proxies = ["10.0.0.5"]\n', ""),
    ],
)
def test_nothing_is_said_where_all_can_work(above: str, tables: str) -> None:
    assert find_faults(above, tables) == []


@pytest.mark.requirement("CR-02")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trusted_proxies": ["unix"]}, "listen with --host unix:PATH"),
        (
            {"trusted_proxies": ["127.0.0.1"], "host": "unix:/run/t.sock"},
            ("A proxy on a Unix socket has no address. Write --trusted-proxies unix"),
        ),
    ],
)
def test_proxy_that_can_never_connect_is_refused(changes: dict[str, Any], words: str) -> None:
    arguments = parse_gateway_file(DESK.encode(), "toolwire.toml").arguments
    vars(arguments).update(changes)
    with pytest.raises(UsageError, match=words):
        read_tls(arguments)
