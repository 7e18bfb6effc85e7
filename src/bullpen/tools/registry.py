"""Finds the tools: every module of this room that holds one, and what others ship as entry points."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from importlib.metadata import entry_points

import bullpen.tools
from bullpen.tools.base import Tool

ENTRY_POINTS = "bullpen.tools"

log = logging.getLogger(__name__)


def builtin_tools() -> dict[str, Tool]:
    """All tools by name, in the order of their names. Ours come first: nobody can take the place of one."""
    found = {tool.name: tool for tool in [*_from_elsewhere(), *_from_this_room()]}
    return dict(sorted(found.items()))


def _from_this_room() -> list[Tool]:
    names = sorted(module.name for module in pkgutil.iter_modules(bullpen.tools.__path__, "bullpen.tools."))
    modules = [importlib.import_module(name) for name in names if name != __name__]
    return [value for module in modules for value in vars(module).values() if isinstance(value, Tool)]


def _from_elsewhere() -> list[Tool]:
    """A broken plug-in is reported and left out; it must not take the others with it."""
    found = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            tool = point.load()
        except (ImportError, AttributeError) as exc:
            log.warning("the tool %s of %s cannot be loaded: %s", point.name, point.value, exc)
            continue
        if isinstance(tool, Tool):
            found.append(tool)
        else:
            log.warning("the entry point %s is not a tool: %s", point.name, point.value)
    return found
