"""Build images from our Dockerfiles without a registry, and run them, with podman and runc as root.

The image that each ``FROM`` names is made of the Python that runs the tests, its libraries, a shell and a few programs
of this machine: all of it is in the official image as well. pip in it installs from ``.cache/image-wheels`` only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEELS = ROOT / ".cache" / "image-wheels"
WAIT_S = 300
BASE = "docker.io/library/python:3.13-slim"
PROGRAMS = ("sh", "env", "ls", "cat", "chmod", "chown", "mkdir", "rm", "cp", "install", "id", "useradd")
LIBRARIES = ("libgcc_s.so.1", "libstdc++.so.6", "libpthread.so.0", "librt.so.1", "libdl.so.2", "libutil.so.1")
"""What wheels of PyPI take for granted (PEP 600)."""
SEARCH_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"


def require_images() -> None:
    """Skip the test where no image can be built."""
    for program in ("podman", "runc"):
        if shutil.which(program, path=SEARCH_PATH) is None:
            pytest.skip(f"there is no {program}: `make test` installs it as root on Debian")
    if os.getuid() != 0:
        pytest.skip("images are built as root only")
    if not (WHEELS / "installed.txt").exists():
        pytest.skip("there are no wheels for images: `make test` downloads them with pip, which needs a network")


class Podman:
    """Images and containers in a folder of a test's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = ["--root", str(folder / "store"), "--runroot", str(folder / "run")]
        if not self.succeeds("info"):  # an overlay cannot lie on another one
            self._store += ["--storage-driver", "vfs"]

    def run(self, *words: str, stdin: bytes | None = None) -> str:
        """Return what a command of podman prints, and check that it succeeds."""
        reply = self._execute(words, stdin)
        assert reply.returncode == 0, reply.stderr.decode()[-4_000:]
        return reply.stdout.decode()

    def succeeds(self, *words: str) -> bool:
        return self._execute(words, None).returncode == 0

    def _execute(self, words: tuple[str, ...], stdin: bytes | None) -> subprocess.CompletedProcess[bytes]:
        command = ["podman", "--runtime", "runc", *self._store, *words]
        return subprocess.run(command, input=stdin, capture_output=True, timeout=WAIT_S, check=False)

    def build(self, context: Path, dockerfile: Path, name: str) -> None:
        """Build an image without a network, from the wheels of this machine."""
        mounts = ("--volume", f"{WHEELS}:/wheelhouse:ro", "--volume", f"{self._folder}/own:/own:ro")
        options = ("--format", "docker", "--network", "none", "--pull=never", *mounts, *LIMITS)
        self.run("build", *options, "--tag", name, "--file", str(dockerfile), str(context))

    @contextmanager
    def start(self, name: str, *words: str) -> Iterator[None]:
        """Run a container that Docker Compose or Kubernetes would harden in this way, and remove it at the end."""
        hardened = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
        self.run("run", "--detach", "--name", name, *hardened, *LIMITS, *words)
        try:
            yield
        finally:
            self.run("rm", "--force", "--volumes", name)


LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")  # a test may not raise those of its machine


@contextmanager
def open_podman(folder: Path) -> Iterator[Podman]:
    """Give a podman that has the image that our Dockerfiles begin with, and a wheel of this source for pip in it."""
    podman = Podman(folder)
    _import_base(podman, folder / "base")
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*wheel, str(folder / "own"), str(ROOT)], check=True, timeout=WAIT_S)
    try:
        yield podman
    finally:
        shutil.rmtree(folder)


def _import_base(podman: Podman, folder: Path) -> None:
    for name in ("usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "etc", "tmp", "root", "var", "home", "proc", "sys"):
        (folder / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (folder / name).symlink_to(f"usr/{name}")
    (folder / "tmp").chmod(0o1777)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    python = folder / "usr/local/bin" / version
    _copy(str(Path(sys.base_prefix, "bin", version).resolve()), python)
    library = folder / "usr/local/lib" / version
    left_out = shutil.ignore_patterns("__pycache__", "test", "tests", "site-packages", "dist-packages", "config-*")
    shutil.copytree(sysconfig.get_paths()["stdlib"], library, ignore=left_out)
    for name in ("python", "python3"):
        (python.parent / name).symlink_to(version)
    found = [python, *library.glob("lib-dynload/*.so")]
    for program in PROGRAMS:
        path = shutil.which(program, path=SEARCH_PATH)
        assert path is not None, program
        found.append(_copy(os.path.realpath(path), folder / "usr/bin" / program))
    printed = subprocess.run(["ldd", *map(str, found)], capture_output=True, text=True, check=False).stdout
    needed = set(re.findall(r"(/\S+) \(0x", printed))
    system = Path(next(path for path in needed if "/libc.so" in path)).parent
    needed.update(str(system / name) for name in LIBRARIES)
    for each in needed:
        _copy(each, folder / each.lstrip("/"))
    _copy("/etc/login.defs", folder / "etc/login.defs")
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (folder / "etc/group").write_text("root:x:0:\n")
    (folder / "etc/pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheelhouse /own\n")
    ensure = ["chroot", folder, f"/usr/local/bin/{version}", "-m", "ensurepip", "--default-pip"]
    subprocess.run(ensure, check=True, capture_output=True)
    packed = subprocess.run(["tar", "-C", folder, "-c", "."], check=True, capture_output=True).stdout
    podman.run("import", "--change", f"ENV PATH={SEARCH_PATH}", "-", BASE, stdin=packed)


def _copy(source: str, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return target if target.exists() else Path(shutil.copy2(source, target))
