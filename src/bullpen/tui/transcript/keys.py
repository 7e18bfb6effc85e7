"""The keys of the conversation, while it has the focus."""

from __future__ import annotations

from bullpen.tui.keymap import Key

KEYS: tuple[Key, ...] = tuple(
    Key(action, keys, words, place="transcript", priority=False)
    for action, keys, words in (
        ("row_up", "up,k,ctrl+k", "a row up"),
        ("row_down", "down,j,ctrl+j", "a row down"),
        ("item_up", "shift+up,K", "the item before"),
        ("item_down", "shift+down,J", "the next item"),
        ("half_up", "u", "half a page up"),
        ("half_down", "d", "half a page down"),
        ("page_up", "pageup,b", "a page up"),
        ("page_down", "pagedown,f", "a page down"),
        ("top", "home,g", "to the beginning"),
        ("bottom", "end,G", "to the end, and follow it"),
        ("fold", "space", "unfold or fold the item"),
        ("fold_all", "o", "unfold or fold all items"),
        ("copy", "c,y", "copy the item, or what is selected"),
        ("enter_item", "enter", "open the sub-agent's session, or unfold"),
        ("times", "t", "show or hide when things were said"),
        ("split", "s", "diffs in one column or two"),
        ("retry", "r", "ask the model's host again now"),
        ("find_here", "slash", "find in the conversation"),
        ("next_match", "n", "next match"),
        ("last_match", "N", "match before"),
        ("leave_item", "escape", "clear the selection, back to the editor"),
    )
)
