"""Where credentials are kept, and who cannot read them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolwire.auth.credential import Credential
from toolwire.core.model import Secret
from toolwire.stores.credentials.files import CredentialError, CredentialStore
from toolwire.stores.credentials.system_keyring import SystemVault


def credential(resource: str = "https://tasks.example", **more: str) -> Credential:
    return Credential(
        kind="oauth",
        resource=resource,
        access=Secret("at-canary"),
        refresh=Secret("rt-canary"),
        issuer="https://login.example",
        client_id="me",
        scopes=("a",),
        **more,
    )


@pytest.fixture(autouse=True)
def _careless_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.requirement("AC-10", "XL-111", "OQ-12")
def test_credential_is_stored_in_a_private_file_and_found_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "credentials"
    CredentialStore(folder).put(credential())
    assert CredentialStore(folder).list_all() == [credential()]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600]
    CredentialStore(folder).delete(credential().storage_name)
    assert list(folder.iterdir()) == []


@pytest.mark.requirement("AC-10")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_credential_file_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    kept = CredentialStore(tmp_path / "credentials")
    kept.put(credential())
    (path,) = (tmp_path / "credentials").iterdir()
    path.chmod(mode)
    with pytest.raises(CredentialError, match="Other users can read") as error:
        kept.list_all()
    assert "canary" not in str(error.value)


@pytest.mark.requirement("AC-10")
def test_shared_credential_folder_or_symlink_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "credentials"
    folder.mkdir(0o755)
    with pytest.raises(CredentialError):
        CredentialStore(folder).put(credential())
    folder.chmod(0o700)
    (tmp_path / "elsewhere").write_text("{}")
    (folder / "x.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        CredentialStore(folder).get("x")


@pytest.mark.requirement("AC-10")
def test_a_damaged_file_is_no_credential(tmp_path: Path) -> None:
    kept = CredentialStore(tmp_path / "credentials")
    kept.put(credential())
    (path,) = (tmp_path / "credentials").iterdir()
    for text in (
        "",
        "[]",
        "{}",
        '{"plain": 7, "secrets": {}}',
        '{"plain": {}, "secrets": {"access": "x"}}',
        '{"secrets": 7}',
    ):
        path.write_text(text)
        assert kept.list_all() == []


@pytest.mark.requirement("AC-10")
def test_passphrase_encrypts_stored_secrets(tmp_path: Path) -> None:
    folder = tmp_path / "credentials"
    CredentialStore(folder, passphrase=Secret("open sesame")).put(credential())
    (path,) = folder.iterdir()
    assert "canary" not in path.read_text()
    assert CredentialStore(folder, passphrase=Secret("open sesame")).list_all() == [credential()]
    for wrong in (None, Secret("open barley")):
        with pytest.raises(CredentialError):
            CredentialStore(folder, passphrase=wrong).list_all()
    other = path.with_name("0" * 64 + ".json")
    path.rename(other)  # what is sealed for one name is not taken for another
    with pytest.raises(CredentialError):
        CredentialStore(folder, passphrase=Secret("open sesame")).list_all()


class Ring:
    """A keyring in memory, as the system has one."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, text: str) -> None:
        self.kept[service, name] = text

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


@pytest.mark.requirement("AC-10")
def test_keyring_keeps_secrets_out_of_files(tmp_path: Path) -> None:
    ring = Ring()
    kept = CredentialStore(tmp_path / "credentials", vault=SystemVault(ring))
    kept.put(credential())
    assert "canary" not in "".join(path.read_text() for path in (tmp_path / "credentials").iterdir())
    assert kept.list_all() == [credential()]
    kept.delete(credential().storage_name)
    kept.delete(credential().storage_name)
    assert ring.kept == {}
    assert kept.list_all() == []


@pytest.mark.requirement("AC-10", "AC-11", "AC-04")
def test_lookup_returns_the_nearest_credential_of_the_same_principal(tmp_path: Path) -> None:
    kept = CredentialStore(tmp_path / "credentials")
    site, api, mcp = "https://x.example", "https://x.example/api", "https://x.example/mcp"
    for resource in (site, api, mcp):
        kept.put(credential(resource))
    kept.put(credential("https://y.example/api", principal="Bob"))
    found = {
        url: kept.find_covering(url) for url in (f"{api}/tasks", f"{site}/other", "https://x.example.evil.example/api")
    }
    assert [each.resource if each else None for each in found.values()] == [api, site, None]
    assert kept.find_covering("https://y.example/api") is None
    assert kept.find_covering("https://y.example/api", "Bob") is not None
    below = kept.find_covering("https://y.example", "Bob")
    assert below is not None


def test_same_client_at_two_issuers_has_two_credentials(tmp_path: Path) -> None:
    one, two = (
        credential(),
        Credential(
            kind="oauth",
            resource="https://tasks.example",
            access=Secret("x"),
            issuer="https://other.example",
            client_id="me",
        ),
    )
    assert one.storage_name != two.storage_name
