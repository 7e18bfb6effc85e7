"""A language server that behaves as it is told: `python -S scripted.py FILE`, with `{"log": FILE, ...}` in the file.

Without further words it is honest: it complains about each BAD (an error) and MEH (a warning) in what it is given, knows the
words of open documents as symbols, and publishes. What it hears goes to `log`, a JSON object per line. The words:

pull        it is asked for complaints; "late" registers that after the greeting
save        it wants to be told of saves
encoding    of positions
ask         settings that it asks for, by section
quiet       it never publishes
clean       it does not publish twice about a file that is clean
mute        methods that it never answers
die         methods at which it dies; "start" is before the greeting; words on standard error
nonsense    what it sends instead of a greeting, and how many `times`
flood       how many notifications it sends after the greeting
deaf        it stops reading after the greeting
child       a file into which it writes the number of a process that it starts and leaves behind
rename      the answer to a rename
symbols     the answer to a request for symbols; `definition` and `references` likewise
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from typing import Any

with open(sys.argv[1]) as _file:
    WORDS = json.load(_file)
ENCODING = WORDS.get("encoding", "utf-16")
UNIT = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}[ENCODING]


class Server:
    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.published: dict[str, int] = {}
        self.asked = 0

    def run(self) -> None:
        if "child" in WORDS:
            child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
            with open(WORDS["child"], "w") as file:
                file.write(str(child.pid))
        self.die_at("start")
        while (message := read()) is not None:
            self.note(message)
            method = message.get("method")
            if method is None:
                continue
            self.die_at(method)
            if "id" in message and method not in WORDS.get("mute", ()):
                answer = self.answer(method, message.get("params") or {})
                if method == "initialize" and "nonsense" in WORDS:
                    sys.stdout.buffer.write(WORDS["nonsense"].encode() * WORDS.get("times", 1))
                    sys.stdout.buffer.flush()
                    continue
                send({"id": message["id"], "result": answer})
            elif "id" not in message:
                self.hear(method, message.get("params") or {})

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "initialize":
                return {"capabilities": capabilities(), "serverInfo": {"name": "scripted"}}
            case "textDocument/diagnostic":
                return {"kind": "full", "items": complaints(self.texts[params["textDocument"]["uri"]])}
            case "textDocument/documentSymbol":
                return WORDS.get("symbols", [])
            case "textDocument/definition" | "textDocument/references" if method.split("/")[1] in WORDS:
                return WORDS[method.split("/")[1]]
            case "textDocument/definition":
                uri = params["textDocument"]["uri"]
                return {"uri": uri, "range": {"start": params["position"], "end": params["position"]}}
            case "textDocument/references":
                word = self.word_at(params)
                return [
                    {"uri": uri, "range": each}
                    for uri, text in self.texts.items()
                    for each in ranges(text, rf"\b{word}\b")
                ]
            case "textDocument/rename":
                return WORDS.get("rename")
        return None

    def hear(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "initialized":
                self.greet()
            case "textDocument/didOpen":
                self.texts[params["textDocument"]["uri"]] = params["textDocument"]["text"]
                self.publish(params["textDocument"]["uri"])
            case "textDocument/didChange":
                self.texts[params["textDocument"]["uri"]] = params["contentChanges"][0]["text"]
                self.publish(params["textDocument"]["uri"])
            case "textDocument/didClose":
                self.texts.pop(params["textDocument"]["uri"], None)
            case "exit":
                sys.exit(0)

    def greet(self) -> None:
        if WORDS.get("deaf"):
            time.sleep(60)
        if WORDS.get("pull") == "late":
            self.request(
                "client/registerCapability",
                {"registrations": [{"id": "d", "method": "textDocument/diagnostic"}]},
            )
        if "ask" in WORDS:
            self.request("workspace/configuration", {"items": [{"section": s} for s in WORDS["ask"]]})
        for method in WORDS.get("wants", ()):
            self.request(method, {})
        for number in range(WORDS.get("flood", 0)):
            send({"method": "window/logMessage", "params": {"type": 3, "message": f"{number} " + "x" * 200}})

    def request(self, method: str, params: Any) -> None:
        self.asked += 1
        send({"id": f"r{self.asked}", "method": method, "params": params})

    def publish(self, uri: str) -> None:
        found = complaints(self.texts[uri])
        is_same = not found and self.published.get(uri) == 0
        self.published[uri] = len(found)
        if WORDS.get("pull") or WORDS.get("quiet") or (WORDS.get("clean") and is_same):
            return
        send({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": found}})

    def word_at(self, params: dict[str, Any]) -> str:
        text = self.texts[params["textDocument"]["uri"]]
        line = text.split("\n")[params["position"]["line"]].encode(UNIT[0])
        rest = line[params["position"]["character"] * UNIT[1] :].decode(UNIT[0])
        found = re.match(r"\w+", rest)
        return found[0] if found else "nothing"

    def note(self, message: dict[str, Any]) -> None:
        with open(WORDS["log"], "a") as log:
            log.write(json.dumps(message) + "\n")

    def die_at(self, method: str) -> None:
        if method in WORDS.get("die", ()):
            print("the scripted server falls over", file=sys.stderr, flush=True)
            os._exit(3)


def capabilities() -> dict[str, Any]:
    found: dict[str, Any] = {
        "positionEncoding": ENCODING,
        "textDocumentSync": {"openClose": True, "change": 1, "save": bool(WORDS.get("save"))},
        "definitionProvider": True,
        "referencesProvider": {},
        "documentSymbolProvider": True,
        "renameProvider": True,
    }
    if WORDS.get("pull") is True:
        found["diagnosticProvider"] = {"interFileDependencies": True, "workspaceDiagnostics": False}
    return found


def complaints(text: str) -> list[dict[str, Any]]:
    return [
        {
            "range": each,
            "severity": severity,
            "message": f"{word} is not nice",
            "code": word,
            "source": "script",
        }
        for word, severity in (("BAD", 1), ("MEH", 2))
        for each in ranges(text, word)
    ]


def ranges(text: str, pattern: str) -> list[dict[str, Any]]:
    return [
        {
            "start": {"line": number, "character": units(line[: match.start()])},
            "end": {"line": number, "character": units(line[: match.end()])},
        }
        for number, line in enumerate(text.split("\n"))
        for match in re.finditer(pattern, line)
    ]


def units(text: str) -> int:
    return len(text.encode(UNIT[0])) // UNIT[1]


def read() -> dict[str, Any] | None:
    size = 0
    while line := sys.stdin.buffer.readline():
        if line == b"\r\n":
            return json.loads(sys.stdin.buffer.read(size))
        size = int(line.split(b":")[1])
    return None


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    Server().run()
