from __future__ import annotations

from bullpen.mcp.names import ToolNames


def test_a_plain_name_says_server_and_tool() -> None:
    assert ToolNames().name("git-hub", "create_issue") == "mcp_git-hub_create_issue"


def test_letters_that_providers_refuse_are_replaced() -> None:
    assert ToolNames().name("my server", "böse/tool") == "mcp_my_server_b_se_tool"


def test_two_tools_never_share_a_name_and_keep_theirs() -> None:
    names = ToolNames()
    first, second, third = names.name("a", "b_c"), names.name("a_b", "c"), names.name("a", "b.c")
    assert first == "mcp_a_b_c"
    assert len({first, second, third}) == 3
    assert [names.name("a", "b.c"), names.name("a_b", "c"), names.name("a", "b_c")] == [third, second, first]


def test_a_long_name_is_cut_but_still_its_own() -> None:
    names = ToolNames()
    one, two = names.name("s", "x" * 100 + "1"), names.name("s", "x" * 100 + "2")
    assert one != two
    assert len(one) == len(two) == 64


def test_a_guessed_mark_takes_nobodys_name() -> None:
    names = ToolNames()
    names.name("a", "b_c")
    mark = ToolNames()
    mark.name("a", "b_c")
    guessed = names.name("a", mark.name("a_b", "c").removeprefix("mcp_a_"))
    assert names.name("a_b", "c") != guessed


def test_a_name_belongs_to_the_server_that_it_begins_with() -> None:
    """In whatever order they are asked for, and also where only the spelling is the same."""
    names = ToolNames()
    names.know(["a", "a_b", "x.y", "x_y"])
    assert names.name("a", "b_c") != "mcp_a_b_c"
    assert names.name("a_b", "c") == "mcp_a_b_c"
    assert names.name("a", "c") == "mcp_a_c"
    assert names.name("x.y", "z") != "mcp_x_y_z"
    assert names.name("x_y", "z") == "mcp_x_y_z"
