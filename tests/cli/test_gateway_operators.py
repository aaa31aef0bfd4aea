"""What the operators of a gateway see: metrics as Prometheus text, decisions with their callers, and no secret."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from tests.cli.conftest import Outcome
from tests.support.gateway_process import run_gateway, wait_for_line
from toolwire import Problem, Toolkit, Value, asgi, connect_sync
from toolwire.testing import background

WAIT_S = 60


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the gateway's file, with the keys of its callers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SITE_KEY", "secret-of-site")
    (tmp_path / "keys.txt").write_text("key-of-ann ann\nkey-of-bob bob\n")
    return tmp_path


def build_kit() -> Toolkit:
    kit = Toolkit("Notes")

    @kit.tool(safe=True, approval="auto")
    def read() -> str:
        """Read."""
        return "text"

    @kit.tool
    def write(text: str) -> str:
        """Write a text."""
        return text

    return kit


def write_file(folder: Path, site: str, more: str) -> None:
    (folder / "toolwire.toml").write_text(
        f'port = 0\napi-key-file = "keys.txt"\nstate = "kept"\n{more}\n'
        f'[upstreams.notes]\ntarget = "{site}"\nkey-env = "SITE_KEY"\nagree = true\n'
        '[upstreams.gone]\ntarget = "http://127.0.0.1:1/a-secret-path"\n'
    )


@pytest.mark.requirement("GW-06", "TE-03", "PL-04")
def test_metrics_have_calls_and_upstreams_at_an_address_of_their_own(folder: Path) -> None:
    with ExitStack() as serving:
        site = serving.enter_context(background(asgi(build_kit(), api_keys=["secret-of-site"])))
        write_file(folder, site, 'metrics-address = "127.0.0.1:0"\nlog = "json"')
        with run_gateway() as (process, url):
            found = re.search(r"http://\S*/metrics", wait_for_line(process, "metrics are at"))
            assert found is not None
            with connect_sync(url, protocol="mcp", api_key="key-of-ann", agree=lambda _: True, retries=0) as remote:
                assert remote.call("read") == Value("text")
                serving.close()
                for _ in range(5):
                    assert isinstance(remote.call("read"), Problem)
            text = httpx2.get(found[0]).text
            assert 'toolwire_upstream_up{toolwire_upstream="notes"} 0.0' in strip_scopes(text)
            assert 'toolwire_upstream_up{toolwire_upstream="gone"} 0.0' in strip_scopes(text)
            for outcome, count in (("answered", 1), ("failed", 5)):
                calls = f'toolwire_upstream_calls_total{{outcome="{outcome}",toolwire_upstream="notes"}} {count}.0'
                assert calls in strip_scopes(text)
            assert 'toolwire_upstream_breaker_state{toolwire_upstream="notes"} 1.0' in strip_scopes(text)
            health = httpx2.get(f"{url}/health?full", headers={"x-api-key": "key-of-ann"}).text
            assert "The upstream gone could not be reached" in health
            for address in (site, site.partition("://")[2], "127.0.0.1:1/", "a-secret-path"):
                assert address not in text + health
            assert re.search(r'gen_ai_execute_tool_duration_seconds_count\{.*gen_ai_tool_name="read".*\} 1\.0', text)
            assert re.search(r"toolwire_build_info\S*\{.*version=", text)
            assert not re.search("key-of|secret-of|ann", text)
            assert httpx2.get(f"{url}/metrics", headers={"x-api-key": "key-of-ann"}).status_code == 404
            process.send_signal(signal.SIGHUP)  # the new process gets the address once the old one has ended
            wait_for_line(process, "Reloaded")


def strip_scopes(text: str) -> str:
    """Return the text without the labels that say which library measured it."""
    return re.sub(r'otel_scope_\w+="[^"]*",?', "", text).replace(",}", "}")


@pytest.mark.requirement("GW-06")
def test_decisions_name_their_caller_in_json_lines_and_in_the_kept_log(
    folder: Path, toolwire: Callable[..., Outcome]
) -> None:
    with background(asgi(build_kit(), api_keys=["secret-of-site"])) as site:
        write_file(folder, site, 'log = "json"')
        with run_gateway() as (process, url):
            lines: list[str] = []
            assert process.stderr is not None
            reader = threading.Thread(target=lines.extend, args=[process.stderr])
            reader.start()
            for key, allows in (("key-of-ann", True), ("key-of-bob", False)):
                with connect_sync(url, protocol="otc", api_key=key, approve=lambda _, allows=allows: allows) as remote:
                    result = remote.call("write", {"text": "a private text"})
                    assert isinstance(result, Value if allows else Problem)
            process.send_signal(signal.SIGTERM)
            reader.join(WAIT_S)
    records = [json.loads(line) for line in lines if line.startswith("{")]
    decided = [one for one in records if one["logger"] == "toolwire.decisions"]
    assert {(one["principal"], one["decision"], one["connection"] != "", one["site"]) for one in decided} >= {
        ("key:ann", "allowed", True, site)
    }
    assert all({"timestamp", "level", "event", "tool", "channel", "call_id"} <= set(one) for one in decided)
    assert not any(word in line for line in lines for word in ("key-of-", "secret-of-site", "a private text"))
    logged = toolwire("approvals", "log", "--path", "kept", "--json")
    stored = [json.loads(line) for line in logged.out.splitlines()]
    assert [(one["principal"], one["decision"], one["site"]) for one in stored] == [("key:ann", "allowed", site)]
    assert toolwire("approvals", "log", "--path", "kept", "--verify").code == 0


@pytest.mark.requirement("GW-06")
@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ('metrics-address = "9464"', "--metrics-address must be a host and a port, such as 127.0.0.1:9464, not"),
        (
            'metrics-address = "127.0.0.1:99999"',
            ("--metrics-address must be a host and a port, such as 127.0.0.1:9464, not"),
        ),
        ('otlp = "collector:4318"', "--otlp must be a URL such as http://127.0.0.1:4318"),
        ('otlp = "https://me:hidden@collector"', "OTEL_EXPORTER_OTLP_HEADERS"),
    ],
)
def test_wrong_address_of_metrics_is_one_sentence(
    folder: Path, toolwire: Callable[..., Outcome], lines: str, sentence: str
) -> None:
    (folder / "toolwire.toml").write_text(f'{lines}\n[upstreams.own]\ntarget = "tools.py"\n')
    (folder / "tools.py").write_text(
        'from toolwire import Toolkit\nkit = Toolkit("A")\nkit.tool(approval="auto")(abs)\n'
    )
    outcome = toolwire("gateway", "run")
    assert outcome.code == 2
    assert sentence in outcome.err
