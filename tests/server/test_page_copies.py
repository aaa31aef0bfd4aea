"""What the page of a server gives to copy does the call that it stands for."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from urllib.request import Request, urlopen

import pytest

import toolwire
from toolwire.testing import background

KEY = "key-of-ada"


def build_kit() -> toolwire.Toolkit:
    kit = toolwire.Toolkit("Sums")

    @kit.tool(safe=True, approval="auto")
    def double(number: int, note: str = "") -> int:
        """Double a number."""
        return 2 * number

    return kit


def read_blocks(url: str) -> dict[str, str]:
    """Return each block of the page that can be copied, by its label."""
    with urlopen(f"{url}/?tool=double&/number=21&/note=it%27s%20%24HOME", timeout=10) as response:
        page = response.read().decode()
    found = re.findall(r'<pre[^>]* aria-label="([^"]*)" data-copy>(.*?)</pre>', page, re.DOTALL)
    return {unescape(label): unescape(text) for label, text in found}


def run_curl(command: str) -> str:
    """Do what curl does for ``command`` with the key of the caller in the variable KEY, and return the response."""
    # The shell itself takes the words apart.
    script = 'curl() { printf "%s\\0" "$@"; }\n' + command
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env={"KEY": "MINE"}, check=True)
    words = iter(done.stdout.split("\0")[:-1])
    method, url, fields, body = "GET", "", {}, None
    for word in words:
        match word:
            case "-X":
                method = next(words)
            case "-H":
                name, _, value = next(words).partition(": ")
                fields[name] = value.replace("MINE", KEY)
            case "-d":
                body = next(words).encode()
            case _:
                url = word
    with urlopen(Request(url, body, fields, method=method), timeout=10) as response:
        text: str = response.read().decode()
    return text


@pytest.mark.requirement("CO-01")
def test_copied_curl_command_of_each_protocol_and_copied_program_do_the_call() -> None:
    with background(toolwire.asgi(build_kit(), api_keys=[KEY])) as url:
        blocks = read_blocks(url)
        commands = {label: text for label, text in blocks.items() if label.endswith(": curl")}
        assert len(commands) == 4
        for label, command in commands.items():
            assert "42" in run_curl(command), label
        program = blocks["Python"].replace('"..."', repr(KEY))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout.strip(), done.stderr) == ("42", "")
