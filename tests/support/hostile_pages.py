"""Texts that attack a page, and a watch over what a page does with them."""

from __future__ import annotations

from typing import Any

PAYLOADS = (
    "<script>hacked=1</script>",
    "<img src=x onerror=hacked=1>",
    "<svg onload=hacked=1>",
    "<svg><script>hacked=1</script></svg>",
    "<body onload=hacked=1>",
    "<iframe src=javascript:parent.hacked=1></iframe>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "<a href=javascript:hacked=1 id=go>go</a>",
    "<details open ontoggle=hacked=1>x</details>",
    "<input autofocus onfocus=hacked=1>",
    "<video><source onerror=hacked=1></video>",
    "<marquee onstart=hacked=1>x</marquee>",
    "<object data=javascript:hacked=1></object>",
    "<embed src=javascript:hacked=1>",
    "<form action=javascript:hacked=1><button id=go>x</button></form>",
    "<math><mi xlink:href='javascript:hacked=1'>x</mi></math>",
    "<style>@import 'https://evil.example/x.css';*{display:none}</style>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<base href=https://evil.example/>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    '"><script>hacked=1</script>',
    "'><script>hacked=1</script>",
    '" autofocus onfocus=hacked=1 x="',
    "' autofocus onfocus=hacked=1 x='",
    "</textarea><script>hacked=1</script>",
    "</title><script>hacked=1</script>",
    "</style><script>hacked=1</script>",
    "--><script>hacked=1</script><!--",
    "{{ 7 * 191 }}${hacked=1}<%= hacked=1 %>",
    "javascript:hacked=1//https://evil.example/",
)


class Watched:
    """A page, with all it asked other machines for and every sign of a script that ran."""

    def __init__(self, page: Any, site: str) -> None:
        self.page = page
        self.outside: list[str] = []
        self.alarms: list[str] = []
        page.on(
            "request",
            lambda request: None if request.url.startswith((site, "data:")) else self.outside.append(request.url),
        )
        page.on("dialog", lambda dialog: (self.alarms.append(dialog.message), dialog.dismiss()))

    def unharmed(self) -> bool:
        """Return whether no script ran in any of its frames, and nothing was loaded from elsewhere."""
        ran = [frame.evaluate("typeof hacked") for frame in self.page.frames]
        return set(ran) == {"undefined"} and self.outside == [] and self.alarms == []


SUBMIT = """
([url, fields, target]) => {
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: url, target });
  for (const [name, value] of Object.entries(fields)) {
    const input = document.createElement("input");
    input.name = name; input.value = value; form.append(input);
  }
  document.body.append(form); form.submit();
}
"""


def build_page_app(body: str) -> Any:
    """A site of somebody who protects nothing."""
    text = f"<!doctype html><meta charset=utf-8><body>{body}".encode()
    headers = [(b"content-type", b"text/html"), (b"content-length", str(len(text)).encode())]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": text})

    return app
