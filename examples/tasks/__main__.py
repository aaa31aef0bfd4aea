"""Serve the product: ``python -m examples.tasks --port 9627``."""

from __future__ import annotations

import argparse
import os

import uvicorn

from .app import Settings, create_app


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m examples.tasks", description="A list of tasks with accounts.")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (%(default)s)")
    parser.add_argument("--port", type=int, default=9627, help="the port to listen on (%(default)s)")
    parser.add_argument("--url", default="", help="the public URL: https, or http on this machine")
    parser.add_argument(
        "--database",
        default=os.environ.get("TASKS_DATABASE", "sqlite:///tasks.db"),
        help="an SQLAlchemy URL, such as postgresql+psycopg://... (TASKS_DATABASE, else sqlite:///tasks.db)",
    )
    parser.add_argument("--api-keys", action="store_true", help="let users create keys for programs without OAuth")
    given = parser.parse_args()
    url = given.url or f"http://{given.host}:{given.port}"
    app = create_app(Settings(url=url, database=given.database, api_keys=given.api_keys))
    uvicorn.run(app, host=given.host, port=given.port, proxy_headers=True, access_log=False, timeout_keep_alive=15)


if __name__ == "__main__":
    main()
