"""What stands in the editor: the text, what is attached to it, and what it mentions. All of it is a `Draft` when it is put away."""

from __future__ import annotations

from collections.abc import Iterable

from bullpen.tui.editor import attachments
from bullpen.tui.editor.area import Area
from bullpen.tui.editor.attachments import Chip
from bullpen.tui.editor.chips import Chips
from bullpen.tui.editor.drafts import Draft
from bullpen.tui.editor.mentions import mentions


class Sheet:
    def __init__(self, area: Area, chips: Chips) -> None:
        self._area = area
        self._chips = chips
        self._attached: list[Chip] = []
        self.accepted: dict[str, tuple[str, str]] = {}
        """What was chosen from a list to be attached, by how the text names it. It counts while the text does so."""

    def draft(self, text: str) -> Draft:
        """All of it, with the text as it was typed."""
        named = {mention.name for mention in mentions(text)}
        return Draft(
            text=text,
            attachments=tuple(chip.attachment for chip in self._attached if chip.attachment),
            mentions={name: source for name, source in self.accepted.items() if name in named},
        )

    def take(self, draft: Draft) -> None:
        """Let this be attached and mentioned; the text is the caller's."""
        self._attached = [
            Chip("text" if each.mime_type.startswith("text/") else "image", each.file_name, each)
            for each in draft.attachments
        ]
        self.accepted = dict(draft.mentions)
        self.show()

    def fold(self, text: str) -> None:
        """Attach long text that was pasted."""
        self.add([attachments.pasted_text(text, (chip.name for chip in self._attached))])

    def unfold(self) -> str:
        """Take the last pasted text off again; nothing when there is none."""
        pasted = [chip for chip in self._attached if chip.kind == "text" and chip.attachment]
        if not pasted or not pasted[-1].attachment:
            return ""
        self._attached.remove(pasted[-1])
        self.show()
        return pasted[-1].attachment.content.decode("utf-8", "replace")

    def add(self, chips: Iterable[Chip]) -> None:
        self._attached += chips
        self.show()

    def remove(self, chip: Chip | None = None) -> None:
        """Take one off, the last when none is named. A mention stays in the text, and its content is not sent."""
        shown = self._shown()
        if not shown:
            return
        chip = chip or shown[-1]
        if chip in self._attached:
            self._attached.remove(chip)
        for mention in mentions(self._area.text):
            if mention.shown == chip.name:
                self.accepted.pop(mention.name, None)
        self.show()

    def show(self) -> None:
        """The text is another one: what it mentions may be, too."""
        self._chips.show(self._shown())

    def image_name(self) -> str:
        """For an image without a name of its own."""
        return f"clipboard_{sum(chip.kind == 'image' for chip in self._attached) + 1}.png"

    def _shown(self) -> list[Chip]:
        named = [each for each in mentions(self._area.text) if each.name in self.accepted]
        return [*self._attached, *(Chip("mention", each.shown) for each in named)]
