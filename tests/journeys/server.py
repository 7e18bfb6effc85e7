"""A real `bullpen server` in a home of its own, projects with a scripted model, and clients of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
from tests.commands import BULLPEN, carry_out
from tests.journeys.stream import LIMIT_S, Stream, connect
from tests.warm import WarmProcess

T = TypeVar("T")

COMMAND = [*BULLPEN, "server"]
POLL_S = 0.02

Script = Sequence[dict[str, Any]]


def until(look: Callable[[], T], what: str, limit_s: float = LIMIT_S) -> T:
    """Look again and again until there is something: only for what tells nobody, such as processes and files."""
    ends = time.monotonic() + limit_s
    while not (found := look()):
        assert time.monotonic() < ends, f"waited for {what}"
        time.sleep(POLL_S)
    return found


def config(script: Script, **more: Any) -> dict[str, Any]:
    """A config file with one provider, the scripted model; further keyword arguments are top-level keys."""
    models = [{"id": "player", "name": "Player", "context_window": 100_000, "default_max_tokens": 4_000}]
    provider = {
        "type": "scripted",
        "name": "Script",
        "models": models,
        "provider_options": {"script": list(script)},
    }
    chosen = {"provider": "script", "model": "player"}
    return {
        "options": {"disable_default_providers": True},
        "providers": {"script": provider},
        "models": {"large": chosen, "small": chosen},
    } | more


def gate(path: Path) -> dict[str, Any]:
    """A call of `bash` that lasts until `open_gate`: how a test holds a turn in the middle of a tool."""
    os.mkfifo(path)
    return {
        "id": f"call_{path.name}",
        "name": "bash",
        "input": {"description": "wait", "command": f"cat {path}"},
    }


def open_gate(path: Path) -> None:
    """Let the command behind the gate go on; waits for it to stand there."""
    with path.open("w") as pipe:
        pipe.write("open\n")


class Bullpen:
    """One home: data, config, socket, projects, and at most one server at a time. Ended by its own pid."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.socket = str(home / "s.sock")
        self.data = home / "data" / "bullpen"
        self.config = home / "config" / "bullpen"
        for name in ("config", "data", "cache", "run", "tmp", "projects"):
            (home / name).mkdir(mode=0o700)
        self.env = {
            key: os.environ[key] for key in ("PATH", "LANG", "COVERAGE_PROCESS_START") if key in os.environ
        }
        self.env |= {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_STATE_HOME": str(home / "data"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "TMPDIR": str(home / "tmp"),
            "BULLPEN_TRUST": "1",
            "BULLPEN_SERVER_DETACH_GRACE": "60",
        }
        self.arguments = ["--host", f"unix://{self.socket}"]
        # One that somebody looks at from outside has to be started in earnest, as has one whose lines are counted.
        self.warm = "COVERAGE_PROCESS_START" not in self.env
        self.process: WarmProcess | subprocess.Popen[bytes]
        self._streams: list[Stream] = []
        self._http = self.connect()

    # The process

    def start(self, *arguments: str, **env: str) -> Bullpen:
        """Start the server and wait until it serves. What is given here also holds for later starts."""
        self.arguments += arguments
        self.env |= env
        self.launch()
        until(self.answers, "the server to answer")
        return self

    def launch(self) -> None:
        """Start the server without waiting for it."""
        with (self.home / "server.log").open("ab") as log, open(os.devnull, "rb") as nothing:
            if self.warm:
                streams = [nothing.fileno(), log.fileno(), log.fileno()]
                self.process = WarmProcess(
                    ["server", *self.arguments], env=self.env, cwd=self.home, streams=streams
                )
                return
            self.process = subprocess.Popen(
                [*COMMAND, *self.arguments],
                env=self.env,
                cwd=self.home,
                stdin=nothing,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def run_to_end(self, *arguments: str, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Start one more server that is expected to give up; what it said is in the result."""
        if not prefix:
            return carry_out(["server", *arguments], env=self.env, cwd=self.home, limit_s=LIMIT_S)
        return subprocess.run(
            [*prefix, *COMMAND, *arguments],
            env=self.env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def run_command(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """One `bullpen` command in this home, carried to its end; with `check` it has to go well."""
        done = carry_out(arguments, env=self.env, cwd=self.home, limit_s=LIMIT_S)
        if check:
            done.check_returncode()
        return done

    def kill(self) -> None:
        """SIGKILL: what a crash looks like."""
        self.process.kill()
        self.process.wait()
        self._forget_connections()

    def terminate(self) -> int:
        """SIGTERM, then wait for the end; gives back the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.exited()

    def exited(self) -> int:
        """Wait for the process to end by itself; gives back its exit status."""
        status = self.process.wait(LIMIT_S)
        self._forget_connections()
        return status

    def restart(self) -> None:
        """Start again in the same home."""
        self.start()

    def stop(self) -> None:
        """End everything that belongs to this home."""
        for stream in self._streams:
            stream.cut()
        self._http.close()
        if getattr(self, "process", None) and self.process.poll() is None:
            # Nothing of it is kept, so it need not tidy up; unless it has to write down which lines ran.
            if "COVERAGE_PROCESS_START" in self.env:
                self.process.terminate()
            else:
                self.process.kill()
            self.process.wait()

    @property
    def log(self) -> str:
        """What the server said."""
        return (self.home / "server.log").read_text(errors="replace")

    @property
    def open_files(self) -> int:
        """How many files, sockets and pipes the server process has. What is left out are descriptors of the system's own
        making: the watcher of config files has some, and comes and goes with the workspaces."""
        count = 0
        for descriptor in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                count += not os.readlink(descriptor).startswith("anon_inode:")
        return count

    def answers(self) -> bool:
        """Whether the server that was launched serves by now."""
        assert self.process.poll() is None, f"the server gave up: {self.log[-2000:]}"
        # Dialled by hand: httpcore forgets to close a socket that was refused.
        try:
            connect(self.socket).close()
        except OSError:
            return False
        return self.call("GET", "/workspaces").status_code == 200

    def _forget_connections(self) -> None:
        self._http.close()
        self._http = self.connect()

    # Calls

    def connect(self, *, host: str = "localhost") -> httpx.Client:
        """An HTTP client of the server's socket, which calls it by this name."""
        return httpx.Client(
            # Nothing is encrypted on a socket, and reading the system's certificates takes 0.2 s.
            transport=httpx.HTTPTransport(uds=self.socket, verify=False),
            base_url=f"http://{host}/v1",
            timeout=LIMIT_S,
            trust_env=False,
        )

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """One request below `/v1`."""
        if body is not None:
            options["json"] = body
        return self._http.request(method, path, **options)

    def ok(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """A request that must succeed; gives back the decoded answer."""
        answer = self.call(method, path, body, **options)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:300]}"
        return answer.json() if answer.content else None

    def stream(
        self, target: str, headers: dict[str, str] | None = None, *, read: bool = True, expect: int = 200
    ) -> Stream:
        """An event stream; it is cut when the test ends."""
        stream = Stream(self.socket, f"/v1{target}", headers, read=read)
        self._streams.append(stream)
        assert stream.status == expect, f"{target}: {stream.status}"
        return stream

    # Projects

    def project(self, *script: dict[str, Any], name: str = "", **more: Any) -> Path:
        """A fresh directory whose config file has the scripted model."""
        path = self.home / "projects" / (name or uuid.uuid4().hex[:8])
        path.mkdir()
        (path / "bullpen.json").write_text(json.dumps(config(script, **more)))
        return path

    def attach(self, path: Path | str, **body: Any) -> Client:
        """A new client of the workspace at a path, which holds it but has no stream yet."""
        client_id = str(uuid.uuid4())
        info = self.ok("POST", "/workspaces", {"path": str(path), "client_id": client_id, **body})
        return Client(self, info, client_id)

    def workspaces(self) -> list[str]:
        """The paths that are open."""
        return [workspace["path"] for workspace in self.ok("GET", "/workspaces")]


class Client:
    """One client's view of one workspace."""

    def __init__(self, server: Bullpen, info: dict[str, Any], client_id: str) -> None:
        self.server = server
        self.info = info
        self.client_id = client_id
        self.path = Path(info["path"])
        self.url = f"/workspaces/{info['id']}"

    def call(self, method: str, path: str = "", body: Any = None, **options: Any) -> httpx.Response:
        return self.server.call(method, self.url + path, body, **options)

    def ok(self, method: str, path: str = "", body: Any = None, **options: Any) -> Any:
        return self.server.ok(method, self.url + path, body, **options)

    def stream(self, after: str = "", *, query: str = "", read: bool = True) -> Stream:
        """This client's event stream, from now on or from an id."""
        headers = {"Last-Event-ID": after} if after else {}
        target = f"{self.url}/events?client_id={self.client_id}{query}"
        return self.server.stream(target, headers, read=read)

    def session(self, title: str = "Chosen title") -> str:
        return str(self.ok("POST", "/sessions", {"title": title})["id"])

    def prompt(self, session_id: str, text: str, run_id: str = "", **more: Any) -> str:
        """Send a prompt; gives back the run's id, which is the caller's or a minted one."""
        body = {"session_id": session_id, "prompt": text, "run_id": run_id, **more}
        answer = self.call("POST", "/agent", body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["run_id"])

    def messages(self, session_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ok("GET", f"/sessions/{session_id}/messages")
        return found

    def is_busy(self, session_id: str) -> bool:
        return bool(self.ok("GET", f"/agent/sessions/{session_id}")["is_busy"])

    def queue(self, session_id: str) -> list[str]:
        """The texts that wait."""
        return self.ok("GET", f"/agent/sessions/{session_id}/prompts/list") or []

    def grant(self, permission: dict[str, Any], action: str = "allow") -> bool:
        body = {"permission": permission, "action": action}
        return bool(self.ok("POST", "/permissions/grant", body)["resolved"])

    def cancel(self, session_id: str) -> Any:
        return self.ok("POST", f"/agent/sessions/{session_id}/cancel")

    def leave(self) -> None:
        """Retire: what a client does at its end."""
        self.server.ok("DELETE", f"/clients/{self.client_id}")


@contextlib.contextmanager
def new_home() -> Any:
    """A short path, because a unix socket has to fit; everything in it goes with the test."""
    home = Path(tempfile.mkdtemp(prefix="bp")).resolve()
    bullpen = Bullpen(home)
    try:
        yield bullpen
    finally:
        bullpen.stop()
        shutil.rmtree(home, ignore_errors=True)
