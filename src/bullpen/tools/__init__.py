"""Tools: `base.py` says what one is, every other file is one tool. The room finds them by itself."""
