"""The one script of the page at ``/``, in a file of its own: the policy of the page allows no inline script."""
# D-25

from __future__ import annotations

from typing import Final

from toolwire.core.http import Response
from toolwire.framing.html_page import load_script

SCRIPT_PATH: Final = "/page.js"


def build_script_response() -> Response:
    """Return the script."""
    return Response(200, ((b"content-type", b"text/javascript; charset=utf-8"),), load_script("call.js", __file__))
