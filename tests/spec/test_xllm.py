"""The published schemas of x-llm agree with their examples, with the reader, and with their documentation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NoReturn

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from referencing import Registry

from toolwire.core.model import Approval, Cost
from toolwire.framing import xllm
from toolwire.framing.xllm_faults import check_llm_json, check_operation, check_root
from toolwire.protocols.openapi.document.consent_policy import read_site

SPEC = Path(__file__).parents[2] / "spec"
HERE = SPEC / "x-llm" / "0.1"
NAMES = ("llm", "root", "operation", "openapi")
FILES = [f"{folder}{name}.schema.json" for folder in ("", "strict/") for name in NAMES]
EXAMPLES = [
    pytest.param(name, one, id=f"{name}: {one['name']}")
    for name in NAMES
    for one in json.loads((HERE / "examples" / f"{name}.json").read_text(encoding="utf-8"))
]
FAULTS = {"llm": check_llm_json, "root": check_root, "operation": check_operation}


def refuse(uri: str) -> NoReturn:
    raise AssertionError(f"{uri} was asked for")


def schema(file: str) -> dict[str, Any]:
    return json.loads((HERE / file).read_text(encoding="utf-8"))


VALIDATORS = {
    file: (
        jsonschema.Draft202012Validator(schema(file), registry=Registry(retrieve=refuse)),  # type: ignore[arg-type, call-arg]  # its class is made by attrs
        jsonschema_rs.Draft202012Validator(schema(file), retriever=refuse),
    )
    for file in FILES
}


def accepts(file: str, data: Any) -> bool:
    python, rust = VALIDATORS[file]
    reply = python.is_valid(data)
    assert rust.is_valid(data) is reply
    return reply


def builder() -> Any:
    found = spec_from_file_location("xllm_spec", SPEC / "xllm.py")
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.requirement("XL-140", "XL-144")
@pytest.mark.parametrize("file", FILES)
def test_each_schema_is_valid_and_has_a_versioned_id(file: str) -> None:
    one = schema(file)
    jsonschema.Draft202012Validator.check_schema(one)
    assert jsonschema_rs.meta.is_valid(one)
    assert one["$id"] == f"urn:toolwire:x-llm/0.1/{file}"
    assert f"urn:toolwire:x-llm/0.1/{NAMES[1]}.schema.json" in (SPEC.parent / "docs/spec/x-llm.md").read_text()


@pytest.mark.requirement("XL-144")
def test_registration_text_names_the_published_schemas() -> None:
    page = (SPEC.parent / "docs/spec/x-llm.md").read_text()
    text = page.partition("## 10. Registration")[2].split("```")[1]
    assert "Name:        x-llm\n" in text
    for file in ("root", "operation"):
        assert schema(f"{file}.schema.json")["$id"] in text
    assert {line.partition(":")[0] for line in text.splitlines() if line[:1].isalpha() and ":" in line} >= {
        "Name", "Where", "Versions", "Value", "Schemas", "Summary", "Security",
    }  # fmt: skip


@pytest.mark.requirement("XL-142")
def test_there_are_enough_valid_and_invalid_examples() -> None:
    verdicts = [one.values[1]["open"] for one in EXAMPLES]
    assert len(verdicts) >= 60
    assert min(verdicts.count(True), verdicts.count(False)) >= 20


@pytest.mark.requirement("XL-031", "XL-140", "XL-141", "XL-142")
@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_each_example_gets_its_expected_verdict(name: str, example: Mapping[str, Any]) -> None:
    assert accepts(f"{name}.schema.json", example["data"]) is example["open"]
    assert accepts(f"strict/{name}.schema.json", example["data"]) is example["strict"]
    if name in FAULTS:
        found = FAULTS[name](example["data"])
        assert all(fault.severity != "error" for fault in found) is example["open"]
        assert (not found) is example["strict"]


@pytest.mark.requirement("XL-142")
def test_files_and_documentation_equal_the_generated_ones() -> None:
    built = builder()
    for file, one in built.schemas().items():
        assert (HERE / file).read_text(encoding="utf-8") == built.written(one)
    page = built.PAGE.read_text(encoding="utf-8")
    assert built.page(page) == page
    for table in built.tables().values():
        assert table in page


ODD: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.0,
    0.5,
    -3,
    1_000_001,
    "",
    "a",
    "auto",
    "per-call",
    "1m",
    "99ms",
    [],
    {},
    [1],
]
KNOWN: dict[str, list[Any]] = {
    "enabled": [],
    "approval": ["deny"],
    "approvalWhen": [
        [{"pointer": "/a", "op": "gt", "value": 5}],
        [{"pointer": "/a", "op": "gt", "value": "5"}],
        [{"pointer": "/a", "op": "present", "not": 1}],
    ],
    "question": ["Pay {/amount}?", "q" * 501],
    "blanketApprovalAllowed": [],
    "destructive": [],
    "rateLimit": [{"max": 5, "window": "2h"}, {"max": 5.0, "window": "2h"}, {"max": True, "window": "1m"}, {"max": 1}],
    "hint": ["h" * 2_000],
    "costIndicator": ["free", "credits", "paid", "gold"],
    "result": [{"render": "card"}, {"render": 1}, {"fields": ["/a", "b"]}, {"maxItems": 2.0}, {"title": "/~2"}],
    "next": [[{"operationId": "a"}], [{}], [{"operationId": "a", "args": {"b": 1}}], [{"operationId": ""}]],
    "idempotent": [],
    "idempotencyKey": ["Idempotency-Key", "a b"],
    "readOnly": [],
    "other": [],
}
OPERATIONS = st.one_of(
    st.sampled_from(ODD),
    st.fixed_dictionaries({}, optional={name: st.sampled_from([*ODD, *more]) for name, more in KNOWN.items()}),
)
ROOTS = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from([*ODD, "0.1", "0.2", "00.1", "1.0", "0.1.0", "0.1\n", "٠.١", 0.1]),
        "name": st.sampled_from(ODD),
        "description": st.sampled_from(ODD),
        "defaultApproval": st.sampled_from(ODD),
    },
)


@pytest.mark.requirement("XL-143")
@given(OPERATIONS)
def test_schema_rules_and_reader_agree_on_any_operation(data: Any) -> None:
    errors = [fault for fault in check_operation(data) if fault.severity == "error"]
    assert accepts("operation.schema.json", data) is (not errors)
    policy = xllm.read(data)
    if not isinstance(data, dict):
        assert policy.exposed is (data is True)
        return
    bad = {fault.path[0] for fault in errors}
    mended = {name: value for name, value in data.items() if name not in bad}
    strict = {"enabled": False, "approval": "per-call", "destructive": True, "costIndicator": "paid"}
    mended |= {name: value for name, value in strict.items() if name in bad}
    mended |= {"rateLimit": {"max": 60, "window": "1m"}} if "rateLimit" in bad else {}
    asks_always = bool({"approval", "approvalWhen"} & bad)
    mended |= {"blanketApprovalAllowed": False, "approval": "per-call"} if asks_always else {}
    assert xllm.read(mended)[:-1] == policy[:-1]  # what is bad is its strictest, and what is good is what it says
    good = {name: value for name, value in data.items() if name not in bad}
    assert policy.exposed is good.get("enabled", "enabled" not in bad)
    assert policy.approval == (Approval.PER_CALL if asks_always else good.get("approval"))
    assert bool(policy.ask_when) is bool(good.get("approvalWhen"))
    assert policy.cost == good.get("costIndicator", Cost.PAID if "costIndicator" in bad else None)
    assert policy.destructive is good.get("destructive", "destructive" in bad)
    assert policy.hint == good.get("hint", "")


@pytest.mark.requirement("XL-143")
@given(st.one_of(st.sampled_from(ODD), ROOTS))
def test_schema_rules_and_reader_agree_on_any_root(data: Any) -> None:
    errors = {fault.path[:1] for fault in check_root(data) if fault.severity == "error"}
    assert accepts("root.schema.json", data) is (not errors)
    site = read_site({"openapi": "3.1.0", "info": {"title": "T"}, "x-llm": data})
    assert site.declared is isinstance(data, dict)
    if isinstance(data, dict):
        assert site.approval is (Approval.AUTO if data.get("defaultApproval") == "auto" else Approval.PER_CALL)
        if ("version",) in errors:
            assert site.cautious or not site.supported
        else:
            assert site.supported


@pytest.mark.requirement("OQ-3", "OQ-8")
def test_the_page_answers_every_question_of_the_proposal() -> None:
    text = (SPEC.parent / "docs" / "spec" / "x-llm.md").read_text(encoding="utf-8")
    section = text[text.index("## 9. The questions") : text.index("## 10.")]
    for number in range(1, 14):
        (row,) = [line for line in section.split("\n") if line.startswith(f'| <a id="oq-{number}"></a>OQ-{number}. ')]
        assert len(row.split("|")[2].strip()) >= 10
