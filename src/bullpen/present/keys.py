"""What is said about a provider's key."""

from __future__ import annotations

from bullpen.present.inert import inert_line
from bullpen.schema.agent import CatalogueProvider
from bullpen.schema.api import KeyChecked


def logs_in(offer: CatalogueProvider) -> bool:
    """Whether a person logs in to the provider with a code, instead of giving a key."""
    return offer.type == "copilot"


def kept_line(name: str, checked: KeyChecked) -> str:
    """It is kept, and what is known of it."""
    kept = f"the key of {inert_line(name)} is kept"
    match checked.verdict:
        case "good":
            return f"{kept}; it works"
        case "refused":
            return f"{kept}, although it was refused"
        case _:
            return f"{kept}, untested: {inert_line(checked.message)}"
