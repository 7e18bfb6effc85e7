"""State and the numbered event log, changed together, published after the commit.

`database.py` is the engine (SQLite) and the only module that knows it. Every other module holds the SQL
of one noun, as functions over a `Tx`, in the SQL that SQLite and PostgreSQL share.
"""
