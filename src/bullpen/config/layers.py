"""The config files of a workspace, read and checked, one layer on the other.

Lowest first: the administrator's file, what was chosen through clients, the user's file, the project's files from
the outermost directory inwards, what was chosen for this workspace, and what was chosen in this process. What a person
wrote by hand outranks what was once picked in a menu. Nothing here expands a value or runs a command, and nothing
raises for what stands in a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bullpen.config import agents, commands, dotenv, items, skills, trust
from bullpen.config.check import Steps, check, dotted
from bullpen.config.items import Trusted
from bullpen.config.jsonc import Source, read_source
from bullpen.config.merge import REPLACE, merge_all
from bullpen.config.places import Places, foreign_files, project_file, project_files, shell_files
from bullpen.config.shape import ROLES
from bullpen.config.wanted import Item, Wanted
from bullpen.errors import ConfigError

IN_MEMORY = "this process"
"""The origin of what was chosen in this process and is in no file."""


class Layer(msgspec.Struct, frozen=True):
    """What one file says, without its mistakes."""

    name: str
    content: dict[str, Any]
    source: Source | None = None

    def origin(self, steps: Steps) -> str:
        """`FILE:LINE` of a value."""
        if self.source is None:
            return self.name
        written = tuple(s.removesuffix(REPLACE) if isinstance(s, str) else s for s in steps)
        return f"{self.name}:{self.source.line(steps if steps in self.source else written)}"


class Layers:
    """All layers, lowest first, and what was wrong with them.

    `problems` are mistakes that may have cost a restriction. Where `last_good` holds what such a file said before, that
    counts instead, and the mistakes are `held_back`. `wanted` is what the project asks for beyond the
    harmless, by file, whether it is trusted or not; `items` is the same item by item, with what a person makes of each; `fingerprint`
    is the hash of exactly that, "" for nothing.
    """

    def __init__(self, root: Path, last_good: dict[str, Source] | None = None) -> None:
        self.root = root
        self._last_good = {} if last_good is None else last_good
        self._seen: set[str] = set()
        self.layers: list[Layer] = []
        self.warnings: list[str] = []
        self.problems: list[str] = []
        self.held_back: list[str] = []
        self.is_trusted = False
        self.fingerprint = ""
        self.wanted: list[Wanted] = []
        self.items: list[Item] = []
        self.dotenv: dict[str, str] = {}

    @property
    def untrusted(self) -> tuple[str, ...]:
        """The settings of the project that are not in force."""
        return tuple(dict.fromkeys(i.setting for i in self.items if not i.is_trusted and i.setting))

    def merged(self) -> dict[str, Any]:
        return merge_all(layer.content for layer in self.layers)

    def origins(self) -> dict[str, tuple[str, ...]]:
        """For each setting, in dotted form, where it was said; a list may come from several places."""
        found: dict[str, tuple[str, ...]] = {}
        for layer in self.layers:
            for steps, value, replaces in _leaves(layer.content, ()):
                key = dotted(str(s).removesuffix(REPLACE) for s in steps)
                if replaces or value is None:
                    for below in [k for k in found if k == key or k.startswith(f"{key}.")]:
                        del found[below]
                if value is None or (isinstance(value, Mapping) and value):
                    continue
                earlier = found.get(key, ()) if isinstance(value, list) else ()
                found[key] = (*earlier, layer.origin(steps))
        return found

    # Reading

    def read(self, file: Path) -> None:
        source, content, wrong = self._usable(file)
        self.problems += wrong
        if source is not None and content:
            self.layers.append(Layer(source.name, _whole_selections(content), source))

    def add(self, content: dict[str, Any]) -> None:
        """What was chosen in this process."""
        self.layers.append(Layer(IN_MEMORY, _whole_selections(check(content).content)))

    def read_project(self, trusted: Trusted) -> None:
        """Adds the project's files, or what is harmless of them."""
        sources: list[tuple[Source, dict[str, Any]]] = []
        wrong: list[tuple[str, str]] = []
        for file in project_files(self.root):
            source, content, mistakes = self._usable(file)
            wrong += ((str(file), mistake) for mistake in mistakes)
            if source is None:
                self.wanted.append(Wanted(str(file), {"": mistakes[0]} if mistakes else {}))
            else:
                self.wanted.append(Wanted(source.name, trust.split(source.content)[1], source))
                sources.append((source, content))
        variables = self._read_dotenv()
        self._find_skills([content for _, content in sources])
        self.items = items.items_of(self.wanted, self.root, trusted)
        self.fingerprint = items.fingerprint(self.items)
        self.is_trusted = trusted is True or (bool(self.items) and all(i.is_trusted for i in self.items))
        self.dotenv = (
            variables if any(i.is_trusted and i.steps == (trust.DOTENV,) for i in self.items) else {}
        )
        blocking: set[str] = set()
        for source, content in sources:
            counts = content if self.is_trusted else self._in_force(source, blocking)
            self.layers.append(Layer(source.name, _whole_selections(counts), source))
        for file_name, mistake in wrong:
            is_whole = self.is_trusted or any(
                i.file == file_name and i.name == "" and i.is_trusted for i in self.items
            )
            (self.problems if is_whole or mistake in blocking else self.warnings).append(mistake)
        self.warnings += (f"{f} belongs to another user and is not read" for f in foreign_files(self.root))

    def _in_force(self, source: Source, blocking: set[str]) -> dict[str, Any]:
        """What counts of a file of which not all is trusted; mistakes in what is trusted of it go into `blocking`."""
        result = check(items.in_force(source.content, source.name, self.items))
        trusted = [item.steps for item in self.items if item.file == source.name and item.is_trusted]
        blocking |= {
            f"{source.place(complaint.steps)}: {complaint.sentence}"
            for complaint in result.complaints
            if complaint.blocks and any(complaint.steps[: len(steps)] == steps for steps in trusted)
        }
        return result.content

    def warn_of_shell_files(self, places: Places) -> None:
        found = shell_files(self.root, places)
        if found:
            listed = ", ".join(map(str, found))
            self.warnings.append(
                f"{listed}: shell configuration is not run; write the same settings into "
                f"{found[-1].with_name('bullpen.json')} ('bullpen schema' describes them)"
            )

    def warn_of_shadowed_choices(self, state_file: str) -> None:
        """A model that was picked in a client and is overruled by a file would else seem to be ignored."""
        for role in ROLES:
            key = role + REPLACE
            named = [
                (layer, layer.content["models"][key])
                for layer in self.layers
                if key in layer.content.get("models", {})
            ]
            picked = next((choice for layer, choice in named if layer.name == state_file), None)
            if picked and _identity(named[-1][1]) != _identity(picked):
                layer, choice = named[-1]
                self.warnings.append(
                    f"models.{role}: {picked.get('provider')}/{picked.get('model')} was chosen in a client, "
                    f"but {layer.origin(('models', role))} says {choice.get('provider')}/{choice.get('model')}"
                )

    def _usable(self, file: Path) -> tuple[Source | None, dict[str, Any], list[str]]:
        """What can be used of a file, and mistakes in it that may have cost a restriction."""
        name, content, wrong = str(file), dict[str, Any](), list[str]()
        self._seen.add(name)
        try:
            source = read_source(file)
        except ConfigError as exc:
            source, wrong = None, [str(exc)]
        if source is not None:
            content, wrong = self._checked(source)
        if wrong and name in self._last_good:
            self.held_back += wrong
            self.warnings += (
                f"{sentence}; until it is mended, what it said before holds" for sentence in wrong
            )
            source = self._last_good[name]
            return source, check(source.content).content, []
        if source is not None and not wrong:
            self._last_good[name] = source
        elif not wrong:
            self._last_good.pop(name, None)
        return source, content, wrong

    def forget_the_gone(self) -> None:
        """What a file said that is not there any more does not come back with the next one of its name."""
        for name in self._last_good.keys() - self._seen:
            del self._last_good[name]

    def _checked(self, source: Source) -> tuple[dict[str, Any], list[str]]:
        result = check(source.content)
        wrong: list[str] = []
        for complaint in result.complaints:
            told = wrong if complaint.blocks else self.warnings
            told.append(f"{source.place(complaint.steps)}: {complaint.sentence}")
        self.warnings += (
            f"{source.place(steps)}: {dotted(steps)!r} stands twice; the last one counts"
            for steps in source.repeated
        )
        return result.content, wrong

    def _read_dotenv(self) -> dict[str, str]:
        file = project_file(self.root, ".env")
        if file is None:
            return {}
        try:
            with file.open(encoding="utf-8", errors="replace") as opened:
                variables = dotenv.parse(opened.read(dotenv.MAX_FILE_BYTES))
        except OSError as exc:
            self.warnings.append(f"{file} cannot be read: {exc.strerror}")
            return {}
        if variables:
            self.wanted.append(Wanted(str(file), {trust.DOTENV: variables}))
        return variables

    def _find_skills(self, contents: list[dict[str, Any]]) -> None:
        """Skills, sub-agents and commands tell a model what to do, so they are part of what a person trusts."""
        paths = (p for c in contents for p in (c.get("options") or {}).get("skills_paths") or ())
        extra = [self.root / p for p in paths if "\0" not in p]
        found = skills.project_skills(self.root, extra)
        self.wanted += (Wanted(str(f), {trust.SKILLS: {f.parent.name: h}}) for f, h in found)
        defined = agents.project_files(self.root)
        self.wanted += (Wanted(str(f), {trust.AGENTS: {f.stem: h}}) for f, h in defined)
        kept = commands.project_files(self.root)
        self.wanted += (Wanted(str(f), {trust.COMMANDS: {name: h}}) for f, name, h in kept)


def read_layers(
    root: Path,
    *,
    places: Places,
    workspace_state: Path,
    trusted: Trusted,
    overrides: Mapping[str, Any] | None = None,
    last_good: dict[str, Source] | None = None,
) -> Layers:
    """All that is configured for the workspace at `root`. Blocking.

    `last_good` is kept by the caller from one reading to the next, so that a file that breaks goes on saying what it
    said.
    """
    layers = Layers(root, last_good)
    layers.read(places.system_file)
    layers.read(places.state_file)
    layers.read(places.user_file)
    layers.read_project(trusted)
    layers.read(workspace_state)
    layers.forget_the_gone()
    if overrides:
        layers.add(dict(overrides))
    layers.warn_of_shell_files(places)
    layers.warn_of_shadowed_choices(str(places.state_file))
    return layers


def _whole_selections(content: dict[str, Any]) -> dict[str, Any]:
    """A selected model replaces the one below it: effort and sampling belong to the model they were chosen for."""
    models = content.get("models")
    if not isinstance(models, dict):
        return content
    whole = {
        key + REPLACE
        if isinstance(choice, dict) and _identity(choice) != ("", "") and key in ROLES
        else key: choice
        for key, choice in models.items()
    }
    return {**content, "models": whole}


def _identity(choice: Mapping[str, Any]) -> tuple[str, str]:
    return choice.get("provider") or "", choice.get("model") or ""


def _leaves(value: Mapping[str, Any], steps: Steps) -> Iterator[tuple[Steps, Any, bool]]:
    """Every setting with its way and whether it replaces what is below it, outer ones before inner ones."""
    for key, inner in value.items():
        here = (*steps, key)
        yield here, inner, key.endswith(REPLACE)
        if isinstance(inner, Mapping):
            yield from _leaves(inner, here)
