"""Databases as released versions left them, one per schema, which every later version has to open.

`python -m tests.store.gold` writes the one of the present schema. A file that was released never changes.
"""
