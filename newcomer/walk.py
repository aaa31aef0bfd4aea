"""Walk the first hours of a newcomer with the built wheel, in environments that have nothing of this clone.

``make newcomer`` runs it, and ``make test`` too. Each step is what a newcomer types; it prints what the step took and
ends with 1 at the first step that does not come out as its page says. ``--json`` prints the steps as JSON.

There are two environments: that of the newcomer, with the wheel, and that of other people, with FastAPI and the
official MCP client. Neither imports from ``src``.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import select
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CLONE = Path(__file__).resolve().parent.parent
if str(CLONE) not in sys.path:
    sys.path.insert(0, str(CLONE))

from tests.docs.blocks import read_blocks  # noqa: E402 - the path first

PROGRAMS = Path(__file__).resolve().parent / "programs"
WAIT_S = 60.0
README_S = 60.0  # FD-01: each path of the README leads to its first useful result in this time
OTHERS = ("fastapi", "uvicorn", "mcp>=2.3,<3")


class StepError(Exception):
    """A step that did not come out as it should; the text has what was printed."""


class Walk:
    """The folder, the environments and the servers of one walk, and how long each step took."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[tuple[str, float]] = []
        self._home = folder / "home"
        self._home.mkdir()

    def bin(self, environment: str, program: str) -> str:
        """Return the path of a program of an environment."""
        return str(self.folder / environment / "bin" / program)

    def environment(self, **more: str) -> dict[str, str]:
        """Return the variables of a newcomer: a home folder with nothing in it, and no variable of this clone."""
        kept = ("LANG", "LC_ALL", "TMPDIR", "PIP_FIND_LINKS", "PIP_CERT", "SSL_CERT_FILE")
        own = {name: os.environ[name] for name in kept if name in os.environ}
        path = f"{self.folder / 'user' / 'bin'}:{os.defpath}"
        return {**own, "PATH": path, "HOME": str(self._home), "TERM": "xterm", "NO_COLOR": "1", **more}

    def run(self, *words: str, code: int = 0, where: Path | None = None, **variables: str) -> str:
        """Run a command and return what it printed.

        Raises:
            StepError: it ended with another code than ``code``, or not in three minutes.
        """
        try:
            ended = subprocess.run(
                words,
                cwd=where or self.folder,
                env=self.environment(**variables),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=180,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise StepError(f"$ {' '.join(words)}\ndid not end: {error.stdout!r}") from error
        printed = ended.stdout + ended.stderr
        if ended.returncode != code:
            raise StepError(f"$ {' '.join(words)}\nended with {ended.returncode}, not {code}:\n{printed}")
        return printed

    def answer(self, answers: list[str], *words: str) -> str:
        """Run a command at a terminal, type each of ``answers`` at a prompt, and return what the screen showed."""
        ours, theirs = pty.openpty()
        screen, waiting, asked, until = b"", list(answers), 0, time.monotonic() + WAIT_S
        with subprocess.Popen(
            words, cwd=self.folder, env=self.environment(COLUMNS="120"), stdin=theirs, stdout=theirs, stderr=theirs
        ) as process:
            os.close(theirs)
            while time.monotonic() < until and select.select([ours], [], [], WAIT_S)[0]:
                try:
                    screen += os.read(ours, 65_536)
                except OSError:  # the way a terminal ends on Linux
                    break
                if screen.endswith((b"[y/N] ", b"you> ")):
                    asked += 1
                    os.write(ours, f"{waiting.pop(0) if waiting else 'n'}\n".encode())
            if time.monotonic() >= until:
                process.kill()
        os.close(ours)
        if asked != len(answers):
            raise StepError(f"$ {' '.join(words)}\nasked {asked} questions, not {len(answers)}:\n{screen.decode()}")
        return screen.decode()

    def sign_in(self, *words: str) -> None:
        """Run a command that names a page to open on this machine, and open it as a person with a browser would."""
        with subprocess.Popen(
            words,
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            printed = ""
            try:
                for line in process.stderr or ():
                    printed += line
                    if (address := re.search(r"https?://\S+/oauth/authorize\S*", line)) is not None:
                        printed += self.run(self.bin("user", "python"), str(PROGRAMS / "browser.py"), address[0])
            except StepError:
                process.kill()
                raise
        if process.returncode != 0:
            raise StepError(f"$ {' '.join(words)}\nended with {process.returncode}:\n{printed}")

    @contextmanager
    def serve(self, *words: str, port: int, where: Path | None = None) -> Iterator[str]:
        """Run a server until the end of the block, and return its URL when its port answers."""
        log = self.folder / f"server-{port}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                words,
                cwd=where or self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        try:
            until = time.monotonic() + WAIT_S
            while not is_answering(port):
                if process.poll() is not None or time.monotonic() > until:
                    raise StepError(f"$ {' '.join(words)}\ndoes not answer:\n{log.read_text()}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(WAIT_S)


def is_answering(port: int) -> bool:
    """Return whether something listens on ``port`` of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def find_free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def expect(found: Any, wanted: Any) -> None:
    """Compare what a step printed or returned with what a newcomer expects: a text in a text, or an equal value.

    Raises:
        StepError: it is something else.
    """
    if wanted not in found if isinstance(wanted, str) else wanted != found:
        raise StepError(f"This was expected:\n{wanted}\nand this came:\n{found}")


def build_wheel(walk: Walk) -> None:
    """Build the wheel of the clone."""
    walk.run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(walk.folder / "dist"), where=CLONE)


def install(walk: Walk) -> None:
    """Install the wheel by the line of the README, in an empty environment."""
    wheel = next((walk.folder / "dist").glob("*.whl"))
    walk.run(sys.executable, "-m", "venv", str(walk.folder / "user"))
    line = re.search(r"^\$ pip (install .+)$", (CLONE / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    if line is None:
        raise StepError("The README has no line that installs toolwire.")
    pip = (walk.bin("user", "python"), "-m", "pip", *shlex.split(line[1]), "--quiet", "--disable-pip-version-check")
    # The wheel comes first, so that its name in the line never means a package of that name elsewhere.
    walk.run(walk.bin("user", "python"), "-m", "pip", "install", "--quiet", "--no-deps", str(wheel))
    only = ("--constraint", str(CLONE / "constraints.txt"))
    walk.run(*pip, *only, "pytest", PIP_NO_COMPILE="1")  # Python compiles what is imported
    home = walk.run(walk.bin("user", "python"), "-c", "import toolwire; print(toolwire.__file__)")
    expect(home, str(walk.folder / "user"))


def install_others(walk: Walk) -> None:
    """Install what other people wrote: a web framework and the official MCP client."""
    walk.run(sys.executable, "-m", "venv", str(walk.folder / "others"))
    pip = (walk.bin("others", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    walk.run(*pip, "--constraint", str(CLONE / "constraints.txt"), *OTHERS, PIP_NO_COMPILE="1")


def offer_tools(walk: Walk) -> None:
    """Write the example of the wheel, serve it, and call it."""
    folder, toolwire, port = walk.folder / "example", walk.bin("user", "toolwire"), find_free_port()
    folder.mkdir()
    expect(walk.run(toolwire, "example", where=folder), "toolwire serve shop.py")
    with walk.serve(toolwire, "serve", "shop.py", "--port", str(port), port=port, where=folder) as url:
        expect(walk.run(toolwire, "call", url, "in_stock", "item=tea"), "4")


def keep_a_changed_example(walk: Walk) -> None:
    """Write the example again: a file that was changed is not written over."""
    folder = walk.folder / "example"
    (folder / "shop.py").write_text("mine", encoding="utf-8")
    expect(walk.run(walk.bin("user", "toolwire"), "example", code=2, where=folder), "--force")
    expect((folder / "shop.py").read_text(encoding="utf-8"), "mine")


def use_any_api(walk: Walk) -> None:
    """List and call the operations of somebody else's API, whose author did nothing for models."""
    toolwire, port = walk.bin("user", "toolwire"), find_free_port()
    uvicorn = (walk.bin("others", "python"), "-m", "uvicorn", "shelter:app", "--port", str(port))
    with walk.serve(*uvicorn, port=port, where=PROGRAMS) as url:
        expect(walk.run(toolwire, "tools", url, "--include", "all"), "list_animals")
        screen = walk.answer(["y"], toolwire, "call", url, "list_animals", "kind=cat", "--include", "all")
        expect(screen, "Tom")


def use_in_an_assistant(walk: Walk) -> None:
    """Install the example in an assistant, then start what its settings file says with the official MCP client."""
    folder, toolwire = walk.folder / "assistant", walk.bin("user", "toolwire")
    folder.mkdir()
    walk.run(toolwire, "example", where=folder)
    expect(walk.run(toolwire, "install", "cursor", "shop.py", where=folder), "2 tools: in_stock, order")
    settings = walk.folder / "home" / ".cursor" / "mcp.json"
    printed = walk.run(walk.bin("others", "python"), str(PROGRAMS / "assistant.py"), str(settings))
    expect(printed, "in_stock")
    expect(printed, "text='4'")


def chat_with_an_example(walk: Walk) -> None:
    """Write the sample product with its scripted model, and chat: nothing of a clone is needed."""
    folder, python, toolwire = walk.folder / "sample", walk.bin("user", "python"), walk.bin("user", "toolwire")
    folder.mkdir()
    page = (CLONE / "docs" / "how-to" / "sample-app.md").read_text(encoding="utf-8")
    extras = re.findall(r"pip install '(toolwire\[[\w,-]+\])'", page)[:1]
    only = ("--constraint", str(CLONE / "constraints.txt"))
    walk.run(
        python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *extras, *only, PIP_NO_COMPILE="1"
    )
    expect(walk.run(toolwire, "example", "recipes", where=folder), "python -m recipes.model")
    port, model_port, key = find_free_port(), find_free_port(), "pasta-for-everybody-1"
    site = (python, "-m", "recipes", "--port", str(port), "--guest-key", key)
    model = (python, "-m", "recipes.model", "--port", str(model_port))
    with (
        walk.serve(*site, port=port, where=folder) as url,
        walk.serve(*model, port=model_port, where=folder) as provider,
    ):
        chat = (toolwire, "chat", url, "--key", key, "--model", "scripted", "--base-url", f"{provider}/v1")
        screen = walk.answer(["Find me a good pasta recipe", "The first one", "y", "/quit"], *chat)
    expect(screen, "is now in your favorites")


def read_tutorial(walk: Walk) -> None:
    """Do the tutorial to the letter: each file, each command, each output."""
    page = str(CLONE / "docs" / "tutorial.md")
    walk.run(walk.bin("user", "python"), "-m", "newcomer.run_page", page, PYTHONPATH=str(CLONE))


def serve_a_document(walk: Walk) -> None:
    """Serve the document of somebody else's API on every wire with one command, the official MCP client's too."""
    api_port, port = find_free_port(), find_free_port()
    uvicorn = (walk.bin("others", "python"), "-m", "uvicorn", "shelter:app", "--port", str(api_port))
    toolwire = walk.bin("user", "toolwire")
    with walk.serve(*uvicorn, port=api_port, where=PROGRAMS) as api:
        document = f"{api}/openapi.json"
        with walk.serve(toolwire, "serve", document, "--include", "all", "--port", str(port), port=port) as url:
            printed = walk.run(walk.bin("others", "python"), str(PROGRAMS / "official_mcp_client.py"), f"{url}/mcp")
            expect(printed, "list_animals")
            expect(printed, "Rex")
            for wire in ("openapi", "opentool", "otc", "mcp"):
                screen = walk.answer(["y"], toolwire, "call", url, "list_animals", "kind=cat", "--protocol", wire)
                expect(screen, "Tom")


def keep_consent_through_a_gateway(walk: Walk) -> None:
    """Call a tool that changes something through a gateway: the caller is asked, and a no changes nothing."""
    api_port, port = find_free_port(), find_free_port()
    toolwire = walk.bin("user", "toolwire")
    with (
        walk.serve(
            walk.bin("others", "python"), "-m", "uvicorn", "shelter:app", "--port", str(api_port),
            port=api_port, where=PROGRAMS,
        ) as api,
        walk.serve(
            toolwire, "serve", f"{api}/openapi.json", "--include", "all", "--port", str(port), port=port
        ) as url,
    ):  # fmt: skip
        call = (toolwire, "call", url, "add_animal", "name=Mia", "kind=cat", "--protocol", "otc")
        read = (toolwire, "call", url, "list_animals", "kind=cat", "--protocol", "otc")
        walk.run(*call, code=3)
        expect(walk.answer(["n"], *call), "add_animal")
        if "Mia" in walk.answer(["y"], *read):
            raise StepError("The animal was added although the person said no.")
        walk.answer(["y"], *call)
        expect(walk.answer(["y"], *read), "Mia")


def sign_in_with_the_session_of_an_app(walk: Walk) -> None:
    """Let an app's own signed-in user connect a client: sign in, consent, call, and take the consent back."""
    port = find_free_port()
    toolwire = walk.bin("user", "toolwire")
    words = (walk.bin("user", "uvicorn"), "diary:app", "--port", str(port))
    shutil.copy(PROGRAMS / "diary.py", walk.folder)
    (walk.folder / "diary_port.txt").write_text(str(port))
    with walk.serve(*words, port=port) as url:
        call = (toolwire, "call", url, "read_diary", "--protocol", "otc", "--agree")
        walk.run(*call, code=4)
        walk.sign_in(toolwire, "login", url, "--scope", "diary:read")
        expect(walk.run(*call), "Ada went for a walk.")
        walk.run(toolwire, "logout", url)
        walk.run(*call, code=4)


def test_a_tool(walk: Walk) -> None:
    """Test a tool as the guide says: its files are written, and pytest runs them."""
    folder = walk.folder / "tested"
    folder.mkdir()
    for block in read_blocks((CLONE / "docs" / "how-to" / "test-your-tools.md").read_text(encoding="utf-8")):
        if block.language == "python":
            (folder / block.name).write_text(block.text, encoding="utf-8")
    expect(walk.run(walk.bin("user", "python"), "-m", "pytest", "-q", where=folder), "4 passed")


STEPS: tuple[tuple[str, Callable[[Walk], None]], ...] = (
    ("build the wheel", build_wheel),
    ("install it in an empty environment", install),
    ("install other people's programs", install_others),
    ("README: offer tools", offer_tools),
    ("README: use any API", use_any_api),
    ("README: in an assistant", use_in_an_assistant),
    ("keep a changed example", keep_a_changed_example),
    ("chat with an example", chat_with_an_example),
    ("do the tutorial to the letter", read_tutorial),
    ("serve a foreign OpenAPI document on every wire", serve_a_document),
    ("ask the caller of a gateway", keep_consent_through_a_gateway),
    ("sign in with an app's own session", sign_in_with_the_session_of_an_app),
    ("test a tool with connect(kit)", test_a_tool),
)


def main() -> int:
    """Run each step; return 1 at the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--readme", action="store_true", help="only what the README shows")
    parser.add_argument("--json", action="store_true", help="print the steps and their seconds as JSON")
    arguments = parser.parse_args()
    # Not below the clone, whose settings for pytest would hold there.
    with TemporaryDirectory(prefix="newcomer-") as folder:
        walk = Walk(Path(folder))
        for name, step in STEPS[:6] if arguments.readme else STEPS:
            start = time.perf_counter()
            try:
                step(walk)
            except StepError as error:
                print(f"{name}: {error}", file=sys.stderr)
                return 1
            walk.steps.append((name, time.perf_counter() - start))
            if name.startswith("README: ") and walk.steps[-1][1] > README_S:
                print(f"{name}: {walk.steps[-1][1]:.0f} s, and the README says {README_S:.0f}.", file=sys.stderr)
                return 1
            if not arguments.json:
                print(f"{walk.steps[-1][1]:6.1f} s  {name}", flush=True)
    if arguments.json:
        print(json.dumps([{"step": name, "seconds": round(seconds, 1)} for name, seconds in walk.steps]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
