"""What `bullpen doctor` says about one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `advice` says what to do when it is not well."""

    check: str
    status: Status
    detail: str
    advice: str = ""
