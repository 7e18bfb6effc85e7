"""Models: `base.py` says what one is, every other file is one kind of provider."""
