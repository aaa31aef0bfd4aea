"""A model for the shop and the recipes: it follows a script, to try a chat without a provider, ``python model.py``."""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def choose_turn(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the model says next: a text, or the call of a tool."""
    text = str(messages[-1]["content"])
    if messages[-1]["role"] == "tool":
        return {"content": tell_result(json.loads(text))}
    if "order" in text.lower():
        return call_tool("order", {"item": "tea", "count": 2})
    if "tea" in text.lower():
        return call_tool("in_stock", {"item": "tea"})
    if "pasta" in text.lower():
        return call_tool("searchRecipes", {"query": "pasta", "cuisine": "italian", "maxTime": 60})
    if "first" in text.lower():
        found = [json.loads(one["content"]).get("result") for one in messages if one["role"] == "tool"]
        recipes = next((one for one in reversed(found) if isinstance(one, list) and one), None)
        if recipes is not None:
            return call_tool("addFavorite", {"recipeId": recipes[0]["id"]})
    return {"content": "Ask whether there is tea, order some, or ask for a pasta recipe."}


def tell_result(message: dict[str, Any]) -> str:
    """Return what the model says about the result of a tool."""
    result = message.get("result")
    if "result" not in message:
        return "Nothing was done."
    if isinstance(result, list):
        return " ".join([*(f"{number}. {one['name']}." for number, one in enumerate(result, 1)), "Shall I save one?"])
    if isinstance(result, dict):
        return f"{result['name']} is now in your favorites."
    return f"The shop says: {result}."


def call_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the turn that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": "call-1", "type": "function", "function": function}]}


class Handler(BaseHTTPRequestHandler):
    """Answers as a provider that speaks OpenAI's chat completions."""

    def do_POST(self) -> None:
        """Answer one request."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"role": "assistant", **choose_turn(asked["messages"])}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A model that follows a script.")
    parser.add_argument("--port", type=int, default=9641, help="the port to listen on (%(default)s)")
    port = parser.parse_args().port
    print(f"The model runs at http://127.0.0.1:{port}/v1. Press Ctrl-C to stop it.", flush=True)
    try:
        ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
    except KeyboardInterrupt:
        print()
