"""Serve RecipeApp: ``python -m recipes --port 9640``."""

from __future__ import annotations

import argparse
from pathlib import Path

import uvicorn

try:
    from .app import Settings, create_app
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing.name} is not installed: pip install 'toolwire[all]'") from missing


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m recipes", description="Recipes, with accounts.")
    parser.add_argument("--port", type=int, default=9640, help="the port to listen on (%(default)s)")
    parser.add_argument("--folder", type=Path, default=Path(), help="the folder of its data (the current one)")
    parser.add_argument("--guest-key", default="", help="make an account for trying it, with this key")
    given = parser.parse_args()
    try:
        given.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--folder {given.folder} cannot be used: {error.strerror}.")
    url = f"http://127.0.0.1:{given.port}"
    app = create_app(Settings(url=url, folder=given.folder, guest_key=given.guest_key))
    uvicorn.run(app, port=given.port, access_log=False)


if __name__ == "__main__":
    main()
