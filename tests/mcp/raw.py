"""A server without the library, which can do what a well-behaved one cannot: `python raw.py BEHAVIOUR [ARGS]`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", **(deep(150) if behaviour == "deep" else {})}}


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels // 2):
        schema = {"type": "object", "properties": {"p": schema}}
    return schema


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def listed(method: str, cursor: str) -> dict[str, Any]:
    kind = method.partition("/")[0]
    page = int(cursor or 1)
    item = {
        "tools": tool(f"t{page}"),
        "prompts": {"name": f"p{page}"},
        "resources": {"name": f"r{page}", "uri": f"x:{page}"},
    }[kind]
    more = {"nextCursor": str(page + 1)} if page < 3 or behaviour == "endless" else {}
    return {kind: [item], **more}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize" if behaviour == "modern":
            return {"error": {"code": -32022, "message": "too old", "data": {"supported": ["2026-07-28"]}}}
        case "server/discover":
            caps: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}
            return {
                "result": {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": caps,
                    "resultType": "complete",
                    "ttlMs": 0,
                    "cacheScope": "public",
                }
            }
        case "initialize":
            capabilities: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}
            info = {"name": "raw", "version": "1"}
            return {
                "result": {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": capabilities,
                    "serverInfo": info,
                }
            }
        case "tools/list" if behaviour == "garbage":
            return {"result": {"tools": [{"name": 7, "inputSchema": "none"}, None], "nextCursor": []}}
        case "tools/list" | "prompts/list" | "resources/list":
            extra = (
                {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
                if behaviour == "modern"
                else {}
            )
            return {"result": {**listed(method, params.get("cursor", "")), **extra}}
        case "tools/call" if behaviour == "huge":
            return {"result": {"content": [{"type": "text", "text": "x" * (17 * 1024 * 1024)}]}}
        case "tools/call" if behaviour == "spawner":
            # Something that would outlive the server.
            pid = str(subprocess.Popen(["sleep", "600"]).pid)
            return {"result": {"content": [{"type": "text", "text": pid}]}}
        case "tools/call" if behaviour == "mortal" and params["arguments"]:
            print("leaving in a hurry", file=sys.stderr, flush=True)
            os._exit(4)
        case "tools/call":
            return {"result": {"content": []}}
    return {"error": {"code": -32601, "message": f"no {method} here"}}


behaviour, *args = sys.argv[1:]
if behaviour == "chatty":
    print("Welcome! Listening on stdio ...", flush=True)
if behaviour == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if behaviour == "leaver":
    # A grandchild holds the pipes open when this process is gone.
    child = subprocess.Popen(["sleep", "600"])
    with open(args[0], "w") as file:
        file.write(str(child.pid))
if behaviour == "count":
    with open(args[0], "a") as file:
        file.write("started\n")
for line in sys.stdin:
    request = json.loads(line)
    if behaviour == "noise" and request["method"] == "tools/list":
        for number in range(1_000):
            send({"method": "notifications/tools/list_changed"})
            send({"id": f"nobody-{number}", "result": {}})
            print("\x00\xff not json {", flush=True)
            print("grumble " * 20, file=sys.stderr)
    if behaviour == "curious" and request["method"] == "tools/list":
        # It wants to use our model, ask our person and see our folders before it answers.
        for wanted in ("sampling/createMessage", "elicitation/create", "roots/list", "nonsense"):
            send({"id": wanted, "method": wanted, "params": {"messages": [], "maxTokens": 1}})
            refused = json.loads(sys.stdin.readline())
            assert "error" in refused, refused
    if "id" in request and not (behaviour == "mute" and request["method"] == "tools/call"):
        send({"id": request["id"], **answer(request["method"], request.get("params", {}))})
    if behaviour in ("count", "leaver") and request["method"] == "resources/list":
        print(f"secret is {os.environ.get('TOKEN', '')}", file=sys.stderr, flush=True)
        os._exit(7)
while behaviour == "stubborn":
    time.sleep(1)
