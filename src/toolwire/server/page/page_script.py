"""The one script of the page at ``/``, in a file of its own: the policy of the page allows no inline script."""
# D-25

from __future__ import annotations

from toolwire.core.http import Response

SCRIPT_PATH = "/page.js"
_COPY_SCRIPT = """// Adds a button that copies each block of code. Everything else on the page works without a script.
"use strict";
for (const block of document.querySelectorAll("pre[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy: " + block.getAttribute("aria-label"));
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.textContent);
    button.textContent = "Copied";
  });
  block.after(button);
}
"""
SCRIPT_RESPONSE = Response(200, ((b"content-type", b"text/javascript; charset=utf-8"),), _COPY_SCRIPT.encode())
