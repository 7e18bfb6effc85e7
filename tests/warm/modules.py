"""Imported once, before anything is forked: all of ours but the screen, which no server needs."""

import importlib
import pkgutil

import bullpen

for _module in pkgutil.walk_packages(bullpen.__path__, "bullpen."):
    if not _module.name.startswith("bullpen.tui") and not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)
