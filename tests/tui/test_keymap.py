"""Keys: none means two things, and a person may choose their own."""

from bullpen.tui.commands import COMMANDS
from bullpen.tui.keymap import KEYS, checked


def test_no_key_means_two_things() -> None:
    every = [key for entry in KEYS for key in entry.keys.split(",")]
    assert sorted(every) == sorted(set(every))
    assert len({entry.id for entry in KEYS}) == len(KEYS)


def test_every_key_does_something() -> None:
    assert {entry.id for entry in KEYS} <= set(COMMANDS)


def test_own_keys_are_taken_unless_they_clash() -> None:
    own = {"palette": "ctrl+k", "sessions": "ctrl+p", "models": "ctrl+s", "nothing": "x", "new": "ctrl+k"}
    usable, refused = checked(own, KEYS)
    # What a person moved away from is free for what comes after it.
    assert usable == {"palette": "ctrl+k", "sessions": "ctrl+p", "models": "ctrl+s"}
    assert refused == [
        "there is no action nothing; the help (F1) lists them",
        "new: ctrl+k already means all commands",
    ]
