"""Which addresses may be connected to."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.client.transport.addresses import NetworkReach, is_address_allowed

PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
LOOPBACK = ["127.0.0.1", "127.255.255.254", "::1"]
PRIVATE = ["10.0.0.5", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fd12:3456::1"]
METADATA = ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"]
METADATA += ["fd20:ce::254", "fd00:ec2::23", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1"]
METADATA += ["fd00:100::100:200", "169.254.170.23"]
SPECIAL = [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.1.1",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "100::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "64:ff9b:1::808:808",
    "::808:808",
]
DISGUISED = [
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.5",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:5",
    "64:ff9b::a9fe:a9fe",
    "::ffff:168.63.129.16",
    "64:ff9b::a83f:8110",
    "2002:a83f:8110::1",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::",  # Teredo, whose server is this machine
    "2001:0:808:808:0:0:80ff:fffe",  # Teredo, whose client is: its address stands inverted
    "2606:4700::5efe:7f00:1",  # ISATAP
    "2606:4700::200:5efe:a00:5",
    "fd12:3456::5efe:a9fe:a9fe",  # ISATAP in a private network, to the metadata of a cloud
    "fd12:3456::200:5efe:a9fe:aa17",
]
NO_ADDRESS = [
    "",
    "localhost",
    "127.1",
    "0x7f000001",
    "2130706433",
    "0177.0.0.1",
    "127.0.0.1 ",
    "fe80::1%eth0",
    "::1%1",
    "1.2.3",
]


@pytest.mark.requirement("D-05")
@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_allowed_and_is_not_loopback(address: str) -> None:
    assert is_address_allowed(address, NetworkReach.PUBLIC)
    assert is_address_allowed(address, NetworkReach.PRIVATE)
    assert not is_address_allowed(address, NetworkReach.LOOPBACK)
    assert not is_address_allowed(address, NetworkReach.PRIVATE_ONLY)


@pytest.mark.requirement("D-05")
@pytest.mark.parametrize("address", PRIVATE)
def test_private_address_needs_permission_for_private_networks(address: str) -> None:
    allowed = [reach for reach in NetworkReach if is_address_allowed(address, reach)]
    assert allowed == [NetworkReach.PRIVATE, NetworkReach.PRIVATE_ONLY]


@pytest.mark.requirement("D-05")
@pytest.mark.parametrize("address", LOOPBACK)
def test_loopback_address_is_allowed_only_for_a_loopback_name(address: str) -> None:
    assert [reach for reach in NetworkReach if is_address_allowed(address, reach)] == [NetworkReach.LOOPBACK]


@pytest.mark.requirement("D-05")
@pytest.mark.parametrize("address", METADATA + SPECIAL + DISGUISED + NO_ADDRESS)
def test_metadata_special_and_disguised_addresses_are_never_fit(address: str) -> None:
    assert not any(is_address_allowed(address, reach) for reach in NetworkReach)


@pytest.mark.requirement("D-05")
@given(st.integers(0, 2**32 - 1).map(IPv4Address), st.sampled_from(["::ffff:{0}", "64:ff9b::{0}"]))
def test_ipv4_address_inside_ipv6_is_judged_like_the_ipv4_address(inner: IPv4Address, form: str) -> None:
    assert is_address_allowed(str(IPv6Address(form.format(inner))), NetworkReach.PUBLIC) == is_address_allowed(
        str(inner), NetworkReach.PUBLIC
    )


@pytest.mark.requirement("D-05")
@given(
    st.integers(0, 2**32 - 1)
    .map(IPv4Address)
    .filter(lambda inner: not is_address_allowed(str(inner), NetworkReach.PUBLIC))
)
def test_tunnel_address_with_a_non_public_target_is_refused(inner: IPv4Address) -> None:
    sixtofour = IPv6Address((0x2002 << 112) | (int(inner) << 80) | 1)
    teredo = IPv6Address((0x2001_0000 << 96) | (0x0808_0808 << 64) | (int(inner) ^ 0xFFFF_FFFF))
    isatap = IPv6Address((0x2606_4700 << 96) | (0x5EFE << 32) | int(inner))
    assert not any(
        is_address_allowed(str(tunnel), reach) for tunnel in (sixtofour, teredo, isatap) for reach in NetworkReach
    )


@given(st.text(max_size=60))
def test_any_address_text_is_judged_without_an_exception(text: str) -> None:
    for reach in NetworkReach:
        assert is_address_allowed(text, reach) in (True, False)
