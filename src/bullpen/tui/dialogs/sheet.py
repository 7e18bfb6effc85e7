"""The answers to a batch of questions while somebody fills them in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bullpen.present.inert import inert_line
from bullpen.schema.asks import Question, QuestionBatch, QuestionResponse


@dataclass(slots=True)
class Draft:
    """What was answered to one question so far. Notes are by choice, or under "" on the question itself."""

    picked: list[str] = field(default_factory=list)
    text: str = ""
    yes: bool | None = None
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def is_answered(self) -> bool:
        return bool(self.picked or self.text.strip() or self.yes is not None)


class Sheet:
    """One draft for each question, and which page is open; several questions end with a page that sums them up."""

    def __init__(self, batch: QuestionBatch) -> None:
        self.questions = batch.questions
        self.at = 0
        self._drafts = [Draft() for _ in batch.questions]

    @property
    def is_batch(self) -> bool:
        return len(self.questions) > 1

    @property
    def pages(self) -> int:
        return len(self.questions) + self.is_batch

    @property
    def question(self) -> Question | None:
        """The question on the open page; None on the last one, which sums up."""
        return self.questions[self.at] if self.at < len(self.questions) else None

    @property
    def draft(self) -> Draft:
        return self._drafts[self.at]

    def is_answered(self, page: int) -> bool:
        return page < len(self._drafts) and self._drafts[page].is_answered

    @property
    def open_count(self) -> int:
        return sum(not draft.is_answered for draft in self._drafts)

    def go(self, page: int) -> None:
        self.at = page % self.pages

    def pick(self, choice: str) -> None:
        """Of one choice it is that one; of several it is added or taken out."""
        draft = self.draft
        if self.question is not None and self.question.type == "multi_choice":
            draft.picked = (
                [key for key in draft.picked if key != choice]
                if choice in draft.picked
                else [*draft.picked, choice]
            )
        else:
            draft.picked = [choice]
            draft.text = ""

    def say(self, text: str) -> None:
        """Answer in one's own words; beside what was picked only where several may be."""
        self.draft.text = text
        if self.question is not None and self.question.type != "multi_choice" and text.strip():
            self.draft.picked = []

    def responses(self) -> tuple[QuestionResponse, ...]:
        """Those that were given; a question without one counts as skipped."""
        return tuple(
            QuestionResponse(
                request_id=question.id,
                selected_ids=tuple(draft.picked),
                fill_in_text=draft.text.strip(),
                yes=draft.yes,
                notes={key or question.id: note for key, note in draft.notes.items() if note.strip()},
            )
            for question, draft in zip(self.questions, self._drafts, strict=True)
            if draft.is_answered or any(note.strip() for note in draft.notes.values())
        )

    def summary(self) -> Iterator[tuple[str, str]]:
        """Each question and what was answered."""
        for question, draft in zip(self.questions, self._drafts, strict=True):
            labels = {choice.id: choice.label for choice in question.choices}
            said = [labels.get(key, key) for key in draft.picked]
            said += [draft.text] if draft.text.strip() else []
            if draft.yes is not None:
                said = ["yes" if draft.yes else "no"]
            yield inert_line(question.question), inert_line(", ".join(said)) or "(skipped)"
