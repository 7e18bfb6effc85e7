"""A conversation with one language server: requests out, answers and complaints in.

Everything a server sends is taken as plain JSON and read leniently: real servers send fields that no two versions of the
protocol agree on. What it asks of us is answered at once. Nothing it does can hold up more than the one who waits for
it, and that for a limited time; one that floods us is read slowly, and one that does not listen is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from bullpen import __version__
from bullpen.errors import LanguageServerFailed
from bullpen.lsp.capabilities import CAPABILITIES, DIAGNOSTIC, METHOD_PROVIDERS
from bullpen.lsp.diagnostics import Complaints
from bullpen.lsp.documents import Document, Documents
from bullpen.lsp.framing import Json, encode, read_message
from bullpen.lsp.positions import Encoding
from bullpen.system.conversations import Conversation

FLOOD_MESSAGES = 2_000
"""In one second. An honest server sends some hundred while it starts; past this it is read slowly."""

UNREAD_BYTES = 32 * 1024 * 1024
"""What we want to tell a server and it does not read."""

AGAIN = (-32801, -32802)
"""Answers that mean: the files changed while I looked, ask me again."""
TRIES = 4

METHOD_NOT_FOUND = -32601

MAX_REGISTERED = 1_000
"""What a server may announce to be able to do; honest ones announce a dozen things."""

log = logging.getLogger(__name__)


class Client:
    """`listen` has to run, in a task of its own, for anything to be answered."""

    def __init__(
        self,
        line: Conversation,
        *,
        name: str,
        folder: Mapping[str, str],
        settings: Mapping[str, Any],
        changed: Callable[[], None],
        is_logged: bool = False,
    ) -> None:
        """`folder` is the workspace as the protocol names it; `changed` hears that complaints have changed."""
        self.name = name
        self.complaints = Complaints()
        self.documents = Documents(self)
        self.capabilities: Json = {}
        self.lost = anyio.Event()
        self._line = line
        self._folder = dict(folder)
        self._settings = settings
        self._changed = changed
        self._is_logged = is_logged
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._registered: dict[str, tuple[str, Any]] = {}
        self._told = anyio.Event()
        self._listeners = 0
        self.refreshes = 0

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for it."""
        return bool(self._waiting) or self._listeners > 0

    # What it can do

    @property
    def encoding(self) -> Encoding:
        said = self.capabilities.get("positionEncoding")
        return said if said in ("utf-8", "utf-16", "utf-32") else "utf-16"

    def can(self, method: str) -> bool:
        """Whether the server says that it knows a method, in its greeting or later."""
        if self.capabilities.get(METHOD_PROVIDERS.get(method, "")) not in (None, False):
            return True
        return any(registered == method for registered, _ in self._registered.values())

    @property
    def wants_saves(self) -> bool:
        sync = self.capabilities.get("textDocumentSync")
        return bool(sync.get("save")) if isinstance(sync, dict) else bool(sync)

    @property
    def diagnostic_id(self) -> str | None:
        """The name under which the server wants to be asked for complaints, if it has one."""
        offers = [self.capabilities.get("diagnosticProvider")]
        offers += [options for method, options in self._registered.values() if method == DIAGNOSTIC]
        names = [offer.get("identifier") for offer in offers if isinstance(offer, dict)]
        return next((name for name in names if isinstance(name, str)), None)

    @property
    def looks_across_files(self) -> bool:
        """Whether a change of one file may change what it says about another, as far as it tells."""
        offers = [self.capabilities.get("diagnosticProvider")]
        offers += [options for method, options in self._registered.values() if method == DIAGNOSTIC]
        return any(isinstance(o, dict) and o.get("interFileDependencies") is True for o in offers)

    # Out

    async def initialize(self, options: Mapping[str, Any], *, timeout_s: float) -> None:
        params = {
            # It runs in a group of its own that ends with us; it need not look for us.
            "processId": None,
            "clientInfo": {"name": "bullpen", "version": __version__},
            "rootUri": self._folder["uri"],
            "workspaceFolders": [self._folder],
            "capabilities": CAPABILITIES,
            "initializationOptions": dict(options) or None,
        }
        answer = await self.request("initialize", params, timeout_s=timeout_s)
        offered = answer.get("capabilities") if isinstance(answer, dict) else None
        self.capabilities = offered if isinstance(offered, dict) else {}
        self.notify("initialized", {})
        if self._settings:
            self.notify("workspace/didChangeConfiguration", {"settings": self._settings})

    async def request(self, method: str, params: Any, *, timeout_s: float) -> Any:
        """The result. Raises `LanguageServerFailed`, also when the time is over; a cancel is passed on."""
        with anyio.move_on_after(timeout_s):
            tries = TRIES
            while True:
                answer = await self._ask(method, params)
                error = answer.get("error")
                if error is None:
                    return answer.get("result")
                tries -= 1
                if not tries or not isinstance(error, dict) or error.get("code") not in AGAIN:
                    raise self._failed(f"answered {method} with an error: {_words(error)}")
        raise self._failed(f"did not answer {method} within {timeout_s:g} s")

    def notify(self, method: str, params: Any) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def leave(self, *, timeout_s: float) -> None:
        """Say good-bye as the protocol wants it; whether it is heard is another matter."""
        try:
            await self.request("shutdown", None, timeout_s=timeout_s)
            self.notify("exit", None)
        except LanguageServerFailed as exc:
            log.debug("no leave was taken: %s", exc)

    async def _ask(self, method: str, params: Any) -> Json:
        self._last_id += 1
        number = self._last_id
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await answer
        finally:
            del self._waiting[number]
            if not answer.done() or answer.cancelled():
                self.notify("$/cancelRequest", {"id": number})

    def _send(self, message: Mapping[str, Any]) -> None:
        if self.lost.is_set():
            raise self._failed("is gone", is_lost=True)
        if self._is_logged:
            log.info("to %s: %.2000s", self.name, message)
        stdin = self._line.stdin
        if stdin.transport.get_write_buffer_size() > UNREAD_BYTES:
            self.lose("does not read what it is told")
            raise self._failed("does not read what it is told", is_lost=True)
        stdin.write(encode(message))

    # In

    async def listen(self) -> None:
        """Until the server is gone. Raises `LanguageServerFailed` when what it sends makes no sense."""
        try:
            begin, count = anyio.current_time(), 0
            while (message := await read_message(self._line.stdout)) is not None:
                try:
                    if self._is_logged:
                        log.info("from %s: %.2000s", self.name, message)
                    self._hear(message)
                except RecursionError:
                    raise self._failed("sent a message that is nested too deep") from None
                count += 1
                if count >= FLOOD_MESSAGES:
                    await anyio.sleep(max(0.0, begin + 1 - anyio.current_time()))
                    begin, count = anyio.current_time(), 0
        finally:
            self.lose("is gone")

    def lose(self, why: str) -> None:
        """Whoever waits for the server gets to hear that it is gone."""
        self.lost.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._failed(why, is_lost=True))
        self._wake()

    def _failed(self, why: str, *, is_lost: bool = False) -> LanguageServerFailed:
        return LanguageServerFailed(why, server=self.name, is_lost=is_lost)

    def _hear(self, message: Json) -> None:
        method, number = message.get("method"), message.get("id")
        if isinstance(method, str):
            if number is None:
                self._on_notification(method, message.get("params"))
            elif isinstance(number, int | str):
                self._answer(number, method, message.get("params"))
        elif isinstance(number, int) and (answer := self._waiting.get(number)) and not answer.done():
            answer.set_result(message)

    def _on_notification(self, method: str, params: Any) -> None:
        if method == "textDocument/publishDiagnostics" and isinstance(params, dict):
            uri, version = params.get("uri"), params.get("version")
            if isinstance(uri, str) and self.documents.is_current(uri, version):
                if self.complaints.push(uri, params.get("diagnostics"), self.documents.version(uri)):
                    self._changed()
                self._wake()

    def _answer(self, number: int | str, method: str, params: Any) -> None:
        params = params if isinstance(params, dict) else {}
        answer: Json = {"jsonrpc": "2.0", "id": number, "result": None}
        match method:
            case "workspace/configuration":
                answer["result"] = [self._section(item) for item in _list(params.get("items"))]
            case "workspace/workspaceFolders":
                answer["result"] = [self._folder]
            case "client/registerCapability":
                for each in _list(params.get("registrations"))[: MAX_REGISTERED - len(self._registered)]:
                    if isinstance(each, dict) and isinstance(each.get("method"), str):
                        self._registered[str(each.get("id"))] = (each["method"], each.get("registerOptions"))
                # One that can be asked from now on is not waited for any more.
                self._wake()
            case "client/unregisterCapability":
                # The protocol itself misspells it.
                for each in _list(params.get("unregisterations")):
                    if isinstance(each, dict):
                        self._registered.pop(str(each.get("id")), None)
            case "workspace/diagnostic/refresh":
                self.refreshes += 1
                self.complaints.doubt()
                self._wake()
            case "workspace/applyEdit":
                # Only a person or the model changes files, through a tool.
                answer["result"] = {"applied": False, "failureReason": "edits are not taken from servers"}
            case "window/showDocument":
                answer["result"] = {"success": False}
            case "window/workDoneProgress/create" | "window/showMessageRequest":
                pass
            case _ if method.startswith("workspace/") and method.endswith("/refresh"):
                pass
            case _:
                del answer["result"]
                answer["error"] = {"code": METHOD_NOT_FOUND, "message": f"{method} is not known here"}
        try:
            self._send(answer)
        except LanguageServerFailed as exc:
            log.debug("an answer was not sent: %s", exc)

    def _section(self, item: Any) -> Any:
        """The settings that a server asks for, by a dotted name; nothing for what is not set."""
        section = item.get("section") if isinstance(item, dict) else None
        found: Any = self._settings
        for step in section.split(".") if isinstance(section, str) and section else ():
            found = found.get(step) if isinstance(found, Mapping) else None
        return found

    # Waiting for complaints

    def _wake(self) -> None:
        told, self._told = self._told, anyio.Event()
        told.set()

    async def next_word(self) -> None:
        """Until the server publishes something, can or wants to be asked, or is gone."""
        self._listeners += 1
        try:
            await self._told.wait()
        finally:
            self._listeners -= 1

    async def pull(self, document: Document, *, timeout_s: float) -> bool:
        """Ask for the complaints about a document. Gives back whether they are those of its present version."""
        version = document.version
        asked: Json = {"textDocument": {"uri": document.uri}}
        if self.diagnostic_id is not None:
            asked["identifier"] = self.diagnostic_id
        report = await self.request(DIAGNOSTIC, asked, timeout_s=timeout_s)
        if not isinstance(report, dict) or document.version != version:
            return False
        others = report.get("relatedDocuments")
        for uri, each in [(document.uri, report), *(others.items() if isinstance(others, dict) else ())]:
            if isinstance(each, dict) and each.get("kind") != "unchanged":
                if self.complaints.pull(uri, each.get("items"), self.documents.version(uri)):
                    self._changed()
            else:
                self.complaints.agree(uri, self.documents.version(uri))
        return True


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _words(error: Any) -> str:
    said = error.get("message") if isinstance(error, dict) else None
    return said[:500] if isinstance(said, str) else "without a reason"
