"""How much one batch of a stream takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """How much a batch may hold; one transaction is never torn, so that it may hold more."""

    files: int | None = None
    bytes: int | None = None


NO_LIMIT: Final = BatchLimit()
