"""A document in YAML is read wherever one in JSON is, however it begins and whatever it is served as."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolwire import connect_sync
from toolwire.cli import main
from toolwire.client.discovery.discover import discover
from toolwire.client.login import read_declared_sign_in
from toolwire.client.transport.drivers import run
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.codec import ConnectError
from toolwire.core.selection import Selection
from toolwire.framing import jsontext
from toolwire.protocols.openapi.document.loading import read_data

FILLER = "".join(f"    Unused{number}: {{type: string, description: {'x' * 60}}}\n" for number in range(1_000))
SORTED = f"""\
components:
  schemas:
{FILLER}\
info: {{title: Pets, version: 1.0.0}}
openapi: 3.0.3
paths:
  /pets:
    get:
      operationId: list_pets
      responses: {{}}
servers:
- url: https://pets.example
"""
"""The members by their names, as several generators write them: ``openapi`` is after more than 64 KiB."""

ALIASED = """\
openapi: 3.0.3
info: {title: Pets, version: 1.0.0}
servers: [{url: https://pets.example}]
x-parts:
  page: &page {name: page, in: query, schema: {type: integer}}
  answers: &answers
    "200": {description: fine}
paths:
  /pets:
    get:
      operationId: list_pets
      parameters: [*page]
      responses:
        <<: *answers
        404: {description: none}
"""

BRACES = """\
{openapi: 3.0.3, info: {title: P, version: 1.0.0}, servers: [{url: 'https://p.example'}],
 paths: {/pets: {get: {operationId: list_pets, responses: {}}}}}
"""
EVERY = Selection(include="all")


def tools(remote: Any) -> list[str]:
    return [tool.name for tool in remote.tools]


@pytest.mark.requirement("XL-013", "O-03")
@pytest.mark.parametrize(
    "media",
    [
        "application/yaml", "application/x-yaml", "text/yaml; charset=utf-8", "text/x-yaml", "text/vnd.yaml",
        "application/vnd.oai.openapi", "application/vnd.oai.openapi+yaml;version=3.0", "text/plain",
        "application/octet-stream", "application/json", "",
    ],
)  # fmt: skip
def test_yaml_document_is_read_with_any_content_type(listen: Any, encode_response: Any, media: str) -> None:
    fields = [f"content-type: {media}"] if media else []
    site = listen(encode_response(SORTED.encode(), *fields))
    with connect_sync(f"{site.origin}/spec", selection=EVERY) as remote:
        assert tools(remote) == ["list_pets"]


@pytest.mark.requirement("XL-013", "O-03")
@pytest.mark.parametrize(
    "start",
    [
        b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf---\n", b"---\n", b"--- # ours\n", b"# a document\n\n# of ours\n",
        b"%YAML 1.2\n---\n", b"\n\n  \n", b"# x\r\n---\r\n", b"x-first: 1\n", b"'x-quoted': 1\n", b'"x-quoted": 1\n',
        b"x-long: |\n  {\n", b"<<: {x-merged: 1}\n",
    ],
)  # fmt: skip
def test_yaml_document_is_read_with_any_beginning(listen: Any, encode_response: Any, start: bytes) -> None:
    site = listen(encode_response(start + SORTED.encode(), "content-type: text/plain"))
    with connect_sync(f"{site.origin}/spec", selection=EVERY) as remote:
        assert tools(remote) == ["list_pets"]


@pytest.mark.requirement("XL-013")
@pytest.mark.parametrize("text", [SORTED, ALIASED, BRACES], ids=["sorted", "aliased", "braces"])  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_every_command_reads_a_yaml_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, encoding: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("api.yaml").write_bytes(text.encode(encoding))
    for argv in (
        ["tools", "api.yaml", "--include", "all"],
        ["size", "api.yaml", "--include", "all"],
        ["convert", "api.yaml", "--to", "opentool"],
    ):
        assert main(argv) == 0, argv
        assert "pets" in capsys.readouterr().out
    assert main(["check", "api.yaml"]) < 2
    assert "api.yaml" in capsys.readouterr().out


@pytest.mark.requirement("XL-013", "O-05")
def test_yaml_aliases_and_merge_keys_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "api.yaml").write_text(ALIASED, encoding="utf-8")
    with connect_sync(str(tmp_path / "api.yaml"), selection=EVERY) as remote:
        (tool,) = remote.tools
        assert tool.input_schema["properties"] == {"page": {"type": "integer"}}
        assert remote.findings() == ()


@pytest.mark.requirement("D-16", "O-05")
def test_yaml_document_with_exploding_aliases_is_refused_in_one_sentence(tmp_path: Path) -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    (tmp_path / "api.yaml").write_text(f"openapi: 3.0.3\na0: &a0 [x]\n{levels}paths: {{}}\n", encoding="utf-8")
    with pytest.raises(ConnectError, match=r"its aliases stand for more than 1,000,000 values.*\.$"):
        connect_sync(str(tmp_path / "api.yaml"), selection=EVERY).__enter__()


@pytest.mark.requirement("AT-31")
@pytest.mark.parametrize("text", ["- " * 20_000, "a: " + "[" * 20_000, "[" * 201 + "]" * 201])
def test_document_nested_too_deep_is_refused_alike_in_yaml_and_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "api.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConnectError, match="is nested too deeply"):
        connect_sync(str(tmp_path / "api.yaml"), selection=EVERY).__enter__()


@pytest.mark.requirement("AT-31")
def test_site_with_a_document_nested_too_deep_is_refused(listen: Any, encode_response: Any) -> None:
    site = listen(encode_response(b"- " * 20_000, "content-type: text/yaml"))
    with pytest.raises(ConnectError):
        connect_sync(f"{site.origin}/spec", selection=EVERY).__enter__()


@pytest.mark.requirement("XL-013", "CV-17", "O-03")
@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("part.yaml", "type: integer\nminimum: 1\n"),
        ("part.yml", "# a part\n---\ntype: integer\nminimum: 1\n"),
        ("part", "minimum: 1\ntype: integer\n"),
        ("part.json", '{"type": "integer", "minimum": 1}'),
        ("part.yaml", "{type: integer, minimum: 1}"),
    ],
)
@pytest.mark.parametrize("by_http", [True, False], ids=["http", "file"])
def test_reference_from_yaml_to_another_file_is_resolved(
    listen: Any, encode_response: Any, tmp_path: Path, name: str, fragment: str, by_http: bool
) -> None:
    text = ALIASED.replace("schema: {type: integer}", f"schema: {{$ref: '{name}'}}")
    if by_http:
        parts = {"/api.yaml": text, f"/{name}": fragment}
        site = listen(
            lambda seen: [encode_response(parts.get(seen.line.split()[1], "").encode(), "content-type: text/plain")]
        )
        given = f"{site.origin}/api.yaml"
    else:
        (tmp_path / "api.yaml").write_text(text, encoding="utf-8")
        (tmp_path / name).write_text(fragment, encoding="utf-8")
        given = str(tmp_path / "api.yaml")
    with connect_sync(given, selection=Selection(include="all", elsewhere=True)) as remote:
        (tool,) = remote.tools
        assert '"minimum":1' in jsontext.write(dict(tool.input_schema)).decode()


OVERLAY = """\
actions:
- target: $.paths['/pets'].get
  update: {summary: List the pets}
info: {title: Ours, version: 1.0.0}
overlay: 1.0.0
"""


@pytest.mark.requirement("O-03")
@pytest.mark.parametrize("name", ["overlay.yaml", "overlay.yml", "overlay"])
def test_an_overlay_may_be_yaml(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (tmp_path / "api.yaml").write_text(SORTED, encoding="utf-8")
    (tmp_path / name).write_text(OVERLAY, encoding="utf-8")
    argv = ["tools", str(tmp_path / "api.yaml"), "--include", "all", "--overlay", str(tmp_path / name)]
    assert main(argv) == 0
    assert "List the pets" in capsys.readouterr().out


@pytest.mark.requirement("AC-01")
def test_sign_in_reads_yaml_with_referenced_security_schemes(listen: Any, encode_response: Any) -> None:
    text = SORTED.replace("components:\n", "components:\n  securitySchemes:\n    ours: {$ref: '#/x-key'}\n")
    text += "x-key: {type: apiKey, in: header, name: X-Key}\n"
    site = listen(encode_response(text.encode(), "content-type: text/yaml"))
    transport = SyncNetwork()
    found = run(discover(f"{site.origin}/spec", selection=EVERY), transport)
    transport.close()
    assert found.peer is not None
    said_of_keys = read_declared_sign_in(found.peer)
    assert said_of_keys is not None
    assert said_of_keys.keys == (("x-key", ""),)


@pytest.mark.parametrize("text", ["", "Not found", "Not found.\n", "# only a comment\n", "just words: yes, words\n"])
def test_text_that_is_no_document_is_refused(listen: Any, encode_response: Any, text: str) -> None:
    site = listen(encode_response(text.encode(), "content-type: text/plain"))
    with pytest.raises(ConnectError):
        connect_sync(f"{site.origin}/spec", selection=EVERY).__enter__()


def test_a_lock_pins_a_yaml_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("api.yaml").write_text(SORTED.replace("operationId", "x-llm: {}\n      operationId"), encoding="utf-8")
    assert main(["lock", "api.yaml"]) == 0
    assert main(["diff", "api.yaml"]) == 0, capsys.readouterr()


@pytest.mark.requirement("O-03")
@pytest.mark.parametrize(
    ("media", "name", "form"),
    [("application/yaml", "", "YAML"), ("", "parts/a.YML?x=1", "YAML"), ("application/json", "a.json", "JSON")],
)
def test_media_type_or_file_name_decides_where_the_content_does_not(media: str, name: str, form: str) -> None:
    long = "n" * 300
    data, read_as = read_data(f"{long}: 1\n".encode(), media, name)[:2]
    assert read_as == form
    assert (data == {long: 1}) is (form == "YAML")
