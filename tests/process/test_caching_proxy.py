"""A proxy that caches what it may gives the result of one caller to no other."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx2
import pytest

from tests.programs import find_free_port
from tests.support.proxies import NGINX, NGINX_FOLDERS, run_program
from toolwire import Context, Toolkit, asgi
from toolwire.testing import background

kit = Toolkit("Mail")
CONFIGURATION = """
events {{}}
http {{
{folders}  proxy_cache_path {folder}/cache keys_zone=all:1m;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass {url};
      proxy_cache all;
      proxy_cache_valid any 10m;
    }}
  }}
}}
"""


@kit.tool(safe=True, approval="auto")
def read_mail(number: int, context: Context) -> str:
    """Read a mail of the caller."""
    return f"mail {number} of {context.principal}"


@pytest.mark.requirement("D-30")
@pytest.mark.parametrize("number", ["1", "none"], ids=["result", "refusal"])
def test_caching_proxy_gives_the_result_of_a_caller_to_no_other(tmp_path: Path, number: str) -> None:
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    if nginx is None:
        pytest.skip("nginx is not installed")
    port, file = find_free_port(), tmp_path / "nginx.conf"
    with background(asgi(kit, api_keys=["key-of-ann", "key-of-bob"])) as url:
        folders = NGINX_FOLDERS.format(folder=tmp_path)
        file.write_text(CONFIGURATION.format(folders=folders, folder=tmp_path, port=port, url=url))
        argv = [nginx, "-p", str(tmp_path), "-c", str(file), "-g", NGINX]
        with run_program(argv, port, tmp_path):
            address = f"http://127.0.0.1:{port}/api/read_mail?number={number}"
            replies = [
                httpx2.get(address, headers={"x-api-key": key}) for key in ("key-of-ann", "key-of-bob", "no-key")
            ]
    if number == "1":
        assert replies[0].text != replies[1].text
    assert [one.status_code for one in replies] == [200 if number == "1" else 422] * 2 + [401]
