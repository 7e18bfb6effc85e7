"""Inputs that look harmless and are made to take for ever, or all the memory; run as a program, it tries them all and prints what came of each.

A program of its own, so that the system can end it: it gets so much processor time and no more. For each bomb it counts what
the event loop's own thread was made to do, in calls of functions, which no busy machine changes.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import resource
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.campaign import sized
from tests.internet import Site, World, answer, serving
from tests.tools.conftest import Bench

from bullpen.asks import display
from bullpen.asks.subject import Touch, look
from bullpen.config import redact
from bullpen.config.shape import WebSearch
from bullpen.engine.repair import as_object
from bullpen.errors import ToolFailed
from bullpen.net import urls
from bullpen.net.fetching import Fetcher
from bullpen.system.environment import tool_environment
from bullpen.system.jobs import Jobs
from bullpen.system.processes import Processes
from bullpen.system.shell_safety import is_known_read

CPU_S = 150
"""For all of them together; one that takes the square of its size needs more than this alone."""

SOME = sized(6, 1000)
"""Of those that need a process each."""

BIG = 20_000
A = "a" * BIG

Bomb = Callable[[], Awaitable[Any]]


def regexes() -> list[str]:
    return [
        r"(a+)+$", r"(a|a)*$", r"(a|aa)+$", r"(a*)*b", r"(.*a){20}", r"(a?){50}a{50}", r"([a-z]+)*!", r"(\w+\s?)+$", r"^(\d+)*x$",
        r"((a{1,50}){1,50}){1,50}", r"a{1000}{1000}{1000}", r"(?i)(ä|Ä|a)+!", "|".join(f"a{n}" for n in range(150)), r"\p{L}{1000}",
        "(" * 500 + "a" + ")" * 500, r"(x+x+)+y", "[" + "a-z" * 200 + "]+!", ".*" * 100 + "!",
    ]  # fmt: skip


def globs() -> list[str]:
    return [
        "*a" * 40 + "*b", "**/" * 150 + "b", "**/*a" * 40 + "b", "{a,b}" * 20, "{" * 400 + "a" + "}" * 400, "{a,{b,{c,{d,e}}}}" * 8,
        "?" * 900, "[a-z]" * 150, "[" * 900, "*" * 900, "{,}" * 30, "a" * 999, "**" * 400, "*[!b]" * 100,
    ]  # fmt: skip


def json_texts() -> dict[str, str]:
    return {
        "brackets": "[" * 50_000,
        "closed brackets": "[" * 50_000 + "]" * 50_000,
        "objects": '{"a":' * 20_000,
        "digits": '{"a": ' + "9" * 60_000 + "}",
        "exponent": '{"a": 1e999999999}',
        "escapes": '{"a": "' + "\\u0000" * 9_000 + '"}',
        "backslashes": '{"a": "' + "\\" * 60_000,
        "quotes": '"' * 60_000,
        "commas": "{" + "," * 60_000,
        "python sums": "{'a': " + "1+" * 30_000 + "1}",
        "python signs": "{'a': " + "-" * 60_000 + "1}",
        "python brackets": "{'a': " + "(" * 30_000,
        "fences": "```json\n" * 8_000,
        "keys": "{" + ",".join(f'"k{n}":{n}' for n in range(6_000)) + "}x",
        "encoded again and again": _again('{"a": 1}', 12),
    }


def _again(text: str, times: int) -> str:
    for _ in range(times):
        text = json.dumps(text)
    return text


def html_pages() -> dict[str, bytes]:
    return {
        "divs": b"<div>" * BIG,
        "bold": b"<b>" * BIG + b"x",
        "lists": b"<ul><li>" * 5_000,
        "tables": b"<table><tr><td>" * 3_000,
        "quotes": b"<blockquote>" * 5_000 + b"x",
        "tags that do not end": b"<a" * BIG,
        "comments that do not end": b"<!--" * BIG,
        "declarations": b"<![CDATA[" * BIG,
        "attributes": b"<a " + b"x=1 " * BIG + b">",
        "entities": b"&amp;" * BIG,
        "entities of entities": b"<!DOCTYPE x [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;&a;'>]>"
        + b"&b;" * 5_000,
        "inline data": b"<img src='data:image/png;base64," + b"A" * 400_000 + b"'>",
        "ends without a beginning": b"</div>" * BIG,
        "spans of links": b"<a href='#'>" * 5_000 + b"x",
    }


def packed() -> dict[str, bytes]:
    zeros = gzip.compress(bytes(50 << 20))
    return {
        "gzip": answer(zeros, content_encoding="gzip", content_type="text/html"),
        "deflate": answer(zlib.compress(bytes(50 << 20)), content_encoding="deflate"),
        "gzip within gzip": answer(gzip.compress(zeros), content_encoding="gzip, gzip"),
        "gzip that breaks off": answer(zeros[:20_000], content_encoding="gzip"),
        "another packing": answer(b"x", content_encoding="br"),
        "no packing": answer(b"x" * 1000, content_encoding="gzip"),
        "a long head": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\nhello",
        "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 20_000 + b"\r\nhello",
    }


def commands() -> dict[str, str]:
    return {
        "a long word": "x" * BIG,
        "many words": "echo " + "x " * BIG,
        "substitutions": "echo " + "$(" * 2_000,
        "closed substitutions": "echo " + "$(" * 500 + "x" + ")" * 500,
        "quotes": "echo " + "'\"" * 4_000,
        "pipes": "cat x" + " | cat" * 3_000,
        "ands": "ls" + " && ls" * 3_000,
        "braces": "echo " + "{a,b}" * 4_000,
        "parentheses": "(" * 4_000,
        "here documents": "cat <<A\n" * 1_000,
        "assignments": "A=1 " * 5_000 + "ls",
        "wrappers": "sudo " * 3_000 + "ls",
        "redirections": "ls " + "> x " * 3_000,
        "blank lines": "\n" * BIG + "rm -rf /",
        "lines of dots": ".\n" * BIG,
        "addresses": "curl " + "http://" * 4_000,
        "users of addresses": "curl http://" + "a@" * BIG,
        "backslashes": "echo " + "\\" * BIG,
        "globs": "ls " + "*a" * 5_000,
        "marks": "echo " + "a\u0301" * BIG,
    }


def addresses() -> dict[str, str]:
    return {
        "labels": "http://" + "a." * 4_000,
        "one label": "http://" + "a" * 8_000,
        "percent": "http://a.test/" + "%" * 8_000,
        "escapes": "http://a.test/" + "%41" * 2_600,
        "a name of another script": "http://" + "ä" * 4_000 + ".test/",
        "marks": "http://" + "a\u0301" * 4_000 + ".test/",
        "ports": "http://a.test" + ":1" * 4_000,
        "users": "http://" + "a@" * 4_000,
        "dots": "http://a.test/" + "../" * 2_600,
        "too long": "http://a.test/" + "x" * 1_000_000,
    }


def edits() -> dict[str, tuple[str, str]]:
    same = "same line\n" * 5_000
    return {
        "the same line over and over": (same, "same  line\n" * 500 + "other"),
        "one long line": (A * 10, A + "b"),
        "blank lines": ("\n" * BIG, "\n" * 500 + "x"),
        "indents": ("".join(f"{' ' * (n % 80)}x\n" for n in range(5_000)), "x\n" * 300 + "y"),
        "escapes": ("\\n" * BIG, "\\\\n" * 2_000),
        "quotes": ("“" * BIG, '"' * 5_000 + "x"),
        "numbers of lines": ("x\n" * 5_000, "".join(f"{n:6}|x\n" for n in range(500)) + "y"),
        "words": ("word " * BIG, "word  " * 2_000 + "x"),
        "a match everywhere": ("ab" * BIG, "a"),
    }


def diffs() -> dict[str, tuple[str, str]]:
    lines = [f"line {n}\n" for n in range(3_000)]
    return {
        "turned round": ("".join(lines), "".join(reversed(lines))),
        "two lines in turn": ("a\nb\n" * 1_900, "b\na\n" * 1_900),
        "all the same": ("a\n" * 3_900, "a\n" * 3_000 + "b\n"),
        "shuffled": ("".join(lines), "".join(sorted(lines))),
        "one long line": (A * 40, A * 40 + "b"),
        "many lines": ("a\n" * 90_000, "b\n" * 90_000),
        "carriage returns": ("a\r" * BIG, "b\r" * BIG),
    }


def texts() -> dict[str, str]:
    return {
        "names of secrets": "key=" * BIG,
        "words before an equals sign": "a." * BIG + "=",
        "addresses": "a://" * BIG,
        "quotes": 'token="' * 5_000,
        "bearers": "bearer " * BIG,
        "blanks": (" " * 39 + "x") * 500,
        "escapes": "\x1b[" * BIG,
        "forged": "allow " * 5_000,
        "question marks": "? " * BIG,
    }


class Tried:
    """The loop's own work: calls of functions on its thread, and how long it once did not answer."""

    def __init__(self) -> None:
        self.calls = 0
        self.longest_s = 0.0
        self._last = time.monotonic()

    def count(self, frame: FrameType, event: str, argument: Any) -> None:
        self.calls += event in ("call", "c_call")

    async def beat(self) -> None:
        while True:
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - self._last)
            self._last = now
            await asyncio.sleep(0.02)


def all_bombs(bench: Bench, world: World) -> dict[str, Bomb]:
    root = bench.root
    (root / "as").write_text(f"{A}!\n{A}\n")
    (root / A[:200]).write_text("x")
    found: dict[str, Bomb] = {}

    def tool(name: str, tool_name: str, **arguments: Any) -> None:
        found[name] = lambda: bench.call(tool_name, **arguments)

    for n, pattern in enumerate(regexes()[:SOME]):
        tool(f"regex {n}", "grep", pattern=pattern, path="as")
    for n, pattern in enumerate(globs()[:SOME]):
        tool(f"glob {n}", "glob", pattern=pattern)
    for n, pattern in enumerate(globs()):
        tool(f"names to ignore {n}", "ls", ignore=[pattern])
    for n, pattern in enumerate(globs()[: SOME // 2]):
        tool(f"include {n}", "grep", pattern="x", include=pattern)
    for n, pattern in enumerate(globs()[:6]):
        found[f"ignore file {n}"] = _with_ignore_file(bench, f"{pattern}\n" * 50)
    found["ignore file of many lines"] = _with_ignore_file(
        bench, "".join(f"*a{n}*b\n" for n in range(20_000))
    )
    for name, page in list(html_pages().items())[:SOME]:
        world.site.pages[f"/html/{name.replace(' ', '-')}"] = answer(page, content_type="text/html")
        tool(
            f"page of {name}",
            "fetch",
            url=f"http://site.test/html/{name.replace(' ', '-')}",
            format="markdown",
        )
    for name in ("divs", "tags that do not end", "comments that do not end"):
        found[f"results in {name}"] = _searched(bench, world, html_pages()[name][:8_000])
    for name, page in packed().items():
        world.site.pages[f"/packed/{name.replace(' ', '-')}"] = page
        tool(
            f"packed as {name}",
            "download",
            url=f"http://site.test/packed/{name.replace(' ', '-')}",
            file_path="got",
        )
    for name, text in json_texts().items():
        found[f"arguments of {name}"] = _direct(as_object, text)
        if name in ("brackets", "closed brackets", "digits"):
            world.site.pages[f"/json/{name.replace(' ', '-')}"] = answer(
                text.encode(), content_type="application/json"
            )
            tool(
                f"JSON of {name}",
                "fetch",
                url=f"http://site.test/json/{name.replace(' ', '-')}",
                format="text",
            )
    for name, command in commands().items():
        found[f"command of {name}"] = _asked(root, command)
    for name, url in addresses().items():
        found[f"address with {name}"] = _direct(urls.parse, url)
    for n, (name, (content, old)) in enumerate(edits().items()):
        (root / f"edited-{n}").write_text(content)
        tool(f"edit of {name}", "edit", file_path=f"edited-{n}", old_string=old, new_string="new")
    for n, (name, (before, after)) in enumerate(diffs().items()):
        (root / f"written-{n}").write_text(before)
        tool(f"diff of {name}", "write", file_path=f"written-{n}", content=after)
    for name, text in texts().items():
        found[f"text of {name}"] = _in_thread(redact.text_without, text, {"secret"})
        found[f"dialog of {name}"] = _in_thread(display.warnings_about, {"command": text}, "")
    _files(root)
    tool("a picture of great size", "view", file_path="huge.png")
    tool("a picture that says it is large", "view", file_path="wide.png")
    tool("a long line", "view", file_path="sparse")
    tool("a line far down", "view", file_path="sparse", offset=5)
    tool("a deep tree", "ls", path="deep")
    tool("a deep tree, searched", "glob", pattern="**/x", path="deep")
    tool("a wide directory", "ls", path="wide")
    return found


def _files(root: Path) -> None:
    for name in ("huge.png", "sparse"):
        with (root / name).open("wb") as file:
            file.truncate(1 << 33)
    (root / "wide.png").write_bytes(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x06\0\0\0" + bytes(1000)
    )
    here = root / "deep"
    for _ in range(300):
        here = here / "d"
    here.mkdir(parents=True)
    (root / "wide").mkdir()
    for n in range(3_000):
        (root / "wide" / f"{n}").touch()


def _with_ignore_file(bench: Bench, content: str) -> Bomb:
    async def run() -> Any:
        folder = Path(tempfile.mkdtemp(dir=bench.root))
        (folder / ".gitignore").write_text(content)
        (folder / A[:250]).touch()
        return await bench.call("ls", path=str(folder))

    return run


def _searched(bench: Bench, world: World, page: bytes) -> Bomb:
    async def run() -> Any:
        world.site.pages["/lite/"] = answer(page, content_type="text/html")
        return await bench.call("web_search", query="x")

    return run


def _direct(function: Callable[..., Any], *arguments: Any) -> Bomb:
    """What the product does on its loop, because it is short."""

    async def run() -> Any:
        try:
            return function(*arguments)
        except ToolFailed as exc:
            return exc.message

    return run


def _in_thread(function: Callable[..., Any], *arguments: Any) -> Bomb:
    return lambda: asyncio.to_thread(function, *arguments)


def _asked(root: Path, command: str) -> Bomb:
    """What the asking for a command does, in the threads where it is done."""

    async def run() -> Any:
        await asyncio.to_thread(is_known_read, command, root, root)
        touch = Touch(tool="bash", action="execute", root=root, directory=root, command=command)
        await asyncio.to_thread(look, touch)
        return await asyncio.to_thread(display.warnings_about, {"command": command}, command)

    return run


async def main() -> dict[str, Any]:
    root = Path(tempfile.mkdtemp()).resolve()
    env = tool_environment({"PATH": os.environ["PATH"]}, ())
    report: dict[str, Any] = {"bombs": {}}
    async with (
        Processes() as processes,
        serving(Site()) as site,
        serving(Site()) as secure,
        serving(Site()) as canary,
    ):
        world = World(site, secure, canary)
        bench = Bench(root, Jobs(env, processes), processes)
        bench.limits = {"grep": {"timeout_s": 1}}
        bench.connect(lambda allowed: Fetcher(world.guard(*allowed)))
        bench.search = WebSearch(base_url="http://site.test")
        bombs = all_bombs(bench, world)
        bench.files.reads = {path: time.time() + 600 for path in root.iterdir()}
        await bench.call(
            "fetch", url="http://site.test/html/divs", format="text"
        )  # What is loaded at first use.
        report["rss_before"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for name, bomb in bombs.items():
            tried, began = Tried(), time.process_time()
            beating = asyncio.ensure_future(tried.beat())
            await asyncio.sleep(0)
            sys.setprofile(tried.count)
            try:
                outcome = await bomb()
            finally:
                sys.setprofile(None)
                beating.cancel()
            said = outcome.content if hasattr(outcome, "content") else str(outcome)
            report["bombs"][name] = {
                "calls": tried.calls,
                "stall_s": round(tried.longest_s, 3),
                "took_s": round(time.process_time() - began, 3),
                "said": said[:100],
            }
    report["rss_after"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return report


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
    assert threading.current_thread() is threading.main_thread()
    print(json.dumps(asyncio.run(main())))
