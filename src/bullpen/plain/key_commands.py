"""Slash commands about providers' keys: the next line is the key, typed unseen, asked about and kept by the server. And the login
to GitHub Copilot, which a person ends at GitHub."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bullpen.client.workspace import Room
from bullpen.errors import BadRequest
from bullpen.plain.view import View
from bullpen.present.inert import inert_line
from bullpen.present.keys import kept_line, logs_in
from bullpen.schema.agent import CatalogueProvider
from bullpen.schema.api import KeyChecked

ANYWAY = "keep"
"""No key is so short, so it can be typed where one is wanted."""


class KeyCommands:
    """While `is_asking`, what is typed is a key, and nothing else may see it."""

    def __init__(self, room: Room, view: View) -> None:
        self._room = room
        self._view = view
        self._offer: CatalogueProvider | None = None
        self._refused: tuple[str, KeyChecked] | None = None
        self.all: dict[str, Callable[[str], Awaitable[None]]] = {"key": self._key, "login": self._log_in}

    @property
    def is_asking(self) -> bool:
        return self._offer is not None

    async def _key(self, provider: str) -> None:
        offers = {offer.id: offer for offer in await self._room.providers()}
        if provider in offers and logs_in(offers[provider]):
            raise BadRequest("GitHub Copilot takes no key: /login logs in")
        if provider in offers:
            self._ask(offers[provider])
            return
        if provider:
            raise BadRequest(f"there is no provider {provider} in the catalogue; /key lists them")
        rows = [
            f"  {inert_line(offer.id):<20} {inert_line(offer.missing)}"
            for offer in offers.values()
            if offer.missing
        ]
        self._view.block("\n".join([*rows, "  /key and one of these asks for its key"]))

    def _ask(self, offer: CatalogueProvider) -> None:
        self._offer, self._refused = offer, None
        self._view.note(
            f"type the key of {inert_line(offer.name)}, unseen; the server's owner keeps it. An empty line gives up."
        )
        self._view.ask_unseen(f"key of {inert_line(offer.name)} › ")

    async def take(self, text: str) -> None:
        """A line that was typed while `is_asking`. Raises what the server says against it; then nothing is asked any more."""
        offer, refused = self._offer, self._refused
        assert offer is not None
        self.give_up()
        if not text:
            self._view.note("no key was kept")
            return
        if text == ANYWAY and refused is not None:
            key, checked = refused
        else:
            self._view.note(f"checking the key with {inert_line(offer.name)} …")
            key, checked = text, await self._room.keys.check(offer.id, text)
            if checked.verdict == "refused":
                self._view.note(
                    f"{inert_line(checked.message)}; type it again, or “{ANYWAY}” to keep it anyway; an empty line gives up"
                )
                self._offer, self._refused = offer, (key, checked)
                self._view.ask_unseen(f"key of {inert_line(offer.name)} › ")
                return
        await self._room.keys.keep(offer.id, key)
        self._view.note(f"{kept_line(offer.name, checked)}; /model lists what can be chosen")

    def give_up(self) -> None:
        """Ask no more; what was typed is forgotten."""
        self._offer = self._refused = None
        self._view.ask_seen()

    async def _log_in(self, word: str) -> None:
        """Until it has ended, so not while keys wait."""
        if word == "cancel":
            await self._room.keys.cancel_login()
            return
        code = await self._room.keys.begin_login()
        self._view.note(
            f"open {inert_line(code.verification_uri)} and enter the code {inert_line(code.user_code)} (/login cancel gives up)"
        )
        ended = await self._room.keys.login_end()
        done = "logged in to GitHub Copilot; /model lists what can be chosen"
        self._view.note(done if ended.state == "done" else inert_line(ended.message))
