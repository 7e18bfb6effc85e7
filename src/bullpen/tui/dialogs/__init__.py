"""One file per dialog."""
