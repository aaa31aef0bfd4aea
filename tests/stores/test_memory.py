"""What a connection remembers for as long as it lasts."""

from toolwire.stores import MemoryGrants


def test_a_grant_holds_once_it_is_added() -> None:
    grants = MemoryGrants()
    assert not grants.holds("a")
    grants.add("a")
    grants.add("a")
    assert grants.holds("a")
    assert not grants.holds("b")


def test_a_grant_can_be_revoked_and_revoking_nothing_does_nothing() -> None:
    grants = MemoryGrants()
    grants.add("a")
    grants.revoke("a")
    grants.revoke("never there")
    assert not grants.holds("a")


def test_the_number_of_grants_is_bounded() -> None:
    grants = MemoryGrants()
    for number in range(10_001):
        grants.add(str(number))
    assert grants.holds("9999")
    assert not grants.holds("10000")
