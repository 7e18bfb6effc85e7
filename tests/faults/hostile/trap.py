"""A repository that is all canaries, a person with a model of their own, and everything such a person does in a clone."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.faults.hostile.canaries import Canary
from tests.journeys.model_host import ModelHost, model_host, says
from tests.journeys.server import Bullpen, Client, until
from tests.journeys.stream import Seen, Stream

MARK = "canary-mark-"
WHO = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
RG = str(Path(sysconfig.get_path("scripts")) / "rg")

ATTRIBUTES = (
    "".join(f"*.{kind} filter={kind}\n" for kind in ("clean", "process", "smudge")) + "*.conv diff=conv\n"
)


class Trap:
    """The repository at `path`. What sings touches a file of its name in `cage`."""

    def __init__(self, path: Path, cage: Path, outside: Path, url: str) -> None:
        self.path = path
        self.cage = cage
        self.outside = outside
        self.url = url
        for directory in (path, cage, outside):
            directory.mkdir(exist_ok=True)

    def filled(self, text: str, canary: Canary) -> str:
        touch = f"touch {self.cage}/{canary.name}"
        words = {
            "TOUCH": touch,
            "RUN": f"$({touch})",
            "MARK": MARK + canary.name,
            "URL": f"{self.url}/{canary.name}",
            "PORT": self.url.rpartition(":")[2],
            "REPO": str(self.path),
            "OUT": str(self.outside),
            "NAME": canary.name,
        }
        return re.sub(r"%([A-Z]+)%", lambda found: words[found[1]], text)

    def set_up(self, canaries: Iterable[Canary]) -> None:
        """Write it all, and make a repository of it."""
        settings: dict[str, Any] = {}
        config = ""
        (self.path / "main.py").write_text("print('hello')\n")
        for canary in canaries:
            merge(settings, json.loads(self.filled(json.dumps(canary.settings), canary)))
            config += f"\n{self.filled(canary.git, canary)}\n" if canary.git else ""
            for name, text in canary.files.items():
                file = self.path / self.filled(name, canary)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(self.filled(text, canary))
                file.chmod(0o755 if text.startswith("#!") else 0o644)
            for name, target in canary.links.items():
                link = self.path / name
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(self.filled(target, canary))
        if settings:
            (self.path / "bullpen.json").write_text(json.dumps(settings, indent=1))
        if config:
            self._make_repository(config)

    def _make_repository(self, config: str) -> None:
        """A commit with a signature, a changed file, and only then the settings: making it sets nothing off."""
        (self.path / ".gitattributes").write_text(ATTRIBUTES)
        self.git("init", "-q", "-b", "main")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "first")
        whole = self.git("cat-file", "commit", "HEAD")
        head, _, message = whole.partition("\n\n")
        block = "-----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----"
        signed = f"{head}\ngpgsig {block}\n\n{message}"
        commit = self.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=signed).strip()
        self.git("update-ref", "refs/heads/main", commit)
        for name in ("main.py", "a.clean", "a.process", "a.smudge", "a.conv"):
            if (self.path / name).exists():
                (self.path / name).write_text("print('hello again')\n")
        with (self.path / ".git/config").open("a") as file:
            file.write(config)

    def git(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["/usr/bin/git", *arguments],
            cwd=self.path,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.outside), "GIT_CONFIG_NOSYSTEM": "1", **WHO},
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def sung(self) -> set[str]:
        return {file.name for file in self.cage.iterdir()}

    def hush(self) -> None:
        for file in self.cage.iterdir():
            file.unlink()

    def control(self, canary: Canary) -> None:
        """Do what a person might do who does not know better, without us."""
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.outside),
            "GIT_CONFIG_NOSYSTEM": "1",
            "RG": RG,
            **WHO,
        }
        subprocess.run(
            ["/bin/sh", "-c", self.filled(canary.control, canary)],
            cwd=self.path,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )


def merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


# The person and their model


def calls_of(trap: Trap) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """What the model calls when somebody says a word."""
    look = f"test -z $TRAP_ENV_VALUE || touch {trap.cage}/env-value; test -z $TRAP_DOTENV || touch {trap.cage}/dotenv; ls"
    return {
        "look": [
            ("view", {"file_path": str(trap.path / "main.py")}),
            ("ls", {"path": str(trap.path)}),
            ("grep", {"pattern": "hello", "path": str(trap.path)}),
            ("glob", {"pattern": "**/*.py", "path": str(trap.path)}),
            ("bash", {"command": look, "description": "look"}),
            ("fetch", {"url": f"{trap.url}/fetch-private", "format": "text"}),
        ],
        "ask": [
            ("write", {"file_path": str(trap.cage / "allowed-tools"), "content": "x"}),
            ("bash", {"command": f"sh {trap.path}/tools/ruled.sh", "description": "x"}),
            ("bash", {"command": "date > made-by-nobody", "description": "x"}),
        ],
    }


def answer_of(trap: Trap, body: dict[str, Any]) -> bytes:
    """A chat completion: the calls for the word that was said last, then a word."""
    last = [m for m in body["messages"] if m["role"] in ("user", "tool")][-1]
    said = json.dumps(last.get("content"))
    wanted = [calls for word, calls in calls_of(trap).items() if word in said]
    if last["role"] == "tool" or not wanted or not body.get("tools"):
        return says("done")
    calls = [
        {"index": n, "id": f"c{n}", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(wanted[0])
    ]
    chunks = [
        {"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ]
    return b"".join(b"data: " + json.dumps(c).encode() + b"\n\n" for c in chunks) + b"data: [DONE]\n\n"


class Person:
    """Somebody who opens the repository, looks at everything in it and works there."""

    def __init__(self, home: Bullpen, trap: Trap, host: ModelHost, sink: ModelHost) -> None:
        self.home = home
        self.trap = trap
        self.host = host
        self.sink = sink

    def start(self) -> Client:
        """A server for somebody whose own environment is as careless as can be."""
        self.home.start(
            BULLPEN_TRUST="",
            PATH=f".:node_modules/.bin:{self.home.env['PATH']}",
            RIPGREP_CONFIG_PATH=".ripgreprc",
            BASH_ENV="rc.sh",
            ENV="rc.sh",
        )
        return self.home.attach(self.trap.path)

    def look_at_everything(self, client: Client) -> None:
        """Open, list, view, prompt and ask; whatever reaches the model or an address is noted."""
        stream = client.stream()
        for path in (
            *("", "/config", "/providers", "/agent", "/skills", "/commands", "/trust", "/lsps", "/models"),
            *("/mcp/states", "/mcp/prompts", "/project/needs-init", "/project/init-prompt", "/sessions"),
        ):
            client.ok("GET", path)
        for path, body in (
            ("/agent/init", {"interactive": True}),
            ("/agent/update", {}),
            ("/lsps/start", {"path": str(client.path / "main.py")}),
            ("/mcp/refresh-tools", {"name": "stdio"}),
        ):
            client.call("POST", path, body)
        self._use_what_is_listed(client)
        self._prompt(client, stream, "look", permissions="allow")
        self._prompt(client, stream, "ask")
        self._note()

    def _use_what_is_listed(self, client: Client) -> None:
        for command in client.ok("GET", "/commands"):
            self._hear(client.call("POST", "/commands/expand", {"command_id": command["id"]}).text)
        for skill in client.ok("GET", "/skills"):
            answer = client.call("POST", "/skills/read", {"skill_id": skill["id"]})
            if answer.is_success:
                self._hear(answer.json()["content"], encoded=True)

    def _prompt(self, client: Client, stream: Stream, text: str, **more: str) -> None:
        session = client.session()
        run_id = client.prompt(session, text, f"{text}-{session}", **more)
        denied: set[str] = set()

        def is_next(event: Seen) -> bool:
            if event.kind == "permission_request":
                return event.data["id"] not in denied
            return event.kind == "run_complete" and event.data.get("run_id") == run_id

        while (event := stream.wait(is_next, f"{text} to end")).kind == "permission_request":
            denied.add(event.data["id"])
            answer = {"permission": event.data, "action": "deny", "reason": "not now"}
            client.ok("POST", "/permissions/grant", answer)

    def _hear(self, text: str, *, encoded: bool = False) -> None:
        words = base64.b64decode(text).decode() if encoded else text
        for name in re.findall(rf"{MARK}([\w-]+)", words):
            (self.trap.cage / name).touch()

    def _note(self) -> None:
        """What the model was told, and who was called."""
        for _, _, body in self.host.asked:
            self._hear(json.dumps(body))
        for path in self.sink.paths():
            (self.trap.cage / path.strip("/").split("/")[0].split("?")[0]).touch()

    def leave(self, client: Client) -> set[str]:
        """Go, and end the server: whatever was on its way has arrived then. Gives back what has sung."""
        client.leave()
        assert self.home.terminate() == 0
        self._note()
        return self.trap.sung()

    def forget(self) -> None:
        self.trap.hush()
        self.host.asked.clear()
        self.sink.asked.clear()

    def wait_for(self, names: set[str]) -> None:
        """Until all of these have sung: some do so behind everybody's back."""

        def missing() -> set[str]:
            self._note()
            return names - self.trap.sung()

        until(lambda: not missing(), f"{sorted(names)} to sing", limit_s=30)


@contextmanager
def person_in(home: Bullpen, canaries: Iterable[Canary]) -> Iterator[Person]:
    with model_host() as host, model_host() as sink:
        trap = Trap(home.home / "projects" / "trap", home.home / "cage", home.home / "outside", sink.url)
        trap.set_up(canaries)
        host.answers["/v1/chat/completions"] = lambda headers, body: answer_of(trap, body)
        mine = {
            "type": "openai-compat",
            "base_url": f"{host.url}/v1",
            "api_key": "k",
            "models": [{"id": "m", "name": "M", "context_window": 100_000}],
        }
        chosen = {"provider": "mine", "model": "m"}
        home.config.mkdir(parents=True, exist_ok=True)
        (home.config / "bullpen.json").write_text(
            json.dumps(
                {
                    "options": {"disable_default_providers": True},
                    "providers": {"mine": mine},
                    "models": {"large": chosen, "small": chosen},
                }
            )
        )
        yield Person(home, trap, host, sink)
