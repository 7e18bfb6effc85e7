"""Keys: none means two things, and a person may choose their own."""

from bullpen.tui.commands import COMMANDS
from bullpen.tui.keymap import KEYS, checked
from bullpen.tui.keys import ALL_KEYS


def test_no_key_means_two_things() -> None:
    """Within the screen, the editor, the conversation; and nowhere may an action of theirs be called alike."""
    for place in ("everywhere", "editor", "transcript"):
        every = [key for entry in ALL_KEYS if entry.place == place for key in entry.keys.split(",")]
        assert sorted(every) == sorted(set(every)), place
    assert len({entry.id for entry in ALL_KEYS}) == len(ALL_KEYS)


def test_what_holds_everywhere_is_not_hidden_by_the_editor() -> None:
    """But for the list that it offers while one writes, and for what has the same meaning in both."""
    everywhere = {key for entry in KEYS if entry.priority for key in entry.keys.split(",")}
    hidden = {
        entry.id for entry in ALL_KEYS if entry.place == "editor" and everywhere & set(entry.keys.split(","))
    }
    assert hidden == {"list_next", "list_last"}


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
