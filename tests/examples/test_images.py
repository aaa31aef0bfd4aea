# ruff: noqa: F811 - fixtures are imported
"""The Dockerfiles of the examples: each is built, and runs as its compose file says, without rights."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.postgres import Postgres, shared_postgres  # noqa: F401 - the fixture
from tests.programs import RedisServer, find_free_port
from tests.support.container_images import ROOT, Podman, open_podman, require_images
from tests.support.waiting import wait_until
from toolwire import Value, connect_sync

pytestmark = [pytest.mark.requirement("PL-05"), pytest.mark.timeout(500)]
EXAMPLES = ROOT / "examples"
STATE = "/var/lib/toolwire"
CANARY = "a-secret-beside-the-dockerfile"
TASKS = """from toolwire import Toolkit

tasks = Toolkit("Tasks")


@tasks.tool(safe=True, approval="auto")
def list_open(project: str) -> list[str]:
    return [f"{project}-1"]
"""
LOOK = f"""
import importlib.util, os, pathlib, shutil
tools = [name for name in ("gcc", "cc", "c++", "make", "ld", "git", "cargo") if shutil.which(name)]
modules = [name for name in ("hatchling", "build", "pytest") if importlib.util.find_spec(name)]
secrets, writable = [], []
for place, folders, names in os.walk("/"):
    folders[:] = [one for one in folders if place != "/" or one not in ("proc", "sys", "dev", "tmp")]
    files = [pathlib.Path(place, name) for name in names]
    secrets += [str(one) for one in files if os.access(one, os.R_OK) and b"{CANARY}" in one.read_bytes()]
    writable += [str(one) for one in (pathlib.Path(place), *files) if os.access(one, os.W_OK)]
print(tools, modules, secrets, writable, os.getuid() != 0)
"""


@pytest.fixture
def podman() -> Iterator[Podman]:
    require_images()
    with open_podman(Path(tempfile.mkdtemp(prefix="toolwire-images-"))) as found:
        yield found


def list_environment(values: dict[str, str]) -> list[str]:
    return [word for name, value in values.items() for word in ("--env", f"{name}={value}")]


def check_contents(podman: Podman, image: str, writable: list[str]) -> None:
    """Check what the image holds that it must not, in a container whose root could be written by its user."""
    command = ("run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
    assert podman.run(*command, image, "python", "-c", LOOK).split("\n")[0] == f"[] [] [] {writable} True"


def is_healthy(url: str) -> bool:
    with contextlib.suppress(httpx2.HTTPError):
        return httpx2.get(f"{url}/health").status_code == 200
    return False


def stop(podman: Podman, name: str) -> None:
    """Check that SIGTERM ends the container with 0."""
    podman.run("stop", "--time", "40", name)
    state = json.loads(podman.run("inspect", "--format", "{{json .State}}", name))
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False)


def build_gateway(podman: Podman, folder: Path) -> None:
    """Build the image of the gateway in a copy of its folder that has secrets, as its compose file says."""
    shutil.copytree(EXAMPLES / "gateway", folder)
    (folder / "tls").mkdir()
    for name in (".env", "tls/key.pem"):
        (folder / name).write_text(CANARY)
    podman.build(folder, folder / "Dockerfile", "gateway")
    text = (folder / "toolwire.toml").read_text().replace("https://tasks.example.com", "tasks.py")
    (folder / "mounted.toml").write_text(text.replace('key-env = "TASKS_KEY"', ""))
    (folder / "tasks.py").write_text(TASKS)


def test_gateway_serves_from_its_image_with_a_volume_and_with_postgresql_and_ends_with_0(
    podman: Podman, shared_postgres: Postgres, tmp_path: Path
) -> None:
    folder = tmp_path / "gateway"
    build_gateway(podman, folder)
    check_contents(podman, "gateway", [STATE])
    service = yaml.safe_load((folder / "compose.yaml").read_text())["services"]["server1"]
    assert service["read_only"] is True
    shared_postgres.folder.chmod(0o711)
    database = shared_postgres.create_database().replace(str(shared_postgres.folder), "/postgres")
    mounts = [f"{folder}/mounted.toml:/etc/toolwire/toolwire.toml:ro", f"{folder}/tasks.py:/etc/toolwire/tasks.py:ro"]
    mounts.append(f"{shared_postgres.folder}:/postgres")
    volumes = [word for one in mounts for word in ("--volume", one)]
    for name, values in (("volume", {}), ("postgresql", {"TOOLWIRE_STATE": database})):
        words = [*volumes, *list_environment({"TOOLWIRE_API_KEYS": "key-of-ann ann", **values})]
        with podman.start(name, "--network", "none", *words, "gateway"):
            check = json.loads(podman.run("inspect", "--format", "{{json .Config.Healthcheck.Test}}", name))
            wait_until(functools.partial(podman.succeeds, "exec", name, *check[1:]))
            call = ("toolwire", "call", "http://127.0.0.1:9627", "list_open", "project=home", "--protocol", "mcp")
            assert json.loads(podman.run("exec", name, *call, "--agree", "--key", "key-of-ann")) == ["home-1"]
            stop(podman, name)


@pytest.mark.skipif(not os.environ.get("TOOLWIRE_LONG"), reason="takes a minute; make long runs it")
def test_server_of_the_compose_file_serves_from_its_image_and_ends_with_0(
    podman: Podman, shared_postgres: Postgres, tmp_path: Path
) -> None:
    podman.build(ROOT, EXAMPLES / "compose" / "Dockerfile", "office")
    check_contents(podman, "office", ["/app"])  # podman makes an empty WORKDIR for its user
    services: Any = yaml.safe_load((EXAMPLES / "compose" / "compose.yaml").read_text())["services"]
    service, port, redis = services["server1"], find_free_port(), RedisServer(tmp_path)
    try:
        wait_until(redis.answers)
        shared_postgres.folder.chmod(0o711)
        values = {
            "TOOLWIRE_STATE": shared_postgres.create_database().replace(str(shared_postgres.folder), "/postgres"),
            "TOOLWIRE_WAKE": f"redis://127.0.0.1:{redis.port}",
            "TOOLWIRE_API_KEYS": "key-of-ann ann",
        }
        assert service["environment"].keys() == values.keys()
        volumes = ("--volume", f"{EXAMPLES}/compose/office.py:/app/office.py:ro")
        volumes += ("--volume", f"{shared_postgres.folder}:/postgres")
        words = ("--network", "host", *volumes, *list_environment(values), "office")
        command = [{"0.0.0.0": "127.0.0.1", "9627": str(port)}.get(word, word) for word in service["command"]]
        url = f"http://127.0.0.1:{port}"
        with podman.start("server", *words, *command), podman.start("worker", *words, *services["worker"]["command"]):
            wait_until(lambda: is_healthy(url))
            with connect_sync(url, protocol="mcp", api_key="key-of-ann", agree=lambda _: True) as remote:
                assert remote.call("count", {"to": 2}) == Value(value=2)
            for name in ("server", "worker"):
                stop(podman, name)
    finally:
        redis.kill()
