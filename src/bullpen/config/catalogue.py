"""The providers and models that are known without any config, from a file that comes with the package.

Nothing here is ever chosen by itself: a provider becomes usable when a config names it or a person selects one of its
models. `catalog.json` is made by `scripts/catalogue.py`; `bullpen models update` puts a newer one into the data directory,
which counts when it can be read and is newer. Reading either takes a millisecond: the models of a provider stay as they
stand in the file until somebody asks for them.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from bullpen.config.keys import has_key
from bullpen.errors import ConfigError
from bullpen.schema.agent import CatalogueProvider, Model
from bullpen.schema.wire import Wire

DEMO = "demo"
TOUR = "tour"

UPDATE = "catalog.json"
"""The name of the packaged catalogue, and of an updated one in the data directory."""

MAX_BYTES = 32 << 20
"""An updated catalogue larger than this is not one."""

TOUR_PROVIDER = CatalogueProvider(
    id=DEMO,
    name="Bullpen tour (built in, no network)",
    type=DEMO,
    default_large_model_id=TOUR,
    default_small_model_id=TOUR,
    models=(Model(id=TOUR, name="Guided tour", context_window=1_000_000),),
)

LOCAL = tuple(
    CatalogueProvider(id=name, name=label, type=kind, api_endpoint=f"http://127.0.0.1:{port}/v1")
    for name, label, kind, port in (
        ("ollama", "Ollama (this machine)", "ollama", 11434),
        ("lmstudio", "LM Studio (this machine)", "lmstudio", 1234),
        ("llamacpp", "llama.cpp (this machine)", "llamacpp", 8080),
        ("vllm", "vLLM (this machine)", "openai-compat", 8000),
    )
)
"""Servers of this machine at their usual places. They need no key, and have the models that they say they have."""

LOCAL_IDS = frozenset(entry.id for entry in LOCAL)


class Entry(Wire, frozen=True, kw_only=True):
    """A provider in the file, its models not looked at yet."""

    name: str
    id: str
    api_key: str = ""
    api_endpoint: str = ""
    type: str = ""
    default_large_model_id: str = ""
    default_small_model_id: str = ""
    default_headers: dict[str, str] = msgspec.field(default_factory=dict)
    models: msgspec.Raw = msgspec.Raw(b"[]")


class File(Wire, frozen=True, kw_only=True):
    """`generated_at` decides which of two files is newer; it is RFC 3339 in UTC, so it can be compared as text."""

    providers: tuple[Entry, ...]
    source: str = ""
    notice: str = ""
    generated_at: str = ""


class Catalogue:
    """Providers in the order in which they are offered and, once configured, preferred."""

    def __init__(self, file: File, *, warning: str = "", local: bool = True) -> None:
        self.source = file.source
        self.generated_at = file.generated_at
        self.warning = warning
        """What was wrong with an updated catalogue, so that another one is used."""
        self._entries = {entry.id: entry for entry in file.providers}
        self.ids = (DEMO, *self._entries) if file.providers else ()
        """Those that are offered. Servers of this machine are not among them: nobody knows whether they are there."""
        self._whole = {entry.id: entry for entry in (TOUR_PROVIDER, *(LOCAL if local else ()))}
        self._ranks = {name: rank for rank, name in enumerate([*self._entries, *(e.id for e in LOCAL), DEMO])}

    def known(self, provider_id: str) -> CatalogueProvider | None:
        whole = self._whole.get(provider_id)
        if whole is None and provider_id in self._entries:
            whole = self._whole[provider_id] = _decoded(self._entries[provider_id])
        return whole

    def rank(self, provider_id: str) -> int:
        """The place in the catalogue; what is not in it comes last."""
        return self._ranks.get(provider_id, len(self._ranks))

    def offers(self, types: Collection[str] | None = None) -> list[CatalogueProvider]:
        """All that could be configured, as far as its type can be spoken to."""
        known = (self.known(name) for name in self.ids)
        return [entry for entry in known if entry and (types is None or entry.type in types)]

    def with_key(self, env: Mapping[str, str], types: Collection[str] | None = None) -> tuple[str, ...]:
        """The ids of the providers whose key is in the environment."""
        entries = self._entries.values()
        return tuple(e.id for e in entries if (types is None or e.type in types) and has_key(e, env))


TOUR_ONLY = Catalogue(File(providers=()), local=False)
"""What is left when the config wants no default providers."""


def load(data_dir: Path | None = None) -> Catalogue:
    """The packaged catalogue, or the newer one in the data directory."""
    packaged = _packaged()
    updated = data_dir / UPDATE if data_dir else None
    try:
        found = updated.stat() if updated else None
    except OSError:
        return packaged
    if updated is None or found is None:
        return packaged
    return _chosen(updated, found.st_mtime_ns, found.st_size)


def checked(text: bytes) -> File:
    """The file as far as it can be used. Raises `ConfigError` with what is wrong with it."""
    if len(text) > MAX_BYTES:
        raise ConfigError(f"it is larger than {MAX_BYTES >> 20} MiB")
    try:
        file = msgspec.json.decode(text, type=File)
        for entry in file.providers:
            _decoded(entry)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise ConfigError(f"it is not a catalogue of models: {exc}") from None
    nameless = next((e for e in file.providers if not e.id or not e.type), None)
    if not file.providers or not file.generated_at or nameless:
        raise ConfigError("it is not a catalogue of models: a provider's id or type, or its date, is missing")
    if b"$(" in text or b"`" in text:
        raise ConfigError("it is not a catalogue of models: it holds a command")
    return file


def nearest(model_id: str, models: Iterable[Model]) -> str:
    """The id that was probably meant, or nothing."""
    ids = {model.id.lower(): model.id for model in models}
    wanted = model_id.lower()
    near = difflib.get_close_matches(wanted, ids, 1, 0.4)
    # People leave the vendor out, and dates.
    within = sorted((name for name in ids if wanted and wanted in name), key=len)
    return ids[within[0]] if within else ids[near[0]] if near else ""


@functools.cache
def _packaged_file() -> File:
    return msgspec.json.decode(Path(__file__).with_name(UPDATE).read_bytes(), type=File)


@functools.cache
def _packaged() -> Catalogue:
    return Catalogue(_packaged_file())


@functools.lru_cache(maxsize=4)
def _chosen(updated: Path, _changed_ns: int, _size: int) -> Catalogue:
    """The updated catalogue if it is sound and newer. When the file changes it is looked at again."""
    packaged = _packaged()
    try:
        file = checked(updated.read_bytes())
    except (OSError, ConfigError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else str(exc)
        warning = f"{updated} is ignored: {why}; 'bullpen models update --reset' removes it"
        return Catalogue(_packaged_file(), warning=warning)
    return Catalogue(file) if file.generated_at > packaged.generated_at else packaged


_models = msgspec.json.Decoder(tuple[Model, ...])


def _decoded(entry: Entry) -> CatalogueProvider:
    fields = {name: getattr(entry, name) for name in Entry.__struct_fields__ if name != "models"}
    return CatalogueProvider(**fields, models=_models.decode(entry.models))
