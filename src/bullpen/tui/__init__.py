"""The terminal client: a screen over a `Room`. Imported only when somebody sits at a terminal."""
