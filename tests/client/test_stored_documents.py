"""What is read from the disk is what this user wrote there, within limits; everything else is as if absent."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.client.discovery.stored_documents import StoredDocument, StoredDocuments, open_stored_documents
from toolwire.core.http import Request, Response
from toolwire.stores import document_files
from toolwire.stores.document_files import DocumentFiles

URL = "https://site.test/openapi.json"
GET = Request("GET", URL, ((b"accept", b"application/json"),))
RESPONSE = Response(200, ((b"etag", b'"a"'), (b"set-cookie", b"hush"), (b"content-type", b"text/plain")), b"body")
STORED = StoredDocument(Response(200, (RESPONSE.headers[0], RESPONSE.headers[2]), b"body"), 7.5)
KEY = "0" * 64

pytestmark = pytest.mark.requirement("SE-07")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "documents"


@pytest.fixture
def stored(folder: Path) -> StoredDocuments:
    """Documents with one in them."""
    documents = open_stored_documents(folder)
    documents.write(GET, RESPONSE, "", 7.5)
    return documents


def find_file(folder: Path) -> Path:
    [file] = folder.iterdir()
    return file


def test_document_comes_back_with_the_fields_that_matter(stored: StoredDocuments, folder: Path) -> None:
    assert stored.read(GET, "") == STORED
    assert open_stored_documents(folder, offline=True).read(GET, "") == STORED
    assert b"hush" not in find_file(folder).read_bytes()


@pytest.mark.parametrize(
    ("request_", "trust"),
    [
        (GET, "another certificate"),
        (GET._replace(url="https://site.test/openapi.json?a=1"), ""),
        (GET._replace(url="https://site.test:444/openapi.json"), ""),
        (GET._replace(url="https://other.test/openapi.json"), ""),
        (GET._replace(headers=((b"accept", b"text/html"),)), ""),
        (GET._replace(headers=(*GET.headers, (b"cookie", b"a=1"))), ""),
        (GET._replace(method="HEAD"), ""),
        (GET._replace(body=b"x"), ""),
    ],
)
def test_another_request_gets_another_document(request_: Request, trust: str, stored: StoredDocuments) -> None:
    assert stored.read(request_, trust) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://me:hush@site.test/",
        "https://site.test/?api_key=hush",
        "https://site.test/#hush",
        "https://site.test/?x=0123456789abcdef0123456789abcdef",
        "file:///etc/passwd",
    ],
)
def test_url_with_a_secret_is_neither_written_nor_read(url: str, folder: Path) -> None:
    documents = open_stored_documents(folder, offline=True)
    documents.write(GET._replace(url=url), RESPONSE, "", 1.0)
    assert not folder.exists()
    assert documents.read(GET._replace(url=url), "") is None


@pytest.mark.parametrize("status", [201, 204, 301, 304, 404])
def test_only_a_whole_document_is_stored(status: int, stored: StoredDocuments, folder: Path) -> None:
    stored.write(GET, RESPONSE._replace(status=status), "", 1.0)
    assert list(folder.iterdir()) == []


def test_document_without_a_validator_is_for_offline_alone(folder: Path) -> None:
    documents, offline = open_stored_documents(folder), open_stored_documents(folder, offline=True)
    documents.write(GET, Response(200, (), b"body"), "", 1.0)
    assert documents.read(GET, "") is None
    assert offline.read(GET, "") is not None
    plain = GET._replace(url="http://127.0.0.1:9/openapi.json")
    documents.write(plain, RESPONSE, "", 1.0)
    assert documents.read(plain, "") is None
    assert offline.read(plain, "") is not None


@given(data=st.binary(max_size=300))
def test_any_bytes_in_a_file_are_no_document(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("documents")
    documents = open_stored_documents(folder, offline=True)
    documents.write(GET, RESPONSE, "", 7.5)
    find_file(folder).write_bytes(data)
    assert documents.read(GET, "") is None


@given(at=st.integers(min_value=0), new=st.integers(0, 255), cut=st.booleans())
def test_changed_file_is_no_document(at: int, new: int, cut: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("documents")
    documents = open_stored_documents(folder, offline=True)
    documents.write(GET, RESPONSE, "", 7.5)
    whole = bytearray(find_file(folder).read_bytes())
    at %= len(whole)
    changed = bytes(whole[:at]) if cut else bytes(whole[:at] + bytes([new]) + whole[at + 1 :])
    find_file(folder).write_bytes(changed)
    assert documents.read(GET, "") == (STORED if changed == whole else None)


@given(
    body=st.binary(max_size=2_000),
    etag=st.binary(max_size=30),
    at=st.floats(allow_nan=False, allow_infinity=False),
)
def test_whatever_is_written_is_read_as_it_was(
    body: bytes, etag: bytes, at: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    documents = open_stored_documents(tmp_path_factory.mktemp("documents"), offline=True)
    response = Response(200, ((b"etag", etag),), body)
    documents.write(GET, response, "", at)
    assert documents.read(GET, "") == StoredDocument(response, at)


def make_writable(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWOTH)


def make_group_writable(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWGRP)


@pytest.mark.parametrize("plant", [make_writable, make_group_writable])
@pytest.mark.parametrize("place", ["folder", "file"])
def test_what_another_user_could_have_written_is_not_read(
    plant: Callable[[Path], None], place: str, stored: StoredDocuments, folder: Path
) -> None:
    plant(folder if place == "folder" else find_file(folder))
    assert stored.read(GET, "") is None


def test_what_belongs_to_another_user_is_not_read(
    stored: StoredDocuments, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert stored.read(GET, "") is None
    stored.write(GET, RESPONSE, "", 1.0)
    monkeypatch.undo()
    assert stored.read(GET, "") == STORED


def test_file_in_a_folder_of_others_is_not_written(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    open_stored_documents(folder).write(GET, RESPONSE, "", 1.0)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_read_and_never_waited_for(
    kind: str, stored: StoredDocuments, folder: Path, tmp_path: Path
) -> None:
    file = find_file(folder)
    moved = tmp_path / "moved"
    file.rename(moved)
    if kind == "link":
        file.symlink_to(moved)
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    assert stored.read(GET, "") is None
    stored.write(GET, RESPONSE, "", 7.5)
    assert stored.read(GET, "") == (None if kind == "folder" else STORED)


def test_folder_that_is_a_link_is_not_used(stored: StoredDocuments, folder: Path, tmp_path: Path) -> None:
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    assert stored.read(GET, "") is None


def test_files_and_bytes_are_bounded_and_the_oldest_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_files, "MAX_FILES", 5)
    monkeypatch.setattr(document_files, "MAX_BYTES", 1_000)
    files = DocumentFiles(folder)
    for number in range(20):
        files.write(f"{number:064x}", b"x" * 10)
        os.utime(folder / f"{number:064x}", (number, number))
    assert sorted(file.name for file in folder.iterdir()) == [f"{number:064x}" for number in range(15, 20)]
    files.write(KEY, b"x" * 970)
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 1_000
    assert files.read(KEY) == b"x" * 970


def test_limits_are_those_of_the_documentation() -> None:
    assert (document_files.MAX_FILES, document_files.MAX_BYTES) == (512, 128 * 1024 * 1024)
    assert document_files.MAX_FILE_BYTES == 32 * 1024 * 1024


def test_document_that_is_too_large_takes_its_former_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_files, "MAX_FILE_BYTES", 100)
    files = DocumentFiles(folder)
    files.write(KEY, b"x" * 100)
    assert files.read(KEY) == b"x" * 100
    files.write(KEY, b"x" * 101)
    assert files.read(KEY) is None
    (folder / KEY).write_bytes(b"x" * 101)
    (folder / KEY).chmod(0o600)
    assert files.read(KEY) is None


def test_programs_at_the_same_time_see_whole_documents(folder: Path) -> None:
    wanted = {bytes([65 + number]) * 50_000 for number in range(4)}
    seen: set[bytes | None] = set()
    begun, done = threading.Barrier(5), threading.Event()

    def write(body: bytes) -> None:
        documents = open_stored_documents(folder)
        begun.wait()
        for _ in range(50):
            documents.write(GET, Response(200, (), body), "", 1.0)

    threads = [threading.Thread(target=write, args=(body,)) for body in wanted]
    for thread in threads:
        thread.start()
    offline = open_stored_documents(folder, offline=True)
    offline.write(GET, Response(200, (), min(wanted)), "", 1.0)
    begun.wait()
    while not done.is_set():
        found = offline.read(GET, "")
        seen.add(None if found is None else found.response.body)
        if not any(thread.is_alive() for thread in threads):
            done.set()
    assert seen <= wanted
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("name", ["", "..", "../" + KEY, KEY[:-1], KEY + "\n", KEY.replace("0", "G")])
def test_name_of_a_file_is_always_a_digest(name: str, folder: Path) -> None:
    files = DocumentFiles(folder)
    files.write(KEY, b"x")
    for use in (files.read, files.remove, lambda key: files.write(key, b"x")):
        with pytest.raises(ValueError, match="64 hexadecimal"):
            use(name)
