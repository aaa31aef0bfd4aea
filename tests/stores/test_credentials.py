# ruff: noqa: F811 - fixtures are imported
"""Where credentials are kept, and who cannot read them."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import Postgres, psycopg, shared_postgres  # noqa: F401 - the fixture
from toolwire.auth.credential import Credential, name_account
from toolwire.core.model import Secret
from toolwire.stores.credentials.caller_vault import CallerVault, _CallerPlace
from toolwire.stores.credentials.files import CredentialFolder, CredentialStore
from toolwire.stores.credentials.postgres import PostgresCredentials
from toolwire.stores.credentials.sealing import CredentialError, read_key_file
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
    stored = CredentialStore(tmp_path / "credentials")
    stored.put(credential())
    (path,) = (tmp_path / "credentials").iterdir()
    path.chmod(mode)
    with pytest.raises(CredentialError, match="Other users can read") as error:
        stored.list_all()
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
    stored = CredentialStore(tmp_path / "credentials")
    stored.put(credential())
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
        assert stored.list_all() == []


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
    stored = CredentialStore(tmp_path / "credentials", vault=SystemVault(ring))
    stored.put(credential())
    assert "canary" not in "".join(path.read_text() for path in (tmp_path / "credentials").iterdir())
    assert stored.list_all() == [credential()]
    stored.delete(credential().storage_name)
    stored.delete(credential().storage_name)
    assert ring.kept == {}
    assert stored.list_all() == []


@pytest.mark.requirement("AC-10", "AC-11", "AC-04")
def test_lookup_returns_the_nearest_credential_of_the_same_principal(tmp_path: Path) -> None:
    stored = CredentialStore(tmp_path / "credentials")
    site, api, mcp = "https://x.example", "https://x.example/api", "https://x.example/mcp"
    for resource in (site, api, mcp):
        stored.put(credential(resource))
    stored.put(credential("https://y.example/api", principal=name_account("Bob")))
    found = {
        url: stored.find_covering(url)
        for url in (f"{api}/tasks", f"{site}/other", "https://x.example.evil.example/api")
    }
    assert [each.resource if each else None for each in found.values()] == [api, site, None]
    assert stored.find_covering("https://y.example/api") is None
    assert stored.find_covering("https://y.example/api", "Bob") is not None
    below = stored.find_covering("https://y.example", "Bob")
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


KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def database(shared_postgres: Postgres) -> str:
    return shared_postgres.create_database()


@pytest.mark.requirement("ST-01", "AC-10")
def test_credentials_in_a_database_are_encrypted_and_shared(database: str, tmp_path: Path) -> None:
    key_file = write_key_file(tmp_path, KEY)
    here, there = (
        CredentialStore(PostgresCredentials(database), keys=read_key_file(key_file), find_vault=lambda: None)
        for _ in range(2)
    )
    here.put(credential())
    here.put(credential())
    assert there.list_all() == [credential()]
    assert there.find_covering("https://tasks.example/api") == credential()
    with psycopg.connect(database) as connection:
        [(text,)] = connection.execute("SELECT record FROM toolwire_credentials").fetchall()
    assert "canary" not in str(text)
    there.delete(credential().storage_name)
    assert here.list_all() == []


@pytest.mark.requirement("ST-01", "AC-10", "D-08")
def test_a_writer_of_the_database_cannot_redirect_or_plant_a_credential(database: str) -> None:
    stored = CredentialStore(PostgresCredentials(database), keys=[Secret(KEY)])
    stored.put(credential())
    name = credential().storage_name
    with psycopg.connect(database, autocommit=True) as connection:
        change = "UPDATE toolwire_credentials SET record = replace(record, 'tasks.example', 'evil.example')"
        connection.execute(change)
        with pytest.raises(CredentialError, match="None of the keys decrypts the stored credentials"):
            stored.get(name)
        plain = json.dumps({"plain": {"kind": "key", "resource": "https://x.example"}, "secrets": {"access": "mine"}})
        connection.execute("UPDATE toolwire_credentials SET record = %s", (plain,))
    assert stored.get(name) is None


@pytest.mark.requirement("ST-01", "AC-10")
def test_credentials_in_a_database_need_a_key(database: str, tmp_path: Path) -> None:
    place = PostgresCredentials(database)
    with pytest.raises(
        CredentialError,
        match=(
            "Credentials in a database are always encrypted\\. Set TOOLWIRE_KEY_FILE to a key file that only you "
            "can read, such as `openssl rand -hex 32` prints, or set TOOLWIRE_PASSPHRASE, or store the key with "
            "`keyring set toolwire"
        ),
    ):
        CredentialStore(place).put(credential())
    CredentialStore(place, passphrase=Secret("a passphrase")).put(credential())
    assert CredentialStore(place, passphrase=Secret("a passphrase")).list_all() == [credential()]
    with pytest.raises(CredentialError, match="does not decrypt"):
        CredentialStore(place, passphrase=Secret("another")).list_all()
    for text, mode, reply in ((KEY, 0o644, "Other users can read"), ("short", 0o600, "at least 32 characters")):
        with pytest.raises(CredentialError, match=reply):
            read_key_file(write_key_file(tmp_path, text, mode))
    with pytest.raises(CredentialError, match=r"Cannot read the key file .*: No such file"):
        read_key_file(tmp_path / "nothing")


@pytest.mark.requirement("ST-01", "AC-10")
def test_a_key_is_taken_from_the_keyring_and_can_be_replaced(database: str, tmp_path: Path) -> None:
    place, ring = PostgresCredentials(database), Ring()
    ring.set_password("toolwire", "state-key", KEY)
    CredentialStore(place, vault=SystemVault(ring)).put(credential())
    newer = write_key_file(tmp_path, f"{'f' * 32}\n{KEY}\n")
    both = CredentialStore(place, keys=read_key_file(newer))
    assert both.list_all() == [credential()]
    both.put(credential())
    with pytest.raises(CredentialError, match="None of the keys decrypts the stored credentials"):
        CredentialStore(place, vault=SystemVault(ring)).list_all()
    folder = CredentialStore(tmp_path / "credentials", keys=read_key_file(newer))
    folder.put(credential())
    assert folder.list_all() == [credential()]
    assert all("canary" not in path.read_text() for path in (tmp_path / "credentials").iterdir())


@pytest.mark.requirement("ST-01", "AC-09")
def test_one_machine_at_a_time_renews_a_credential(database: str) -> None:
    stores = [CredentialStore(PostgresCredentials(database), keys=[Secret(KEY)]) for _ in range(2)]
    inside: list[int] = []
    most: list[int] = []

    def renew(number: int) -> None:
        for _ in range(5):
            with stores[number % 2].lock("a"):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=renew, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 20


def write_key_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "key"
    file.unlink(missing_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.mark.requirement("AT-55", "GW-02")
@pytest.mark.parametrize("where", ["folder", "postgresql"])
def test_names_of_one_caller_are_found_beside_those_of_others(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if where == "postgresql":
        place: Any = PostgresCredentials(request.getfixturevalue("shared_postgres").create_database())
    else:
        place = CredentialFolder(tmp_path / "kept")
    names = ["ab.1", "ab.2", "abc.1", "a.1", "b.1", "started.1.x"]
    for name in names:
        place.write(name, "{}")
    assert place.list_names() == sorted(names)
    assert place.list_names("ab.") == ["ab.1", "ab.2"]
    assert place.list_names("started.") == ["started.1.x"]
    assert place.list_names("c") == []


@pytest.mark.requirement("D-08", "GW-02")
@pytest.mark.parametrize("where", ["folder", "postgresql"])
def test_row_that_is_copied_to_the_name_of_another_caller_does_not_open(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if where == "postgresql":
        place: Any = PostgresCredentials(request.getfixturevalue("shared_postgres").create_database())
    else:
        place = CredentialFolder(tmp_path / "kept")
    vault = CallerVault(place, [Secret(KEY)])
    vault.open_store("key:ann").put(credential())
    [row] = place.list_names()
    own, name = row.split(".", 1)
    place.write(f"{sha256(b'key:bob').hexdigest()}.{name}", place.read(row))
    with pytest.raises(CredentialError, match="None of the keys decrypts the stored credentials"):
        vault.open_store("key:bob").find_covering(credential().resource)
    assert vault.open_store("key:ann").list_all() == [credential()]
    # What 1.0.0rc1 stored says not whose it is: it is nobody's, and a new sign-in takes its place.
    CredentialStore(_OfNobody(place, own), keys=[Secret(KEY)]).put(credential())
    assert vault.open_store("key:ann").list_all() == []
    vault.open_store("key:ann").put(credential())
    assert vault.open_store("key:ann").list_all() == [credential()]


class _OfNobody(_CallerPlace):
    """The names of a caller, as 1.0.0rc1 had them."""

    def __init__(self, place: Any, prefix: str) -> None:
        self._place, self._prefix = place, f"{prefix}."
