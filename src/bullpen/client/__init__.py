"""The Python client: everything that other clients are built on.

`workspace.attach` is the door. Below it: `mirror` (what a client knows), `stream` (events as they
come), `http` (single calls), `autostart` (a server when none answers).
"""
