"""Where hooks are heard around prompts, turns and asks, and what their word does there.

What a hook does here has no result to be shown with, so it is announced by itself, as `hook_decided`. What happens after the
fact is told to hooks behind everybody's back: it holds nothing up, and the end of the workspace ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from anyio.abc import TaskGroup

from bullpen.config.shape import HookEvent
from bullpen.engine.hook_words import HookVerdict
from bullpen.engine.hooks import Hooks
from bullpen.errors import HookRefused, StoreError, ToolFailed
from bullpen.schema.agent import SelectedModel
from bullpen.schema.api import Attachment, NewPrompt
from bullpen.schema.asks import PermissionRequest, QuestionBatch, QuestionResponse
from bullpen.schema.events import HookDecided, HookSaid
from bullpen.store import log
from bullpen.store.prompts import Prompt
from bullpen.store.store import Store
from bullpen.store.tx import Tx
from bullpen.tools.base import TurnStopped

logger = logging.getLogger(__name__)

SENT_BACK_AT_MOST = 3
"""How often a hook may have a model go on that thought itself done: one that is never content must not run for ever."""

CONTEXT_NAME = "hook context"


class HookPoints:
    """The hooks of a workspace, and the room they speak in."""

    def __init__(self, store: Store, workspace: str, tasks: TaskGroup) -> None:
        self._store = store
        self._workspace = workspace
        self._tasks = tasks

    async def hear(
        self,
        hooks: Hooks,
        event: HookEvent,
        session_id: str,
        facts: Mapping[str, Any],
        *,
        name: str | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> HookVerdict:
        """Ask the hooks, and show everybody what they did."""
        if not hooks.has(event):
            return HookVerdict()
        verdict = await hooks.run(event, session_id, facts, name=name, given=given)
        if verdict.is_news:
            try:
                await self._announce(event, session_id, verdict)
            except StoreError as exc:
                logger.warning("what hooks did at %s could not be announced: %s", event, exc)
        return verdict

    def tell(
        self,
        hooks: Hooks,
        event: HookEvent,
        session_id: str,
        facts: Mapping[str, Any],
        *,
        name: str | None = None,
    ) -> None:
        """Let the hooks know; nobody waits for them."""
        if hooks.has(event):
            self._tasks.start_soon(self._tell, hooks, event, session_id, facts, name)

    async def _tell(
        self, hooks: Hooks, event: HookEvent, session_id: str, facts: Mapping[str, Any], name: str | None
    ) -> None:
        try:
            await self.hear(hooks, event, session_id, facts, name=name)
        except Exception:
            logger.exception("the hooks of %s could not be told", event)

    async def _announce(self, event: HookEvent, session_id: str, verdict: HookVerdict) -> None:
        shown = verdict.metadata or {}
        told = HookDecided(
            session_id=session_id,
            event=event,
            decision=verdict.decision,
            reason=verdict.reason,
            rewrote=verdict.updated_input is not None,
            added=bool(verdict.context),
            hooks=tuple(
                HookSaid(
                    name=hook["name"],
                    decision="" if hook["decision"] == "none" else hook["decision"],
                    reason=hook["reason"],
                    error=hook.get("error", ""),
                )
                for hook in shown["hooks"]
            ),
        )

        async def work(tx: Tx) -> None:
            await log.append(tx, self._workspace, told, "created", key=session_id)

        await self._store.write(work, durable=False)

    # Prompts

    async def before_prompt(self, hooks: Hooks, body: NewPrompt, author: str) -> NewPrompt:
        """The prompt as the hooks let it through. Raises `HookRefused`."""
        if not hooks.has("PrePrompt"):
            return body
        facts = {"prompt": body.prompt, **_about_prompt(body, author)}
        verdict = await self.hear(hooks, "PrePrompt", body.session_id, facts, given={"prompt": body.prompt})
        if verdict.refuses:
            raise HookRefused("prompt", verdict.reason)
        text = (verdict.updated_input or {}).get("prompt")
        attached = body.attachments
        if verdict.context:
            added = verdict.context.encode()
            attached = (
                *attached,
                Attachment(
                    file_path=CONTEXT_NAME, file_name=CONTEXT_NAME, mime_type="text/plain", content=added
                ),
            )
        return msgspec.structs.replace(
            body, prompt=text if isinstance(text, str) and text else body.prompt, attachments=attached
        )

    def after_prompt(self, hooks: Hooks, body: NewPrompt, run_id: str, author: str) -> None:
        facts = {"run_id": run_id, "prompt": body.prompt, **_about_prompt(body, author)}
        self.tell(hooks, "PostPrompt", body.session_id, facts)


def _about_prompt(body: NewPrompt, author: str) -> dict[str, Any]:
    files = [{"file_name": a.file_name, "mime_type": a.mime_type} for a in body.attachments]
    return {"author": author, "attachments": files}


class TurnHooks:
    """The hooks around one turn."""

    def __init__(self, points: HookPoints, hooks: Hooks, prompt: Prompt) -> None:
        self._points = points
        self._hooks = hooks
        self._prompt = prompt
        self._sent_back = 0

    async def before(self, selected: SelectedModel) -> str:
        """What the hooks have to add for the model. Raises `HookRefused`."""
        facts = {"model": selected.model, "provider": selected.provider}
        verdict = await self._hear("PreTurn", facts)
        if verdict.refuses:
            raise HookRefused("turn", verdict.reason)
        return verdict.context

    async def after(self, text: str, *, is_stopped: bool) -> str:
        """The model is done. Gives back what it is told to go on with, "" when the turn may end."""
        outcome = "stopped" if is_stopped else "done"
        facts = {"outcome": outcome, "text": text, "sent_back": self._sent_back}
        verdict = await self._hear("PostTurn", facts)
        is_content = not verdict.refuses or verdict.halt or is_stopped
        if is_content or self._sent_back >= SENT_BACK_AT_MOST:
            return ""
        self._sent_back += 1
        return f"A hook does not let this turn end yet: {verdict.reason or 'no reason given'}"

    def broke(self, outcome: Literal["failed", "cancelled"], error: str) -> None:
        """The turn ended otherwise; nothing can be sent back any more."""
        facts = {**_about_turn(self._prompt), "outcome": outcome, "error": error}
        self._points.tell(self._hooks, "PostTurn", self._prompt.session, facts)

    async def _hear(self, event: HookEvent, facts: Mapping[str, Any]) -> HookVerdict:
        return await self._points.hear(
            self._hooks, event, self._prompt.session, {**_about_turn(self._prompt), **facts}
        )


def _about_turn(prompt: Prompt) -> dict[str, Any]:
    return {"run_id": prompt.run_id, "prompt": prompt.text, "author": prompt.author}


class AskHooks:
    """The hooks around the asks of one tool's call; an `Advisor` of permissions."""

    def __init__(self, points: HookPoints, hooks: Hooks) -> None:
        self._points = points
        self._hooks = hooks

    async def before(self, request: PermissionRequest) -> bool:
        """Whether a hook answers for the person. Raises `ToolFailed` or `TurnStopped` when one refuses."""
        verdict = await self._points.hear(
            self._hooks, "PreAsk", request.session_id, _permission(request), name=request.tool_name
        )
        _respect(verdict)
        return verdict.decision == "allow"

    def after(self, request: PermissionRequest, *, granted: bool, reason: str) -> None:
        answer = {"answer": "granted" if granted else "denied", "reason": reason}
        facts = {**_permission(request), **answer}
        self._points.tell(self._hooks, "PostAsk", request.session_id, facts, name=request.tool_name)

    async def before_questions(self, batch: QuestionBatch) -> None:
        """Raises `ToolFailed` or `TurnStopped` when a hook does not want people to be asked."""
        facts = _questions(batch)
        _respect(await self._points.hear(self._hooks, "PreAsk", batch.session_id, facts, name="question"))

    def after_questions(
        self, batch: QuestionBatch, responses: Sequence[QuestionResponse | None] | None
    ) -> None:
        answered = None if responses is None else [msgspec.to_builtins(each) for each in responses]
        facts = {
            **_questions(batch),
            "answer": "cancelled" if responses is None else "answered",
            "responses": answered,
        }
        self._points.tell(self._hooks, "PostAsk", batch.session_id, facts, name="question")


def _respect(verdict: HookVerdict) -> None:
    if verdict.refuses:
        words = f"A hook refused this: {verdict.reason or 'no reason given'}"
        raise TurnStopped(words) if verdict.halt else ToolFailed(words)


def _permission(request: PermissionRequest) -> dict[str, Any]:
    return {
        "kind": "permission",
        "tool_name": request.tool_name,
        "tool_call_id": request.tool_call_id,
        "tool_input": request.params,
        "action": request.action,
        "path": request.path,
        "description": request.description,
        "why": request.why,
        "protected": request.protected,
    }


def _questions(batch: QuestionBatch) -> dict[str, Any]:
    return {
        "kind": "question",
        "tool_name": "question",
        "tool_call_id": batch.tool_call_id,
        "questions": msgspec.to_builtins(batch.questions),
    }
