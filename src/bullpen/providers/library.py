"""Models that are asked through `pydantic-ai`: one way to stream, watch, cancel and translate for all of its vendors.

The library takes a second or two to import, and each vendor's own package as long again, so this module imports
neither: a model is made in a thread when a turn first asks for it. Retries of the vendors' packages are off; the engine
retries.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, cast

import anyio
import msgspec
from msgspec import UNSET

from bullpen import __version__
from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.base import ModelEvent, ModelRequest
from bullpen.providers.http import ModelClient, hanging_up
from bullpen.providers.options import CACHING, affinity_headers, is_cached, options_of, sampling_of
from bullpen.providers.streaming import SHORTEST_SECRET, Limits, secrets_of, silent

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

Options = dict[str, Any]

EFFORTS = frozenset({"minimal", "low", "medium", "high", "xhigh", "max"})
SAMPLING = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty")
_SECRET = re.compile("KEY|SECRET|TOKEN")
"""In the names of variables."""


class LibraryProvider(ABC):
    """A vendor says how its model is made and what its requests are tuned with."""

    interface: ClassVar[str]
    """The first half of the form in which answers are kept. The second is the provider's id: what one host encrypted or
    signed another refuses."""
    package: ClassVar[str] = "bullpen"
    """What has to be installed for it."""
    own_options: ClassVar[frozenset[str]] = frozenset()
    """Provider options that are meant for us; all others go into the request's body."""

    def __init__(
        self, settings: ProviderSettings, http: ModelClient, *, limits: Limits | None = None
    ) -> None:
        self.settings = settings
        self.http = http
        self.headers = {
            "User-Agent": f"bullpen/{__version__}",
            "Accept-Encoding": "identity",
            **settings.extra_headers,
        }
        self._limits = limits or Limits()
        self._models: dict[tuple[str, bytes], Model] = {}
        self._loading = asyncio.Lock()

    @abstractmethod
    def make_model(self, request: ModelRequest, body: Options) -> Model:
        """The library's model; `body` is what the config adds to requests. Runs in a thread, and may import.

        Raises `ProviderError`."""

    @abstractmethod
    def tuning(self, request: ModelRequest, body: Options) -> dict[str, Any]:
        """The library's settings for one request, beside those that all vendors share."""

    def samples(self, request: ModelRequest) -> bool:
        """Whether the model takes sampling parameters; those that think mostly refuse them."""
        return True

    def explain(self, exc: Exception) -> ProviderError | None:
        """What an error that only this vendor knows means."""
        return None

    def caches(self, request: ModelRequest) -> bool:
        """Whether a vendor that wants marks for what it is to cache gets them."""
        options = options_of(request, self.settings, ours=frozenset())
        return options.get(CACHING, self.settings.prompt_caching) is not False and is_cached(request)

    def option(self, request: ModelRequest, name: str) -> str:
        """One of our own options, "" when it is not set. The model's counts before the provider's."""
        value = options_of(request, self.settings, ours=frozenset()).get(name, "")
        return value if isinstance(value, str) else ""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One step. Leaving early closes the connection. Raises `ProviderError`."""
        try:
            body = options_of(request, self.settings, ours=self.own_options | {CACHING})
            model = await self._model(request, body)
        except ImportError as exc:
            raise ProviderError(
                f"provider {self.settings.id!r} needs a package that is not installed; run: pip install '{self.package}'"
            ) from exc
        except Exception as exc:
            raise self._error(exc) from exc
        limit_s = self._limits.first_event_s
        deadline = anyio.current_time() + limit_s
        closing = AsyncExitStack()
        closing.enter_context(self.line())
        try:
            reader = self._parts.events.Reader(self._form)
            opened = None
            await closing.enter_async_context(hanging_up())
            with anyio.CancelScope(deadline=deadline):
                opened = await closing.enter_async_context(self._ask(model, request, body))
            if opened is None:
                raise silent(limit_s)
            events = aiter(opened)
            while True:
                event: Any = _NOTHING
                with anyio.CancelScope(deadline=deadline):
                    event = await anext(events, None)
                if event is _NOTHING:
                    raise silent(limit_s)
                if event is None:
                    break
                for each in reader.read(event):
                    yield each
                # Only now: the time that our reader takes is not the host's silence.
                if self._parts.events.is_meaningful(event):
                    limit_s = self._limits.next_event_s
                    deadline = anyio.current_time() + limit_s
            for each in reader.end(opened.get()):
                yield each
        except Exception as exc:
            # A library that meets garbage may raise anything.
            raise self._error(exc) from exc
        finally:
            # Shielded, because a cancelled turn must close its connection too.
            with anyio.CancelScope(shield=True):
                await closing.aclose()

    def line(self) -> AbstractContextManager[None]:
        """Around a step: what the vendor's package needs for it, and leaves open after it."""
        return nullcontext()

    @property
    def _form(self) -> str:
        return f"{self.interface}/{self.settings.id}"

    @property
    def _parts(self) -> _Parts:
        return _Parts.loaded()

    async def _model(self, request: ModelRequest, body: Options) -> Model:
        key = (request.model, msgspec.json.encode(body, order="sorted"))
        async with self._loading:
            model = self._models.get(key)
            if model is None:
                model = self._models[key] = await asyncio.to_thread(self._load, request, body)
            return model

    def _load(self, request: ModelRequest, body: Options) -> Model:
        _Parts.loaded()
        return self.make_model(request, body)

    def forget_models(self) -> None:
        """Make them anew: what they were made with has changed."""
        self._models.clear()

    def _ask(self, model: Model, request: ModelRequest, body: Options) -> Any:
        from pydantic_ai.direct import model_request_stream

        return model_request_stream(
            model,
            self._parts.messages.messages_of(request.turns, self._form),
            # Each vendor has a type of its own for these, and all of them are dicts.
            model_settings=cast("ModelSettings", self._common(request) | self.tuning(request, body)),
            model_request_parameters=self._parts.messages.parameters_of(request),
            instrument=False,
        )

    def _common(self, request: ModelRequest) -> dict[str, Any]:
        common = sampling_of(request, self.settings, SAMPLING) if self.samples(request) else {}
        if request.max_tokens:
            common["max_tokens"] = request.max_tokens
        session = {name.decode(): value.decode() for name, value in affinity_headers(request.session_id)}
        return common | {"extra_headers": session | self.headers}

    def _error(self, exc: Exception) -> ProviderError:
        return self.explain(exc) or self._parts.errors.error_of(exc, self.settings, self.hide)

    def hide(self, text: str) -> str:
        """Some hosts repeat the key, or all headers, of what they refuse."""
        known = self.settings.environment
        found = [
            text for name, text in known.items() if _SECRET.search(name) and len(text) >= SHORTEST_SECRET
        ]
        for secret in sorted([*secrets_of(self.settings), *found], key=len, reverse=True):
            text = text.replace(secret, "…")
        return text


def thinking(request: ModelRequest, *, by_itself: bool) -> bool | str | None:
    """How hard the model is to think, in the library's words: None leaves it to the model.

    `by_itself` is for models that think unasked: they are asked to show it."""
    effort, think = request.settings.reasoning_effort, request.settings.think
    if not request.can_reason:
        return None
    if effort is not UNSET and effort:
        return effort if effort in EFFORTS else effort != "none"
    if think is not UNSET:
        return think
    return True if by_itself else None


_NOTHING = object()


class _Parts:
    """The modules that know the library. Loading them takes a second, so a thread does it."""

    _once: ClassVar[_Parts | None] = None

    def __init__(self) -> None:
        from bullpen.providers import library_errors, library_events, library_messages

        self.errors = library_errors
        self.events = library_events
        self.messages = library_messages

    @classmethod
    def loaded(cls) -> _Parts:
        cls._once = cls._once or cls()
        return cls._once
