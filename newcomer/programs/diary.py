"""A web application with users of its own, whose tools an assistant may use after the user agreed."""

from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

import toolwire
from toolwire.oauth import authorization_server

PORT = Path("diary_port.txt").read_text(encoding="utf-8")
DIARIES = {"ada": "Ada went for a walk."}
SESSIONS: dict[str, str] = {}

diary = toolwire.Toolkit("Diary", version="1.0.0")


@diary.tool(approval="auto", safe=True, scopes=["diary:read"])
def read_diary(context: toolwire.Context) -> str:
    """Read your diary."""
    return DIARIES[context.principal]


class User:
    """A user of this application."""

    def __init__(self, user_id: str) -> None:
        self.id, self.name = user_id, user_id


class Users:
    """The users of this application."""

    def find(self, user_id: str) -> User | None:
        """Return the user of an id."""
        return User(user_id) if user_id in DIARIES else None


async def sign_in(request: Request) -> Response:
    """Show the sign-in page, and sign in."""
    if request.method == "GET":
        return HTMLResponse('<form method="post"><input name="name"><button>Sign in</button></form>')
    name = parse_qs((await request.body()).decode())["name"][0]
    SESSIONS[secret := f"secret of {name}".replace(" ", "-")] = name
    answer = RedirectResponse(request.query_params.get("next", "/"), 303)
    answer.set_cookie("session", secret, httponly=True, samesite="lax")
    return answer


def identify_user(scope) -> str | None:
    """Return the id of the signed-in user of a request."""
    cookies = SimpleCookie(dict(scope["headers"]).get(b"cookie", b"").decode())
    return SESSIONS.get(cookies["session"].value) if "session" in cookies else None


oauth = authorization_server(
    issuer=f"http://127.0.0.1:{PORT}",
    store="diary.db",
    users=Users(),
    scopes={"diary:read": "Read your diary"},
    registration=True,
    login_url="/sign-in",
    identify_user=identify_user,
)
tools = toolwire.asgi(diary, callers=oauth.callers)
app = oauth.serve_before(Starlette(routes=[Route("/sign-in", sign_in, methods=["GET", "POST"]), Mount("/", app=tools)]))
