"""Items into strips: the one place that knows what each kind looks like."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from bullpen.present.describe import hook_lines
from bullpen.present.inert import clock as time_of_day
from bullpen.present.inert import cut, inert_line
from bullpen.schema.message import CANCELLED_BY_USER, Binary
from bullpen.tui.panel import clock
from bullpen.tui.sidebar import short
from bullpen.tui.transcript import bodies
from bullpen.tui.transcript.children import tree
from bullpen.tui.transcript.diffs import SPLIT_FROM
from bullpen.tui.transcript.flow import Run, blank, strips
from bullpen.tui.transcript.items import (
    Call,
    Ending,
    Item,
    Note,
    Prompt,
    Said,
    Shell,
    State,
    Thought,
    Waiting,
    state_of,
)
from bullpen.tui.transcript.markdown import WIDEST
from bullpen.tui.transcript.scene import Scene
from bullpen.tui.transcript.tools import (
    SENDS,
    Body,
    Facts,
    Plain,
    body_of,
    change_of,
    exit_code,
    facts_of,
    header_of,
    seconds_of,
)

GAP = "  "
PROMPT_ROWS = 20
THOUGHT_ROWS = 2
OPEN_THOUGHT_ROWS = 5
THOUGHT_CHARACTERS = 4_000
"""Of a folded thought only its end is looked at."""

ICONS: dict[State, str] = {"asking": "?", "done": "✓", "failed": "✗", "cancelled": "⊘"}
TOLD: dict[State, str] = {
    "pending": "  preparing",
    "asking": "  waits for your answer",
    "cancelled": "  cancelled",
}
EFFECTIVE = "⚑ what ran:"
LIVE: frozenset[State] = frozenset({"pending", "running", "asking"})


def draw(item: Item, scene: Scene) -> list[Strip]:
    """The rows of an item, and a blank one behind them."""
    match item:
        case Prompt():
            rows = _prompt(item, scene)
        case Thought():
            rows = _thought(item, scene)
        case Said():
            rows = _said(item, scene)
        case Call():
            rows = _call(item, scene)
        case Shell():
            rows = _shell(item, scene)
        case Note():
            rows = _note(item, scene)
        case Ending():
            rows = _ending(item, scene)
        case Waiting():
            rows = _waiting(item, scene)
        case _:
            raise TypeError(item)
    return [*rows, blank(scene.width, scene.palette.text)]


def is_live(item: Item, scene: Scene) -> bool:
    """Whether it changes by itself: a clock or something that turns."""
    match item:
        case Call():
            return state_of(item, scene.asking) in LIVE
        case Thought(is_open=is_open):
            return is_open
        case Shell(is_running=is_running):
            return is_running
        case Waiting():
            return True
        case _:
            return False


def estimate(item: Item, width: int) -> int:
    """About how many rows it has, without drawing it."""
    room = max(min(width, WIDEST) - 4, 10)
    match item:
        case Said(words=words):
            return words.count("\n") + len(words) // room + 2
        case Prompt(words=words):
            return min(words.count("\n") + len(words) // room + 2, PROMPT_ROWS + 2)
        case Thought():
            return THOUGHT_ROWS + 2
        case Call(result=result):
            lines = result.content.count("\n") + 1 if result else 0
            return min(lines, bodies.FOLDED_ROWS + 1) + 2
        case Shell(output=output):
            return min(output.count("\n") + 1, bodies.FOLDED_ROWS + 1) + 2
        case _:
            return 2


def _rows(
    runs: Sequence[Run], scene: Scene, *, first: str = GAP, rest: str = "", style: Style | None = None
) -> list[Strip]:
    """Rows of text in the column of the conversation."""
    palette = scene.palette
    heads = [[(head, style or palette.text)] for head in (first, rest or first)]
    rows = strips(runs, min(scene.width, WIDEST), palette.text, first=heads[0], rest=heads[1])
    return [row.adjust_cell_length(scene.width, palette.text) for row in rows]


def _hint(hidden: int, scene: Scene, *, is_folded: bool, first: str = "    ") -> list[Strip]:
    """How much is not shown, and how to see it."""
    if not hidden:
        return []
    palette = scene.palette
    lines = "… 1 more line" if hidden == 1 else f"… {hidden} more lines"
    how = f", space shows {'it' if hidden == 1 else 'them'}" if is_folded else "; c copies all of it"
    return strips([(lines + how, palette.faint)], scene.width, palette.text, first=[(first, palette.text)])


def _prompt(item: Prompt, scene: Scene) -> list[Strip]:
    palette = scene.palette
    is_own = not item.author or item.author == scene.me
    style = palette.own if is_own else palette.other
    told = [] if is_own else [inert_line(item.author)]
    told += [time_of_day(item.at)] if scene.has_times else []
    rows = _rows([("  ".join(told), style)], scene, first="┃ ", style=style) if told else []
    limit = None if item.key in scene.unfolded else PROMPT_ROWS
    text = bodies.lines(
        item.words.strip("\n"), min(scene.width, WIDEST) - 2, palette.text, palette.text, limit=limit
    )
    for row in text.strips if item.words.strip() else ():
        rows.append(_behind("┃ ", style, row, scene))
    rows += _hint(text.hidden, scene, is_folded=limit is not None, first="┃ ")
    if item.files:
        chips = "  ".join(_chip(file) for file in item.files)
        rows += _rows([(chips, palette.accent)], scene, first="┃ ", style=style)
    return rows


def _behind(first: str, style: Style, row: Strip, scene: Scene) -> Strip:
    head = strips([(first, style)], len(first), style)[0]
    return Strip.join([head, row]).adjust_cell_length(scene.width, scene.palette.text)


def _chip(file: Binary) -> str:
    sign = "■" if file.mime_type.startswith("image/") else "≡"
    return f"{sign} {inert_line(file.path.rpartition('/')[2]) or 'file'} ({short_bytes(len(file.data))})"


def short_bytes(count: int) -> str:
    """A size in a few letters."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.0f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def _thought(item: Thought, scene: Scene) -> list[Strip]:
    palette = scene.palette
    words = item.words.strip()
    is_folded = item.key not in scene.unfolded
    count = words.count("\n") + 1
    took = f" for {clock(item.seconds)}" if item.seconds else ""
    sign = scene.spinner if item.is_open else "∴"
    told = f"{sign} {'thinking' if item.is_open else 'thought'}{took}"
    most = OPEN_THOUGHT_ROWS if item.is_open else THOUGHT_ROWS
    if is_folded:
        end = words[-THOUGHT_CHARACTERS:]
        rows = strips([(end, palette.faint)], min(scene.width, WIDEST) - 4, palette.text)
        hidden = len(rows) > most or len(end) < len(words)
        rows = rows[-most:]
    else:
        whole = bodies.lines(words, min(scene.width, WIDEST) - 4, palette.faint, palette.text, limit=None)
        rows, hidden = whole.strips, False
    told += f", {count} lines, space shows all" if hidden else ""
    head = _rows([(told, palette.faint + Style(italic=True))], scene)
    return head + [_behind("  │ ", palette.faint, row, scene) for row in rows]


def _said(item: Said, scene: Scene) -> list[Strip]:
    rows: list[Strip] = []
    if item.is_summary:
        rows = _rows(
            [
                (
                    "── summary: from here on the model sees this instead of what was said before ",
                    scene.palette.accent,
                )
            ],
            scene,
        )
    words, hidden = item.words, 0
    if len(words) > bodies.MAX_CHARACTERS or words.count("\n") > bodies.MAX_LINES:
        lines, hidden = bodies.first_lines(words)
        words = "\n".join(lines)
    rows += scene.text_of(item.key, len(GAP)).strips(words, is_open=item.is_open)
    if not item.is_open:
        # It grows no more: its strips are the window's to keep.
        scene.texts.pop(item.key, None)
    return rows + _hint(hidden, scene, is_folded=False, first=GAP)


def _call(item: Call, scene: Scene) -> list[Strip]:
    palette = scene.palette
    facts = facts_of(item.call, item.result)
    state = state_of(item, scene.asking)
    code = exit_code(facts)
    if state == "done" and code:
        state = "failed"
    rows: list[Strip] = []
    for line in hook_lines(item.result) if item.result else ():
        # The header is that of the call which took effect.
        rows += [] if line.startswith(EFFECTIVE) else _rows([(line, palette.warn)], scene)
    rows += _header(item, facts, state, code, scene)
    if item.call.name in SENDS:
        for branch in tree(item, scene):
            rows += strips(branch, scene.width, palette.text, first=[("    ", palette.text)], at="cut")
    return rows + _body(item, facts, state, scene)


def _header(item: Call, facts: Facts, state: State, code: int, scene: Scene) -> list[Strip]:
    """The first row. Folded it is cut where its arguments are too long, never where it says how it went."""
    palette = scene.palette
    header = header_of(item.call, facts)
    icon = ICONS.get(state, scene.spinner)
    colours = {
        "done": palette.good,
        "failed": palette.bad,
        "cancelled": palette.faint,
        "asking": palette.warn,
    }
    took = seconds_of(facts)
    told = f"  exit {code}" if code else TOLD.get(state, "")
    told += f"  {clock(took)}" if took >= 1 else ""
    more = f"  ({', '.join(header.more)})" if header.more else ""
    main = f"  {header.main}" if header.main else ""
    if item.key not in scene.unfolded:
        used = cell_len(f"{GAP}{icon} {header.name}{told}")
        main = cut(main, max(scene.width - used, 8))
        more = cut(more, max(scene.width - used - cell_len(main), 1)) if more else ""
    runs = [
        (f"{icon} ", colours.get(state, palette.accent)),
        (header.name, palette.strong),
        (main, palette.text),
        (more, palette.faint),
        (told, palette.bad if code else palette.warn if state == "asking" else palette.faint),
    ]
    return strips(runs, scene.width, palette.text, first=[(GAP, palette.text)])


def _body(item: Call, facts: Facts, state: State, scene: Scene) -> list[Strip]:
    is_folded = item.key not in scene.unfolded
    limit = bodies.FOLDED_ROWS if is_folded else None
    width = scene.width - 4
    palette = scene.palette
    if item.result is None:
        printed = scene.printed.get(item.call.id, "")
        if not printed or state != "running":
            return []
        live = bodies.output(printed, width, palette, limit=limit, from_end=True)
        return [_behind("    ", palette.text, row, scene) for row in live.strips]
    rows: list[Strip] = []
    split = scene.diff == "split" or (scene.diff == "auto" and width >= SPLIT_FROM)
    for body in _told(item, facts, state):
        if isinstance(body, str):
            drawn = bodies.lines(
                body, width, palette.bad if state == "failed" else palette.faint, palette.text, limit=limit
            )
        else:
            drawn = bodies.drawn(body, width, palette, limit=limit, split=split)
        rows += [_behind("    ", palette.text, row, scene) for row in drawn.strips]
        rows += _hint(drawn.hidden, scene, is_folded=is_folded)
    return rows


def _told(item: Call, facts: Facts, state: State) -> list[Body | str]:
    """What a result says: an error as it is, and with it the change that was refused."""
    result = item.result
    assert result is not None
    if result.mime_type:
        size = len(result.data) * 3 // 4
        return [Plain(f"{inert_line(result.mime_type)}, {short_bytes(size)}")]
    if result.is_error:
        change = change_of(facts)
        return [result.content, *([change] if change else [])]
    return list(body_of(item.call, facts))


def _shell(item: Shell, scene: Scene) -> list[Strip]:
    palette = scene.palette
    is_folded = item.key not in scene.unfolded
    code = f"  exit {item.exit_code}" if item.exit_code else ""
    runs = f"  {scene.spinner} runs" if item.is_running else ""
    rows = _rows(
        [(item.command, palette.strong), (code, palette.bad), (runs, palette.faint)],
        scene,
        first="$ ",
        rest=GAP,
        style=palette.own,
    )
    if item.output.strip():
        limit = bodies.FOLDED_ROWS if is_folded else None
        drawn = bodies.output(item.output, scene.width - 4, palette, limit=limit, from_end=item.is_running)
        rows += [_behind("    ", palette.text, row, scene) for row in drawn.strips]
        rows += _hint(drawn.hidden, scene, is_folded=is_folded)
    return rows


TAGS = {"error": "ERROR", "refused": "REFUSED", "cancelled": "CANCELLED", "cut": "CUT OFF"}


def _note(item: Note, scene: Scene) -> list[Strip]:
    palette = scene.palette
    style = palette.faint if item.kind == "cancelled" else palette.warn if item.kind == "cut" else palette.bad
    title = inert_line(item.title)
    tag = TAGS[item.kind]
    if item.title == "Interrupted":
        tag, title = "INTERRUPTED", ""
    elif item.kind == "cancelled":
        title = "" if item.title == CANCELLED_BY_USER else title
    elif item.kind == "cut":
        title = title or "the answer was longer than the model may give; ask it to go on"
    elif item.kind == "refused":
        title = title or "the model's host withheld the answer; say it differently, or choose another model"
    rows = _rows([(tag, style + Style(bold=True)), (f"  {title}" if title else "", palette.text)], scene)
    if item.details:
        told = bodies.lines(
            item.details, min(scene.width, WIDEST) - 2, palette.faint, palette.text, limit=None
        )
        rows += [_behind(GAP, palette.text, row, scene) for row in told.strips]
    return rows


def _ending(item: Ending, scene: Scene) -> list[Strip]:
    palette = scene.palette
    told = [inert_line(item.model) or "the model"]
    told += [inert_line(item.provider)] if item.provider else []
    told += [clock(item.seconds)] if item.seconds else []
    if (spent := scene.spent.get(item.message_id)) is not None:
        told += [f"{short(spent.tokens)} tokens in context"] if spent.tokens else []
        told += [f"${spent.cost:.4f}"] if spent.cost else []
    return _rows([(f"◇ {' · '.join(told)}", palette.faint)], scene)


def _waiting(item: Waiting, scene: Scene) -> list[Strip]:
    seconds = max(scene.now - item.since, 0)
    took = f" {clock(seconds)}" if seconds >= 2 else ""
    return _rows([(f"{scene.spinner} waiting for the model{took}", scene.palette.faint)], scene)
