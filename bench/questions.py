"""Count the questions of a real workload: the calls that a model made in LiveMCPBench, replayed against stub servers.

``make bench-questions`` fetches the package with the recorded calls and the definitions of 70 servers. The stubs list
these definitions and answer anything. Each connection is made as a gateway makes it, with the rules of an operator in
``questions.toml``, and the user allows whatever is asked.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

from tests.support.listed_tools import ListedTools
from toolwire import Answer, ClientRules, Question, Session, connect_sync
from toolwire.consent.operator_rules import RULE_KINDS, OperatorRules, read_rules
from toolwire.core.model import Tool
from toolwire.limits import ClientRateLimits
from toolwire.testing import background

DEFINITIONS: Final = "baseline/mcp_copilot/config/mcp_arg_Qwen3-Embedding-0.6B_qwen25_72b_int4_instruct.json"
CALLS: Final = "baseline/output/claude-sonnet-4-20250514_Qwen3-Embedding-0.6B.json"
RULES: Final = Path(__file__).with_name("questions.toml")


class RecordedCall(NamedTuple):
    """One call of the record."""

    server: str
    tool: str
    arguments: dict[str, Any]


class Counts(NamedTuple):
    """What happened to the calls: how many were asked about, refused, and ran without a question by which rules."""

    calls: int
    questions: Counter[str]
    refused: Counter[str]
    unasked: Counter[str]


def main(package: str) -> None:
    """Replay the calls in the wheel at ``package`` with no rule, with the reads alone, and with all rules."""
    with ZipFile(package) as wheel:
        servers = {one["server_name"]: one["tools"] for one in json.loads(wheel.read(DEFINITIONS))}
        calls = [one for one in _list_calls(json.loads(wheel.read(CALLS))) if _is_known(one, servers)]
    rules = tomllib.loads(RULES.read_text(encoding="utf-8"))
    writes = set(rules["writes"])
    print(f"{len(calls)} recorded calls of {len({(one.server, one.tool) for one in calls})} tools")
    print(f"a host that asks about each call: {len(calls)} questions, 100.0 in 100 calls")
    known = len({(one.server, one.tool) for one in calls})
    print(f"a host with an answer for each tool, kept for good: {known} questions, and no later write is asked about")
    reads_alone = _leave_out(rules["upstreams"], writes)
    for label, chosen in (("no rules", {}), ("rules for reads", reads_alone), ("all rules", rules["upstreams"])):
        counts = _replay(servers, calls, chosen)
        asked = counts.questions.total()
        unasked = Counter({name: count for name, count in counts.unasked.items() if name in writes})
        named = {f"{server}/{_name(one)}" for server, table in chosen.items() for one in table.get("run", ())}
        stray = sum(count for name, count in unasked.items() if name not in named)
        print(
            f"{label}: {asked} questions, {100 * asked / counts.calls:.1f} in 100 calls; {unasked.total()} writes ran"
            f" by a rule that names them, {stray} without one; {counts.refused.total()} calls refused"
        )
        for name, count in counts.questions.most_common(5):
            print(f"    {count:4} {name}")


def _list_calls(record: Sequence[Mapping[str, Any]]) -> list[RecordedCall]:
    asked = [one for task in record for message in task["messages"] for one in message.get("tool_calls") or ()]
    read = [json.loads(one["function"]["arguments"]) for one in asked if one["function"]["name"] == "execute-tool"]
    return [RecordedCall(one["server_name"], one["tool_name"], one.get("params") or {}) for one in read]


def _is_known(call: RecordedCall, servers: Mapping[str, Any]) -> bool:
    return any(one["name"] == call.tool for one in servers.get(call.server, ()))


def _leave_out(upstreams: Mapping[str, Any], writes: set[str]) -> dict[str, Any]:
    """Return the rules without those that let a write run."""
    return {
        name: {**table, "run": [one for one in table.get("run", ()) if f"{name}/{_name(one)}" not in writes]}
        for name, table in upstreams.items()
    }


def _name(rule: Any) -> str:
    return str(rule["tools"] if isinstance(rule, dict) else rule)


def _replay(servers: Mapping[str, Any], calls: Sequence[RecordedCall], upstreams: Mapping[str, Any]) -> Counts:
    counts = Counts(len(calls), Counter(), Counter(), Counter())
    for server in {one.server for one in calls}:
        _replay_server(server, servers[server], [one for one in calls if one.server == server], upstreams, counts)
    return counts


def _replay_server(
    server: str, listed: Any, calls: Sequence[RecordedCall], upstreams: Mapping[str, Any], counts: Counts
) -> None:
    asked: list[str] = []

    def approve(question: Question) -> Answer:
        asked.append(question.call.tool.name)
        return Answer(allowed=True)

    table = upstreams.get(server, {})
    never, ask, run = (read_rules(kind, table.get(kind, ())) for kind in RULE_KINDS)
    rules = OperatorRules(run=run, ask=ask, never=never)

    def trust(tools: tuple[Tool, ...]) -> list[str]:
        return [tool.id for tool in tools if rules.may_run(tool)]

    session = Session(
        rules=ClientRules(questions_a_minute=1_000_000), limits=ClientRateLimits(tool=None, connection=None)
    )
    session.operator = rules
    stub = ListedTools(*(_write_entry(one) for one in listed))
    with background(stub) as url, connect_sync(f"{url}/mcp", session=session, approve=approve, agree=trust) as remote:
        for call in calls:
            name = f"{server}/{call.tool}"
            result, was_asked = remote.call(call.tool, call.arguments), bool(asked)
            asked.clear()
            if was_asked:
                counts.questions[name] += 1
            elif result.ok:
                counts.unasked[name] += 1
            else:
                counts.refused[name] += 1


def _write_entry(tool: Mapping[str, Any]) -> dict[str, Any]:
    # The record has the parameters in words, so any arguments fit.
    return {"name": tool["name"], "description": tool["description"] or tool["name"], "inputSchema": {"type": "object"}}


if __name__ == "__main__":
    main(sys.argv[1])
