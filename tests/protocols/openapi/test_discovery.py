"""From a URL to a document: where it is looked for, in which order, and what every look meant."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.core.codec import Finding
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem
from toolwire.protocols.openapi import CODEC

HOME = "https://recipes.test"
LLM, KNOWN, OPEN = "/.well-known/llm.json", "/.well-known/openapi.json", "/openapi.json"
CATALOG = "/.well-known/api-catalog"

Find = Callable[..., Finding]


@pytest.fixture
def find(drive: Callable[..., Any], site: Callable[..., Any]) -> Find:
    def found(answers: dict[str, Any], url: str = HOME) -> Finding:
        result = drive(CODEC.find(url), site(answers))
        assert isinstance(result, Finding)
        return result

    return found


def looks(finding: Finding) -> list[str]:
    return [probe.url.removeprefix(HOME) for probe in finding.probes]


def find_meaning(finding: Finding, path: str) -> str:
    return next(probe.meaning for probe in finding.probes if probe.url == HOME + path)


@pytest.mark.requirement("XL-001", "XL-002", "XL-005")
def test_llm_json_is_asked_first_and_names_the_document(find: Find, recipes: dict[str, Any]) -> None:
    finding = find({LLM: {"openapi": "/docs/api", "auth": "oauth2"}, "/docs/api": recipes, OPEN: recipes})
    assert looks(finding) == [LLM, "/docs/api"]
    assert [(probe.status, probe.accepted) for probe in finding.probes] == [(200, False), (200, True)]
    assert finding.peer is not None
    assert (finding.peer.protocol, finding.peer.url, finding.peer.site) == ("openapi", f"{HOME}/docs/api", "RecipeApp")


@pytest.mark.requirement("XL-002")
@pytest.mark.parametrize(
    ("reference", "path"),
    [
        ("/openapi.json", OPEN),
        ("openapi.json", "/.well-known/openapi.json"),
        ("../spec.json", "/spec.json"),
        (f"{HOME}/a.json#part", "/a.json"),
        ("//recipes.test:443/b.json", "/b.json"),
    ],
)
def test_document_url_in_llm_json_is_resolved_against_its_own_url(
    find: Find, recipes: dict[str, Any], reference: str, path: str
) -> None:
    finding = find({LLM: {"openapi": reference}, path: recipes})
    assert looks(finding)[:2] == [LLM, path]
    assert finding.peer is not None


@pytest.mark.requirement("XL-003", "XL-004", "XL-005")
@pytest.mark.parametrize(
    "other",
    [
        None,
        b"<!doctype html><p>Hello",
        {},
        {"name": "another manifest"},
        {"openapi": 7},
        {"openapi": ""},
        [],
        b"\xff",
        b"",
    ],
)
def test_unrelated_llm_json_is_skipped(find: Find, recipes: dict[str, Any], other: object) -> None:
    finding = find({LLM: other, KNOWN: recipes})
    assert looks(finding) == [LLM, KNOWN]
    assert finding.peer is not None


@pytest.mark.requirement("XL-004", "XL-009")
def test_the_conventional_places_count_only_with_a_root_x_llm(find: Find, recipes: dict[str, Any]) -> None:
    rootless = {key: value for key, value in recipes.items() if key != "x-llm"}
    finding = find({KNOWN: rootless, OPEN: recipes})
    assert looks(finding) == [LLM, KNOWN, OPEN]
    assert "root has no x-llm" in find_meaning(finding, KNOWN)
    assert find({KNOWN: rootless, OPEN: rootless}).peer is None
    assert find({LLM: {"openapi": "/spec"}, "/spec": rootless}).peer is not None


@pytest.mark.requirement("XL-006")
@pytest.mark.parametrize("pasted", ["/v1/api.json", "/v1/api.json?key=1", "/openapi.json", "/.well-known/openapi.json"])
def test_pasted_document_url_is_fetched_first_and_needs_no_root_x_llm(
    find: Find, recipes: dict[str, Any], pasted: str
) -> None:
    rootless = {key: value for key, value in recipes.items() if key != "x-llm"}
    finding = find({pasted: rootless, LLM: {"openapi": "/other.json"}, "/other.json": recipes}, HOME + pasted)
    assert looks(finding) == [pasted]
    assert finding.peer is not None


@pytest.mark.requirement("XL-006", "XL-007")
def test_pasted_page_is_fetched_after_the_conventional_urls(find: Find, recipes: dict[str, Any]) -> None:
    finding = find({"/app/v1/openapi.json": recipes, "/app/v1/docs": b"<html>"}, f"{HOME}/app/v1/docs#top")
    assert looks(finding) == [LLM, KNOWN, OPEN, CATALOG, "/app/v1/docs", "/app/v1/openapi.json"]
    assert find_meaning(finding, "/app/v1/docs") == "is a web page"
    assert finding.peer is not None


@pytest.mark.requirement("XL-006")
def test_pasted_llm_json_at_any_url_is_followed(find: Find, recipes: dict[str, Any]) -> None:
    finding = find({"/shop/llm.json": {"openapi": "spec"}, "/shop/spec": recipes}, f"{HOME}/shop/llm.json")
    assert looks(finding) == ["/shop/llm.json", "/shop/spec"]
    assert finding.peer is not None


@pytest.mark.requirement("XL-015", "D-07")
@pytest.mark.parametrize(
    "reference",
    ["https://evil.test/openapi.json", "//evil.test/x", "http://recipes.test/x", "https://recipes.test:444/x",
     "https://recipes.test@evil.test/x", "javascript:alert(1)", "file:///etc/passwd", "https://[::1/x"],
)  # fmt: skip
def test_document_on_another_origin_is_refused_without_a_request(find: Find, reference: str) -> None:
    finding = find({LLM: {"openapi": reference}})
    assert finding.peer is None
    assert looks(finding) == [LLM, KNOWN, OPEN, CATALOG]
    assert "refused" in find_meaning(finding, LLM) or "not a URL" in find_meaning(finding, LLM)


@pytest.mark.requirement("XL-005")
@pytest.mark.parametrize(
    ("answer", "meant", "status"),
    [
        (Response(401), "needs a key", 401),
        (Response(403), "needs a key", 403),
        (Response(404), "nothing here", 404),
        (Response(500), "status 500", 500),
        (Response(302, ((b"location", b"https://evil.test/"),)), "status 302", 302),
        (Problem(kind=Kind.UNREACHABLE, message="Nobody answers."), "Nobody answers.", None),
        (b"openapi: 3.1.0\npaths: {}\n", "without operations", 200),
        (b"openapi: 3.1.0\nx: &a []\npaths: {y: *a}\n", "without operations", 200),
        (b"openapi: 3.1.0\npaths: *a\n", "cannot be read as YAML", 200),
        (b'{"openapi": "3.1.0", "paths": {}, "paths": {}}', "two members of one name", 200),
        (Response(200, ((b"content-type", b"application/yaml"),), b"a: b"), "is YAML, but no OpenAPI document", 200),
        (b"[]", "neither", 200),
        (b"{", "not JSON", 200),
        ({"swagger": "1.2", "paths": {}}, "Swagger 1.2", 200),
        ({"swagger": "2.0", "paths": {}}, "without operations", 200),
        ({"openapi": "4.0.0", "paths": {}}, "OpenAPI 4.0.0", 200),
        ({"openapi": "3.1.0", "paths": {}}, "without operations", 200),
        ({"openapi": "3.1.0", "paths": {}, "x-llm": {"version": "1.0"}}, "later major version", 200),
    ],
)
def test_each_failed_probe_states_its_meaning_and_the_next_one_follows(
    find: Find, recipes: dict[str, Any], answer: object, meant: str, status: int | None
) -> None:
    finding = find({KNOWN: answer, OPEN: recipes})
    assert meant in find_meaning(finding, KNOWN)
    assert finding.probes[1].status == status
    assert finding.peer is not None


@pytest.mark.requirement("XL-012")
def test_llm_json_or_document_above_its_size_limit_is_not_read(find: Find, recipes: dict[str, Any]) -> None:
    padded = json.dumps({"openapi": "/spec"}).encode() + b" " * 64 * 1024
    huge = json.dumps(recipes).encode() + b" " * 64 * 1024 * 1024
    finding = find({LLM: padded, "/spec": recipes, OPEN: huge})
    assert finding.peer is None
    assert "65,536 bytes" in find_meaning(finding, LLM)
    assert "67,108,864 bytes" in find_meaning(finding, OPEN)


@pytest.mark.requirement("XL-013")
def test_a_byte_order_mark_and_a_wrong_content_type_are_tolerated(find: Find, recipes: dict[str, Any]) -> None:
    body = b"\xef\xbb\xbf" + json.dumps(recipes).encode()
    assert find({OPEN: Response(200, ((b"content-type", b"text/html"),), body)}).peer is not None


@pytest.mark.requirement("XL-014")
def test_discovery_sends_only_get_requests_without_credentials(drive: Callable[..., Any]) -> None:
    seen: list[Request] = []
    drive(CODEC.find(f"{HOME}/page"), lambda request: seen.append(request) or Response(404))
    assert len(seen) == 5
    assert {(request.method, request.headers, request.body) for request in seen} == {
        ("GET", ((b"accept", b"application/json"),), b"")
    }


@pytest.mark.parametrize("version", ["3.0.0", "3.0.4", "3.1.2", "3.2.0", "3.7.1"])
@pytest.mark.requirement("CV-28")
def test_every_openapi_3_is_read(find: Find, recipes: dict[str, Any], version: str) -> None:
    assert find({OPEN: {**recipes, "openapi": version}}).peer is not None


@pytest.mark.parametrize("url", ["ftp://x/", "nonsense", "http://", "http://[::1", "https://a@b/", "http://a b/", ""])
def test_invalid_site_url_is_reported_without_a_request(find: Find, url: str) -> None:
    finding = find({}, url)
    assert finding.peer is None
    assert [probe.status for probe in finding.probes] == [None]


def test_discovery_requests_no_url_twice(find: Find) -> None:
    finding = find({LLM: {"openapi": "llm.json"}, OPEN: {"openapi": "/openapi.json"}}, f"{HOME}/openapi.json")
    assert sorted(looks(finding)) == sorted({LLM, KNOWN, OPEN, CATALOG})


@pytest.mark.requirement("XL-002", "XL-003")
def test_llm_json_cannot_name_another_llm_json(find: Find, recipes: dict[str, Any]) -> None:
    finding = find({LLM: {"openapi": "/a"}, "/a": {"openapi": "/b"}, "/b": recipes})
    assert looks(finding) == [LLM, "/a", KNOWN, OPEN, CATALOG]
    assert find_meaning(finding, "/a") == "is another llm.json where the first one named the document"
    assert finding.peer is None
