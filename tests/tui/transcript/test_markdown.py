"""Markdown in rows, also while it grows."""

from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.tui.transcript.scenes import colours

from bullpen.tui.transcript.markdown import Markdown, split

SAMPLE = """\
# A heading

Some **bold** and `code` and a [link](https://example.com).

- one
- two
  - nested

1. first
2. second

> quoted

| name | count |
|---|---|
| a | 1 |

```python
def hello():
    return 1
```

<b>not HTML</b> ![alt](x.png)
***
"""


def rows(text: str, width: int = 60, *, is_open: bool = False) -> str:
    return "\n".join(
        strip.text.rstrip() for strip in Markdown(width, colours()).strips(text, is_open=is_open)
    )


def test_all_of_it() -> None:
    assert rows(SAMPLE) == snapshot("""\
  A heading

  Some bold and code and a link (https://example.com).

  • one
  • two
    ◦ nested

  1. first
  2. second

  ▎ quoted

  name │ count
  ─────┼──────
  a    │ 1

   def hello():
       return 1

  <b>not HTML</b> ▣ alt (x.png)

  ──────────────────────────────────────────────────────────\
""")


@given(st.text(alphabet="ab \n#*->`|1.", max_size=300))
def test_blocks_are_the_text(text: str) -> None:
    for by_item in (False, True):
        assert "".join(split(text, by_item=by_item)) == text


@settings(max_examples=20)
@given(st.lists(st.integers(1, 60), max_size=12))
def test_text_that_grew_looks_like_text_that_came_at_once(steps: list[int]) -> None:
    text = Markdown(60, colours())
    at = 0
    for step in steps:
        at += step
        text.strips(SAMPLE[:at], is_open=True)
    grown = text.strips(SAMPLE)
    assert "\n".join(strip.text.rstrip() for strip in grown) == rows(SAMPLE)


def test_blocks_that_are_done_keep_their_strips() -> None:
    text = Markdown(60, colours())
    before = text.strips("First.\n\n- a\n- b\n- c", is_open=True)
    after = text.strips("First.\n\n- a\n- b\n- c and more", is_open=True)
    assert [old is new for old, new in zip(before, after, strict=True)][:4] == [True, True, True, True]
